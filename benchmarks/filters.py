"""Measures filters: what it costs to judge an event, and to compile the filters of many Triggers.

    python -m benchmarks.filters --events 200000 --triggers 10000

CPU time of this process, without Kafka. Prints one JSON object: microseconds for each event (`exact_us`: exact filter
on five attributes; `cesql_us`: an expression of three terms; `attributes_us`: the attributes of a record, which filters
read), and `compile_s`, the seconds to compile as many different expressions as there are Triggers. Half of the events
pass. Does not judge the results.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence

from knative.filters import compile_filter
from knative.filters.attributes import attributes_of
from knative.filters.dialects import Cesql, Exact
from knative.ports import Headers

_KINDS = 100  #: of events, so that values are not always the same objects
_EXACT = Exact((
    ("type", "order.created"),
    ("source", "/shop/eu"),
    ("subject", "customer-7"),
    ("region", "eu-west"),
    ("priority", "5"),
))  # fmt: skip
_EXPRESSION = "type = 'order.created' AND subject LIKE 'customer-%' AND INT(priority) > 3"


def _record(number: int) -> Headers:
    """Returns the headers of a record; what is even passes both filters."""
    values = {
        "id": f"event-{number}",
        "source": "/shop/eu",
        "type": "order.created",
        "specversion": "1.0",
        "subject": "customer-7",
        "time": "2026-11-22T12:00:00.123Z",
        "region": "eu-west",
        "priority": "3" if number % 2 else "5",  # the last attribute and the last term decide
    }
    return [(f"ce_{name}", text.encode()) for name, text in values.items()]


def _us(call: Callable[[object], object], arguments: Sequence[object], events: int) -> float:
    """Returns CPU microseconds for each call."""
    rounds = max(1, events // len(arguments))
    began_s = time.process_time()
    for _ in range(rounds):
        for argument in arguments:
            call(argument)
    return (time.process_time() - began_s) / (rounds * len(arguments)) * 1e6


def _expression(number: int) -> str:
    return f"type = 'order.created.{number}' AND subject LIKE 'customer-{number % 100}%' AND INT(priority) > {number}"


def measure(events: int, triggers: int) -> dict[str, float]:
    """Returns the figures; raises if a filter does not judge as it should."""
    records = [_record(number) for number in range(_KINDS)]
    mappings = [attributes_of(record, None) for record in records]
    exact, expression = compile_filter(_EXACT), compile_filter(Cesql(_EXPRESSION))
    assert exact is not None
    assert expression is not None
    for compiled in (exact, expression):
        assert [compiled.matches(mapping or {}) for mapping in mappings] == [
            number % 2 == 0 for number in range(_KINDS)
        ]
    began_s = time.process_time()
    for number in range(triggers):
        compile_filter(Cesql(_expression(number)))
    compile_s = time.process_time() - began_s
    return {
        "exact_us": _us(exact.matches, mappings, events),  # type: ignore[arg-type]  # neither is None, as asserted above
        "cesql_us": _us(expression.matches, mappings, events),  # type: ignore[arg-type]
        "attributes_us": _us(lambda record: attributes_of(record, None), records, events),  # type: ignore[arg-type]
        "compile_s": compile_s,
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--triggers", type=int, default=10_000)
    given = parser.parse_args()
    print(json.dumps(measure(given.events, given.triggers)))


if __name__ == "__main__":
    main()
