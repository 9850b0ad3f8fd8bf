"""Traffic as a Spark DataFrame of sums, and the way of the sums to this process."""
