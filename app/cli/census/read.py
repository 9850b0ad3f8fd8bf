"""`penstock census read`: files into chunks. `app/census` reads the files."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from analytics.census.sources import Source, parse_months, parse_years, plan
from app.census.choices import WriteTo
from app.census.metrics import CHUNKS_WRITTEN, DOWNLOADED, CensusMetrics, shown
from app.census.reader import FileRow, ReadConfig, read_all
from app.census.sinks import make_sink
from app.census.topics import Topics
from app.cli.census.options import (
    COMPUTE,
    METRICS_PORT,
    PARTITIONS,
    Chunks,
    ComputeTopic,
    Delay,
    DryRun,
    MetricsPort,
    Months,
    Partitions,
    Replication,
    To,
    Verbose,
    WithMetrics,
    Years,
    all_or,
    show_plan,
)
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.output.format import Format, Output, note, print_table
from app.settings import load_settings

_READ_COLUMNS = {"name": "FILE", "year": "YEAR", "chunks": "CHUNKS", "lines": "LINES", "problem": "PROBLEM"}


def read(
    years: Years = "",
    months: Months = "",
    from_file: Annotated[
        list[Path] | None,
        typer.Option("--from-file", help="Local gzip file instead of a download; may be repeated."),
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
    """Split census files into chunks of ten lines and write them to the compute topic, which is created if missing.

    Files come from the site in PENSTOCK_CENSUS_URL, or from this machine. A truncated or damaged file is not counted,
    and is reported. Reading a file again changes no total. Exit code: 4 if some files were not counted, 1 if none was.

    \b
    Examples:
      penstock census read --years 2018,2019 --months jan,feb
      penstock census read --years 2019 --from-file jan19pub.dat.gz --partitions 10
      penstock census read --years 2019 --months '*' --dry-run
      penstock census read --years 2019 --from-file jan19pub.dat.gz --chunks 2 --write-to stdout
    """
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

    metrics = CensusMetrics(DOWNLOADED, CHUNKS_WRITTEN)
    if write_to is WriteTo.KAFKA:
        made, new = Topics(client).ensure(topic, partitions, replication, {})
        if new:
            note(f"Created the topic {topic} with {made.partitions} partitions.")
    sink = make_sink(write_to, client, topic, lambda: metrics.add(CHUNKS_WRITTEN))
    config = ReadConfig(
        all_or(chunks), delay / 1000, note if verbose else lambda _: None, lambda: metrics.add(DOWNLOADED)
    )
    with shown(metrics, metrics_port, load_settings().bind):
        return read_all(sources, sink, config)


def _report(rows: list[FileRow], planned: int, write_to: WriteTo, topic: str, output: Format) -> None:
    bad = [row for row in rows if row.problem]
    chunks, lines = sum(row.chunks for row in rows), sum(row.lines for row in rows)
    if output is Format.JSON:
        files = [asdict(row) for row in rows]
        summary = {"chunks": chunks, "lines": lines, "damaged": len(bad), "not_read": planned - len(rows)}
        (note if write_to is WriteTo.STDOUT else print)(_json({**summary, "files": files}))
    elif write_to is WriteTo.STDOUT:  # the chunks contain it
        for row in bad:
            note(f"{row.where}: {row.problem}")
    else:
        print_table(_READ_COLUMNS, [asdict(row) for row in rows], "No file was read.")
        where = f"to topic {topic}" if write_to is WriteTo.KAFKA else "to nowhere"
        print(f"{chunks} chunks of {lines} lines {where}; {len(bad)} of {planned} files gave a problem")
    if bad:
        raise typer.Exit(4 if any(row.whole or row.chunks for row in rows) else 1)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
