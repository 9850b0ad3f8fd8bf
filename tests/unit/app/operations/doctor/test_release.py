"""Which release a broker is, from its answer."""

from __future__ import annotations

import struct

import pytest

from app.operations.doctor.release import release_of


def _answer(features: dict[str, int], error: int = 0) -> bytes:
    """As a broker writes it: two APIs, and its features under a tag."""
    apis = b"".join(struct.pack(">hhh", key, 0, 9) + b"\0" for key in (0, 18))
    rows = b"".join(
        bytes([len(name) + 1]) + name.encode() + struct.pack(">hh", 1, highest) + b"\0"
        for name, highest in features.items()
    )
    tag = bytes([len(features) + 1]) + rows
    tags = bytes([1, 0, len(tag)]) + tag if features else b"\0"
    return struct.pack(">ih", 1, error) + b"\x03" + apis + struct.pack(">i", 0) + tags


@pytest.mark.parametrize(
    ("level", "release"), [(7, "3.3"), (21, "3.9"), (25, "4.0"), (26, "4.1"), (33, "4.4"), (34, "newer than 4.4")]
)
def test_release_follows_from_the_metadata_version(level: int, release: str) -> None:
    assert release_of(_answer({"group.version": 1, "metadata.version": level})) == release


def test_kafka_with_zookeeper_has_no_metadata_version() -> None:
    assert "ZooKeeper" in release_of(_answer({}))


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request", _answer({}, 35), _answer({"a": 1})[:-3]])
def test_what_is_not_an_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        release_of(answer)
