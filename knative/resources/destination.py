"""Destinations as written: a `uri`, a `ref`, or a `uri` relative to a `ref`; and the rules for absolute URIs.

The controller resolves a Destination to a `delivery.policy.Addressable`, because a `ref` needs other objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from knative.resources.object_reader import ObjectReader

URI_CHARS_MAX = 8_192
_URI_CHARS = re.compile(r"[!-~]+", re.ASCII)
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.ASCII)
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to another object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Destination:
    """A destination as written. If it was read without a problem, it has a `uri`, a `ref` or both."""

    uri: str = ""
    ref: Ref | None = None
    ca_certs: str = ""


def uri_problem(uri: str) -> tuple[str, str] | None:
    """Why events cannot be sent to this URI, as (what, hint); None = they can."""
    if len(uri) > URI_CHARS_MAX:
        return f"has {len(uri)} characters", f"write at most {URI_CHARS_MAX}"
    if not _URI_CHARS.fullmatch(uri):
        return "has white space, control or non-ASCII characters", "percent-encode them"
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        return f"is not a valid URI ({error})", "write it like http://host:8080/path"
    if parts.scheme not in ("http", "https"):
        return "is not an absolute http or https URI", "write it like http://host:8080/path"
    if "@" in parts.netloc:  # checked first, so that no other message quotes the credentials
        return "contains credentials", "remove `user:password@`; they would end up in logs and dead letters"
    if not _HOST.fullmatch(parts.hostname or "") or port == 0:
        return (
            f"{uri[:80]!r} does not have a valid host and port",
            "write it like http://host:8080/path",
        )
    if "#" in uri:
        return "has a fragment (#...)", "remove it; fragments are never sent"
    return None


def base_problem(url: str) -> str | None:
    """Why a URL cannot be the base of other addresses; None = it can, or it is empty."""
    if not url:
        return None
    wrong = uri_problem(url)
    if wrong is not None:
        return f"it {wrong[0]}"
    return "it has a path or a query" if urlsplit(url).path not in ("", "/") or "?" in url else None


def _relative_problem(uri: str) -> tuple[str, str] | None:
    """Why a URI cannot be combined with a `ref`, as (what, hint); None = it can."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = None
    if parts is None or parts.scheme or parts.netloc:
        return "must be a path if there is a `ref`", "write a path like /hook, or remove `ref`"
    return uri_problem(f"http://ref/{uri}")


def read_destination(reader: ObjectReader, key: str, *, required: bool = False) -> Destination | None:
    """The destination in field `key`; None if absent. Problems go to `reader`."""
    inner = reader.mapping(key, required=required)
    if inner is None:
        return None
    ref = _read_ref(inner)
    uri, ca_certs = inner.text("uri"), inner.text("CACerts")
    if not uri and ref is None:
        inner.problem("", "has neither `uri` nor `ref`", "add uri: http://host:8080/path")
    elif uri:
        wrong = uri_problem(uri) if ref is None else _relative_problem(uri)
        if wrong:
            inner.problem("uri", *wrong)
    if ca_certs and "-----BEGIN CERTIFICATE-----" not in ca_certs:
        inner.problem("CACerts", "has no certificate", "write a PEM bundle (-----BEGIN CERTIFICATE----- ...)")
    if inner.read("audience") is not None:
        inner.problem("audience", "sender identity (OIDC) is not supported yet", "remove the field")
    inner.finish()
    return Destination(uri, ref, ca_certs)


def _read_ref(inner: ObjectReader) -> Ref | None:
    reader = inner.mapping("ref")
    if reader is None:
        return None
    ref = Ref(
        api_version=reader.text("apiVersion"),
        kind=reader.text("kind", required=True),
        namespace=reader.text("namespace"),
        name=reader.text("name", required=True),
    )
    for key, name in (("namespace", ref.namespace), ("name", ref.name)):
        if name and not _NAME.fullmatch(name):
            reader.problem(key, f"{name[:64]!r} is not a valid name", "use lower-case letters, digits, '-' and '.'")
    for known in ("group", "address"):
        reader.read(known)
    reader.finish()
    return ref
