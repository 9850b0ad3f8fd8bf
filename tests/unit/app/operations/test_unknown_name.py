"""Names that are not known: similar ones, and the first ten of those that are."""

from __future__ import annotations

from app.operations.unknown_name import known_names, meant


def test_similar_name_is_the_hint() -> None:
    assert meant("ns/ordres", ["ns/bills", "ns/orders"], "Write one.") == "Did you mean ns/orders?"
    assert meant("ordres", ["ns/bills", "ns/orders"]) == "Did you mean ns/orders?"
    assert meant("defautl/good", ["default/bad", "default/good", "shop/good"]) == "Did you mean default/good?"
    assert meant("ns/ordres", ["other/things"], "Write one.") == "Write one."
    assert meant("default/good", ["default/audit"]) == "", "only their namespace is similar"
    assert meant("x", [], "Write one.") == "Write one."


def test_form_of_names_is_the_hint_where_it_is_not_known() -> None:
    assert meant("bills", ["ns/orders"]) == "Write NAMESPACE/NAME."
    assert meant("ns/bills", ["other/orders"]) == meant("bills", []) == ""


def test_many_known_names_are_counted() -> None:
    assert known_names([]) == "known: none."
    assert known_names(["a", "b", "a"]) == "known: a, b."
    assert known_names(str(number) for number in range(12)) == "known: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more."
