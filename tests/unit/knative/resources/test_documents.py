"""The table of documents, as a directory reads them; `tests/cluster` gives the same to an API server."""

from __future__ import annotations

import pytest

from knative.resources import kinds
from knative.resources.kinds import Invalid
from tests.support.kube.documents import Case, read_cases

CASES = read_cases()


def test_table_is_long_and_each_name_is_there_once() -> None:
    assert len(CASES) >= 100
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdict_of_a_directory(case: Case) -> None:
    if not case.field:
        assert kinds.parse(case.document) is not None
        return
    with pytest.raises(Invalid) as refused:
        kinds.parse(case.document)
    fields = [problem.field for problem in refused.value.problems]
    assert any(path == case.field or path.startswith(f"{case.field}.") for path in fields)
