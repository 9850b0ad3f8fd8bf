"""Serves the files of a folder for `Web.add_static`. Reads each file as a whole; paths must stay in the folder."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path

from web.http.messages import Request, Response


def serve_folder(folder: Path) -> Callable[[Request], Awaitable[Response]]:
    """Returns a handler for `/prefix/{filename:.+}`: 200 with the file, or 404."""
    root = folder.resolve()

    def read(name: str) -> bytes | None:
        path = (root / name).resolve()
        try:
            return path.read_bytes() if path.is_relative_to(root) and path.is_file() else None
        except FileNotFoundError:  # it has just been removed
            return None

    async def handle(request: Request) -> Response:
        name = request.match_info["filename"]
        body = None if "\0" in name else await asyncio.to_thread(read, name)
        if body is None:
            return Response(b"not found\n", 404, "text/plain")
        return Response(body, 200, mimetypes.guess_type(name)[0] or "application/octet-stream")

    return handle
