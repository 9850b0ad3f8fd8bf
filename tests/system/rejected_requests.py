"""Requests that ingress rejects whatever Kafka does. Values only; `test_payload_bytes` sends them."""

from __future__ import annotations

from tests.system.sending import PLAIN, HeaderLines

LIMIT_BYTES = 1024 * 1024


def event(*headers: tuple[str, str | bytes], without: str = "") -> HeaderLines:
    """The lines of a good event, less one, and more."""
    plain = [pair for pair in [("ce-id", "x"), *PLAIN] if pair[0] != without]
    return [*plain, *headers]


JSON = [("content-type", "application/cloudevents+json")]
#: name -> (status, header lines, body)
REFUSED: dict[str, tuple[int, HeaderLines, bytes | None]] = {
    "no attributes": (400, [], b"x"),
    "no id": (400, event(without="ce-id"), b""),
    "empty id": (400, event(("ce-id", ""), without="ce-id"), b""),
    "no source": (400, event(without="ce-source"), b""),
    "no type": (400, event(without="ce-type"), b""),
    "no specversion": (400, event(without="ce-specversion"), b""),
    "other specversion": (400, event(("ce-specversion", "2.0"), without="ce-specversion"), b""),
    "bad name": (400, event(("ce-a_b", "1")), b""),
    "no name": (400, event(("ce-", "1")), b""),
    "bad time": (400, event(("ce-time", "yesterday")), b""),
    "empty subject": (400, event(("ce-subject", "")), b""),
    "bad source": (400, event(("ce-source", "a%zzb"), without="ce-source"), b""),
    "attribute twice": (400, event(("ce-a", "1"), ("CE-A", "2")), b""),
    "datacontenttype": (400, event(("ce-datacontenttype", "a/b")), b""),
    "bad utf-8": (400, event(("ce-a", "%C0%A0")), b""),
    "control character": (400, event(("ce-a", "%00")), b""),
    "8-bit": (400, event(("ce-a", b"\xff")), b""),
    "batch": (400, [("content-type", "application/cloudevents-batch+json")], b"[]"),
    "broken structured": (400, JSON, b'{"id":'),
    "structured without id": (400, JSON, b'{"specversion":"1.0","source":"/s","type":"t"}'),
    "unknown format": (400, [("content-type", "application/cloudevents+avro")], b"x"),
    "gzip": (400, event(("content-encoding", "gzip")), b"x"),
    "two lengths": (400, event(("content-length", "1")), b"xx"),
    "length and chunks": (400, event(("transfer-encoding", "chunked")), b"0\r\n\r\n"),
    "gzip transfer": (400, event(("transfer-encoding", "gzip, chunked")), None),
    "two hosts": (400, event(("host", "other")), b""),
    "one over": (413, event(), b"x" * (LIMIT_BYTES + 1)),
    "ten times over": (413, event(), b"x" * (10 * LIMIT_BYTES)),
    "source with a bad host": (400, event(("ce-source", "http://[bad"), without="ce-source"), b""),
    "dataschema with a bad port": (400, event(("ce-dataschema", "http://h:8x/")), b""),
    "noncharacter": (400, event(("ce-subject", "%EF%BF%BE")), b""),
    "header bytes": (431, event(("ce-a", "x" * 140_000)), b""),
    "header count": (431, event(*[(f"ce-a{number}", "1") for number in range(513)]), b""),
}
