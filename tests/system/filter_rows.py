"""Filters of every dialect as people write them, and the events that each lets pass, written down by hand.

Each event differs from the plain one in what its name says. What is not in a row's list of events must not pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Value = str | int | bool

#: Attributes beside id and specversion. Integers and booleans are such in structured mode, and text in binary mode.
EVENTS: dict[str, dict[str, Value]] = {
    "plain": {},
    "eu": {"region": "eu"},
    "eu-west": {"region": "eu-west"},
    "EU": {"region": "EU"},
    "blank": {"region": " "},
    "seven": {"hop": 7},
    "minus": {"hop": -7},
    "padded": {"hop": "007"},
    "true": {"urgent": True},
    "false": {"urgent": False},
    "TRUE": {"urgent": "TRUE"},
    "unicode": {"city": "Zürich"},
    "wide": {"city": "東京 🗼"},
    "percent": {"city": '100%25 "so"'},
    "uri": {"source": "https://shop.example/a%20b?x=1&y='2'#top"},
    "noon": {"time": "2026-11-22T12:00:00Z"},
    "noon-long": {"time": "2026-11-22T12:00:00.000+00:00"},
    "noon-berlin": {"time": "2026-11-22T13:00:00+01:00"},
    "noon-nano": {"time": "2026-11-22T12:00:00.123456789Z"},
    "order": {"type": "com.example.order.created", "subject": "orders/7"},
}
PLAIN: dict[str, Value] = {"source": "/test", "type": "test.event"}

_REGIONS = "eu eu-west EU blank"
_HOPS = "seven minus padded"
_CITIES = "unicode wide percent"
_TIMES = "noon noon-long noon-berlin noon-nano"
ALL = " ".join(EVENTS)


def _but(names: str) -> str:
    """All events but these."""
    return " ".join(name for name in EVENTS if name not in names.split())


@dataclass(frozen=True, slots=True)
class Row:
    """What a Trigger's `spec` has, and the names of the events that pass."""

    spec: dict[str, Any]
    passes: str

    @property
    def names(self) -> set[str]:
        """The names one by one."""
        return set(self.passes.split())


def _one(passes: str, **dialect: Any) -> Row:
    return Row({"filters": [dialect]}, passes)


def _attributes(passes: str, **attributes: str) -> Row:
    return Row({"filter": {"attributes": attributes}}, passes)


def _sql(passes: str, expression: str) -> Row:
    return _one(passes, cesql=expression)


_HERE = {"exact": {"region": "eu"}}

ROWS = [
    Row({}, ALL),
    # attributes: "" is any value that is not empty
    _attributes("eu", region="eu"),
    _attributes(_REGIONS, region=""),
    _attributes("", region="", city=""),
    _attributes("seven", hop="7"),
    _attributes("true", urgent="true"),
    _attributes("TRUE", urgent="TRUE"),
    _attributes("noon noon-long", time="2026-11-22T12:00:00.0Z"),
    _attributes("order", subject="", type="com.example.order.created"),
    _attributes(ALL, specversion="1.0"),
    # exact
    _one("eu", exact={"region": "eu"}),
    _one("EU", exact={"region": "EU"}),
    _one("blank", exact={"region": " "}),
    _one("", exact={"region": "e"}),
    _one("", exact={"absent": "eu"}),
    _one("seven", exact={"hop": "7"}),
    _one("minus", exact={"hop": "-7"}),
    _one("padded", exact={"hop": "007"}),
    _one("false", exact={"urgent": "false"}),
    _one("unicode", exact={"city": "Zürich"}),
    _one("", exact={"city": "Zu\u0308rich"}),
    _one("wide", exact={"city": "東京 🗼"}),
    _one("percent", exact={"city": '100%25 "so"'}),
    _one("uri", exact={"source": "https://shop.example/a%20b?x=1&y='2'#top"}),
    _one("", exact={"source": "https://shop.example/a b?x=1&y='2'#top"}),
    _one("noon noon-long", exact={"time": "2026-11-22t12:00:00+00:00"}),
    _one("noon-berlin", exact={"time": "2026-11-22T13:00:00+01:00"}),
    _one("noon-nano", exact={"time": "2026-11-22T12:00:00.123456789Z"}),
    _one("order", exact={"subject": "orders/7", "type": "com.example.order.created"}),
    _one("", exact={"subject": "orders/7", "type": "test.event"}),
    # prefix and suffix
    _one("eu eu-west", prefix={"region": "eu"}),
    _one("", prefix={"region": "eu-west-1"}),
    _one("", prefix={"absent": "e"}),
    _one("minus", prefix={"hop": "-"}),
    _one("true", prefix={"urgent": "tr"}),
    _one("wide", prefix={"city": "東"}),
    _one("uri", prefix={"source": "https://shop.example/a%20"}),
    _one(_TIMES, prefix={"time": "2026-11-22T1"}),
    _one("eu-west", suffix={"region": "-west"}),
    _one(_HOPS, suffix={"hop": "7"}),
    _one("true false", suffix={"urgent": "e"}),
    _one("wide", suffix={"city": "🗼"}),
    _one("unicode", suffix={"city": "ürich"}),
    _one("uri", suffix={"source": "#top"}),
    _one("noon noon-long noon-nano", suffix={"time": "Z"}),
    _one("order", prefix={"subject": "orders/", "type": "com.example."}),
    # all, any, not
    _one(ALL, all=[]),
    _one("", any=[]),
    _one("eu-west", all=[{"prefix": {"region": "eu"}}, {"not": _HERE}]),
    _one("eu seven", any=[_HERE, {"exact": {"hop": "7"}}]),
    _one(_but("eu"), **{"not": _HERE}),
    _one(_but(_REGIONS), **{"not": {"any": [{"cesql": "EXISTS region"}]}}),
    _one("eu", **{"not": {"not": _HERE}}),
    Row({"filters": [{"prefix": {"region": "eu"}}, {"suffix": {"region": "west"}}]}, "eu-west"),
    Row({"filter": {"attributes": {"region": "EU"}}, "filters": [_HERE]}, "eu"),
    # CESQL: a missing attribute is an error, and an error never passes
    _sql(_REGIONS, "EXISTS region"),
    _sql(_but(_REGIONS), "NOT EXISTS region"),
    _sql("eu-west EU blank", "region != 'eu'"),
    _sql(_but(_REGIONS) + " eu", "NOT EXISTS region OR region = 'eu'"),
    _sql("seven padded", "hop = 7"),
    _sql("seven padded", "hop > 6 AND hop < 8"),
    _sql("minus", "ABS(hop) = 7 AND hop < 0"),
    _sql("seven", "hop = '7'"),
    _sql("true TRUE", "urgent = TRUE"),
    _sql("false", "NOT BOOL(urgent)"),
    _sql("unicode", "city LIKE 'Z_rich'"),
    _sql("wide", "LENGTH(city) = 4"),
    _sql("percent", "city LIKE '100\\%%'"),
    _sql("uri", "source LIKE 'https://%' AND RIGHT(source, 4) = '#top'"),
    _sql("noon noon-long", "time = '2026-11-22T12:00:00Z'"),
    _sql("noon-nano", "SUBSTRING(time, 21, 9) = '123456789'"),
    _sql("order", "type IN ('com.example.order.created', 'other') AND EXISTS subject"),
    _sql("eu EU", "LOWER(region) = 'eu'"),
    _sql("blank", "TRIM(region) = ''"),
    _sql("", "region = 'eu' AND missing = 1"),
    _sql("", "hop / 0 = 0"),
    _sql(ALL, "TRUE OR missing"),
]
