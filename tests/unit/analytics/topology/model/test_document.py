"""The topology document: what is written can be read, and what is not ours is refused in words."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from analytics.topology.model.document import UnreadableTopology, from_json, to_json
from tests.support.topologies import large, small


def test_document_survives_its_file() -> None:
    for topology in (small(), large(120)):
        assert from_json(to_json(topology)) == topology


def test_fields_of_a_later_version_are_passed_over() -> None:
    row = orjson.loads(to_json(small()))
    row["mood"] = "good"
    row["vertices"][0]["mood"] = "good"

    assert from_json(orjson.dumps(row)) == small()


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b"<html>", "not a topology.json"),
        (b"[]", "no schema_version"),
        (b"{}", "no schema_version"),
        (b'{"schema_version": 2}', "schema 2"),
        (b'{"schema_version": 1}', "damaged"),
        (to_json(replace(small(), totals=())), "damaged .*no totals"),
        (to_json(small()).replace(b'"kind":"broker"', b'"kind":"brother"'), "brother"),
    ],
)
def test_invalid_topology_is_rejected(data: bytes, reported: str) -> None:
    with pytest.raises(UnreadableTopology, match=reported):
        from_json(data)
