"""Maven's lines: the jars that arrive."""

from __future__ import annotations

import pytest

from app.local.kafka import maven


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[INFO] Downloaded from central: https://h/m2/org/x/a-b/1.0/a-b-1.0.jar (25 kB at 1.6 MB/s)", "a-b-1.0.jar"),
        ("[INFO] Copying kafka_2.13-4.1.1.jar to /x/libs/kafka_2.13-4.1.1.jar", "kafka_2.13-4.1.1.jar"),
        ("[INFO] Downloading from central: https://h/m2/org/x/a-b/1.0/a-b-1.0.jar", None),
        ("[INFO] Downloaded from central: https://h/m2/org/x/a-b/1.0/a-b-1.0.pom (1 kB at 1 kB/s)", None),
    ],
)
def test_progress_lines(line: str, name: str | None) -> None:
    assert maven.jar_name(line) == name
