"""An API server with our CRDs gives the verdict of a directory to every document of the table, and names the field."""

from __future__ import annotations

import pytest

from tests.support.kube.cluster import KubeCluster
from tests.support.kube.documents import Case, read_cases


@pytest.mark.parametrize("case", read_cases(), ids=str)
def test_verdict_of_the_api_server(with_crds: KubeCluster, case: Case) -> None:
    answer = with_crds.admin.create(case.document, dryRun="All")
    if not case.field or case.only_here:
        answer.must()
        return
    assert answer.status in (400, 422), answer
    # What cannot even be decoded is named as in the server's own code.
    assert case.field in answer.message.replace("ObjectMeta.", "metadata.")
