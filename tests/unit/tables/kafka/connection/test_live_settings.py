"""Settings that are replaced while they are used."""

from __future__ import annotations

import gc

from tables.kafka.connection.live_settings import LiveSettings, on_replaced, present


class Client:
    """Counts how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def outdated(self) -> None:
        """One more."""
        self.calls += 1


def test_they_are_replaced_as_a_whole() -> None:
    kafka = LiveSettings()
    kafka.replace({"a": 1, "b": 1})
    used = present(kafka)
    assert (dict(kafka), present(kafka) is used) == ({"a": 1, "b": 1}, True)
    kafka.replace({"a": 1, "b": 1})
    assert present(kafka) is not used, "equal settings may name files with another content"
    kafka.replace({"a": 2})
    assert (kafka["a"], len(kafka), "b" in kafka, used) == (2, 1, False, {"a": 1, "b": 1})


def test_settings_that_stay() -> None:
    kafka = {"a": 1}
    on_replaced(kafka, Client().outdated)
    assert present(kafka) is kafka


def test_who_exists_is_called() -> None:
    kafka, client, gone = LiveSettings(), Client(), Client()
    for one in (gone, client):
        on_replaced(kafka, one.outdated)
    del one, gone
    gc.collect()
    kafka.replace({})
    kafka.replace({})
    assert (client.calls, len(kafka.called)) == (2, 1)
