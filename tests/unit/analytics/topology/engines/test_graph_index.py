"""The graphs without sources have the answers of the whole graph."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analytics.topology.engines.graph_index import number
from analytics.topology.engines.local import LocalEngine
from analytics.topology.model.facts import facts_of
from tests.support.planted_faults import World
from tests.support.topology_worlds import worlds


@given(world=worlds(), counted=st.booleans())
def test_sources_that_stay_out_change_no_answer(world: World, counted: bool) -> None:
    facts = facts_of(world.inputs())
    index, engine = number(facts, counted), LocalEngine()
    whole = index.whole()
    sources = np.unique(index.source).tolist()
    of_map = [place for place in range(len(index.ids)) if place not in sources]

    assert len(whole.heads) == facts.links_count()
    assert engine.loops(index.graph).tolist() == engine.loops(whole).tolist()
    joined, joining, channels = index.joined()
    labels = engine.islands(joined)
    labels[joining] = labels[channels]
    assert labels.tolist() == engine.islands(whole).tolist()
    assert joining.tolist() == sources
    base = np.array([float(id_.startswith(("uri:", "dlq:"))) for id_ in index.ids])
    np.testing.assert_allclose(engine.influence(index.fed(), base)[of_map], engine.influence(whole, base)[of_map])
    for start in sources:
        ((_, vertices, depths),) = engine.hops(index.sent_by([start]), [start])
        ((_, expected, edges),) = engine.hops(whole, [start])
        assert (vertices.tolist(), depths.tolist()) == (expected.tolist(), edges.tolist())
