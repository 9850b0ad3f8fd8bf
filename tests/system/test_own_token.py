"""Requests to the installation's own ingress, which wants tokens: subscriber, reply and dead letter sink are channels
and a broker of the same installation. An ingress with TLS, and a second process that delivers."""

from __future__ import annotations

import itertools
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from app.local.kafka import EmbeddedKafka
from tests.support.certificates import Authority
from tests.support.files import contents
from tests.support.installation import Installation
from tests.support.ledger import reader
from tests.support.processes import Worker, get, penstock, wait_until
from tests.support.resources import NAMESPACE, Wanted
from tests.support.subscriber import ScriptedSubscriber, says

pytestmark = pytest.mark.system

LIMIT_S = 180.0
REPLY = ("ce-specversion: 1.0", "ce-source: /answer", "ce-type: t")
NEVER: dict[str, Any] = {"retry": 0}


def _command(env: dict[str, str], *arguments: str) -> str:
    """What a command prints."""
    done = penstock(*arguments, settings=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _new_token(tokens: Path, name: str, *targets: str) -> str:
    """A token that is in the file of the ingress from now on."""
    return _command({}, "token", name, *targets, "--file", str(tokens)).strip()


@dataclass(slots=True)
class Chained:
    """The channel `orders`, whose subscriptions send to the channel `stock` and to the broker `notes`."""

    orders: Installation
    stock: Installation
    notes: Installation
    ingress: Worker
    authority: Authority
    subscriber: ScriptedSubscriber
    tokens: Path
    own: Path
    sender: str  #: token of who posts to `orders`
    canaries: list[str] = field(default_factory=list)  #: own tokens

    @property
    def base(self) -> str:
        return f"https://127.0.0.1:{self.ingress.port}"

    def renew_own(self, name: str) -> None:
        """Another own token, in both files."""
        self.canaries.append(_new_token(self.tokens, name, "--channel", f"{NAMESPACE}/*", "--broker", f"{NAMESPACE}/*"))
        fresh = self.own.with_suffix(".new")
        fresh.write_text(self.canaries[-1] + "\n")
        fresh.rename(self.own)

    @property
    def env(self) -> dict[str, str]:
        """Of the process that delivers, with the setting."""
        return {
            "PENSTOCK_INGRESS_URL": self.base,
            "PENSTOCK_OWN_TOKEN": f"file:{self.own}",
            "SSL_CERT_FILE": str(self.authority.certificate),
            "PENSTOCK_LOG_LEVEL": "debug",
        }

    def post(self, event_id: str, token: str = "") -> int:
        """The answer to one event for `orders`; 0 = none."""
        headers = {"ce-specversion": "1.0", "ce-source": "/t", "ce-type": "t", "ce-id": event_id}
        headers["Authorization"] = f"Bearer {token or self.sender}"
        request = urllib.request.Request(f"{self.base}{self.orders.resources.path}", b"x", headers, method="POST")
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S, context=context) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as problem:
            return problem.code
        except OSError:
            return 0

    def arrived(self, path: str) -> set[str]:
        return {request.attributes["id"] for request in self.subscriber.requests(path)}

    def wait_arrived(self, what: str, at_stock: set[str], at_notes: set[str]) -> None:
        def both() -> bool:
            return self.arrived("/keeper") >= at_stock and self.arrived("/reader") >= at_notes

        wait_until(what, both, LIMIT_S)

    def write(self) -> None:
        """All resources."""
        stock, notes = self.stock.resources, self.notes.resources
        api = "messaging.knative.dev/v1beta1"
        ref = {"ref": {"apiVersion": api, "kind": "KafkaChannel", "name": stock.channel}}
        trusting = {**ref, "CACerts": self.authority.certificate.read_text()}
        script = self.subscriber.script
        enrich = script("/enrich", says(200, b"x", *REPLY, "ce-id: reply"))
        self.orders.write(
            [
                Wanted("enrich", enrich, reply=trusting, delivery=NEVER),
                Wanted("to-stock", f"{self.base}{stock.path}", delivery=NEVER),
                Wanted("to-notes", f"{self.base}{notes.path}", delivery=NEVER),
                Wanted("dying", script("/dying", says(400)), delivery={**NEVER, "deadLetterSink": trusting}),
                Wanted("foreign", script("/foreign", says(307, b"", f"location: {self.base}{stock.path}"))),
            ]
        )
        self.stock.write([Wanted("keeper", script("/keeper", says(202)))])
        self.notes.write([Wanted("reader", script("/reader", says(202)))])


@pytest.fixture(scope="module")
def chained(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chained]:
    folder = tmp_path_factory.mktemp("chained")
    authority = Authority(folder / "authority")
    signed, tokens = authority.sign("ingress"), folder / "tokens.yaml"
    orders = Installation(kafka.bootstrap, folder / "installation", channel="orders")
    env = {
        "PENSTOCK_TLS_CERT": str(signed.certificate),
        "PENSTOCK_TLS_KEY": str(signed.key),
        "PENSTOCK_TOKENS": f"file:{tokens}",
    }
    token = _new_token(tokens, "shop", "--channel", f"{NAMESPACE}/{orders.resources.channel}")
    with ScriptedSubscriber() as subscriber, orders.worker("ingress", controller=False, env=env) as ingress:
        notes = replace(orders, channel="notes", is_broker=True)
        own = folder / "own-token"
        chain = Chained(orders, orders.beside("stock"), notes, ingress, authority, subscriber, tokens, own, token)
        chain.renew_own("own")
        chain.write()
        yield chain
        assert ingress.terminate() == 0, ingress.tail()


def _ready(chained: Chained, worker: Worker) -> None:
    chained.orders.wait_subscribers(worker, 5)
    chained.stock.wait_subscribers(worker, 1)
    chained.notes.wait_triggers(["reader"])


def test_deliveries_without_the_setting_become_dead_letters(chained: Chained) -> None:
    env = {**chained.env, "PENSTOCK_OWN_TOKEN": ""}
    with chained.orders.worker(env=env) as worker:
        _ready(chained, worker)
        wait_until("the ingress takes it", lambda: chained.post("first") == 202, LIMIT_S)

        def reasons() -> dict[str, str]:
            letters = reader.records(chained.orders.bootstrap, chained.orders.resources.dlq_topic)
            return {
                reader.header(letter, "penstock-subscription"): reader.header(letter, "penstock-reason")
                for letter in letters
            }

        names = {f"{NAMESPACE}/{name}" for name in ("enrich", "to-stock", "to-notes", "dying", "foreign")}
        wait_until("all are dead letters", lambda: reasons().keys() == names, LIMIT_S)
        reason_of = reasons()
        assert all("401" in reason_of[f"{NAMESPACE}/{name}"] for name in ("enrich", "to-stock", "to-notes")), reason_of
        assert worker.terminate() == 0, worker.tail()
    assert chained.arrived("/keeper") == chained.arrived("/reader") == set()
    # Dead letters of before can be redriven with the token.
    settings = {**chained.env, "PENSTOCK_KAFKA": chained.orders.bootstrap, "PENSTOCK_INSTANCE": chained.orders.name}
    for name in ("enrich", "to-stock", "to-notes"):
        _command(settings, "dlq", "redrive", "--yes", "--subscription", f"{NAMESPACE}/{name}")
    stored = {
        reader.header(record, "ce_id")
        for record in reader.records(chained.orders.bootstrap, chained.stock.resources.topic)
    }
    assert stored == {"first", "reply"}


def test_deliveries_with_the_setting_arrive_and_nobody_else_gets_the_token(chained: Chained) -> None:
    with chained.orders.worker(env=chained.env) as worker:
        _ready(chained, worker)
        assert chained.post("second") == 202
        chained.wait_arrived("all are at the other channels", {"second", "reply"}, {"first", "second"})
        dead = [request.attributes.get("knativeerrorcode") for request in chained.subscriber.requests("/keeper")]
        wait_until(
            "the dead letter is there too",
            lambda: (
                "400"
                in [request.attributes.get("knativeerrorcode") for request in chained.subscriber.requests("/keeper")]
            ),
            LIMIT_S,
        )
        assert set(dead) <= {None, "400"}
        _replace_the_token(chained, worker)
        settings = _command(chained.env, "config", "show")
        assert f"file:{chained.own}" in settings
        pages = [get(worker.admin_port, page)[1].decode() for page in ("/", "/metrics", "/readyz")]
        wide = get(worker.admin_port, f"/subscribers/{NAMESPACE}/{chained.orders.resources.channel}?wide")[1].decode()
        assert worker.terminate() == 0, worker.tail()
        log = worker.output() + worker.log.read_text(errors="replace")
    assert "delivered" in log
    for path in ("/enrich", "/dying", "/foreign", "/keeper", "/reader"):
        assert chained.subscriber.requests(path), path
        for request in chained.subscriber.requests(path):
            assert request.header("authorization") is None, path
            _clean(chained, path, repr(request))
    _clean(chained, "output", "\n".join([settings, log, wide, *pages]))
    _nothing_is_stored(chained)


def _replace_the_token(chained: Chained, worker: Worker) -> None:
    chained.renew_own("own-2")
    wait_until("it is read", lambda: "changed files are used" in worker.log.read_text(), LIMIT_S)
    entries = chained.tokens.read_text().split("- name: ")
    chained.tokens.write_text("- name: ".join(entry for entry in entries if not entry.startswith("own\n")))
    wait_until("the former one is refused", lambda: chained.post("third", chained.canaries[0]) == 401, LIMIT_S)
    assert chained.post("fourth") == 202
    chained.wait_arrived("they still arrive", {"fourth"}, {"fourth"})


def _clean(chained: Chained, what: str, text: str) -> None:
    assert not any(canary in text for canary in chained.canaries), what


def _nothing_is_stored(chained: Chained) -> None:
    """Neither in files of the installation nor in a topic."""
    for path, content in contents(chained.orders.folder).items():
        _clean(chained, str(path), content.decode(errors="replace"))
    bootstrap, name = chained.orders.bootstrap, chained.orders.name
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics
    records = 0
    for topic in (topic for topic in topics if name in topic):
        for record in reader.records(bootstrap, topic):
            parts = [record.key(), record.value(), *itertools.chain.from_iterable(record.headers() or ())]
            _clean(chained, topic, repr(parts))
            records += 1
    assert records
