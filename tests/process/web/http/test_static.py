"""Files of a folder that are served while they come and go."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from web.http.messages import Request
from web.http.static import serve_folder

_LOOKS = 300


def test_file_that_is_removed_while_it_is_read_is_not_found(tmp_path: Path) -> None:
    over, file = threading.Event(), tmp_path / "a.html"

    def come_and_go() -> None:
        while not over.is_set():
            file.write_text("<b>")
            file.unlink()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        statuses = asyncio.run(_ask_often(tmp_path))
    finally:
        over.set()
        thread.join()
    assert statuses <= {200, 404}


async def _ask_often(folder: Path) -> set[int]:
    handle = serve_folder(folder)
    request = Request("GET", b"/files/a.html", None, [], None, {"filename": "a.html"}, keep_alive=True)
    return {(await handle(request)).status for _ in range(_LOOKS)}
