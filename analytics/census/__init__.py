"""The census demo's core: gzip files of fixed-width lines in, chunks of ten lines, counts of housing unit codes out.

    generator -> file -> chunks -> Kafka topic compute -> counting (Spark or Faust, one pure function) -> topic results

Refuses to read the environment, to open connections by itself and to keep totals (`app/census/results_table` does).
"""
