"""`penstock job traffic`: what went through channels and to subscriptions, counted into tables.

`analytics/traffic` counts; `app/operations/traffic_plan` reads the topics from the contract.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options.completion import complete_channel
from app.cli.options.given import given
from app.cli.options.kafka import Kafka, kafka_client
from app.cli.options.spark import Conf, DriverHost, JobOptions, Master, Memory, Remote, session
from app.cli.output.format import Format, Output, note
from app.cli.output.traffic import batch_line, show_rates, show_summary
from app.operations.times import read_time
from app.operations.traffic_plan import Plan, plan_traffic, traffic_folder
from app.operations.traffic_rates import measure
from knative.errors import UsageError

if TYPE_CHECKING:
    from analytics.traffic.job import TrafficJob

Channels = Annotated[
    list[str] | None,
    typer.Option(
        "--channel", help="With --since or --until: only the channel NAMESPACE/NAME.", autocompletion=complete_channel
    ),
]


def traffic(
    call: typer.Context,
    master: Master = "",
    remote: Remote = "",
    kafka: Kafka = "",
    since: Annotated[
        str, typer.Option("--since", help="Start of a time range: how long ago (90s, 10m, 2d), or an RFC 3339 time.")
    ] = "",
    until: Annotated[str, typer.Option("--until", help="End of the time range, in the same format.")] = "",
    channels: Channels = None,
    once: Annotated[
        bool, typer.Option("--once/--follow", help="Exit when everything is counted, or run until Ctrl-C.")
    ] = True,
    records: Annotated[
        bool, typer.Option("--records/--no-records", help="Read the topics of channels, or only the traffic topic.")
    ] = True,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Estimate from offsets, without reading records and without Spark.")
    ] = False,
    folder: Annotated[
        str, typer.Option("--folder", help="Tables: a folder or s3a://BUCKET/FOLDER; by default PENSTOCK_TRAFFIC_DIR.")
    ] = "",
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete the tables, then count again what Kafka still has.")
    ] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", min=1, help="With --follow: seconds to wait when everything is counted.")
    ] = 10.0,
    batch: Annotated[int, typer.Option("--batch", min=1_000, help="Maximum number of records in a batch.")] = 1_000_000,
    driver_host: DriverHost = "",
    memory: Memory = "1g",
    conf: Conf = None,
    output: Output = Format.TABLE,
) -> None:
    """Count events by channel, subscription, type and source, in windows of a minute, an hour or a day.

    It continues where the last run ended and counts nothing twice, even after a kill. With --since or --until it counts
    only that time range, into a folder of its own, and replaces what was counted there before.

    \b
    Examples:
      penstock job traffic
      penstock job traffic --follow --interval 30
      penstock job traffic --since 1h --until 10m -o json
      penstock job traffic --since 15m --offsets
      penstock job traffic --master spark://head:7077 --driver-host 10.0.0.5
    """
    if once and "--interval" in given(call):
        raise UsageError("--interval has no effect without --follow.", "Add --follow, or remove --interval.")
    client = kafka_client(kafka)
    span = _span(since, until)
    if offsets:
        if not once or reset or not records:
            raise UsageError(
                "--offsets reads no records and keeps no tables.", "Remove --follow, --reset and --no-records."
            )
        show_rates(measure(client, channels or [], *(span or (None, None))), output)
        return
    if channels and span is None:
        raise UsageError("--channel needs a time range.", "Add --since, or remove --channel to count all channels.")
    if span is not None and (not once or reset):
        raise UsageError("A time range is counted once, into a new folder.", "Remove --follow and --reset.")
    options = JobOptions(master, remote, driver_host, memory, tuple(conf or ()))
    options.check()
    tables = traffic_folder(folder, span=span is not None)
    plan = plan_traffic(client, tables, channels or [], records=records, span=span or (None, None), say=note)
    job = replace(plan.traffic, once=once, interval_s=interval_s, records_max=batch)
    _run(replace(plan, traffic=job), options, reset, output)


def _span(since: str, until: str) -> tuple[float | None, float | None] | None:
    """Returns Unix seconds of both ends; None = no span was given."""
    now_s = time.time()
    since_s = read_time(since, "--since", now_s) if since else None
    until_s = read_time(until, "--until", now_s) if until else None
    if since_s is not None and until_s is not None and since_s >= until_s:
        raise UsageError("--since is not before --until.", "Swap them.")
    if since_s is not None and since_s > now_s:
        raise UsageError(f"--since {since!r} is in the future.", "Write a time in the past.")
    return None if since_s is None and until_s is None else (since_s, until_s)


def _run(plan: Plan, options: JobOptions, reset: bool, output: Format) -> None:
    from analytics.traffic.dataset import Dataset, hold
    from analytics.traffic.job import TrafficJob

    for sentence in plan.notes:
        note(sentence)
    job = plan.traffic
    tables = Dataset(job.folder)
    with hold(job.folder):
        if job.is_span and tables.continues():
            raise UsageError(
                f"{job.folder} has the tables of a job without --since, which this run would delete.",
                "Name another folder, or remove --folder.",
            )
        if reset or job.is_span:
            tables.wipe()
        tables.check(job.instance, job.cluster, job.is_span)  # before Spark takes seconds to start
        with session("penstock job traffic", options) as spark:
            traffic_job = TrafficJob(
                spark, job, on_batch=lambda *batch: note(batch_line(*batch)) if not job.once else None
            )
            with _stopped_by_signals(traffic_job):
                summary = traffic_job.run()
    show_summary(summary, job.folder, output)


@contextlib.contextmanager
def _stopped_by_signals(job: TrafficJob) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the job in order; a second Ctrl-C ends it at once."""
    before: dict[int, Any] = {}
    number: int

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, before[number])
        job.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
