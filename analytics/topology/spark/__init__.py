"""The inputs, facts and graph of a topology as Spark DataFrames, and the report that is made without fetching them."""
