"""Answers as bytes, requests as Views see them."""

from __future__ import annotations

import asyncio

import pytest

from web.http.messages import Request, Response, encode, problem, with_close


def test_answer_is_encoded_with_its_length() -> None:
    assert encode(202) == b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    assert encode(200, (("a", "b"),), b"xy") == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\na: b\r\n\r\nxy"
    assert encode(200, (), b"xy", head=True) == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    assert encode(204, (), b"") == b"HTTP/1.1 204 No Content\r\n\r\n"
    assert encode(299) == b"HTTP/1.1 299 Unknown\r\ncontent-length: 0\r\n\r\n"
    assert with_close(encode(202)) == b"HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    assert problem(400, 'a "b"').endswith(b'\r\n\r\n{"error":"a \\"b\\""}\n')


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\0b"])
def test_header_cannot_be_split(value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        Response(headers={"x": value}).wire()
    with pytest.raises(ValueError, match="line break"):
        Response(headers={value: "x"}).wire()


def test_framing_of_a_page_is_replaced_by_ours() -> None:
    response = Response(b"abc", headers={"Content-Length": "99", "Transfer-Encoding": "chunked", "x": "y"})
    assert response.wire() == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nx: y\r\n\r\nabc"
    assert response.wire("HEAD").endswith(b"\r\n\r\n")


def request(target: bytes, *pairs: tuple[bytes, bytes], body: bytes | None = None) -> Request:
    """A request to host `h`."""
    return Request("POST", target, b"h:1", [(b"Host", b"h:1"), *pairs], body, {}, True)


def test_view_gets_path_query_headers_cookies_and_body() -> None:
    got = request(
        b"/a%20b/c?x=1&y=%2F&x=2", (b"Cookie", b"a=b; c=d"), (b"Ce-Place", "Zürich".encode()), body=b'{"a":1}'
    )
    assert (got.path, got.raw_path, got.query["x"], got.query["y"]) == ("/a b/c", "/a%20b/c", "1", "/")
    assert (got.query_string, str(got.url)) == ("x=1&y=/&x=2", "http://h:1/a%20b/c?x=1&y=%2F&x=2")
    assert got.headers["ce-place"] == "Zürich"
    assert got.cookies == {"a": "b", "c": "d"}
    assert got.body_exists
    assert asyncio.run(got.json()) == {"a": 1}
    assert asyncio.run(got.text()) == '{"a":1}'


def test_form_and_absent_body() -> None:
    form = request(b"/", (b"content-type", b"application/x-www-form-urlencoded"), body=b"a=1&b=%20")
    assert dict(asyncio.run(form.post())) == {"a": "1", "b": " "}
    empty = request(b"/")
    assert (empty.body_exists, asyncio.run(empty.read())) == (False, b"")
    assert (empty.if_modified_since, empty.cookies) == (None, {})
    assert request(b"/", (b"if-modified-since", b"junk")).if_modified_since is None
    dated = request(b"/", (b"if-modified-since", b"Sat, 21 Nov 2026 11:36:39 GMT")).if_modified_since
    assert dated is not None
    assert dated.year == 2026


@pytest.mark.parametrize("target", [b"//[", b"//x/a", b"//a:b/", b"*", b"/[", b"/a#b", b"//"])
def test_path_is_a_path_whatever_it_looks_like(target: bytes) -> None:
    got = request(target + b"?q=1")
    assert (got.raw_path, got.query["q"]) == (target.decode(), "1")
