"""Rules about the code that no linter knows: who may import and open what, and how large things grow."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("knative", "tables", "agents", "web", "controller", "analytics", "penstock", "app")
OURS = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TESTS = ROOT / "tests"
CONNECTION = ROOT / "tables" / "kafka" / "connection"
ALL = OURS + sorted(TESTS.rglob("*.py")) + sorted((ROOT / "benchmarks").rglob("*.py"))

#: `app` starts processes and asks them how they are; the rule is about the data path, except the sender and the check
#: whether anything listens at Kafka's address.
PUNCTUAL_CLIENT = ROOT / "tables" / "kafka" / "admin" / "punctual_client.py"
LISTENING = ROOT / "web" / "http" / "listening.py"  # it connects to nobody
WITHOUT_SOCKETS = [
    path
    for path in OURS
    if not path.is_relative_to(ROOT / "app")
    and path != ROOT / "penstock" / "client.py"
    and not str(path.relative_to(ROOT)).startswith("agents/http/")
    and path not in (CONNECTION / "probe.py", CONNECTION / "python_clients.py", PUNCTUAL_CLIENT, LISTENING)
]

#: They say that something was looked for, not what it is.
NAMELESS = ("one", "found", "wanted", "known", "shown", "there")

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400
#: Numbers with a name, of modules: each is a decision that whoever changes the code must know. No package may have more
#: than these. A name that hides several in a table is worse than several names.
NUMBERS = {"knative": 58, "tables": 32, "agents": 64, "web": 7, "controller": 34, "analytics": 50, "app": 74}
_CONSTANT = re.compile("_?[A-Z][A-Z0-9_]*")

#: Ways to open a connection; what listens (web/) or speaks Kafka's protocol is not among them.
_CONNECTING_MODULES = ("socket", "http.client", "urllib.request", "ftplib", "smtplib", "requests", "httpx")
_CONNECTING_CALLS = ("create_connection", "open_connection", "create_unix_connection", "sock_connect", "ClientSession")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path), filename=str(path))


def _imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Dotted names: modules, and what is taken from them (`http.client`)."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The last part of the name of everything that is called."""
    for node in nodes:
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                yield function.attr
            elif isinstance(function, ast.Name):
                yield function.id


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the rules ask about one file. Trees of all files would be millions of objects to keep."""

    lines: int
    imported: frozenset[str]
    called: frozenset[str]
    long_functions: dict[str, int]
    nameless: tuple[str, ...]  #: line and name of variables and parameters
    numbers: int


@cache
def _facts(path: Path) -> _Facts:
    nodes = tuple(ast.walk(_tree(path)))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lengths = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions]
    return _Facts(
        _text(path).count("\n"),
        frozenset(_imported(nodes)),
        frozenset(_called(nodes)),
        {name: count for name, count in lengths if count > FUNCTION_LINES_MAX},
        _nameless(nodes),
        _numbers(_tree(path)),
    )


def _numbers(tree: ast.Module) -> int:
    """How many names of the module stand for a number, or for a tuple of numbers."""
    count = 0
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                count += sum(
                    isinstance(name, ast.Name) and bool(_CONSTANT.fullmatch(name.id)) and _is_number(value)
                    for name, value in _assigned(target, node.value)
                )
    return count


def _assigned(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(_is_number, node.elts))
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.UnaryOp) and _is_number(node.operand)


def _nameless(nodes: Collection[ast.AST]) -> tuple[str, ...]:
    """Line and name of the variables and parameters that are not called by what they hold."""
    names = [(node.lineno, node.id) for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    names += [(node.lineno, node.arg) for node in nodes if isinstance(node, ast.arg)]
    return tuple(f"{line} {name}" for line, name in sorted(names) if name in NAMELESS)


def _beyond_the_library(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _facts(path).imported} - {*sys.stdlib_module_names, "knative"}


def _connections(path: Path) -> set[str]:
    imported = _facts(path).imported
    modules = {name for name in imported for kind in _CONNECTING_MODULES if f"{name}.".startswith(f"{kind}.")}
    return modules | (_facts(path).called & {*_CONNECTING_CALLS})


def _offenders(paths: Iterable[Path], rule: Callable[[Path], object]) -> dict[str, object]:
    """What breaks a rule, by file."""
    return {_name(path): offences for path in paths if (offences := rule(path))}


def test_rules_are_about_files_that_are_there() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in ALL} == {*PACKAGES, "tests", "benchmarks"}
    assert set(WITHOUT_SOCKETS) < set(OURS)


def test_pure_core_imports_the_standard_library_and_a_parser_generator_only() -> None:
    core = (path for path in OURS if path.is_relative_to(ROOT / "knative"))
    assert _offenders(core, _beyond_the_library) == {"knative/cesql/parser.py": {"lark"}}


def test_only_the_sender_opens_connections_to_subscribers() -> None:
    assert _offenders((ROOT / "agents" / "http").rglob("*.py"), _connections)
    assert _offenders(WITHOUT_SOCKETS, _connections) == {}


def test_functions_and_files_stay_short() -> None:
    assert _offenders(ALL, lambda path: _facts(path).long_functions) == {}
    assert _offenders(ALL, lambda path: max(0, _facts(path).lines - FILE_LINES_MAX)) == {}


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("for one in rows: pass", True),
        ("ids = [row.id for number, one in rows]", True),
        ("key = lambda wanted: wanted.id", True),
        ("with lock as known: pass", True),
        ("if found := find(): pass", True),
        ("for row in rows: print(row.one, 'one', found)", False),
    ],
)
def test_rule_about_names_finds_what_it_is_for(text: str, is_found: bool) -> None:
    assert bool(_nameless([*ast.walk(ast.parse(text))])) is is_found


def test_variables_are_called_by_what_they_hold() -> None:
    """A variable is called by a noun that says what it is."""
    assert _offenders(ALL, lambda path: _facts(path).nameless) == {}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("LIMIT_S = 8.0", 1),
        ("_KEEP_S = 8 * 86_400.0", 1),
        ("LEAST, MOST = -(2**31), 2**31 - 1", 2),
        ("BACKOFF_S = (1.0, 60.0)", 1),
        ("LIMIT_S: float = 8", 1),
        ("NAME = 'x'\nON = True\nNONE = ()\nlimit = 8\nBOTH = (1, 'x')\nHALF_S = LIMIT_S / 2", 0),
        ("class Sizes:\n    MOST = 8", 0),
    ],
)
def test_rule_about_numbers_finds_what_it_is_for(text: str, numbers: int) -> None:
    assert _numbers(ast.parse(text)) == numbers


def test_no_package_gets_more_numbers_with_a_name() -> None:
    counts = {package: sum(_facts(path).numbers for path in (ROOT / package).rglob("*.py")) for package in PACKAGES}
    assert {name: most for name, most in NUMBERS.items() if counts[name] > most} == {}, counts


def test_our_names_are_ours() -> None:
    places = {package: importlib.import_module(package).__file__ for package in PACKAGES}

    assert {name: at for name, at in places.items() if at is None or not Path(at).is_relative_to(ROOT)} == {}


def test_no_dependency_ships_a_package_with_one_of_our_names() -> None:
    taken = {
        f"{distribution.name}: {file.parts[0]}"
        for distribution in distributions()
        if distribution.name != "penstock"
        for file in distribution.files or ()
        if file.parts[0].removesuffix(".py") in PACKAGES
    }

    assert not taken


#: What makes a librdkafka client. Its length is the number of its messages on the way: at rest it is falsy.
_CLIENTS = ("AdminClient", "Consumer", "Producer")


def _mentions_client(node: ast.AST | None) -> bool:
    """An annotation, or a value, that names one of the clients."""
    return node is not None and any(isinstance(part, ast.Name) and part.id in _CLIENTS for part in ast.walk(node))


def _makes_client(node: ast.AST | None) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id in _CLIENTS


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _client_names(tree: ast.Module) -> set[str]:
    """Variables, parameters and attributes of a file that hold a client, by what they are annotated with or given."""
    names: set[str] = set()
    if not any(name.startswith("confluent_kafka") for name in _imported(ast.walk(tree))):
        return names  # a class of its own that has the same name
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and _mentions_client(node.annotation):
            names.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _mentions_client(node.annotation):
            names.add(_last_name(node.target))
        elif isinstance(node, ast.Assign) and _makes_client(node.value):
            names.update(_last_name(target) for target in node.targets)
    return names - {""}


def _truth_tested(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node.operand
        elif isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs


def _tested_clients(tree: ast.Module) -> list[str]:
    """Names of clients that are asked whether they are true, which none is at rest."""
    names = _client_names(tree)
    return [_last_name(node) for node in _truth_tested(tree) if _last_name(node) in names]


def _made_on_the_loop(tree: ast.Module) -> list[str]:
    """Coroutine functions that make a client themselves; what they define or hand to a thread is another matter."""
    names = []
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]:
        waiting: list[ast.AST] = list(function.body)
        while waiting:
            node = waiting.pop()
            if _makes_client(node):
                names.append(function.name)
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                waiting.extend(ast.iter_child_nodes(node))
    return names


@pytest.mark.parametrize(
    ("text", "tested", "made"),
    [
        ("async def f(admin: AdminClient | None):\n    admin = admin or AdminClient({})", ["admin"], ["f"]),
        ("class A:\n    def f(self):\n        self._p = Producer({})\n        if not self._p: g()", ["_p"], []),
        ("def f(consumer: Consumer):\n    while consumer: consumer.poll(1)", ["consumer"], []),
        ("def f():\n    one = None\n    if one is None: one = Consumer({})", [], []),
        ("async def f():\n    await to_thread(Producer, {})\n    def g(): return Producer({})", [], []),
    ],
)
def test_rules_about_kafka_clients_find_what_they_are_for(text: str, tested: list[str], made: list[str]) -> None:
    tree = ast.parse(f"from confluent_kafka import *\n{text}")
    assert (_tested_clients(tree), _made_on_the_loop(tree)) == (tested, made)


def test_kafka_is_administered_in_one_place() -> None:
    """One client, one time limit, one translation of Kafka's errors."""
    admin = ROOT / "tables" / "kafka" / "admin"

    assert [path for path in OURS if "AdminClient" in _text(path)] == [admin / "kafka_admin.py"]


def test_librdkafka_asks_no_coordinator_of_a_group() -> None:
    """Its administration client can end the process then; `tables/kafka/admin/coordinators` says why."""
    requests = re.compile(r"\b(describe_consumer_groups|delete_consumer_groups|\w+_consumer_group_offsets)\b")

    assert [path for path in OURS if requests.search(_text(path))] == []


def _mentions_kafka(path: Path) -> bool:
    return any(name in _text(path) for name in _CLIENTS)


def test_no_kafka_client_is_asked_whether_it_is_true() -> None:
    assert _offenders(filter(_mentions_kafka, ALL), lambda path: _tested_clients(_tree(path))) == {}


def test_no_kafka_client_is_made_on_the_event_loop() -> None:
    assert _offenders(filter(_mentions_kafka, OURS), lambda path: _made_on_the_loop(_tree(path))) == {}


#: Names that begin with an underscore and are used nonetheless: of Python, of Spark, and of the settings themselves.
_USED_NONETHELESS = frozenset(
    {"_exit", "_replace", "_current_frames", "_accumulatorServer", "_jsc", "_sources", "_warnings"}
)


def _private_names(tree: ast.Module) -> set[str]:
    """Private names of other objects; `beacon` is an object's node in Faust's tree of services."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {
        node.attr
        for node in nodes
        if (node.attr.startswith("_") and not node.attr.endswith("__") and not node.attr.isupper())
        or node.attr == "beacon"
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and not (isinstance(node.value, ast.Call) and _last_name(node.value.func) == "super")
    }


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("app._children.remove(service)", {"_children"}),
        ("app.beacon.discard(service.beacon)", {"beacon"}),
        ("cast(Any, app.consumer)._thread", {"_thread"}),
        ("self._app.stop(), super()._commit(offsets), cls._made, KafkaError._TRANSPORT, x.__name__", set()),
    ],
)
def test_rule_about_internals_finds_what_it_is_for(text: str, names: set[str]) -> None:
    assert _private_names(ast.parse(text)) == names


def test_internals_of_faust_and_of_aiokafka_are_used_in_one_place_each() -> None:
    places = (ROOT / "tables" / "faust_support.py", PUNCTUAL_CLIENT)

    assert all(_private_names(_tree(place)) for place in places)
    others = (path for path in OURS if path not in places)
    assert _offenders(others, lambda path: _private_names(_tree(path)) - _USED_NONETHELESS) == {}


def test_modules_of_the_command_line_have_no_names_of_the_standard_library() -> None:
    """spark-submit puts their folder first in the import path."""
    modules = {path.stem for path in (ROOT / "app" / "cli").iterdir() if not path.name.startswith("_")}
    assert not modules & sys.stdlib_module_names
