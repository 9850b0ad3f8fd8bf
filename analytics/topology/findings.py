"""What is wrong, or worth checking: rules over facts and graph answers, each finding with evidence and remedy.

| Rule | Severity | When |
|---|---|---|
| `reply-loop`, `self-reply` | critical; info if a filter decides | events come back through replies or deliveries |
| `reply-chain` | info; critical if it happened | replies of a broker's triggers come back to them |
| `dead-letter-loop` | critical | dead letters come back to the channel where they failed |
| `not-ready` | critical; warning if no file has it | a subscription that is not served, or only in part |
| `no-worker` | critical | no worker runs (one finding for all) |
| `unbalanced` | warning | fewer events settled and waiting than were accepted |
| `no-dead-letters` | warning | events that fail are dropped |
| `double-delivery` | warning | one destination gets the same event from two subscriptions |
| `lost-channel` | warning | a subscription to a channel that is not in the contract |
| `dead-lettering` | warning | events became dead letters, or were dropped, in the window |
| `one-replica` | warning | Kafka has several brokers, and only one has the events of a channel |
| `unread` | warning; info without events | a channel has no subscription |
| `unsent` | info | no sender and no edge leads to a channel |
| `surplus` | info | more events settled than accepted |
| `twice-on-path` | info | a destination gets an event and the reply to it |
| `single-point` | info | several channels are connected only by one vertex |
| `untaken-type` | info | a type came to a channel where every filter excludes it |
| `filter-passed-nothing` | info | a filter let no event of the window pass |
| `undeclared-type`, `unseen-type` | info | what came to a channel with EventTypes, and what these say, differ |
| `one-partition` | info | several workers, and a channel that only one of them can serve |
| `one-worker` | info | Kafka has several brokers, and one worker delivers everything |
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from analytics.topology.engines.double_delivery import DoubleDelivery
from analytics.topology.engines.queries import GraphAnswers, Loop, listed
from analytics.topology.event_types import about_types
from analytics.topology.model.document import LISTED_MAX, SEVERITIES, Finding, Flow, Severity, edge_id
from analytics.topology.model.facts import Facts, SubscriptionFacts, slack
from analytics.topology.model.inputs import Inputs, State
from analytics.topology.model.names import name
from analytics.topology.single_points import alone
from knative.delivery.verdicts import REPLY_LOOP, RETURNS

FINDINGS_MAX = 10_000  #: of one rule; each takes some kB in the document and its page
CHANNELS_CUT_MIN = 3  #: channels that must depend on a vertex for it to be reported


def findings_of(inputs: Inputs, facts: Facts, walks: GraphAnswers) -> tuple[tuple[Finding, ...], list[str]]:
    """Returns all findings, the worst first, and a sentence for each rule of which not all are in them."""
    every = itertools.chain(
        _loops(walks.loops, {consumer.id: consumer for consumer in facts.consumers}, inputs, facts),
        _chains(inputs, facts),
        _dead_loops(walks.dead_loops),
        _unserved(inputs, facts),
        _balance(inputs, facts),
        _dropping(facts),
        _doubles(facts, walks),
        _failing(inputs, facts),
        _orphans(inputs, facts),
        _lost(facts),
        _twice(walks),
        _cuts(walks),
        alone(inputs, facts),
        about_types(facts),
    )
    counts, findings = Counter[str](), list[Finding]()
    for finding in every:
        if not inputs.namespace or _concerns(finding, inputs.namespace):
            counts[finding.rule] += 1
            if counts[finding.rule] <= FINDINGS_MAX:
                findings.append(finding)
    cut = sorted((rule, count) for rule, count in counts.items() if count > FINDINGS_MAX)
    more = [f"{count} findings of the rule {rule}; the first {FINDINGS_MAX} are shown." for rule, count in cut]
    return tuple(
        sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), finding.rule, finding.id))
    ), more


def _concerns(finding: Finding, namespace: str) -> bool:
    return not finding.objects or any(f":{namespace}/" in id_[:300] for id_ in finding.objects)


def path(ids: Iterable[str]) -> str:
    """Returns a path as text for people."""
    return " → ".join(map(name, ids))


def _loops(
    loops: Iterable[Loop], consumers: dict[str, SubscriptionFacts], inputs: Inputs, facts: Facts
) -> Iterator[Finding]:
    for loop in loops:
        channels = [id_ for id_ in loop.members if id_ in facts.channels]
        alone = len(channels) == 1
        back = [(start, end) for start, end, flow in loop.links if flow is not Flow.SUBSCRIBES]
        ended = [
            f"{name(start)}: {state.last_error}."
            for start in dict.fromkeys(start for start, _ in back)
            if (state := inputs.states.get(consumers[start].subscription.uid)) and RETURNS in state.last_error
        ]
        decided = not ended and all(consumers[start].filtered for start, _ in back)
        rule = "self-reply" if alone else "reply-loop"
        what = f"Events of {listed(channels)} come back to it" if alone else "Events go in a loop: " + listed(channels)
        ways = [f"{path((*cycle, cycle[0]))}" for cycle in loop.cycles]
        settled = [facts.settled[start].counts.delivered for start, _ in back if start in facts.settled]
        counts = [f"In the window, {sum(settled)} events were delivered in this loop."] if settled else []
        yield Finding(
            f"{rule}:{channels[0]}",
            rule,
            Severity.INFO if decided else Severity.CRITICAL,
            what + (" if a filter lets them pass" if decided else ""),
            (*channels, *(id_ for id_ in loop.members if id_ not in facts.channels)),
            (*ended[:LISTED_MAX], *ways, *counts),
            "Deliver to another address, send the reply to another channel, or make the subscriber answer without an "
            "event where the loop should end. With a filter, exclude the types that come back. A chain of more than "
            "PENSTOCK_REPLY_DEPTH_MAX ends as a dead letter with the code 508.",
            tuple(edge_id(flow, start, end) for start, end, flow in loop.links),
        )


def _chains(inputs: Inputs, facts: Facts) -> Iterator[Finding]:
    """Finds brokers whose triggers answer each other: a reply goes to all triggers. A loop is certain only when a chain
    of replies has reached the limit."""
    ended = defaultdict(list)
    for consumer in facts.consumers:
        state = inputs.states.get(consumer.subscription.uid)
        if consumer.returns and state is not None and REPLY_LOOP in state.last_error:
            ended[consumer.returns].append((consumer.id, state.last_error))
    for chain in facts.joins.chains:
        came_back = sorted(ended.get(chain.broker, ()))
        objects = list(dict.fromkeys([*(id_ for id_, _ in came_back), *chain.unfiltered, *chain.filtered]))
        evidence = [f"{name(id_)}: {error}." for id_, error in came_back[:LISTED_MAX]]
        if chain.unfiltered:
            evidence.append(f"Triggers without a filter, which get all replies: {listed(chain.unfiltered)}.")
        if chain.filtered:
            evidence.append(f"Triggers with a filter, which get the replies that pass: {listed(chain.filtered)}.")
        what = "answer each other in a loop" if came_back else "get the events that their subscribers answer with"
        yield Finding(
            f"reply-chain:{chain.broker}",
            "reply-chain",
            Severity.CRITICAL if came_back else Severity.INFO,
            f"The triggers of {name(chain.broker)} {what}",
            (chain.broker, *objects),
            (f"{chain.count} triggers; replies go back into the broker.", *evidence),
            "Ignore this if subscribers answer without an event, or with types that no filter lets pass. Give "
            "triggers a filter that excludes the types of their replies. A chain of more than PENSTOCK_REPLY_DEPTH_MAX "
            "replies ends as a dead letter with the code 508.",
            tuple(
                edge_id(*ends)
                for id_ in objects
                for ends in ((Flow.SUBSCRIBES, chain.broker, id_), (Flow.REPLIES, id_, chain.broker))
            ),
        )


def _dead_loops(loops: Iterable[Loop]) -> Iterator[Finding]:
    for loop in loops:
        dead = [(start, end) for start, end, flow in loop.links if flow is Flow.DEAD_LETTERS]
        inside = set(loop.members)
        channels = [id_ for id_ in loop.members if id_.startswith(("channel:", "broker:"))]
        yield Finding(
            f"dead-letter-loop:{channels[0]}",
            "dead-letter-loop",
            Severity.CRITICAL,
            f"Dead letters come back to the channel where they failed: {listed(channels)}",
            (*channels, *sorted(inside - set(channels))),
            (
                *(f"{name(start)} sends its dead letters to {name(end)}." for start, end in dead[:10]),
                *(path((*cycle, cycle[0])) for cycle in loop.cycles),
            ),
            "Use a dead letter sink that does not lead back to this channel, or remove it: dead letters then go to the "
            "DLQ topic.",
            tuple(edge_id(flow, start, end) for start, end, flow in loop.links),
        )


def _unserved(inputs: Inputs, facts: Facts) -> Iterator[Finding]:
    """Finds subscriptions that are not served. If no worker runs, one finding replaces those of all subscriptions."""
    if facts.consumers and not inputs.workers:
        yield Finding(
            "no-worker:",
            "no-worker",
            Severity.CRITICAL,
            "No worker runs: nothing is delivered",
            (),
            (f"None of the {len(facts.consumers)} subscriptions is served. The map shows the contract only.",),
            "Start a worker: penstock worker, or penstock up.",
        )
        return
    for consumer in facts.consumers:
        subscription = consumer.subscription
        state = inputs.states.get(subscription.uid, State("Unknown", "No worker has reported its state."))
        if state.ready == "True":
            continue
        cure = "See `penstock status` and the workers' logs. This is normal shortly after a start or a change."
        if subscription.unlisted:
            cure = f"Add its file again, or delete it with `penstock remove {subscription.title}`."
        yield Finding(
            f"not-ready:{consumer.id}",
            "not-ready",
            Severity.WARNING if subscription.unlisted else Severity.CRITICAL,
            f"{name(consumer.id)} is not ready",
            (consumer.id, consumer.channel),
            (state.message or "Ready is Unknown.",),
            cure,
        )


def _balance(inputs: Inputs, facts: Facts) -> Iterator[Finding]:
    consumers = {consumer.id: consumer for consumer in facts.consumers}
    for imbalance in facts.joins.imbalances:
        settled, channel = facts.settled.get(imbalance.consumer), consumers[imbalance.consumer].channel
        total = settled.counts if settled is not None else None
        parts = (
            f"{total.delivered} delivered, {total.filtered} filtered, {total.dead} dead-lettered, "
            f"{total.ignored} dropped"
            if total is not None
            else "nothing settled"
        )
        evidence = (
            f"{imbalance.accepted} events were accepted in {name(channel)} within {inputs.window.seconds:.0f} s.",
            f"{name(imbalance.consumer)}: {parts}, {imbalance.lag} waiting.",
            f"The tolerance is {slack(max(imbalance.accepted, imbalance.settled), inputs.window.seconds):.0f} events.",
        )
        missing = imbalance.accepted - imbalance.settled - imbalance.lag
        objects, edges = (imbalance.consumer, channel), (edge_id(Flow.SUBSCRIBES, channel, imbalance.consumer),)
        if missing > 0:
            yield Finding(
                f"unbalanced:{imbalance.consumer}",
                "unbalanced",
                Severity.WARNING,
                f"{missing} events of {name(channel)} are neither settled by {name(imbalance.consumer)} nor waiting",
                objects,
                evidence,
                "Normal if the subscription is younger than the window and starts with the latest event. Otherwise "
                "check its log for expired records, and `penstock lag -s`.",
                edges,
            )
        else:
            yield Finding(
                f"surplus:{imbalance.consumer}",
                "surplus",
                Severity.INFO,
                f"{name(imbalance.consumer)} settled more events than {name(channel)} accepted",
                objects,
                evidence,
                "Normal while a backlog is processed, after a redrive of dead letters, and if programs write to the "
                "topic directly. Otherwise workers repeat work: check for restarts and rebalances.",
                edges,
            )


def _dropping(facts: Facts) -> Iterator[Finding]:
    consumers = {consumer.id: consumer for consumer in facts.consumers}
    for id_ in facts.joins.ignoring:
        total = facts.settled.get(id_)
        sink = consumers[id_].subscription.delivery.dead_letter_sink
        evidence = ["penstock.dev/exhausted is ignore: an event whose retries are used up is dropped."]
        if sink is not None:
            evidence = [f"penstock.dev/exhausted is ignore: an event that {sink.shown_uri} does not accept is dropped."]
        if total is not None and total.counts.ignored:
            evidence.append(f"{total.counts.ignored} events were dropped in the window.")
        yield Finding(
            f"no-dead-letters:{id_}",
            "no-dead-letters",
            Severity.WARNING,
            f"{name(id_)} does not keep dead letters in Kafka: events that fail are lost",
            (id_, consumers[id_].channel),
            tuple(evidence),
            "Remove the annotation penstock.dev/exhausted. Dead letters then go to the DLQ topic of the channel, even "
            "if the dead letter sink does not accept them.",
            (edge_id(Flow.DELIVERS, id_, consumers[id_].target),),
        )


def _doubles(facts: Facts, walks: GraphAnswers) -> Iterator[Finding]:
    """Yields one finding for each destination that gets an event twice: by subscriptions of one channel, or of channels
    that get the same events."""
    lines: dict[str, list[str]] = defaultdict(list)
    involved: dict[str, dict[str, None]] = defaultdict(dict)
    for channel, target, ids in facts.joins.doubles:
        lines[target].append(f"{listed(ids)} subscribe to {name(channel)}.")
        involved[target].update(dict.fromkeys((channel, *ids)))
    for double in walks.double_deliveries.same:
        both = f"{name(double.first)} and {name(double.second)}"
        lines[double.destination].append(f"{both} both get the events of {name(double.via)}.")
        involved[double.destination].update(dict.fromkeys((double.via, double.first, double.second)))
    for target in sorted(lines):
        yield Finding(
            f"double-delivery:{target}",
            "double-delivery",
            Severity.WARNING,
            f"{name(target)} gets the same events more than once",
            (target, *involved[target]),
            tuple(lines[target][:20]),
            "Delete one of the subscriptions. If both are intended, give each its own URI (another path is enough).",
            tuple(
                edge_id(Flow.DELIVERS, id_, target)
                for id_ in involved[target]
                if id_.startswith(("subscription:", "trigger:"))
            ),
        )


def _twice(walks: GraphAnswers) -> Iterator[Finding]:
    groups: dict[str, list[DoubleDelivery]] = defaultdict(list)
    for double in walks.double_deliveries.child:
        groups[double.destination].append(double)
    for target, some in sorted(groups.items()):
        objects = dict.fromkeys(id_ for double in some for id_ in (double.first, double.second))
        yield Finding(
            f"twice-on-path:{target}",
            "twice-on-path",
            Severity.INFO,
            f"{name(target)} gets events and the replies to them",
            (target, *objects),
            tuple(
                f"{name(double.first)} of {name(double.via)}, then {name(double.second)}, {double.hops} channels later."
                for double in some
            ),
            "Ignore this if intended. If the subscriber counts or bills, give the later subscription another URI.",
            tuple(edge_id(Flow.DELIVERS, id_, target) for id_ in objects),
        )


def _failing(inputs: Inputs, facts: Facts) -> Iterator[Finding]:
    for consumer in facts.consumers:
        settled = facts.settled.get(consumer.id)
        if settled is None or not settled.counts.dead + settled.counts.ignored:
            continue
        total = settled.counts
        state = inputs.states.get(consumer.subscription.uid)
        error = [f"Last error: {state.last_error}."] if state is not None and state.last_error else []
        yield Finding(
            f"dead-lettering:{consumer.id}",
            "dead-lettering",
            Severity.WARNING,
            f"{name(consumer.target)} rejects events of {name(consumer.id)}",
            tuple(id_ for id_ in (consumer.id, consumer.target, consumer.dead) if id_),
            (
                f"{total.dead + total.ignored} of {total.events} events failed permanently, {total.delivered} were "
                f"delivered, {total.retried} attempts were repeated.",
                *error,
            ),
            "See `penstock dlq list`, fix the subscriber, then run `penstock dlq redrive`.",
            (edge_id(Flow.DELIVERS, consumer.id, consumer.target),),
        )


def _orphans(inputs: Inputs, facts: Facts) -> Iterator[Finding]:
    for id_ in facts.joins.unread:
        events = facts.accepted.get(id_, (0, 0))[0]
        count = f"{events} events were accepted in the window." if inputs.counted else ""
        yield Finding(
            f"unread:{id_}",
            "unread",
            Severity.WARNING if events else Severity.INFO,
            f"{name(id_)} has no subscription",
            (id_,),
            tuple(part for part in ("No subscription reads this channel.", count) if part),
            "Add a subscription, or delete the channel; its events expire unread.",
        )
    for id_ in facts.joins.unsent:
        yield Finding(
            f"unsent:{id_}",
            "unsent",
            Severity.INFO,
            f"{name(id_)} receives no events",
            (id_,),
            (f"No event was accepted within {inputs.window.seconds:.0f} s, and no reply or delivery leads there.",),
            "Delete it if it is unused. Otherwise check its senders and the address they use. Try a longer window: "
            "--since 1d.",
        )


def _lost(facts: Facts) -> Iterator[Finding]:
    for consumer in facts.consumers:
        if consumer.channel not in facts.channels:
            yield Finding(
                f"lost-channel:{consumer.id}",
                "lost-channel",
                Severity.WARNING,
                f"{name(consumer.id)} subscribes to {name(consumer.channel)}, which does not exist",
                (consumer.id, consumer.channel),
                ("The contract has the subscription but not its channel.",),
                "Add the channel, or delete the subscription. This is normal shortly after a change.",
            )


def _cuts(walks: GraphAnswers) -> Iterator[Finding]:
    for id_, (vertices, channels) in sorted(walks.articulation_points.items()):
        if channels >= CHANNELS_CUT_MIN and not id_.startswith(("subscription:", "trigger:", "source:", "dlq:")):
            yield Finding(
                f"single-point:{id_}",
                "single-point",
                Severity.INFO,
                f"{channels} channels are connected to the others only by {name(id_)}",
                (id_,),
                (f"Without it {vertices} vertices, {channels} channels among them, are disconnected from the rest.",),
                "Make it highly available, or separate what does not need it.",
            )
