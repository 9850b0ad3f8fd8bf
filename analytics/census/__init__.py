"""The pure core of the census demo: gzip files in, chunks of ten lines, counts of housing unit codes, totals out.

    generator -> file -> chunks -> Kafka topic compute -> counting (Spark or Faust, one pure function) -> topic results

Downloads, Kafka, Faust and the table of totals are in `app/census`; `spark` describes the query.
"""
