"""Settings: where values come from, what is refused and how, and that the reference page says the same."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path

import pytest
from annotated_types import Le
from confluent_kafka import Consumer, Producer
from pydantic import BaseModel, SecretStr

from agents.config import DeliveryConfig
from agents.reader.settings import consumer_settings
from app.settings import reference
from app.settings.describe import MASK, allowed, is_secret, unit
from app.settings.load import Settings, describe, load_settings
from app.worker.producer.config import ProducerConfig
from controller.config import KIB, ControllerConfig
from controller.plan.channels import topic_configs
from controller.plan.specs import of_channel
from knative.errors import UsageError
from knative.resources.values import KafkaChannel

APP = Path(reference.__file__).parents[1]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting from the shell that runs the tests."""
    for name in [name for name in os.environ if name.upper().startswith("PENSTOCK_") or name == "PORT"]:
        monkeypatch.delenv(name)


def test_without_anything_every_value_is_its_default() -> None:
    rows = describe(load_settings())

    assert {row.source for row in rows} == {"default"}
    assert all(row.value == row.default for row in rows)


def test_every_setting_has_a_meaning_a_unit_and_a_default() -> None:
    incomplete = [
        name
        for name, field in Settings.model_fields.items()
        if not (field.description or "").endswith(".") or not unit(field) or field.is_required()
    ]
    assert incomplete == []


def test_every_setting_is_used() -> None:
    modules = [path for path in APP.rglob("*.py") if path.parent.name != "settings" or path.name == "kafka.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in modules)

    assert [name for name in Settings.model_fields if f"settings.{name}" not in code] == []


def test_nearer_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "penstock.env"
    file.write_text(
        "# ours\nPENSTOCK_HEADERS_MAX=16\nPENSTOCK_DRAIN_S=1\nPENSTOCK_KAFKA=file:1\nPENSTOCK_HTTP_PORT=2\n"
    )
    monkeypatch.setenv("PENSTOCK_CONFIG", str(file))
    monkeypatch.setenv("PORT", "1")
    monkeypatch.setenv("PENSTOCK_DRAIN_S", "2")
    monkeypatch.setenv("PENSTOCK_KAFKA", "environment:2")

    settings = load_settings({"kafka": "given:3"})
    sources = {row.name: row.source for row in describe(settings)}

    assert (settings.headers_max, settings.drain_s, settings.kafka, settings.http_port) == (16, 2.0, "given:3", 2)
    assert sources["PENSTOCK_HEADERS_MAX"] == f"file {file}"
    assert sources["PENSTOCK_DRAIN_S"] == "environment"
    assert sources["PENSTOCK_KAFKA"] == "command line"
    assert sources["PENSTOCK_LOG_LEVEL"] == "default"


def test_plain_port_counts_when_ours_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "9000")
    plain = load_settings()
    monkeypatch.setenv("PENSTOCK_HTTP_PORT", "9001")

    assert plain.http_port == 9000
    assert plain.sources["http_port"] == "environment (PORT)"
    assert load_settings().http_port == 9001


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("kafka", " a:1 , b.example:65535,[::1]:9092,", "a:1,b.example:65535,[::1]:9092"),
        ("resources", "file:some/dir", "file:some/dir"),
        ("resources", "cluster:shop", "cluster:shop"),
        ("egress_deny", "10.0.0.0/8, fd00::/8", ("10.0.0.0/8", "fd00::/8")),
        ("egress_allow_private", "false", False),
        ("admin_port", "0", 0),
        ("ingress_url", "https://events.example", "https://events.example"),
        ("topic_template", "{namespace}.{name}", "{namespace}.{name}"),
    ],
)
def test_value_has_its_kind(name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PENSTOCK_{name.upper()}", text)

    assert getattr(load_settings(), name) == value


@pytest.mark.parametrize(
    ("text", "folder"),
    [("file:some/dir", "some/dir"), ("some/dir", "some/dir"), ("/dir", "/dir"), ("./a:b", "a:b"), ("cluster:", None)],
)
def test_path_without_a_scheme_is_a_directory(text: str, folder: str | None) -> None:
    assert load_settings({"resources": text}).resources_dir == (None if folder is None else Path(folder))


@pytest.mark.parametrize(
    ("name", "text", "reason", "hint"),
    [
        ("KAFKA", "kafka", "host:port", "127.0.0.1:9092"),
        ("KAFKA", "http://a:1", "without a scheme", "127.0.0.1:9092"),
        ("KAFKA", "a:0", "host:port", "127.0.0.1:9092"),
        ("KAFKA", ",", "no broker", "127.0.0.1:9092"),
        ("INGRESS_URL", "localhost:8080", "absolute http or https", "http://localhost:8080"),
        ("INGRESS_URL", "http://a:8080/path", "has a path", "http://localhost:8080"),
        ("RESOURCES", "http://a/b", "a directory and a cluster", "; set it to DIR, file:DIR or cluster:[NS,...], such"),
        ("RESOURCES", "cluster", "written cluster:", "such as my-resources."),
        ("RESOURCES", "file:", "no directory", "such as my-resources."),
        ("RESOURCES", " ", "no directory", "such as my-resources."),
        ("CLUSTER_DOMAIN", "foo bar/", "not a valid domain name", "; set it to a domain, such as cluster.local."),
        ("CLUSTER_DOMAIN", "", "not a valid domain name", "such as cluster.local"),
        ("CLUSTER_DOMAIN", ".".join(["a" * 60] * 3), "120 characters", "such as cluster.local"),
        ("INSTANCE", "A b", "lower-case", "penstock"),
        ("ROLE", "everything", "is not valid; set it to", "one of all, ingress, dispatcher, controller."),
        ("HTTP_PORT", "70000", "65535", "a whole number from 1 to 65535 (port), such as 8080"),
        ("HTTP_PORT", "", "integer", "such as 8080"),
        ("DRAIN_S", "soon", "number", "from 0 to 3600 (seconds), such as 20"),
        ("DRAIN_S", "nan", "3600", "seconds"),
        ("EVENT_BYTES_MAX", "1000", "65536", "bytes"),
        ("BACKOFF_DEFAULT", "0.2", "ISO-8601", "PT0.2S"),
        ("EGRESS_DENY", "10.0.0.1/8", "host bits", "a CIDR, comma-separated, such as 10.0.0.0/8"),
        ("BIND", "localhost", "IPv4", "0.0.0.0"),
        ("TOPIC_TEMPLATE", "{name}", "{namespace}", "knative-messaging-kafka"),
        ("PROCESSES", "0", "from 1 to 99", "a number or auto, such as 1"),
        ("PROCESSES", "all", "or auto", "a number or auto, such as 1"),
        ("WORKER_ID", "a b", "pattern", "a name, such as worker-1"),
        ("OTLP_ENDPOINT", "collector:4318", "http://host:port", "URL"),
        ("OTLP_ENDPOINT", "http://", "http://host:port", "URL"),
        ("OTLP_ENDPOINT", "http://h:99999", "out of range", "URL"),
        ("STATUS_INTERVAL_S", "5", "less than or equal to 4", "from 0.2 to 4 (seconds), such as 2"),
        ("FETCH_BYTES", "99999999999", "1073741824", "bytes"),
        ("GC_THRESHOLD", "1000000000000", "1000000000", "objects"),
        ("DLQ_RETENTION_S", "9" * 21, "3153600000", "seconds"),
        ("TRAFFIC_RETENTION_S", "9" * 21, "3153600000", "seconds"),
        ("LINGER_MS", "0.5", "integer", "a whole number from 0 to 5 (milliseconds), such as 2"),
        ("TRACE_RATIO", "1.5", "less than or equal to 1", "ratio"),
    ],
)
def test_invalid_value_is_rejected_with_name_value_reason_and_hint(
    name: str, text: str, reason: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PENSTOCK_{name}", text)

    with pytest.raises(UsageError) as refusal:
        load_settings()

    (sentence,) = str(refusal.value).splitlines()
    assert sentence.startswith(f"PENSTOCK_{name}={text!r} from the environment is not valid")
    assert reason in sentence
    assert hint in sentence
    assert refusal.value.exit_code == 2


def test_every_whole_number_has_a_largest_value() -> None:
    limits = {name: allowed(field) for name, field in Settings.model_fields.items() if field.annotation is int}

    assert [name for name, phrase in limits.items() if " to " not in phrase] == []


def test_largest_values_are_taken_by_the_clients_too() -> None:
    names = ("fetch_bytes", "event_bytes_max", "ingress_bytes_max", "gc_threshold")
    settings = load_settings({name: str(_most(name)) for name in names})
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    delivery = DeliveryConfig(kafka=nowhere, fetch_bytes=settings.fetch_bytes, event_bytes_max=settings.event_bytes_max)
    producing = ProducerConfig(
        nowhere, "p", message_bytes_max=settings.event_bytes_max + 524_288,
        queue_bytes_max=2 * settings.ingress_bytes_max,
    )  # fmt: skip

    Consumer(consumer_settings(delivery, "g", "c", "c-1")).close()
    Producer(producing.client())
    before = gc.get_threshold()
    gc.set_threshold(settings.gc_threshold, *before[1:])
    gc.set_threshold(*before)


def test_largest_head_fits_a_record_beside_the_largest_body() -> None:
    """So does a key of 64 KiB, which is in the record twice; what is larger yet is answered 413."""
    event_bytes = load_settings().event_bytes_max
    config = ControllerConfig(kafka={}, resources_dir=Path(), state_dir=Path(), event_bytes_max=event_bytes)
    channel = KafkaChannel("demo", "orders")
    topic_bytes_max = int(dict(topic_configs(of_channel(channel, config), config))["max.message.bytes"])
    framing_bytes = 8 * KIB  # of the batch, and of each header where there are many short ones

    assert event_bytes + _most("header_bytes_max") + 64 * KIB + framing_bytes <= topic_bytes_max


def _most(name: str) -> int:
    (limit,) = (constraint.le for constraint in Settings.model_fields[name].metadata if isinstance(constraint, Le))
    assert isinstance(limit, int)
    return limit


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OTLP_ENDPOINT", "http://u:hunter2@h:4318"),
        ("KAFKA", "user:hunter2@h:9092"),
        ("KAFKA", "a:1,user:hun,ter2@h:9092"),
        ("KAFKA", "sasl://user:hunter2/@h:9092"),
        ("HTTP_PORT", "user:hunter2@h"),
    ],
)
def test_no_refusal_shows_a_password(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PENSTOCK_{name}", text)

    with pytest.raises(UsageError) as refusal:
        load_settings()

    assert MASK in str(refusal.value)
    assert not any(part in str(refusal.value) for part in ("hun", "ter2", "user:"))


def test_no_row_shows_a_password() -> None:
    url = "https://user:hunt@er2@h.example/~a@b"
    rows = {row.name: row.value for row in describe(Settings(spark_master=url, state_dir=Path("/home/a@b")))}

    assert rows["PENSTOCK_SPARK_MASTER"] == f"https://{MASK}@h.example/~a@b"
    assert rows["PENSTOCK_STATE_DIR"] == "/home/a@b"


def test_all_problems_are_listed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "x")
    monkeypatch.setenv("PENSTOCK_ADMIN_PORT", "-1")

    with pytest.raises(UsageError) as refusal:
        load_settings({"role": "king"})

    first, second, third = str(refusal.value).splitlines()
    assert first.startswith("PENSTOCK_ROLE='king' from the command line")
    assert second.startswith("PORT='x' from the environment (PORT)")
    assert third.startswith("PENSTOCK_ADMIN_PORT='-1'")


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({"role": "controller"}, "PENSTOCK_RESOURCES"),
        ({"http_port": "8081"}, "both 8081"),
        (
            {"instance": "mine", "topic_template": "mine.{namespace}.{name}"},
            "for example mine-events",
        ),
        (
            {"instance": "mine", "broker_topic_template": "mine.{namespace}.{name}"},
            "PENSTOCK_BROKER_TOPIC_TEMPLATE=mine.*for example mine-events",
        ),
        ({"ingress_bytes_max": "65536"}, "PENSTOCK_EVENT_BYTES_MAX"),
        ({"own_token": "file:token"}, "sent only to the address of PENSTOCK_INGRESS_URL, which is not set"),
        (
            {"console": "read", "admin_bind": "0.0.0.0"},
            "would let everybody in; also set PENSTOCK_CONSOLE_TOKENS=file:FILE",
        ),
        ({"console": "write", "admin_bind": "::"}, "PENSTOCK_CONSOLE=write with PENSTOCK_ADMIN_BIND=::"),
    ],
)
def test_contradicting_values_are_rejected(values: dict[str, str], reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        load_settings(values)


def test_unknown_variable_is_warned_about_with_the_nearest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "penstock.env"
    file.write_text("PENSTOCK_HEADER_MAX=1\nOTHER=1\n")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(file))
    monkeypatch.setenv("PENSTOCK_KAFKAS", "a:1")

    first, second = load_settings().warnings

    assert first.startswith("PENSTOCK_KAFKAS (from the environment)")
    assert "did you mean PENSTOCK_KAFKA?" in first
    assert "did you mean PENSTOCK_HEADERS_MAX?" in second


@pytest.mark.parametrize(
    ("role", "processes", "count"),
    [("controller", "2", 1), ("controller", "auto", 0), ("controller", "1", 0), ("ingress", "2", 0)],
)
def test_several_processes_of_a_controller_are_warned_about(role: str, processes: str, count: int) -> None:
    warnings = load_settings({"role": role, "processes": processes, "resources": "cluster:"}).warnings
    assert len(warnings) == count
    assert all("PENSTOCK_PROCESSES=2 has no effect" in warning for warning in warnings)


def test_unknown_override_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"http_prot is not a setting .did you mean PENSTOCK_HTTP_PORT"):
        load_settings({"http_prot": "1"})


def test_settings_file_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "none.env"))

    with pytest.raises(UsageError, match="does not exist"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("PENSTOCK_DRAIN_S=5\nPENSTOCK_HTTP_PORT='90\n", "Line 2 of the settings file "),
        ("\n= 7\nPENSTOCK_DRAIN_S\n", "Lines 2, 3 of the settings file "),
    ],
)
def test_line_that_cannot_be_read_is_an_error(
    text: str, reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker must not go on with the default of what it says."""
    file = tmp_path / "penstock.env"
    file.write_text(text)
    monkeypatch.setenv("PENSTOCK_CONFIG", str(file))

    with pytest.raises(UsageError) as refusal:
        load_settings()

    assert str(refusal.value).startswith(f"{reported}{file} cannot be read. Write PENSTOCK_NAME=value")


def test_secrets_are_masked() -> None:
    class WithSecret(BaseModel):
        password: SecretStr = SecretStr("")

    (row,) = describe(WithSecret(password=SecretStr("hunter2")))

    assert row.value == MASK
    assert row.default == ""
    assert is_secret(WithSecret.model_fields["password"])


def test_reference_page_is_what_the_settings_say() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page()


def test_settings_value_made_in_a_test_does_not_see_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HEADERS_MAX", "17")

    assert Settings().headers_max == 512
    assert load_settings().headers_max == 17


def test_names_of_the_how_to_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[4] / "docs/how-to/use-your-own-kafka.md").read_text()
    for name, value in re.findall(r"^export (PENSTOCK_\w+)='?([^'\n]+)'?$", text, re.MULTILINE):
        monkeypatch.setenv(name, value)
    settings = load_settings({})
    assert (settings.instance, settings.topic_template) == ("mine", "mine-events.{namespace}.{name}")
