"""Settings: where values come from, what is refused and how, and that the reference page says the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic_settings import BaseSettings

from app import settings_reference
from app.settings import Settings, describe, load_settings
from app.settings_describe import MASK, is_secret, unit
from knative.errors import UsageError

APP = Path(settings_reference.__file__).parent


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting from the shell that runs the tests."""
    for name in [name for name in os.environ if name.upper().startswith("PENSTOCK_") or name == "PORT"]:
        monkeypatch.delenv(name)


def test_without_anything_every_value_is_its_default() -> None:
    rows = describe(load_settings())

    assert {row.source for row in rows} == {"default"}
    assert all(row.value == row.default for row in rows)


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_has_a_meaning_a_unit_and_a_default(name: str) -> None:
    field = Settings.model_fields[name]

    assert field.description
    assert field.description.endswith(".")
    assert unit(field)
    assert not field.is_required()


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_used(name: str) -> None:
    modules = [path for path in APP.rglob("*.py") if not path.name.startswith("settings")]

    assert any(f"settings.{name}" in path.read_text(encoding="utf-8") for path in modules)


def test_the_nearer_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_plain_port_counts_when_ours_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("egress_deny", "10.0.0.0/8, fd00::/8", ("10.0.0.0/8", "fd00::/8")),
        ("egress_allow_private", "false", False),
        ("admin_port", "0", 0),
        ("topic_template", "{namespace}.{name}", "{namespace}.{name}"),
    ],
)
def test_values_are_read(name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"PENSTOCK_{name.upper()}", text)

    assert getattr(load_settings(), name) == value


@pytest.mark.parametrize(
    ("name", "text", "reason", "cure"),
    [
        ("KAFKA", "kafka", "host:port", "127.0.0.1:9092"),
        ("KAFKA", "http://a:1", "without a scheme", "127.0.0.1:9092"),
        ("KAFKA", "a:0", "host:port", "127.0.0.1:9092"),
        ("KAFKA", ",", "no broker", "127.0.0.1:9092"),
        ("RESOURCES", "some/dir", "file:DIR", "source"),
        ("RESOURCES", "file:", "no directory", "source"),
        ("INSTANCE", "A b", "lower-case", "penstock"),
        ("ROLE", "everything", "'all'", "one of all, ingress, dispatcher, controller"),
        ("HTTP_PORT", "70000", "65535", "a whole number from 1 to 65535 (port), such as 8080"),
        ("HTTP_PORT", "", "integer", "such as 8080"),
        ("DRAIN_S", "soon", "number", "from 0 to 3600 (seconds), such as 20"),
        ("DRAIN_S", "nan", "3600", "seconds"),
        ("EVENT_BYTES_MAX", "1000", "65536", "bytes"),
        ("BACKOFF_DEFAULT", "0.2", "ISO-8601", "PT0.2S"),
        ("EGRESS_DENY", "10.0.0.1/8", "host bits", "CIDR"),
        ("BIND", "localhost", "IPv4", "0.0.0.0"),
        ("TOPIC_TEMPLATE", "{name}", "{namespace}", "knative-messaging-kafka"),
        ("WORKER_ID", "a b", "pattern", "name"),
        ("OTLP_ENDPOINT", "collector:4318", "http://host:port", "URL"),
        ("OTLP_ENDPOINT", "http://", "http://host:port", "URL"),
        ("OTLP_ENDPOINT", "http://h:99999", "out of range", "URL"),
        ("OTLP_ENDPOINT", "http://u:p@h:4318", "OTEL_EXPORTER_OTLP_HEADERS", "URL"),
        ("TRACE_RATIO", "1.5", "less than or equal to 1", "ratio"),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_reason_and_cure(
    name: str, text: str, reason: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PENSTOCK_{name}", text)

    with pytest.raises(UsageError) as refusal:
        load_settings()

    (sentence,) = str(refusal.value).splitlines()
    assert sentence.startswith(f"PENSTOCK_{name}={text!r} from the environment is wrong: ")
    assert reason in sentence
    assert cure in sentence
    assert refusal.value.exit_code == 2


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
    ("values", "told"),
    [
        ({"role": "controller"}, "PENSTOCK_RESOURCES"),
        ({"http_port": "8081"}, "both 8081"),
        ({"status_ttl_s": "3"}, "PENSTOCK_STATUS_INTERVAL_S"),
        ({"ingress_bytes_max": "65536"}, "PENSTOCK_EVENT_BYTES_MAX"),
    ],
)
def test_values_that_contradict_each_other_are_refused(values: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        load_settings(values)


def test_an_unknown_variable_is_warned_about_with_the_nearest_name(
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


def test_an_unknown_override_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"http_prot is no setting .did you mean PENSTOCK_HTTP_PORT"):
        load_settings({"http_prot": "1"})


def test_a_settings_file_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "none.env"))

    with pytest.raises(UsageError, match="names no file"):
        load_settings()


def test_secrets_are_masked() -> None:
    class WithSecret(BaseSettings):
        password: SecretStr = SecretStr("")

    (row,) = describe(WithSecret(password=SecretStr("hunter2")))

    assert row.value == MASK
    assert row.default == ""
    assert is_secret(WithSecret.model_fields["password"])


def test_the_reference_page_is_what_the_settings_say() -> None:
    assert settings_reference.PAGE.read_text(encoding="utf-8") == settings_reference.page()


def test_a_settings_value_made_in_a_test_does_not_see_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HEADERS_MAX", "17")

    assert Settings().headers_max == 128
    assert load_settings().headers_max == 17
