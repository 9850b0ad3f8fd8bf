"""Which files of tests `--dist loadfile` runs in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

#: Files whose tests run one after the other in one process, which shares one Spark session or one cluster; and what
#: takes both cores for minutes, of which there is one at a time.
_GROUPS: Mapping[str, Sequence[str]] = {
    "spark": (
        "test_jobs_on_a_cluster",
        "test_census_read",
        "test_lost_executor",
        "test_topology_job",
        "test_topology_deltas",
        "test_topology_engines",
        "test_topology_frames",
        "test_traffic_job",
        "test_traffic_topics",
        "test_secured_spark",
    ),
    "spark-processes": ("test_spark_connect", "test_spark_shutdown", "test_spark_entrypoint", "test_topology_demo"),
    "chaos": ("test_chaos_workers", "test_chaos_network"),
    "proxied": ("test_kafka_failures", "test_handover", "test_group_admin", "test_group_client", "test_late_commit"),
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
#: Fixtures that files of these groups only may use, because the files of a group share what it gives.
_GROUPS_OF_FIXTURE: Mapping[str, Sequence[str]] = {
    "spark": ("spark",),
    "engine": ("spark",),
    "cluster": ("cluster",),
    "proxied": ("chaos", "proxied"),
    "secured_kafka": ("secured",),
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}


def group_of(file: Path) -> str | None:
    """The group of a file; None if it has none."""
    return _GROUP_OF.get(file.stem)


def order(file: Path) -> str:
    """Files with a lesser one begin before it. Groups take long: they are first, with nothing between their files."""
    return group_of(file) or "~"


def misplaced(file: Path, fixtures: Set[str]) -> str | None:
    """What is wrong with the group of a file whose test uses these fixtures; None if nothing is."""
    for name in sorted(_GROUPS_OF_FIXTURE.keys() & fixtures):
        if group_of(file) not in (groups := _GROUPS_OF_FIXTURE[name]):
            where = " or ".join(f"_GROUPS[{group!r}]" for group in groups)
            return f"{file} uses {name!r}; name it in {where} of {__file__}"
    return None
