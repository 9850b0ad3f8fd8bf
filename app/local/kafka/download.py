"""Gets jars from a Maven repository by HTTP, a few at a time, and checks each one while it arrives."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_exponential

from app.timing import HTTP_S
from knative.errors import PenstockError
from knative.urls import shown_url


class NotDelivered(Exception):
    """The repository cannot be reached, or does not have a file. `str()` is the reason, which the caller adds to a
    message."""


def download(
    manifest: Mapping[str, str],
    repository: str,
    folder: Path,
    progress: Callable[[int, int], None],
    limit_s: float,
) -> None:
    """Download the files of `manifest` (path in the repository -> sha256 in hex) into `folder`, which is flat.

    Uses the proxies of HTTPS_PROXY and NO_PROXY. Calls `progress` with the number of files that have arrived, and with
    the number of all. Raises NotDelivered, TimeoutError after `limit_s`, OSError, and PenstockError for a file with
    another checksum.
    """
    asyncio.run(_download(manifest, repository.rstrip("/"), folder, progress, limit_s))


async def _download(
    manifest: Mapping[str, str], repository: str, folder: Path, progress: Callable[[int, int], None], limit_s: float
) -> None:
    arrived = 0
    progress(0, len(manifest))
    slots = asyncio.Semaphore(6)
    limits = aiohttp.ClientTimeout(total=None, sock_connect=HTTP_S, sock_read=HTTP_S)
    async with asyncio.timeout(limit_s), aiohttp.ClientSession(timeout=limits, trust_env=True) as session:

        async def fetch(path: str, digest: str) -> None:
            nonlocal arrived
            async with slots:
                await _get(session, f"{repository}/{path}", folder / Path(path).name, digest)
            arrived += 1
            progress(arrived, len(manifest))

        try:
            await asyncio.gather(*(fetch(path, digest) for path, digest in manifest.items()))
        except aiohttp.ClientError as problem:
            raise NotDelivered(_reason(problem)) from problem


def _reason(problem: aiohttp.ClientError) -> str:
    if isinstance(problem, aiohttp.ClientResponseError):
        return f"the answer for {problem.request_info.url.name} is {problem.status}"
    return shown_url(str(problem)) or type(problem).__name__


@retry(
    retry=retry_if_exception_type((aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)),
    stop=stop_after_attempt(3),
    wait=wait_exponential(),
    reraise=True,
)
async def _get(session: aiohttp.ClientSession, url: str, file: Path, digest: str) -> None:
    checksum = hashlib.sha256()
    async with session.get(url, raise_for_status=True) as answer:
        with file.open("wb") as output:
            async for chunk in answer.content.iter_chunked(1 << 16):
                output.write(chunk)
                checksum.update(chunk)
    if checksum.hexdigest() != digest:
        raise PenstockError(
            f"{shown_url(url)} is not the expected jar: its sha256 is {checksum.hexdigest()} instead of {digest}.",
            "Check the proxy or mirror between you and Maven Central.",
        )
