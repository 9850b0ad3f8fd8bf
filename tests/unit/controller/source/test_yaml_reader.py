"""YAML and JSON to values with lines: what YAML 1.1 would get wrong, and what is refused with a line."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.source import yaml_reader
from controller.source.directory import read_file
from controller.source.yaml_reader import ANCHORS_MAX, DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX, BadDocument, read_documents


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", "y"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("0x10", "0x10"),
        ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("=", "="),
        ("PT0.2S", "PT0.2S"),
        ("0.5", 0.5),
        ("'010'", "010"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
    ],
)
def test_scalar_has_the_value_that_people_mean(text: str, value: object) -> None:
    assert read_documents(f"a: {text}\n".encode())[0].value == {"a": value}


def test_fields_know_their_lines() -> None:
    (document,) = read_documents(b"\n\nkind: X\nspec:\n  list:\n    - a: 1\n    - b: 2\n")
    assert document.line == 3
    assert document.line_of(("spec", "list", 1, "b")) == 7
    assert document.line_of(("spec", "missing")) == 4
    assert document.line_of(("nowhere",)) == 3


def test_several_documents_lists_and_empty_ones() -> None:
    text = b"---\n---\na: 1\n---\nkind: List\nitems:\n- b: 1\n- c: 1\n...\n"
    documents = read_documents(text)
    assert [document.value for document in documents] == [{"a": 1}, {"b": 1}, {"c": 1}]
    assert [document.line for document in documents] == [3, 7, 8]
    assert documents[2].line_of(("c",)) == 8
    assert read_documents(b"") == read_documents(b"# nothing\n") == []


def test_json_with_tabs_and_escapes() -> None:
    text = b'{\n\t"a": "\\u0041\\/\\n",\n\t"b": [1, true, null], "\\ud83d\\ude00": "\\ud83d\\ude00"\n}'
    (document,) = read_documents(text, is_json=True)
    assert document.value == {"a": "A/\n", "b": [1, True, None], "\U0001f600": "\U0001f600"}
    assert document.line_of(("b",)) == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (b"a: 1\nb: [", 2, "fix the YAML"),
        (b"a: 1\n b: 2\n", 2, "fix the YAML"),
        (b"a:\n\t- b\n", 2, "indent with spaces"),
        (b"a: 1\nb: 010\n", 2, "remove the leading zeros"),
        (b'a: 1\nb: "\\ud800"\n', 2, "half of a pair"),
        (b'a: 1\n"\\udc00\\ud800": 2\n', 2, "half of a pair"),
        (b'a: 1\nb: "\\U00110000"\n', 2, "is not a character"),
        (b'a: 1\nb: "\\UFFFFFFFF"\n', 2, "is not a character"),
        (b"a: 1\nb: 2\na: 3\n", 3, "appears twice"),
        (b"a: 1\n12: 3\n", 2, "is not text"),
        (b"a: 1\n[x]: 3\n", 2, "is not text"),
        (b"- a\n", 1, "is not a mapping"),
        (b"a: 1\n---\njust text\n", 3, "is not a mapping"),
        (b"kind: List\nitems:\n- 1\n", 3, "is not a mapping"),
        (b"a: 1\nb: !!python/name:os.system x\n", 2, "not supported"),
        (b"a: !mine {}\n", 1, "not supported"),
        (b"base: &b {x: 1}\na:\n  <<: *b\n", 3, "merge keys"),
        (b"a: *nobody\n", 1, "undefined alias"),
        (b"a: 1\nb: \xff\n", 2, "UTF-8"),
        (b"a: 1\nb: \x07\n", 2, "characters"),
        (b"a: &a [*a]\n", 1, "too deep"),
        (b"[" * 3000, 1, "too deep"),
        (b"a: " + b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), 1, "too deep"),
        (b"a: " + b"x" * FILE_BYTES_MAX, 1, "split it"),
    ],
)
def test_invalid_yaml_is_rejected(text: bytes, line: int, words: str) -> None:
    with pytest.raises(BadDocument, match=words) as caught:
        read_documents(text)
    assert caught.value.line == line
    assert caught.value.hint


def test_aliases_are_values_and_bombs_are_rejected() -> None:
    assert read_documents(b"a: &x {b: [1]}\nc: *x\n")[0].value == {"a": {"b": [1]}, "c": {"b": [1]}}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(BadDocument, match=f"over {NODES_MAX} values"):
        read_documents("\n".join(lines).encode())


@pytest.mark.parametrize(
    ("line", "joint", "at"),
    [
        (b"k%d: &a%d x", b"\n", ANCHORS_MAX + 1),
        (b"- &a%d%d x", b"\n", ANCHORS_MAX + 1),
        (b"&k%d k%d: x", b"\n", ANCHORS_MAX + 1),
        (b"--- {k%d: &a%d [x]}", b"\n", ANCHORS_MAX + 1),
    ],
)
def test_too_many_anchors_are_rejected_at_their_line(line: bytes, joint: bytes, at: int) -> None:
    text = joint.join(line % (number, number) for number in range(30_000)) + b"\nb: ["  # never read so far
    with pytest.raises(BadDocument, match=f"over {ANCHORS_MAX} anchors") as caught:
        read_documents(text)
    assert caught.value.line == at


def test_as_many_anchors_as_a_file_may_have_are_read() -> None:
    text = b"".join(b"k%d: &a%d x\nl%d: *a%d\n" % ((number,) * 4) for number in range(ANCHORS_MAX))
    assert len(read_documents(text)[0].value) == 2 * ANCHORS_MAX, "an alias is no anchor"


def test_file_with_too_many_values_is_rejected_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 500  # the limit that counts takes seconds to reach
    monkeypatch.setattr(yaml_reader, "NODES_MAX", limit)
    text = b"a: [" + b"x, " * limit + b"]\nb: ["
    with pytest.raises(BadDocument, match=f"over {limit} values"):
        read_documents(text)
    pairs = b"".join(b"k%d: 1\n" % number for number in range(limit - 1))
    assert len(read_documents(pairs)[0].value) == limit - 1, "keys are no values"


_SCRAPS = (
    *(rb'"\ud800"', rb'"\udc00"', rb'"\ud83d\ude00"', rb'"\UFFFFFFFF"', rb'"\x00"', b"010", b"1e999", b"\t", b"\xff"),
    *(b"a", b": ", b"- ", b"\n", b"  ", b"[", b"]", b"{", b"}", b",", b"? ", b"&a ", b"*a ", b"!!str ", b"---\n"),
    *(b"apiVersion: messaging.knative.dev/v1\n", b"kind: KafkaChannel\n", b"metadata: ", b"spec: ", b"name: "),
)


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@given(st.binary(max_size=200) | st.lists(st.sampled_from(_SCRAPS), max_size=20).map(b"".join))
def test_any_bytes_are_read_or_rejected_with_a_printable_reason(name: str, data: bytes) -> None:
    written, problems = read_file(name, data)
    assert all(
        line >= 1 for line in [*(resource.line for resource in written), *(problem.line for problem in problems)]
    )
    reported = [asdict(problem) for problem in problems] + [asdict(resource.resource) for resource in written]
    json.dumps(reported, ensure_ascii=False).encode()


_plain = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**12), 10**12) | _plain,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_plain, inner, max_size=4),
        max_leaves=20,
    )
)
def test_json_is_read_as_json(value: object) -> None:
    (document,) = read_documents(json.dumps({"a": value}, indent="\t").encode(), is_json=True)
    assert document.value == {"a": value}
