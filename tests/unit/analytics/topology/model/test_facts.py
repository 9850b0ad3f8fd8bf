"""Ids of what is outside of the map."""

from __future__ import annotations

from analytics.topology.model.facts import outside


def test_id_of_a_destination_has_no_query_and_is_its_own() -> None:
    assert outside("http://h/p") == "uri:http://h/p"
    ids = [outside(uri) for uri in ("http://h/p", "http://h/p?key=1", "http://h/p?key=2", "http://u:p@h/p")]
    assert len(set(ids)) == len(ids)
    assert [vertex.partition("#")[0] for vertex in ids] == ["uri:http://h/p"] * len(ids)
    assert outside("http://h/p?key=1") == ids[1]
