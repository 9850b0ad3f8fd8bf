"""The traffic tables in a real object store, by Spark's S3 client and by Arrow's.

Runs where PENSTOCK_SPARK_JARS has the jars of docs/how-to/keep-tables-in-an-object-store.md, and AWS_ENDPOINT_URL names
a store in which it may create a bucket, such as `moto_server` of the package `moto[server]`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pyarrow.fs as pafs
import pytest

from analytics.spark.session import find_jar
from analytics.traffic.dataset import Dataset
from analytics.traffic.read import read_windows, window_files
from app.local.kafka import EmbeddedKafka
from app.settings import load_settings
from tests.integration.cli_fixture import StoredInstallation
from tests.support.processes import run
from tests.support.traffic import Sent, shown

pytestmark = pytest.mark.system

_LIMIT_S = 600.0
_ENDPOINT = os.environ.get("AWS_ENDPOINT_URL", "")


def test_runs_add_up_in_a_bucket(
    kafka: EmbeddedKafka, topic_name: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _ENDPOINT or find_jar(load_settings().spark_jars, "hadoop-aws-") is None:
        pytest.skip("not run here: no hadoop-aws in PENSTOCK_SPARK_JARS, or no AWS_ENDPOINT_URL")
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name, value in keys.items():
        monkeypatch.setenv(name, os.environ.get(name, value))
    site = StoredInstallation.make(kafka.bootstrap, topic_name())
    site.subscribe("sub")
    sent = Sent(kafka.bootstrap, site.instance, {site.topic: ("ns", "ch")})
    sent.make_traffic_topic()
    bucket = site.instance.lower().replace("_", "-")
    store, _ = pafs.FileSystem.from_uri(f"s3://{bucket}?region=us-east-1&allow_bucket_creation=true")
    store.create_dir(bucket)
    folder = f"s3a://{bucket}/a/traffic?region=us-east-1"
    environment = site.environment({name: value for name, value in os.environ.items() if name.startswith("AWS_")})
    environment |= {"PENSTOCK_SPARK_JARS": os.environ["PENSTOCK_SPARK_JARS"], "PENSTOCK_TRAFFIC_DIR": folder}
    settings = {"endpoint": _ENDPOINT, "path.style.access": "true"}
    s3a = [text for name, value in settings.items() for text in ("--conf", f"spark.hadoop.fs.s3a.{name}={value}")]
    begin = int(time.time()) // 60 * 60 - 1200
    for turn in range(2):
        sent.records(site.topic, 200, begin + 300 * turn, 300)
        sent.deltas("w", ("ns", "ch"), range(begin, begin + 300, 7))
        done = run(site.command("job", "traffic", "--master", "local[1]", *s3a), environment, _LIMIT_S)
        assert done.returncode == 0, done.stderr
        assert shown(read_windows(folder)) == sent.expected()
    assert {name.rpartition("run=")[2][:2] for name in window_files(folder)} == {"2-"}
    dataset = Dataset(folder)
    files = dataset.fs.get_file_info(pafs.FileSelector(dataset.root, recursive=True))
    paths = [file.path for file in files if file.type is pafs.FileType.File and not file.path.endswith("_SUCCESS")]
    assert len(paths) == len(window_files(folder)) + 1, paths

    done = run(site.command("traffic", "--since", "1h", "-o", "json"), environment, _LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert '"accepted": 400' in done.stdout
