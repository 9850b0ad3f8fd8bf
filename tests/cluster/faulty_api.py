"""An HTTP proxy before an API server that rejects requests in its place, repeats what watches say, and cuts them.

    controller -> TLS with the API server's own certificate -> FaultyApi -> kube-apiserver

Faults of the network below HTTP are those of `TcpProxy`.
"""

from __future__ import annotations

import json
import random
import ssl
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from yarl import URL

from tests.support.kube.cluster import KubeCluster
from tests.support.processes import free_port
from tests.support.serving import LoopThread

_NOT_PASSED_ON = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


@dataclass(frozen=True, slots=True)
class Faults:
    """What happens to requests; by default nothing."""

    status: int = 0  #: of the answers that the proxy gives itself; 0 = it passes everything on
    retry_after_s: int = 0
    share: float = 1.0  #: of the requests that are answered so
    path: str = ""  #: only requests for this are answered so; "" = all
    repeats: int = 0  #: so often a watch repeats all events that it has said, after each new one
    cut: bool = False  #: each watch ends with a reset in the middle of its first event


class FaultyApi:
    """Between `with` and its end it listens at `port`. `faults` may be replaced at any time."""

    def __init__(self, kube: KubeCluster) -> None:
        self.port = free_port()
        self.faults = Faults()
        self.hits = 0  #: requests and events that a fault has met
        self._upstream = kube.url
        self._trust = ssl.create_default_context(cafile=str(kube.ca_file))
        self._certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._certificate.load_cert_chain(kube.ca_file, kube.ca_file.with_suffix(".key"))
        self._random = random.Random(20_261_122)

    def __enter__(self) -> FaultyApi:
        self._loop = LoopThread(f"api-{self.port}")
        self._loop.call(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call(self._stop())
        self._loop.stop()

    # -- in the thread

    async def _start(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._certificate).start()

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        faults = self.faults
        if faults.status and faults.path in ("", request.path) and self._random.random() < faults.share:
            self.hits += 1
            return _rejected(faults)
        headers = {name: text for name, text in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        url, body = URL(self._upstream + request.raw_path, encoded=True), await request.read()
        async with self._session.request(request.method, url, headers=headers, data=body or None) as answer:
            if answer.status == 200 and "watch" in request.query:
                try:
                    return await self._watch(request, answer)
                finally:
                    _abort(answer)
            return web.Response(status=answer.status, body=await answer.read(), content_type=answer.content_type)

    async def _watch(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        said: list[bytes] = []
        async for line in answer.content:
            if self.faults.cut:
                self.hits += 1
                await response.write(line[: len(line) // 2])
                if request.transport is not None:
                    request.transport.abort()
                return response
            said.append(line)
            await response.write(line)
            for _ in range(self.faults.repeats):
                self.hits += 1
                await response.write(b"".join(said))
        return response


def _abort(answer: aiohttp.ClientResponse) -> None:
    """End a stream. Closing it instead would wait for the API server, for longer than the loop runs."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _rejected(faults: Faults) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": faults.status, "message": "rejected by the test's proxy"}
    headers = {"Retry-After": str(faults.retry_after_s)} if faults.retry_after_s else {}
    return web.Response(status=faults.status, text=json.dumps(status), content_type="application/json", headers=headers)
