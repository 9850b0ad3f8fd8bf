"""`penstock census`: the demo that counts housing units. Each command has a module of its own."""

from __future__ import annotations

from app.cli.commands import Commands, Entry

_COMMANDS = (
    Entry(
        "generate",
        "app.cli.census.generate:generate",
        "Generate census-like files: gzip, fixed width, 1,000 characters per line, the same for the same options.",
    ),
    Entry(
        "read",
        "app.cli.census.read:read",
        "Split census files into chunks of ten lines and write them to the compute topic, which is created if missing.",
    ),
    Entry(
        "compute",
        "app.cli.census.compute:compute",
        "Count the codes in each chunk of the compute topic, and write the result to the results topic.",
    ),
    Entry(
        "results",
        "app.cli.census.results:results",
        "Add up the results topic, and serve the totals by year and code as JSON at /results until Ctrl-C.",
    ),
    Entry(
        "topiclist",
        "app.cli.census.topics:topiclist",
        "List the topics of this Kafka, without its internal ones.",
    ),
    Entry(
        "offsets",
        "app.cli.census.topics:offsets",
        "Show the offsets of topics and of their readers: consumer groups, and Spark by its checkpoint.",
    ),
    Entry(
        "rmtopics",
        "app.cli.census.topics:rmtopics",
        "Delete topics and all records in them; with a results topic, its totals are deleted too.",
    ),
    Entry(
        "demo",
        "app.cli.census.demo:demo",
        "Run everything on its own Kafka and kill parts of it; the last line is JSON with totals by year and code.",
    ),
)


group = Commands(_COMMANDS)


@group.callback()
def census() -> None:
    """Count census files with Kafka, Spark and Faust.

    Several processes: files -> chunks -> counts -> totals.

    \b
    Examples:
      penstock census generate --years 2018,2019 --months jan,feb
      penstock census read --years 2018 --from-file .penstock/census/files/2018/jan18pub.dat.gz
      penstock census compute
      penstock census results
      curl -s localhost:8888/results
    """
