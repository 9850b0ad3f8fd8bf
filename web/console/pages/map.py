"""The live map: where events go, how many, and what is wrong. It shows what `penstock topology` finds now."""

from __future__ import annotations

from web.console.page import Ask, Page, Values


async def _build(ask: Ask) -> Values:
    view = await ask.reads.map(ask.state)
    rows_max = ask.limits.rows_max
    return {
        "map": view,
        "findings": view.findings[:rows_max],
        "findings_left": len(view.findings[rows_max:]),
        "edges": view.edges[:rows_max],
        "edges_left": len(view.edges[rows_max:]),
    }


async def _data(ask: Ask) -> bytes:
    return (await ask.reads.map(ask.state)).data


PAGES = (Page("/map", "map.html", _build, nav="Map", place=1, data=_data),)
