"""In which process and in which order `--dist loadfile` runs the files of tests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

#: Files whose tests run one after the other in one process, which shares one Spark session or one cluster; and what
#: takes both cores for minutes, of which there is one at a time.
_GROUPS: Mapping[str, Sequence[str]] = {
    "spark": (
        "test_jobs_on_a_cluster",
        "test_census_read",
        "test_a_lost_executor",
        "test_topology_job",
        "test_topology_deltas",
        "test_topology_engines",
        "test_topology_frames",
        "test_traffic_job",
        "test_traffic_topics",
        "test_secured_spark",
    ),
    "spark-processes": (
        "test_spark_connect",
        "test_spark_shutdown",
        "test_spark_entrypoint",
        "test_topology_demo",
    ),
    "chaos": ("test_chaos_workers", "test_chaos_network"),
    "proxied": (
        "test_kafka_failures",
        "test_handover",
        "test_group_admin",
        "test_group_client",
        "test_late_commit",
    ),
    "secured": (
        "test_secured_kafka",
        "test_broker_secrets",
        "test_kafka_secret",
        "test_kafka_credentials",
        "test_rotation",
        "test_broker_secret",
    ),
    "cluster": ("test_chaos_kafka", "test_kafka_cluster", "test_producer"),
}
#: The longest files and groups in the order in which they begin. Those that compute and those that wait take turns, so
#: that the cores are never idle and never needed by all; and none is alone at the end.
_ORDER = (
    "spark",
    "spark-processes",
    "chaos",
    "test_controller_failover",
    "test_census",
    "test_outages",
    "test_seek",
    "test_upgrade",
    "cluster",
    "secured",
    "test_own_token",
    "test_core_eventing",
    "test_triggers_come_and_go",
    "test_examples",
    "test_controller",
    "test_cli_dlq",
    "test_reader_backpressure",
    "test_controller_unlisted",
    "proxied",
    "test_ledger",
    "test_up",
    "test_urls_are_secret",
    "test_seek_failover",
    "test_graceful_shutdown",
    "test_restart",
    "test_subscriber_answers",
    "test_ledger_triggers",
    "test_idle_worker",
    "test_wheel",
    "test_cli_inspect",
    "test_expelled",
    "test_cli_beside_worker",
    "test_acceptance",
    "test_tracing",
    "test_traffic",
    "test_doctor",
    "test_console",
    "test_reader",
    "test_report_page",
    "test_payload_bytes",
    "test_triggers",
    "test_brokers",
    "test_worker_metrics",
)
#: Fixtures that files of these groups only may use, because the files of a group share what it gives.
_GROUPS_OF_FIXTURE: Mapping[str, Sequence[str]] = {
    "spark": ("spark",),
    "engine": ("spark",),
    "cluster": ("cluster",),
    "proxied": ("chaos", "proxied"),
    "secured_kafka": ("secured",),
}
_RANKS = {name: rank for rank, name in enumerate(itertools.chain(*(_GROUPS.get(one, (one,)) for one in _ORDER)))}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}


def group_of(file: Path) -> str | None:
    """The group of a file; None if it has none."""
    return _GROUP_OF.get(file.stem)


def rank(file: Path) -> int:
    """Files with a lower one begin before it."""
    return _RANKS.get(file.stem, len(_RANKS))


def misplaced(file: Path, fixtures: Set[str]) -> str | None:
    """What is wrong with the group of a file whose test uses these fixtures; None if nothing is."""
    for name in sorted(_GROUPS_OF_FIXTURE.keys() & fixtures):
        if group_of(file) not in (groups := _GROUPS_OF_FIXTURE[name]):
            where = " or ".join(f"_GROUPS[{group!r}]" for group in groups)
            return f"{file} uses {name!r}; name it in {where} of {__file__}"
    return None
