"""What each role imports until it is ready: packages of others, and our own folders. Nothing that it does not use.

A new line here takes memory and CPU from every process of the role: most of what a worker holds is what it imports.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.local.kafka import EmbeddedKafka
from tests.support.installation import Installation
from tests.support.processes import Child, free_port, get, wait_until

pytestmark = pytest.mark.system

LIMIT_S = 180.0
#: Libraries that every worker uses. Faust and mode import several of them.
EVERY = {
    "aiokafka", "click", "colorlog", "confluent_kafka", "faust", "httptools", "idna", "intervaltree", "mode",
    "multidict", "mypy_extensions", "orjson", "prometheus_client", "propcache", "sortedcontainers", "structlog",
    "terminaltables", "typing_extensions", "uvloop", "venusian", "yarl",
    # For the settings.
    "annotated_types", "pydantic", "pydantic_core", "typing_inspection",
}  # fmt: skip
#: Of packages that some roles use, what every worker uses: settings and small values.
OWN = {
    "agents.config", "agents.dispatch.own_kafka", "controller.config", "controller.kafka.internal_topics",
    "knative.cesql.limits", "knative.cesql.values", "web.console.limits", "web.console.safety", "web.console.sessions",
}  # fmt: skip
CONTROLLER = {"async_timeout", "cramjam", "packaging", "tenacity", "yaml"}
#: Role -> further libraries, and the packages of ours that it uses as a whole.
ROLES: dict[str, tuple[set[str], set[str]]] = {
    "ingress": (set(), set()),
    "dispatcher": ({"async_timeout", "packaging", "tenacity"}, {"agents"}),
    "controller": (CONTROLLER, {"controller"}),
    "all": (CONTROLLER, {"agents", "controller"}),
}
#: Packages that a role can do without.
_OPTIONAL = (
    "agents",
    "analytics",
    "app.cli",
    "app.operations",
    "controller",
    "knative.cesql",
    "penstock",
    "web.console",
)
_KNOWN = {*sys.stdlib_module_names, "agents", "analytics", "app", "controller", "knative", "penstock", "tables", "web"}
#: Only where tests run: optional for libraries, and not installed with Penstock, or of the environment.
_KNOWN |= {"colorama", "cython_runtime", "greenlet", "sitecustomize"}

#: Runs a worker, and writes its modules when a file appears.
_PROGRAM = """
import json, os, sys, threading, time

def tell(asked, answer):
    while not os.path.exists(asked):
        time.sleep(0.1)
    modules = [name for name, module in list(sys.modules.items()) if module is not None]
    with open(answer + ".new", "w") as file:
        json.dump(modules, file)
    os.rename(answer + ".new", answer)

threading.Thread(target=tell, args=sys.argv[1:3], daemon=True).start()
sys.argv[1:] = ["worker", "-l", "info"]
from app.__main__ import main
main()
"""


def _imported(role: str, installation: Installation, folder: Path) -> tuple[set[str], set[str]]:
    """Packages of others, and our modules that are optional."""
    asked, answer, port, admin_port = folder / "asked", folder / "answer", free_port(), free_port()
    env = {
        "PENSTOCK_INSTANCE": installation.name,
        "PENSTOCK_KAFKA": installation.bootstrap,
        "PENSTOCK_STATE_DIR": str(installation.state),
        "PENSTOCK_ROLE": role,
        "PENSTOCK_HTTP_PORT": str(port),
        "PENSTOCK_ADMIN_PORT": str(admin_port),
    }
    installation.write([])
    if role in ("all", "controller"):
        env["PENSTOCK_RESOURCES"] = f"file:{installation.resources.folder}"
    command = [sys.executable, "-c", _PROGRAM, str(asked), str(answer)]
    with Child(f"worker-{role}", command, folder, env) as worker:

        def is_ready() -> bool:
            assert worker.running, worker.tail()
            return get(port, "/readyz")[0] == 200 and get(admin_port, "/metrics")[0] == 200

        wait_until(f"the {role} is ready", is_ready, LIMIT_S)
        asked.touch()
        wait_until("it says its modules", answer.exists, LIMIT_S)
        assert worker.terminate() == 0
    modules = set(json.loads(answer.read_text()))
    packages = {name.rpartition(".")[0] for name in modules}
    return (
        {name for name in modules - _KNOWN if "." not in name and not name.startswith("_")},
        {name for name in modules - packages if f"{name}.".startswith(tuple(f"{each}." for each in _OPTIONAL))},
    )


@pytest.mark.parametrize("role", ROLES)
def test_role_imports_what_it_uses(role: str, kafka: EmbeddedKafka, tmp_path: Path) -> None:
    others, own = _imported(role, Installation(kafka.bootstrap, tmp_path), tmp_path)
    further, whole = ROLES[role]
    assert others == EVERY | further
    assert {name for name in own if name.partition(".")[0] not in whole} == {
        name for name in OWN if name.partition(".")[0] not in whole
    }
