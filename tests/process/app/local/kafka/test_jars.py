"""Jars come from a Maven repository by HTTP, each with its recorded checksum, or one sentence says why not."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.local.kafka import jars
from app.local.kafka.jar_sets import JarSet
from app.local.kafka.ports import free_port
from knative.errors import NotReadyError, PenstockError
from tests.support.serving import serving

_PATHS = [f"org/example/part{number}/1.0/part{number}-1.0.jar" for number in range(10)]


class _Handler(SimpleHTTPRequestHandler):
    """Serves a folder. A path that ends in one of `silent` gets no answer before `released`."""

    silent: tuple[str, ...] = ()
    released = threading.Event()
    port = 0
    resets = 0  #: that many connections end without an answer first

    def do_GET(self) -> None:
        if self.path.endswith(self.silent or "none"):
            self.released.wait(60)
        if type(self).resets > 0:
            type(self).resets -= 1
            self.close_connection = True
            return
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Handler]]:
    for path in _PATHS:
        (tmp_path / "m2" / path).parent.mkdir(parents=True)
        (tmp_path / "m2" / path).write_bytes(path.encode() * 10_000)
    handler: type[_Handler] = type("Handler", (_Handler,), {"released": threading.Event()})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path / "m2")))) as server:
        handler.port = server.server_port
        monkeypatch.setenv("PENSTOCK_MAVEN_REPOSITORY", f"http://127.0.0.1:{handler.port}/")
        yield handler
        handler.released.set()


@pytest.fixture
def jar_set(tmp_path: Path) -> JarSet:
    some = JarSet("a test", "a test's jars", tmp_path / "set", 1, "Or do without.")
    some.folder.mkdir()
    sums = [f"{hashlib.sha256(path.encode() * 10_000).hexdigest()}  {path}\n" for path in _PATHS]
    some.manifest.write_text("".join(sums))
    return some


def test_each_jar_arrives_once_and_is_counted(tmp_path: Path, repository: type[_Handler], jar_set: JarSet) -> None:
    reported: list[tuple[int, int]] = []
    libs = jars.ensure_jars(tmp_path / "kafka", lambda *counts: reported.append(counts), jars=jar_set)
    assert {jar.name for jar in libs.iterdir()} == {Path(path).name for path in _PATHS}
    assert reported == [(arrived, 10) for arrived in range(11)]
    assert {path.name for path in libs.parent.iterdir()} == {"libs.lock", libs.name}
    assert jars.ensure_jars(tmp_path / "kafka", lambda *counts: reported.append(counts), jars=jar_set) == libs
    assert len(reported) == 11


def test_connection_that_ends_early_is_tried_again(tmp_path: Path, repository: type[_Handler], jar_set: JarSet) -> None:
    repository.resets = 2
    assert jars.ensure_jars(tmp_path / "kafka", jars=jar_set).is_dir()


def test_jar_with_another_checksum_is_an_error(tmp_path: Path, repository: type[_Handler], jar_set: JarSet) -> None:
    jar_set.manifest.write_text(jar_set.manifest.read_text().replace(jar_set.manifest.read_text()[:64], "0" * 64))
    with pytest.raises(PenstockError, match=r"part0-1\.0\.jar is not the expected jar.*proxy or mirror"):
        jars.ensure_jars(tmp_path / "kafka", jars=jar_set)
    assert {path.name for path in (tmp_path / "kafka").iterdir()} == {"libs.lock"}


def test_jar_that_the_repository_lacks_is_named(tmp_path: Path, repository: type[_Handler], jar_set: JarSet) -> None:
    (tmp_path / "m2" / _PATHS[3]).unlink()
    with pytest.raises(PenstockError, match=r"the answer for part3-1\.0\.jar is 404.*PENSTOCK_MAVEN_REPOSITORY.*Or do"):
        jars.ensure_jars(tmp_path / "kafka", jars=jar_set)


def test_repository_that_nobody_serves_is_named(
    tmp_path: Path, jar_set: JarSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("PENSTOCK_MAVEN_REPOSITORY", f"http://127.0.0.1:{port}")
    with pytest.raises(
        PenstockError, match=rf"cannot be downloaded from http://127\.0\.0\.1:{port}.*Connect to the network"
    ):
        jars.ensure_jars(tmp_path / "kafka", jars=jar_set)


@pytest.mark.parametrize(
    "problem", ["nobody serves it", "a jar is missing", "another checksum", "silence", "a bad URL"]
)
def test_no_error_shows_the_password_of_a_mirror(
    tmp_path: Path, repository: type[_Handler], jar_set: JarSet, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    port, path = repository.port, ""
    match problem:
        case "nobody serves it":
            port = free_port()
        case "a jar is missing":
            path = "none/"
        case "another checksum":
            manifest = jar_set.manifest.read_text()
            jar_set.manifest.write_text(manifest.replace(manifest[:64], "0" * 64))
        case "silence":
            repository.silent = (Path(_PATHS[7]).name,)
        case "a bad URL":
            path = "a b"
    host = "127.0.0.1" if problem != "a bad URL" else "[::"
    url = f"http://someone:canary@{host}:{port}/{path}"
    monkeypatch.setattr(jars, "load_settings", lambda: SimpleNamespace(maven_repository=url))
    with pytest.raises(PenstockError) as error:
        jars.ensure_jars(tmp_path / "kafka", limit_s=1.0 if problem == "silence" else 180.0, jars=jar_set)
    assert "canary" not in str(error.value)
    assert f"http://{host}:{port}/" in str(error.value)


def test_download_has_a_limit(tmp_path: Path, repository: type[_Handler], jar_set: JarSet) -> None:
    repository.silent = (Path(_PATHS[7]).name,)
    with pytest.raises(NotReadyError, match=r"did not deliver the jars of a test within 1 s"):
        jars.ensure_jars(tmp_path / "kafka", limit_s=1.0, jars=jar_set)
