"""The figures of a benchmark: what is reached, what is said of a row that failed, and the JSON of all of them."""

from __future__ import annotations

import pytest

from benchmarks.figures import HIGHER, LOWER, Figure, Row, as_json, spread
from benchmarks.report import failures, table

COST = Row("cost", "us", 40)
RATE = Row("rate", "events/s", 1000, HIGHER, 0)
SHOWN = Row("shown", "MB")


def test_min_median_and_max_are_rounded_as_the_row_says() -> None:
    figure = Figure(COST, (40.26, 39.94, 51.0))
    assert (figure.min, figure.median, figure.max) == (39.9, 40.3, 51.0)
    assert Figure(RATE, (1.4, 2.6)).median == 2


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (Figure(COST, (40.0,)), True),
        (Figure(COST, (39.0, 40.1, 50.0)), False),
        (Figure(COST, (40.04,)), True),  # what is shown is what counts
        (Figure(RATE, (900.0, 1000.0, 1100.0)), True),
        (Figure(RATE, (999.0,)), False),
        (Figure(SHOWN, (1.0,)), None),
        (Figure(COST, ()), False),
        (Figure(COST, (1.0,), "the second round failed"), False),
        (Figure(SHOWN, (), "failed"), False),
    ],
)
def test_reached_is_the_median_against_the_target(figure: Figure, reached: bool | None) -> None:
    assert figure.reached is reached


def test_ratios_are_of_medians_and_of_best_rounds() -> None:
    assert Figure(COST, (30.0, 50.0, 70.0)).ratio(Figure(COST, (20.0, 25.0, 90.0))) == 2.0
    assert Figure(COST, (30.0, 50.0)).best_ratio(Figure(COST, (20.0, 90.0))) == 1.5
    assert Figure(RATE, (30.0, 50.0)).best_ratio(Figure(RATE, (10.0, 25.0))) == 2.0
    assert Figure(COST, ()).ratio(Figure(COST, (1.0,))) is None
    assert Figure(COST, (1.0,)).ratio(Figure(COST, (0.0,))) is None


def test_file_has_every_row_whether_it_was_measured_or_not() -> None:
    rows = as_json([Figure(COST, (1.0, 2.0, 4.0)), Figure(RATE, (), "Kafka went away"), Figure(SHOWN, (3.0,))])
    assert rows == [
        {"name": "cost", "unit": "us", "min": 1.0, "median": 2.0, "max": 4.0, "target": 40, "better": LOWER},
        {
            "name": "rate",
            "unit": "events/s",
            "min": None,
            "median": None,
            "max": None,
            "target": 1000,
            "better": HIGHER,
            "error": "Kafka went away",
        },
        {"name": "shown", "unit": "MB", "min": 3.0, "median": 3.0, "max": 3.0, "target": None, "better": LOWER},
    ]


def test_another_implementation_is_beside_each_row() -> None:
    (row,) = as_json([Figure(COST, (2.0, 3.0, 4.0))], [Figure(COST, (1.0,), "not offered")])
    assert row["beside"] == {
        "min": 1.0,
        "median": 1.0,
        "max": 1.0,
        "ratio": 3.0,
        "best_ratio": 2.0,
        "error": "not offered",
    }


def test_failed_measure_is_reported() -> None:
    assert failures([Figure(COST, (1.0,)), Figure(RATE, (), "Kafka went away")], "ours") == [
        "ours: rate was not measured: Kafka went away"
    ]
    assert spread((None, 1234.5, 2.0), 1) == "- / 1,234.5 / 2.0"


def test_table_has_a_line_for_each_row() -> None:
    figures = [Figure(COST, (1.0,)), Figure(RATE, (), "failed"), Figure(SHOWN, (1.0,))]
    assert table(figures, None, "").row_count == 3
    assert len(table(figures, figures, "other").columns) == len(table(figures, None, "").columns) + 3
