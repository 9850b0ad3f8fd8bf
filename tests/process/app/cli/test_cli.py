"""The command line as a process: exit codes, one sentence for an error, JSON where it is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import free_port, penstock


def test_version_is_printed_and_wrong_usage_is_code_2() -> None:
    assert penstock("--version").stdout == "penstock 0.1.0\n"
    wrong = penstock("kafka", "up", "--port", "none")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--show-completion", "tcsh"], 2, "Write bash, zsh, fish"),
        (["send", "--channel", "x"], 2, "Write NAMESPACE/NAME"),
        (["send", "--data", "x", "--data-file", "y"], 2, "Remove one of these options"),
        (["send", "--data-file", "/no/such/file"], 2, "cannot be read"),
        (["send", "--attribute", "Bad Name=1", "--url", "http://127.0.0.1:1/"], 2, "not a valid CloudEvent"),
        (["send", "--url", "ftp://x"], 2, "is not a valid URL"),
        (["tail", "--last", "1", "--from-beginning"], 2, "Remove one of these options"),
        (["statsu"], 2, "No such command 'statsu'. Did you mean 'status'? See `penstock --help`."),
        (["tail", "--lst", "3"], 2, "No such option: --lst. Did you mean --last? See `penstock tail --help`."),
        (["status", "-o", "nope"], 2, "Invalid value for '--output' / '-o': 'nope' is not one of 'table', 'wide'"),
        (["send", "--count", "x"], 2, "'-n': it should be a valid integer. See `penstock send --help`."),
        (["remove"], 2, "No resources are chosen. Write KIND/NAMESPACE/NAME"),
        (["remove", "Subscription/ns/a", "--unlisted"], 2, "cannot be combined"),
        (["seek"], 2, "Missing argument 'SUBSCRIPTION'. See `penstock seek --help`."),
        (["worker", "--set", "nonsense"], 2, "NAME=VALUE"),
        (["tail", "ns/ch", "--filter", "type"], 2, "Write ATTRIBUTE=VALUE"),
        (["tail", "ns/ch", "--since", "soon"], 2, "RFC 3339"),
        (["dlq", "redrive"], 2, "--all"),
        (["dlq", "redrive", "t/0/1", "--reason", "x"], 2, "Remove one of these options"),
        (["dlq", "redrive", "--all", "--rate", "fast"], 2, "Write N/s"),
        (["dlq", "list", "--until", "then"], 2, "--until"),
        (["worker", "--web-port", "none"], 2, "PENSTOCK_HTTP_PORT"),
        (["up", "--resources", "/no/such/folder"], 2, "no directory"),
    ],
)
def test_error_is_one_sentence_with_a_hint(arguments: list[str], code: int, says: str) -> None:
    done = penstock(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_every_command_names_a_variable_that_is_not_a_setting(tmp_path: Path) -> None:
    for command in (["validate", str(tmp_path)], ["config", "show"]):
        done = penstock(*command, settings={"PENSTOCK_HTTPPORT": "1"})
        assert done.stderr.count("(did you mean PENSTOCK_HTTP_PORT?)") == 1, command


def test_send_without_a_worker_is_not_ready() -> None:
    done = penstock("send", "--server", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 3
    assert "penstock up" in done.stderr


def test_config_show_lists_settings_as_json() -> None:
    settings = json.loads(penstock("config", "show", "-o", "json").stdout)
    assert {"PENSTOCK_KAFKA", "PENSTOCK_HTTP_PORT"} <= {row["name"] for row in settings}


def test_doctor_with_a_wrong_setting_has_one_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_RESOURCES", "kube:dir")
    done = penstock("doctor")
    assert done.returncode == 1
    assert done.stderr == "1 check: 1 problem, 0 warnings.\n"
    assert done.stdout.startswith("problem  settings: PENSTOCK_RESOURCES='kube:dir' from the environment is not valid")
