"""Dead letters: in groups and one by one, delivered again, edited and delivered again. As `penstock dlq`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from urllib.parse import urlencode

from knative.contract.records import SUBSCRIPTION, kind_and_name
from knative.errors import PenstockError
from web.console.acts import Letter, LetterChoice, LetterGroup, LetterRow, Letters
from web.console.bodies import body_of
from web.console.page import Ask, NotThere, Page, Seen, Values, choices
from web.console.rows import path_of
from web.console.safety import Mode

_PICK = "pick-"  #: names of the boxes of letters


@dataclass(frozen=True, slots=True)
class Named:
    """The name of the subscription that dead letters belong to."""

    text: str
    path: str | None  #: of its page


def named(label: str) -> Named:
    """Returns a label as people read it."""
    kind, name = kind_and_name(label, SUBSCRIPTION)
    namespace, _, last = name.partition("/")
    if not last:
        return Named("no subscription", None)
    return Named(name if kind == SUBSCRIPTION else f"{name} ({kind.lower()})", path_of(kind, namespace, last))


def choice_of(query: Mapping[str, str]) -> LetterChoice:
    """Returns what the address of the page asks for."""
    return LetterChoice(query.get("subscription") or None, query.get("reason") or None, query.get("since") or None)


def picked(form: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the letters whose boxes are checked."""
    return tuple(dict.fromkeys(value for name, value in sorted(form.items()) if name.startswith(_PICK)))


def address(choice: LetterChoice) -> str:
    """Returns the address of the page that shows these letters."""
    query = {"subscription": choice.subscription, "reason": choice.reason, "since": choice.since}
    given = {name: value for name, value in query.items() if value}
    return f"/letters?{urlencode(given)}" if given else "/letters"


def command(choice: LetterChoice) -> str:
    """Returns the command that lists them."""
    options = {"--subscription": choice.subscription, "--reason": choice.reason, "--since": choice.since}
    return " ".join(["penstock dlq list", *(f"{name} {quote(value)}" for name, value in options.items() if value)])


def group_rows(groups: Iterable[LetterGroup], choice: LetterChoice) -> list[Values]:
    """Returns groups with the address of each."""
    return [
        {
            "of": named(group.subscription),
            "group": group,
            "waiting": group.count - group.redriven,
            "path": address(LetterChoice(group.subscription or None, group.reason or None, choice.since)),
        }
        for group in groups
    ]


def letter_path(ref: str) -> str:
    """Returns the path of the page of one letter."""
    return "/letter?" + urlencode({"ref": ref})


def letter_rows(rows: Sequence[LetterRow]) -> list[Values]:
    """Returns letters with the address of each."""
    return [{"of": named(row.subscription), "letter": row, "path": letter_path(row.ref)} for row in rows]


async def _list(ask: Ask) -> Values:
    values = {
        "tasks": [task for task in ask.acts.tasks() if task.act == "redrive"],
        "may_write": ask.mode is Mode.WRITE,
    }
    if ask.is_live:
        return values
    choice, problem, letters = choice_of(ask.query), None, Letters((), (), 0)
    try:
        letters = await ask.acts.letters(choice)
    except PenstockError as raised:
        problem = str(raised)
    labels = {status.subscription.label for status in ask.state.resources if status.subscription is not None}
    labels |= {choice.subscription} if choice.subscription else set()
    return {
        **values,
        "choice": choice,
        "subscriptions": choices({label: label for label in labels}, ask.limits.rows_max),
        "groups": group_rows(letters.groups[: ask.limits.rows_max], choice),
        "groups_left": max(0, len(letters.groups) - ask.limits.rows_max),
        "letters": letter_rows(letters.rows),
        "count": letters.count,
        "is_whole": letters.is_whole,
        "problem": problem,
        "command": command(choice),
        "dry": None,
        "rate": "20/s",
        "limit": "",
    }


async def _act(ask: Ask) -> Values | Seen:
    """Does a dry run, or the redrive itself."""
    form, choice = ask.form, choice_of(ask.query)
    if form.get("scope") != "all":
        choice = LetterChoice(refs=picked(form))
    asked: Values = {"rate": form.get("rate", ""), "limit": form.get("limit", "")}
    try:
        if not choice.refs and form.get("scope") != "all":
            return {**asked, "problem": "No letter is picked. Pick letters in the list, or choose all."}
        if form.get("do") == "redrive":
            await ask.acts.redrive(choice, form.get("rate", ""), form.get("limit", ""), ask.who)
            return Seen(address(choice_of(ask.query)))
        letters = await ask.acts.letters(choice)
    except PenstockError as raised:
        return {**asked, "problem": str(raised)}
    waiting = [row for row in group_rows(letters.groups, choice) if row["waiting"]]
    return {
        **asked,
        "dry": {
            "groups": waiting[: ask.limits.rows_max],
            "groups_left": max(0, len(waiting) - ask.limits.rows_max),
            "count": sum(group.count - group.redriven for group in letters.groups),
            "is_whole": letters.is_whole,
            "refs": choice.refs,
            "is_all": form.get("scope") == "all",
        },
    }


async def _whole(ask: Ask) -> Values:
    letter = await _find(ask)
    attributes = {name: value for name, value in letter.event.attributes.items() if not name.startswith("knativeerror")}
    form, text = letter.form
    answer, body = await asyncio.to_thread(lambda: (body_of(letter.answer), body_of(letter.event.data)))
    return {
        "letter": letter,
        "of": named(letter.row.subscription),
        "attributes": attributes,
        "answer": answer,
        "body": body,
        "has_bodies": ask.has_bodies,
        "may_write": ask.mode is Mode.WRITE,
        "form": form,
        "edited": {"attributes": json.dumps(attributes, indent=2, ensure_ascii=False), "data": text},
        "problem": None,
    }


async def _find(ask: Ask) -> Letter:
    ref = ask.query.get("ref", "")
    letter = await ask.acts.letter(ref)
    if letter is None:
        raise NotThere(f"There is no dead letter {ref[:300]}. Retention may have removed it.")
    return letter


async def _send_edited(ask: Ask) -> Values | Seen:
    attributes, data = ask.form.get("attributes", ""), ask.form.get("data", "")
    try:
        await ask.acts.send_edited(ask.query.get("ref", ""), attributes, data, ask.who)
    except PenstockError as raised:
        problem = str(raised)
        return {"edited": {"attributes": attributes, "data": data}, "problem": problem}
    return Seen("/letters")


PAGES = (
    Page("/letters", "letters.html", _list, nav="Dead letters", place=30, post=_act),
    Page("/letter", "letter.html", _whole, live=False, post=_send_edited),
)
