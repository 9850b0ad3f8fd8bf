"""`penstock census`: the demo that counts housing units. Here: `generate` and `read`; its siblings have the rest.

Refuses to count and to read files (`app/census` and `analytics/census` do).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.census.choices import WriteTo
from app.cli.census import run as census_run
from app.cli.census import topics
from app.cli.census.options import (
    COMPUTE,
    METRICS_PORT,
    PARTITIONS,
    Chunks,
    ComputeTopic,
    Delay,
    DryRun,
    Kafka,
    MetricsPort,
    Partitions,
    Replication,
    To,
    Verbose,
    WithMetrics,
    all_or,
    show_plan,
)
from app.cli.commands import Commands
from app.cli.options.spark import Conf, Master
from app.cli.output.format import Format, Output, note, print_json, print_table
from app.settings.extras import ANALYTICS, SPARK_MODULES, need
from knative.errors import PenstockError, UsageError

if TYPE_CHECKING:
    from app.census.inputs import Source
    from app.census.reader import FileRow

_FOLDER = Path(".penstock/census/files")
_READ_COLUMNS = {"name": "FILE", "year": "YEAR", "chunks": "CHUNKS", "lines": "LINES", "problem": "PROBLEM"}
_MADE_COLUMNS = {"file": "FILE", "year": "YEAR", "month": "MONTH", "lines": "LINES", "wrong": "WRONG", "mib": "MIB"}

Years = Annotated[str, typer.Option("--years", help="Years with commas between: 2018,2019.")]
Months = Annotated[str, typer.Option("--months", help="Months with commas between: jan,feb; '*' is all of them.")]


def register(cli: typer.Typer) -> None:
    """Adds `census` to the commands."""
    group = Commands()
    group.callback()(census)
    group.command("generate")(generate)
    group.command("read")(read)
    census_run.register(group)
    topics.register(group)
    group.command("demo")(demo)
    cli.add_typer(group, name="census")


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


def generate(
    years: Years = "2018,2019",
    months: Months = "jan,feb",
    lines: Annotated[int, typer.Option("--lines", min=0, max=40_000_000, help="Lines of each file.")] = 10_003,
    folder: Annotated[Path, typer.Option("--output-dir", help="Where YEAR/FILE goes.")] = _FOLDER,
    seed: Annotated[int, typer.Option("--seed", help="Another one gives other files.")] = 1,
    short: Annotated[float, typer.Option("--short", min=0, max=1, help="Share of lines that end too early.")] = 0.0,
    out_of_range: Annotated[
        float, typer.Option("--out-of-range", min=0, max=1, help="Share of lines whose code there is not.")
    ] = 0.0,
    no_code: Annotated[
        float, typer.Option("--no-code", min=0, max=1, help="Share of lines without a number for a code.")
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Make census-like files: gzip, fixed width, about 1,000 characters a line. The same options give the same bytes.

    \b
    Examples:
      penstock census generate
      penstock census generate --years 2019 --months '*' --lines 100000
      penstock census generate --short 0.001 --out-of-range 0.001 --output-dir /tmp/census --force
    """
    from analytics.census.generator import Recipe, file_name, write
    from app.census.inputs import parse_months, parse_years

    if short + out_of_range + no_code > 1:
        raise UsageError("The shares of wrong lines add up to more than all lines.", "Give less than 1 together.")
    wanted = [(year, month) for year in parse_years(years) for month in parse_months(months)]
    there = [path for year, month in wanted if (path := folder / str(year) / file_name(year, month)).exists()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already.", "Replace it with --force, or choose another --output-dir.")
    recipe = Recipe(lines, seed, short, out_of_range, no_code)
    rows: list[dict[str, object]] = []
    for year, month in wanted:
        try:
            made = write(folder, year, month, recipe)
        except OSError as problem:
            raise PenstockError(
                f"{folder} cannot be written to ({problem.strerror}).", "Choose another --output-dir."
            ) from problem
        wrong = sum(count for kind, count in made.kinds.items() if isinstance(kind, str))
        mib = round(made.path.stat().st_size / 1_048_576, 1)
        rows.append(
            {"file": str(made.path), "year": year, "month": month, "lines": made.lines, "wrong": wrong, "mib": mib}
        )
    if output is Format.JSON:
        print_json(rows)
    else:
        print_table(_MADE_COLUMNS, rows, "")


def read(
    years: Years = "",
    months: Months = "",
    from_file: Annotated[
        list[Path] | None,
        typer.Option("--from-file", help="A gzip file that is here, not a download; may be repeated."),
    ] = None,
    chunks: Chunks = -1,
    delay: Delay = 0,
    write_to: To = WriteTo.KAFKA,
    kafka: Kafka = "",
    compute_topic: ComputeTopic = COMPUTE,
    partitions: Partitions = None,
    replication: Replication = 1,
    with_metrics: WithMetrics = False,
    metrics_port: MetricsPort = METRICS_PORT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    output: Output = Format.TABLE,
) -> None:
    """Cut census files into chunks of ten lines, and write those to the topic compute (made if it is not there).

    Files come from the site in PENSTOCK_CENSUS_URL, or from here. One that is cut or damaged gives nothing, and is
    reported. Reading a file again changes no total. Ends with 4 when some files gave nothing, with 1 when all did.

    \b
    Examples:
      penstock census read --years 2018,2019 --months jan,feb
      penstock census read --years 2019 --from-file jan19pub.dat.gz --partitions 10
      penstock census read --years 2019 --months '*' --dry-run
      penstock census read --years 2019 --from-file jan19pub.dat.gz --chunks 2 --write-to stdout
    """
    from app.census.inputs import parse_months, parse_years, plan
    from app.cli.receive import kafka_client
    from app.settings.load import load_settings

    settings = load_settings()
    sources = plan(
        parse_years(years) if years else [], parse_months(months) if months else [], from_file or [],
        settings.census_url,
    )  # fmt: skip
    client = kafka_client(kafka)
    if dry_run:
        to_kafka = write_to is WriteTo.KAFKA
        show_plan(
            {
                "command": "read", "files": [one.where for one in sources],
                "years": sorted({one.year for one in sources}), "chunks": "all" if chunks < 0 else chunks,
                "delay_ms": delay, "write_to": write_to.value, "kafka": client["bootstrap.servers"] if to_kafka else "",
                "topic": compute_topic if to_kafka else "", "partitions": partitions or PARTITIONS,
                "replication_factor": replication, "metrics_port": metrics_port if with_metrics else "",
            },
            output,
        )  # fmt: skip
        return
    rows = _read(
        sources, client, compute_topic, partitions or PARTITIONS, replication, write_to, chunks, delay,
        metrics_port if with_metrics else None, verbose,
    )  # fmt: skip
    _report(rows, len(sources), write_to, compute_topic, output)


def _read(
    sources: list[Source],
    client: dict[str, str],
    topic: str,
    partitions: int,
    replication: int,
    write_to: WriteTo,
    chunks: int,
    delay: int,
    metrics_port: int | None,
    verbose: bool,
) -> list[FileRow]:
    from app.census.metrics import CHUNKS_WRITTEN, DOWNLOADED, CensusMetrics, shown
    from app.census.reader import ReadConfig, read_all
    from app.census.sinks import make_sink
    from app.census.topics import Topics
    from app.settings.load import load_settings

    metrics = CensusMetrics(DOWNLOADED, CHUNKS_WRITTEN)
    if write_to is WriteTo.KAFKA:
        made, new = Topics(client).ensure(topic, partitions, replication, {})
        if new:
            note(f"Made the topic {topic} with {made.partitions} partitions.")
    sink = make_sink(write_to, client, topic, lambda: metrics.add(CHUNKS_WRITTEN))
    config = ReadConfig(
        all_or(chunks), delay / 1000, note if verbose else lambda _: None, lambda: metrics.add(DOWNLOADED)
    )
    with shown(metrics, metrics_port, load_settings().bind):
        return read_all(sources, sink, config)


def _report(rows: list[FileRow], planned: int, write_to: WriteTo, topic: str, output: Format) -> None:
    from dataclasses import asdict

    bad = [row for row in rows if row.problem]
    chunks, lines = sum(row.chunks for row in rows), sum(row.lines for row in rows)
    if output is Format.JSON:
        files = [asdict(row) for row in rows]
        summary = {"chunks": chunks, "lines": lines, "damaged": len(bad), "not_read": planned - len(rows)}
        (note if write_to is WriteTo.STDOUT else print)(_json({**summary, "files": files}))
    elif write_to is WriteTo.STDOUT:  # the chunks have it
        for row in bad:
            note(f"{row.where}: {row.problem}")
    else:
        print_table(_READ_COLUMNS, [asdict(row) for row in rows], "No file was looked at.")
        where = f"to topic {topic}" if write_to is WriteTo.KAFKA else "to nowhere"
        print(f"{chunks} chunks of {lines} lines {where}; {len(bad)} of {planned} files gave a problem")
    if bad:
        raise typer.Exit(4 if any(row.whole or row.chunks for row in rows) else 1)


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def demo(
    engine: Annotated[census_run.Engine, typer.Option("--engine", help="What counts.")] = census_run.Engine.SPARK,
    lines: Annotated[int, typer.Option("--lines", min=1, max=1_000_000, help="Lines of each of four files.")] = 2_003,
    kill: Annotated[bool, typer.Option("--kill/--no-kill", help="SIGKILL compute and results in the middle.")] = True,
    kafka: Annotated[str, typer.Option("--kafka", help="HOST:PORT of one that runs; else it starts one.")] = "",
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Run all of it on a Kafka of its own, with kills; the last line is JSON with the totals by year and code.

    Ends with 0 only if they are exactly those of a plain count of the same files.

    \b
    Examples:
      penstock census demo
      penstock census demo --engine faust
      penstock census demo --lines 100000 --no-kill 2>/dev/null | tail -1
    """
    from app.cli.demos.census import DemoConfig, run

    if engine is census_run.Engine.SPARK:
        need(ANALYTICS, "`penstock census demo --engine spark`", SPARK_MODULES)
    report = run(DemoConfig(engine.value, lines, kill, master or "local[2]", tuple(conf or ()), kafka))
    print_json(report)
    if not report["equal"]:
        raise typer.Exit(1)
