"""The I/O of the census demo: files, downloads, Kafka, Spark and Faust around the pure core in `analytics/census`.

read -> topic compute -> compute (Spark, or Faust) -> topic results -> results (a Faust table) -> GET /results
"""
