"""What pages with acts make of addresses and forms."""

from __future__ import annotations

import shlex
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.operations.contract_snapshot import Contract
from knative.contract.records import BROKER, Channel
from knative.contract.seeks import Move
from knative.errors import UsageError
from knative.traffic.counts import Counts
from tables.resource_status import resource_statuses
from tables.traffic_windows.view import HeldRows
from tables.traffic_windows.windows import SHORT_S, Window
from tests.support.console import CHANNEL
from web.console.acts import LetterChoice
from web.console.page import NotThere
from web.console.pages import letters, send
from web.console.pages.events import Look, look_of
from web.console.pages.move import move_rows
from web.console.state import State

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(_TEXT, _TEXT, _TEXT)
def test_address_chooses_the_same_letters(subscription: str, reason: str, since: str) -> None:
    choice = LetterChoice(subscription, reason, since)
    query = dict(parse_qsl(urlsplit(letters.address(choice)).query, keep_blank_values=True))
    assert letters.choice_of(query) == choice
    words = shlex.split(letters.command(choice))
    assert words == ["penstock", "dlq", "list", "--subscription", subscription, "--reason", reason, "--since", since]


def test_all_letters_have_the_plain_address() -> None:
    assert letters.address(letters.choice_of({"subscription": "", "reason": ""})) == "/letters"


def test_only_boxes_are_letters() -> None:
    form = {"pick-2": "t/0/1", "do": "dry", "pick-1": "t/0/0", "pick-3": "t/0/1", "scope": "picked", "xpick-": "no"}
    assert letters.picked(form) == ("t/0/0", "t/0/1")


@pytest.mark.parametrize(
    ("label", "text", "path"),
    [
        ("ns/a", "ns/a", "/subscription/ns/a"),
        ("ns/trigger:a", "ns/a (trigger)", "/trigger/ns/a"),
        ("", "no subscription", None),
        ("<b>/x?y", "<b>/x?y", "/subscription/%3Cb%3E/x%3Fy"),
    ],
)
def test_label_is_a_name_with_a_page(label: str, text: str, path: str | None) -> None:
    assert letters.named(label) == letters.Named(text, path)


@pytest.mark.parametrize(
    ("letters_", "filter_", "start", "id_", "command"),
    [
        (False, "", "now", "", "penstock tail ns/b"),
        (True, "type=a b", "now", "", "penstock tail ns/b --dlq --filter 'type=a b'"),
        (False, "", "10m", "", "penstock tail ns/b --no-follow --since 10m"),
        (False, "", "0/42", "", "penstock tail ns/b"),
        (False, "", "now", "7", "penstock tail ns/b --no-follow --filter id=7"),
    ],
)
def test_command_prints_the_same_events(letters_: bool, filter_: str, start: str, id_: str, command: str) -> None:
    channel = Channel("u", 1, "ns", "b", "t", "t.dlq", 1, kind=BROKER)
    look = Look(channel, letters_, filter_, start, id_)
    assert look.command == command
    assert look.topic == ("t.dlq" if letters_ else "t")
    assert look.is_tail is (start == "now" and not id_)


def test_move_repeats_or_skips() -> None:
    rows = move_rows([Move(0, 10, 4), Move(1, 4, 10), Move(2, -1, 3), Move(3, 5, 5)])
    assert [(row["old"], row["repeats"], row["skips"]) for row in rows] == [
        (10, 6, 0), (4, 0, 6), (None, None, None), (5, 0, 0),
    ]  # fmt: skip


def test_form_is_an_event() -> None:
    form = {"type": "t", "source": "/s", "id": "", "key": "k", "contenttype": "", "more": "a=1\r\n\r\n b = c=d "}
    assert send.attributes_of(form) == {"type": "t", "source": "/s", "partitionkey": "k", "a": "1", "b": "c=d"}
    with pytest.raises(UsageError, match="'nonsense' is not a valid attribute"):
        send.attributes_of({"more": "nonsense"})


def test_events_begin_with_the_busiest_channel() -> None:
    quiet = replace(CHANNEL, uid="c0", name="attic")
    start = 1_800_000_000
    rows = {(SHORT_S, start - SHORT_S): {("demo", "orders", ""): Window(0, Counts(events=3)).encode()}}
    resources = tuple(resource_statuses(Contract((quiet, CHANNEL), (), ()), start))
    state = State("penstock", start, start, False, resources, (), {}, HeldRows(rows, start))

    assert look_of(state, {}).channel == CHANNEL
    assert look_of(state, {"of": quiet.title}).channel == quiet
    assert look_of(replace(state, traffic=None), {}).channel == quiet
    with pytest.raises(NotThere, match="no channels or brokers yet"):
        look_of(replace(state, resources=()), {})
