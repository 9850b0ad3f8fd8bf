"""Destinations as written: a `uri`, a `ref`, or a `uri` relative to a `ref`; and the rules for absolute URIs.

The controller resolves a Destination to a `delivery.policy.Addressable`, because a `ref` needs other objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from knative.resources.schema import Anything, Complaint, Object, Rule, Text, Unsupported
from knative.urls import URI_CHARS_MAX, uri_problem

#: Names of objects and of namespaces, as Kubernetes has them.
LABEL_PATTERN = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
NAME_PATTERN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
NAME_CHARS_MAX = 253
NO_NAME, NAME_HINT = "is not a valid name", "use lower-case letters, digits, '-' and '.'"

OBJECT_NAME = Text(
    meaning="Its name.",
    required=True,
    pattern=NAME_PATTERN,
    characters_max=NAME_CHARS_MAX,
    what=NO_NAME,
    hint=NAME_HINT,
)  #: of another object


def namespace_text(meaning: str) -> Text:
    """Returns the field for the namespace of another object."""
    return Text(meaning=meaning, pattern=LABEL_PATTERN, what=NO_NAME, hint="use lower-case letters, digits and '-'")


_PORT = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_AFTER_HOST = '([/?][!-"$-~]*)?'  # all visible ASCII characters but #
#: URIs without a problem, but that directories check IPv6 addresses too.
ABSOLUTE_PATTERN = rf"(http|https|HTTP|HTTPS)://([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:({_PORT})?)?{_AFTER_HOST}"
RELATIVE_PATTERN = f'(/([!-"$-.0-~][!-"$-~]*)?|[?][!-"$-~]*|[!-"$-.0-9;->@-~]+{_AFTER_HOST})'
_ABSOLUTE_START = re.compile("[a-zA-Z][a-zA-Z0-9+.-]*:|//")


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


def base_problem(url: str) -> str | None:
    """Returns why a URL cannot be the base of other addresses; None = it can, or it is empty."""
    if not url:
        return None
    wrong = uri_problem(url)
    if wrong is not None:
        return f"it {wrong[0]}"
    return "it has a path or a query" if urlsplit(url).path not in ("", "/") or "?" in url else None


def _uri_complaint(uri: str) -> Complaint | None:
    """Returns why a URI can be neither absolute nor combined with a `ref`; None = it can be one of both."""
    return uri_problem(uri if _ABSOLUTE_START.match(uri) else f"http://ref/{uri}")


#: OIDC. Ignoring it would send events without the identity that the subscriber asks for.
NO_OIDC = Unsupported(
    meaning="Audience of OIDC tokens; not supported.",
    what="sender identity (OIDC) is not supported yet",
    hint="remove the field",
)

_REF = Object(
    meaning="An object that has an address: a Service, or an Addressable such as a KafkaChannel or a Broker.",
    fields={
        "apiVersion": Text(meaning="Group and version of the object, such as `v1`."),
        "kind": Text(meaning="Kind of the object, such as `Service`.", required=True),
        "namespace": namespace_text("Namespace of the object; by default that of the object that refers to it."),
        "name": OBJECT_NAME,
        "group": Anything(meaning="Not used."),
        "address": Anything(meaning="Not used."),
    },
)


def ca_certs(**more: Any) -> Text:
    """Returns the shape of a PEM bundle."""
    return Text(
        pattern=r"(?s:.*)-----BEGIN CERTIFICATE-----(?s:.*)",
        what="has no certificate",
        hint="write a PEM bundle (-----BEGIN CERTIFICATE----- ...)",
        check=_no_certificate,
        **more,
    )


def _no_certificate(text: str) -> Complaint | None:
    if "-----BEGIN CERTIFICATE-----" in text:
        return None
    return "has no certificate", "write a PEM bundle (-----BEGIN CERTIFICATE----- ...)"


def bare_uri(**more: Any) -> Text:
    """Returns the shape of an absolute http(s) URI."""
    return Text(
        pattern=ABSOLUTE_PATTERN,
        characters_max=URI_CHARS_MAX,
        what="is not an absolute http or https URI",
        hint="write it like http://host:8080/path",
        check=uri_problem,
        **more,
    )


_ABSOLUTE = " || ".join(f"self.uri.startsWith('{scheme}://')" for scheme in ("http", "https", "HTTP", "HTTPS"))
_HAS_URI = "has(self.uri) && self.uri != ''"


def _is_absolute(values: Mapping[str, Any]) -> bool:
    return _ABSOLUTE_START.match(values["uri"]) is not None


def destination(meaning: str, *, required: bool = False) -> Object:
    """Returns the shape of a Destination."""
    return Object(
        meaning=meaning,
        required=required,
        title="Destinations",
        fields={
            "ref": _REF,
            "uri": Text(
                meaning="An absolute http or https URI; together with `ref`, a path relative to the object's address.",
                pattern=f"({ABSOLUTE_PATTERN}|{RELATIVE_PATTERN})",
                characters_max=URI_CHARS_MAX,
                what="is not a valid URI",
                hint="write it like http://host:8080/path",
                check=_uri_complaint,
            ),
            "CACerts": ca_certs(meaning="PEM bundle of the CA certificates to trust for https."),
            "audience": NO_OIDC,
        },
        rules=(
            Rule(
                "",
                f"has(self.ref) || ({_HAS_URI})",
                "has neither `uri` nor `ref`",
                "add uri: http://host:8080/path",
                holds=lambda values: values["ref"] is not None or bool(values["uri"]),
            ),
            Rule(
                "uri",
                f"!({_HAS_URI}) || has(self.ref) || {_ABSOLUTE}",
                "is not an absolute http or https URI",
                "write it like http://host:8080/path",
                holds=lambda values: not values["uri"] or values["ref"] is not None or _is_absolute(values),
            ),
            Rule(
                "uri",
                f"!({_HAS_URI}) || !has(self.ref) || !({_ABSOLUTE})",
                "must be a path if there is a `ref`",
                "write a path like /hook, or remove `ref`",
                holds=lambda values: not values["uri"] or values["ref"] is None or not _is_absolute(values),
            ),
        ),
    )


def destination_of(values: Mapping[str, Any] | None) -> Destination | None:
    """Returns the value of what was read; None if it is absent."""
    if values is None:
        return None
    fields = values["ref"]
    ref = None if fields is None else Ref(fields["apiVersion"], fields["kind"], fields["namespace"], fields["name"])
    return Destination(values["uri"], ref, values["CACerts"])
