"""`penstock census`: the demo that counts housing units. Each command has a module of its own."""

from __future__ import annotations

from app.cli.commands import Commands, Entry

_COMMANDS = (
    Entry(
        "generate",
        "app.cli.census.generate:generate",
        "Make census-like files: gzip, fixed width, about 1,000 characters a line. The same options give the same "
        "bytes.",
    ),
    Entry(
        "read",
        "app.cli.census.read:read",
        "Cut census files into chunks of ten lines, and write those to the topic compute (made if it is not there).",
    ),
    Entry(
        "compute",
        "app.cli.census.compute:compute",
        "Count the codes in each chunk of the topic compute, and write a result for it to the topic results.",
    ),
    Entry(
        "results",
        "app.cli.census.results:results",
        "Add up the topic results, and serve the totals by year and code as JSON at /results until Ctrl-C.",
    ),
    Entry(
        "topiclist",
        "app.cli.census.topics:topiclist",
        "List the topics of this Kafka, less its own.",
    ),
    Entry(
        "offsets",
        "app.cli.census.topics:offsets",
        "Show where topics begin and end, and how far their readers are: groups, and Spark by its checkpoint.",
    ),
    Entry(
        "rmtopics",
        "app.cli.census.topics:rmtopics",
        "Remove topics, with all that is in them; the totals made of a topic of results go too.",
    ),
    Entry(
        "demo",
        "app.cli.census.demo:demo",
        "Run all of it on a Kafka of its own, with kills; the last line is JSON with the totals by year and code.",
    ),
)


group = Commands(_COMMANDS)


@group.callback()
def census() -> None:
    """Count housing units in census files by many processes: files -> chunks -> counts -> totals, over Kafka.

    \b
    Examples:
      penstock census generate --years 2018,2019 --months jan,feb
      penstock census read --years 2018 --from-file .penstock/census/files/2018/jan18pub.dat.gz
      penstock census compute
      penstock census results
      curl -s localhost:8888/results
    """
