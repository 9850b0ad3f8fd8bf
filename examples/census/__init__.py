"""Count the housing units of census files with Spark, Kafka and Faust: an example of a project on Penstock's parts.

    files --read (Spark)--> topic compute --compute (Faust)--> topic results --results (Faust table)--> GET /results

`python -m examples.census --help` lists its commands; `README.md` says how to run it, and how it stays exact.
"""
