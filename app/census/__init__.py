"""The census demo's shell: files, downloads, Kafka, Spark and Faust around the pure core in `analytics/census`.

    read -> topic compute -> compute (Spark, or Faust) -> topic results -> results (a Faust table) -> GET /results

Refuses to count: what a line and a chunk mean is decided in `analytics/census` and `analytics/census/totals`.
"""
