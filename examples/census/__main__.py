"""The command line: `python -m examples.census [FLAGS] COMMAND`, with the flags of kafka-scale, in any order."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
import tempfile
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.cli.output.format import note, print_error, print_json, print_table
from app.settings import load_settings
from app.settings.kafka import kafka_client
from examples.census import files, metrics, samples, topics
from knative.errors import ExitCode, PenstockError, UsageError
from tables.kafka.admin.kafka_admin import KafkaAdmin
from tables.timing import ANSWER_S


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:10} {command.__doc__}" for name, command in _COMMANDS.items())
    parser = argparse.ArgumentParser(
        "python -m examples.census", "%(prog)s COMMAND [OPTIONS]",
        description=f"Count the housing units of census files.\n\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    add = parser.add_argument
    add("command", choices=_COMMANDS, metavar="COMMAND")
    add("--version", action="version", version=f"penstock {version('penstock')}")
    add("--kafka", default="", help="HOST:PORT of Kafka; by default from the settings")
    add("--years", default="", help="years, comma-separated: 2018,2019")
    add("--months", default="", help="months, comma-separated: jan,feb; '*' means all")
    add("--from-file", action="append", default=[], help="a gzip file of the one year in --years; may be repeated")
    add("--url", default=files.URL, help="where files are downloaded: {year}, {yy} and {month} are replaced")
    add("--chunks", type=int, default=-1, help="read or compute about this many chunks at most; -1: all")
    add("--write-to", choices=("kafka", "stdout", "null"), default="kafka", help="where the output goes")
    add("--delay", type=int, default=0, help="milliseconds to wait after each chunk, to watch it work")
    add("--compute-topic-partitions", type=int, default=4, help="partitions of a new topic")
    add("--compute-topic-replfactor", type=int, default=1, help="replication factor of a new topic")
    add("--compute-topic", default="compute", help="another topic for the chunks")
    add("--results-topic", default="results", help="another topic for the results")
    add("--topic", default="", help="topics for offsets and rmtopics, comma-separated")
    add("--results-port", type=int, default=8888, help="port of /results")
    add("--with-metrics", action="store_true", help="serve Prometheus metrics while it runs")
    add("--metrics-port", type=int, default=9123, help="port of the metrics")
    add("--no-shutdown-reader", action="store_true", help="read stays, with its metrics, when all files are read")
    add("--force", action="store_true", help="let rmtopics remove topics, and generate replace files")
    add("--dry-run", action="store_true", help="print the flags as they are understood, and exit")
    add("--verbose", action="store_true", help="print more details")
    add("--master", default="", help="where Spark runs: local[2], spark://HOST:7077; by default PENSTOCK_SPARK_MASTER")
    add("--driver-host", default="", help="address at which a cluster's workers reach this machine")
    add("--conf", action="append", default=[], help="NAME=VALUE for Spark; may be repeated")
    add("--lines", type=int, default=2_003, help="lines of each file that generate or demo makes")
    add("--output-dir", default=".penstock/census/files", help="where generate writes YEAR/FILE")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    given = _parser().parse_args(arguments)
    given.metrics_port = given.metrics_port if given.with_metrics else None
    given.chunks = None if given.chunks < 0 else given.chunks
    try:
        if given.dry_run:
            return _dry_run(given)
        settings = load_settings()
        asked = given.verbose or "log_level" in settings.sources  # otherwise without Faust's own messages
        given.settings = settings if asked else settings.model_copy(update={"log_level": "warning"})
        given.client = kafka_client(settings, given.kafka)
        return int(_COMMANDS[given.command](given) or 0)
    except PenstockError as problem:
        print_error(problem)
        return problem.exit_code
    except KeyboardInterrupt:
        return 130


def _dry_run(given: argparse.Namespace) -> int:
    sources = files.plan(given.years, given.months, given.from_file, given.url) if given.command == "read" else []
    flags = [f"  {name.replace('_', ' ')}: {value}" for name, value in vars(given).items()]
    print("Would run with:", *flags, *(f"  file: {url}" for _, url in sources), sep="\n")
    return 0


def _admin(given: argparse.Namespace) -> KafkaAdmin:
    admin = KafkaAdmin(given.client, ANSWER_S)
    admin.probe()  # raises a clear error when Kafka does not answer
    return admin


def _ensure(given: argparse.Namespace, name: str) -> Any:
    return topics.ensure(_admin(given), name, given.compute_topic_partitions, given.compute_topic_replfactor)


def _named(given: argparse.Namespace) -> list[str]:
    names = [name.strip() for name in given.topic.split(",") if name.strip()]
    if not names:
        raise UsageError("--topic is empty.", "Write --topic compute,results.")
    return names


def _print(columns: tuple[str, ...], rows: list[dict[str, object]]) -> None:
    print_table({name: name.upper() for name in columns}, rows, "There are no topics.")


def _read(given: argparse.Namespace) -> int:
    """files to chunks of ten lines in the topic compute, by Spark"""
    from app.cli.options.spark import JobOptions, session
    from examples.census import read

    sources = files.plan(given.years, given.months, given.from_file, given.url)
    to_kafka = given.write_to == "kafka"
    options = JobOptions(given.master, "", given.driver_host, conf=tuple(given.conf))
    options.check()
    if to_kafka:
        _ensure(given, given.compute_topic)
    report: read.Report = []

    def counts() -> dict[str, int]:
        rows = dict(report).values()
        downloads = sum(row.url.startswith("http") and row.problem is None for row in rows)
        return {"downloaded_gzips": downloads, "chunks_written": sum(row.chunks for row in rows) if to_kafka else 0}

    with metrics.served(given.metrics_port, given.settings.bind, counts):
        with tempfile.TemporaryDirectory(prefix="penstock-census-") as folder, session("census read", options) as spark:
            read.send_modules(spark, Path(folder))
            rows = read.chunks(spark, sources, report, given.chunks, given.delay / 1000)
            read.write(rows, given.client, given.write_to, given.compute_topic)
        code = _report(dict(report).values())
        if given.no_shutdown_reader:
            note("All files are read. Press Ctrl-C to stop.")
            signal.pause()
    return code


def _report(rows: Collection[Any]) -> int:
    """Returns 4 if some of the files gave a problem, 1 if all did."""
    bad = [row for row in rows if row.problem is not None]
    for row in bad:
        note(f"{row.url}: {row.problem}")
    chunks, lines = sum(row.chunks for row in rows), sum(row.lines for row in rows)
    note(f"{chunks} chunks of {lines} lines; {len(bad)} of {len(rows)} files gave a problem")
    return ExitCode.DONE if not bad else ExitCode.PARTLY if len(bad) < len(rows) else ExitCode.FAILED


def _compute(given: argparse.Namespace) -> None:
    """chunks to results in the topic results, until it is stopped; several processes share the work"""
    from examples.census.model import count
    from examples.census.stores import storing
    from examples.census.worker import make_worker, run

    admin = _admin(given)
    read, is_kept = [topics.describe(admin, given.compute_topic)], given.write_to == "kafka"
    if is_kept:
        partitions = len(read[0].partitions)
        read.append(topics.ensure(admin, given.results_topic, partitions, given.compute_topic_replfactor))
    # Without results no offsets are kept: each process has a group of its own.
    group = topics.group_of("compute", *read) if is_kept else f"census-compute-look-{secrets.token_hex(4)}"
    app = make_worker(given.settings, given.client, group, read[0])
    store = storing(app, given.write_to, given.results_topic, given.delay / 1000, given.chunks)

    with metrics.served(
        given.metrics_port, given.settings.bind,
        lambda: {"compute_messages_read": app.taken, "result_messages_written": app.taken * is_kept},
    ):  # fmt: skip
        note(f"Counting {read[0].name}. Press Ctrl-C to stop.")
        run(app, count, store, admin, read)


def _results(given: argparse.Namespace) -> None:
    """results to totals, at /results, until it is stopped"""
    from app.local.kafka.ports import is_free
    from examples.census.model import result_of
    from examples.census.stores import Results
    from examples.census.worker import make_worker, run

    port, topic = given.results_port, _ensure(given, given.results_topic)
    if not is_free(port):
        raise PenstockError(f"Port {port} is used by another program.", "Choose another one: --results-port PORT.")
    app = make_worker(given.settings, given.client, topics.group_of("results", topic), topic, port)
    with metrics.served(given.metrics_port, given.settings.bind, lambda: {"result_messages_read": app.taken}):
        note(f"Totals are at http://localhost:{port}/results once it has started. Press Ctrl-C to stop.")
        run(app, result_of, Results(app).store, _admin(given), [topic])


def _topiclist(given: argparse.Namespace) -> None:
    """all topics, their partitions and leaders"""
    _print(("topic", "partition", "leader"), topics.leaders(_admin(given)))


def _offsets(given: argparse.Namespace) -> None:
    """how far groups have read the topics in --topic"""
    rows = [row for name in _named(given) for row in topics.offsets(_admin(given), name)]
    _print(("topic", "partition", "committed", "last", "group"), rows)


def _rmtopics(given: argparse.Namespace) -> None:
    """remove the topics in --topic, and the totals made from them"""
    names = _named(given)
    if not given.force:
        raise UsageError(
            f"This removes {', '.join(names)} and all records in them.",
            "Use --force to do it. Strimzi makes a topic again unless you delete its KafkaTopic instead.",
        )
    for name in (removed := topics.remove(_admin(given), names)):
        print(f"Removed {name}.")
    for name in set(names) - set(removed):
        note(f"There is no topic {name}, or it is an internal one.")


def _generate(given: argparse.Namespace) -> None:
    """files like those of the census, for use without network"""
    folder = Path(given.output_dir)
    for year in map(int, files.chosen("--years", given.years)):
        for month in files.chosen("--months", given.months):
            if (path := folder / str(year) / samples.file_name(year, month)).exists() and not given.force:
                raise UsageError(f"{path} already exists.", "Use --force to replace it, or another --output-dir.")
            print(samples.write(folder, year, month, given.lines, 0.003))


def _demo(given: argparse.Namespace) -> int:
    """all of it on a Kafka of its own, with kill -9 of each part, compared with a plain count"""
    from examples.census.demo import run

    report = run(given.lines, given.master or "local[2]", given.conf, given.kafka)
    print_json(report)
    return 0 if report["equal"] else 1


_COMMANDS = {
    "read": _read, "compute": _compute, "results": _results, "topiclist": _topiclist, "offsets": _offsets,
    "rmtopics": _rmtopics, "generate": _generate, "demo": _demo,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
