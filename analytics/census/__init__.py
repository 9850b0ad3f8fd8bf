"""The core of the census demo: gzip files in, chunks of ten lines, counts of housing unit codes out.

    generator -> file -> chunks -> Kafka topic compute -> counting (Spark or Faust, one pure function) -> topic results

Does not keep totals: `app/census/results_table` does.
"""
