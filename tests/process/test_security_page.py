"""What SECURITY.md says of the jars of Spark that are installed."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.support.processes import REPOSITORY


def test_security_names_jars_of_the_wheel_that_are_in_it() -> None:
    """When the version of Spark changes, somebody must read its advisories again."""
    page = (REPOSITORY / "SECURITY.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## Known advisories of Spark's jars")[2], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(.*?)`", row)}
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = {path.stem for path in (Path(spark.origin).parent / "jars").glob("*.jar")}
    assert len(named) >= 8
    assert named <= jars, named - jars
    assert f"PySpark {version('pyspark')}," in page
