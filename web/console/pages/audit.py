"""What people did in the console: what is under way here, and the audit topic. As `penstock tail` of that topic."""

from __future__ import annotations

from knative.contract.kafka_names import audit_topic
from knative.errors import PenstockError
from web.console.page import Ask, Page, Seen, Values
from web.console.safety import Mode


async def _list(ask: Ask) -> Values:
    values: Values = {"tasks": ask.acts.tasks(), "may_write": ask.mode is Mode.WRITE}
    if ask.is_live:
        return values
    problem = None
    try:
        deeds = await ask.acts.deeds()
    except PenstockError as raised:
        deeds, problem = (), str(raised)
    return {
        **values,
        "deeds": deeds,
        "problem": problem,
        "command": f"penstock tail --topic {audit_topic(ask.state.instance)} --body",
    }


async def _stop(ask: Ask) -> Seen:
    await ask.acts.stop_task(ask.form.get("task", ""), ask.who)
    return Seen("/audit")


PAGES = (Page("/audit", "audit.html", _list, nav="Audit", place=50, post=_stop),)
