"""The tables of the traffic job without Spark: merging, commits, ages, what is read of them, what is refused."""

from __future__ import annotations

import fcntl
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.traffic.dataset import Ages, BrokenTablesError, Commit, Dataset, hold
from analytics.traffic.migrate import _committed
from analytics.traffic.read import count_rows, read_sums, read_windows, window_files, with_window_files
from analytics.traffic.windows import (
    DAY_S,
    Window,
    coarsen,
    merge,
    size_for,
    sum_over,
    table_of,
    windows_of,
)
from knative.errors import PenstockError, UsageError
from knative.traffic.counts import Counts
from tests.support.traffic_tables import write_former, write_tables

HOUR = 1_790_000_000 // 3600 * 3600

sketches = st.dictionaries(st.integers(0, 5), st.integers(1, 9), max_size=3)
windows = st.builds(
    Window,
    start=st.sampled_from([HOUR, HOUR + 60, HOUR + 3600]),
    size=st.just(60),
    kind=st.sampled_from(["stored", "settled"]),
    namespace=st.just("ns"),
    channel=st.sampled_from(["a", "b"]),
    type=st.sampled_from(["", "größe"]),
    counts=st.builds(Counts, st.integers(0, 2**40)),
    late=st.integers(0, 5),
    latency=sketches,
)


def sample(start: int = HOUR, events: int = 1, size: int = 60, **more: Any) -> Window:
    return Window(start, size, "stored", "ns", "a", counts=Counts(events), **more)


@given(st.lists(windows, max_size=12))
def test_windows_add_up_key_by_key_and_bucket_by_bucket(drawn: list[Window]) -> None:
    def key(window: Window) -> tuple[object, ...]:
        return (window.start, window.kind, window.channel, window.type)

    whole = windows_of(merge(table_of(drawn)))

    assert [key(window) for window in whole] == sorted({key(window) for window in drawn})
    for window in whole:
        mine = [other for other in drawn if key(other) == key(window)]
        assert window.counts.events == sum(other.counts.events for other in mine)
        assert window.late == sum(other.late for other in mine)
        buckets = {bucket for other in mine for bucket in other.latency}
        assert window.latency == {bucket: sum(other.latency.get(bucket, 0) for other in mine) for bucket in buckets}
    hours = windows_of(merge(coarsen(table_of(drawn), 3600)))
    assert sum(window.counts.events for window in drawn) == sum(window.counts.events for window in hours)
    assert {window.start % 3600 for window in hours} <= {0}
    sums = windows_of(sum_over([table_of(drawn)], ("start", "size", "type")))
    assert {(window.start, window.size, window.type) for window in sums} <= {(0, 0, "")}
    assert sum(window.late for window in drawn) == sum(window.late for window in sums)


def test_windows_come_back_as_they_were(tmp_path: Path) -> None:
    window = Window(HOUR, 60, "settled", "ns", "ch", "sub", "t", "/s", Counts(9, 90, 5, 4, 3, 1), 2, {4: 5})

    write_tables(tmp_path, [window])

    assert read_windows(tmp_path) == [window]
    assert read_sums(tmp_path) == (
        [Window(0, 0, "settled", "ns", "ch", "sub", "t", "/s", window.counts, 2, {4: 5})],
        (HOUR, HOUR + 60),
    )
    assert (window.tier, window.latency_s(0.5) is not None, sample().latency_s(0.5)) == ("deltas", True, None)


def test_what_is_asked_for_is_found(tmp_path: Path) -> None:
    write_tables(
        tmp_path,
        [sample(HOUR), sample(HOUR + 60), sample(HOUR + 3600), sample((HOUR - 9 * DAY_S) // 3600 * 3600, 5, 3600)],
    )

    assert [w.start for w in read_windows(tmp_path, since=HOUR + 70)] == [HOUR + 60, HOUR + 3600]
    assert [w.start for w in read_windows(tmp_path, until=HOUR + 60)] == [HOUR]
    assert [w.start for w in read_windows(tmp_path, until=HOUR + 60.5)] == [HOUR, HOUR + 60]
    hours = [(w.start, w.counts.events) for w in read_windows(tmp_path, 3600)]
    assert hours == [(HOUR - 9 * DAY_S, 5), (HOUR, 2), (HOUR + 3600, 1)]
    assert [w.counts.events for w in read_windows(tmp_path, 3600, until=HOUR + 1)] == [5, 2]
    assert sum(w.counts.events for w in read_windows(tmp_path, DAY_S)) == 8
    assert read_sums(tmp_path, since=HOUR, until=HOUR + 120)[1] == (HOUR, HOUR + 120)
    assert read_sums(tmp_path, since=HOUR + DAY_S) == ([], None)
    assert (count_rows(tmp_path), count_rows(tmp_path, since=HOUR - DAY_S)) == (4, 3)
    with pytest.raises(UsageError, match="60, 3600 and 86400 seconds, but not of 61"):
        read_windows(tmp_path, 61)
    with pytest.raises(PenstockError, match=r"no traffic tables.*penstock job traffic"):
        read_windows(tmp_path / "elsewhere")


def test_only_the_days_of_the_span_are_opened(tmp_path: Path) -> None:
    write_tables(tmp_path, [sample(HOUR), sample(HOUR - DAY_S), sample(HOUR + DAY_S)])
    for file in window_files(tmp_path, until=HOUR // DAY_S * DAY_S):
        Path(file).write_bytes(b"not read")

    assert [w.start for w in read_windows(tmp_path, since=HOUR)] == [HOUR, HOUR + DAY_S]


def test_newest_commit_counts_and_the_rest_is_deleted(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path)
    write_tables(tmp_path, [sample(events=5), sample(HOUR - 5 * DAY_S)])
    second = write_tables(tmp_path, [sample(events=7)], 2, offsets={"t": {0: 9}}, owners={"t": ("ns", "a")})
    half_done = tmp_path / "windows" / "resolution=60" / "day=2026-01-01" / "run=3"
    half_done.mkdir(parents=True)
    (half_done / "part-0.parquet").write_bytes(b"half")
    (tmp_path / "windows" / ".spark-staging-1" / "x").mkdir(parents=True)
    (tmp_path / "commits" / ".half-done").write_bytes(b"{")

    assert dataset.last() == second
    assert [w.counts.events for w in read_windows(tmp_path)] == [7]
    dataset.tidy(second)
    assert [w.counts.events for w in read_windows(tmp_path)] == [7]
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"0000000002.json", "part-0.parquet"}
    assert {path.name for path in (tmp_path / "windows").iterdir()} == {"resolution=60"}
    with pytest.raises(PenstockError, match="Another job has written"):
        dataset.write(second)


def test_age_of_a_day_says_how_fine_it_is() -> None:
    ages = Ages.at(HOUR)
    days = {"2026-09-21": 60, "2026-09-18": 60, "2026-09-17": 3600, "2026-07-24": 3600, "2026-07-22": DAY_S}
    assert {day: ages.resolution(day) for day in [*days, "2025-01-01"]} == {**days, "2025-01-01": 0}
    files = {
        day: (f"resolution={size}/day={day}/run=1/a.parquet",)
        for day, size in (("2026-09-17", 60), ("2026-09-18", 60), ("2026-07-24", 3600), ("2026-07-22", 3600))
    }
    assert Commit("i", "c", days=files).due(ages) == ["2026-09-17", "2026-07-22"]


def test_files_that_the_job_removes_while_they_are_read_are_looked_up_again(tmp_path: Path) -> None:
    write_tables(tmp_path, [sample()])
    reads: list[int] = []

    def read(files: list[str]) -> list[int]:
        reads.append(len(files))
        if len(reads) == 1:
            Dataset(tmp_path).tidy(write_tables(tmp_path, [sample(), sample(HOUR + DAY_S)], 2))
        return [pq.read_metadata(file).num_rows for file in files]

    assert with_window_files(tmp_path, read) == [1, 1]
    assert reads == [1, 2]


def test_another_failure_with_the_files_is_raised_at_once(tmp_path: Path) -> None:
    write_tables(tmp_path, [sample()])
    reads: list[int] = []

    def read(files: list[str]) -> None:
        reads.append(len(files))
        raise ValueError("of the reader")

    with pytest.raises(ValueError, match="of the reader"):
        with_window_files(tmp_path, read)
    assert reads == [1]


def test_folders_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    assert Dataset(tmp_path / "new").check("penstock", "c") == Commit("penstock", "c")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BrokenTablesError, match=r"letter.txt.*--folder"):
        Dataset(tmp_path / "mine").check("penstock", "c")
    with pytest.raises(UsageError, match="Nothing was deleted"):
        Dataset(tmp_path / "mine").wipe()
    ours = Dataset(tmp_path / "ours")
    commit = write_tables(tmp_path / "ours", [sample()])
    assert ours.check("penstock", "cluster") == commit
    for instance, cluster in (("other", "cluster"), ("penstock", "d")):
        with pytest.raises(UsageError, match=r"another Kafka.*--folder DIR") as refused:
            ours.check(instance, cluster)
        assert "--reset" not in str(refused.value), "it would delete them"
    for content in ("", "[]", "{}", '{"format":1}'):
        (tmp_path / "ours" / "commits" / "0000000001.json").write_text(content)
        with pytest.raises(BrokenTablesError, match=r"cannot be read.*--reset"):
            ours.check("penstock", "cluster")
    ours.wipe()
    ours.wipe()
    assert list((tmp_path / "ours").iterdir()) == []
    with pytest.raises(PenstockError, match=r"cannot be written.*--folder"):
        Dataset(tmp_path / "mine" / "letter.txt" / "t").check("penstock", "c")


@pytest.mark.parametrize("name", ["windows/photo.jpg", "commits/notes.txt", "letter.txt", "records/1.wav"])
def test_what_only_has_the_names_of_tables_is_not_deleted(name: str, tmp_path: Path) -> None:
    """Beside tables, too; a disk of its own may have its lost+found, and the folder itself stays."""
    file = tmp_path / name
    for tables in (False, True):
        if tables:
            write_tables(tmp_path, [sample()])
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"mine")
        with pytest.raises(UsageError, match=rf"{name.partition('/')[0]}.*Nothing was deleted"):
            Dataset(tmp_path).wipe()
        assert file.exists()
    assert len(read_windows(tmp_path)) == 1
    shutil.rmtree(file.parent) if file.parent != tmp_path else file.unlink()
    write_tables(tmp_path / "disk", [sample()])
    (tmp_path / "disk" / "lost+found").mkdir()
    Dataset(tmp_path / "disk").wipe()
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["lost+found"]
    assert Dataset(tmp_path / "disk").check("i", "c").run == 0


def test_no_run_adds_to_the_count_of_a_time_range(tmp_path: Path) -> None:
    write_tables(tmp_path / "span", [sample()], is_span=True)
    write_tables(tmp_path / "tables", [sample()])
    for folder, is_span in (("span", False), ("span", True), ("tables", True)):
        with pytest.raises(UsageError, match="Use another folder"):
            Dataset(tmp_path / folder).check("penstock", "cluster", is_span)


def test_folder_elsewhere_is_a_uri(tmp_path: Path) -> None:
    local, file = Dataset("traffic"), Dataset(tmp_path.as_uri())
    assert (local.is_local, local.root, local.uri) == (True, str(Path("traffic").absolute()), local.uri)
    assert (file.is_local, file.root, file.uri) == (True, str(tmp_path), tmp_path.as_uri())
    bucket = Dataset("s3a://bucket/a/traffic/?region=eu-central-1")
    assert (bucket.is_local, bucket.root, bucket.uri) == (False, "bucket/a/traffic", "s3a://bucket/a/traffic")
    assert bucket.uri_of("bucket/a/traffic/windows/x") == "s3a://bucket/a/traffic/windows/x"
    with pytest.raises(UsageError, match="nfs://host/x is not a place"):
        Dataset("nfs://host/x")


def test_broken_file_is_named(tmp_path: Path) -> None:
    write_tables(tmp_path, [sample()])
    Path(window_files(tmp_path)[0]).write_bytes(b"PAR1 no")
    with pytest.raises(PenstockError, match=r"cannot be read.*--reset"):
        read_windows(tmp_path)
    shutil.rmtree(tmp_path / "windows")
    with pytest.raises(PenstockError, match=r"cannot be read.*--reset"):
        read_windows(tmp_path)


def test_one_job_at_a_time(tmp_path: Path) -> None:
    with (
        hold(tmp_path / "t"),
        pytest.raises(PenstockError, match=r"Another job is writing to.*--folder"),
        hold(tmp_path / "t"),
    ):
        pass
    with hold(tmp_path / "t"):
        assert Dataset(tmp_path / "t").check("i", "c").run == 0
    assert list((tmp_path / "t").iterdir()) == [], "no lock stays behind"


def test_lock_file_that_its_holder_has_removed_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job before ends between the open and the lock of this one."""
    lock, really = tmp_path / "t" / ".lock", fcntl.flock
    calls: list[int] = []

    def flock(handle: int, how: int) -> None:
        if not calls:
            lock.unlink()
        calls.append(handle)
        really(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with hold(tmp_path / "t"):
        assert len(calls) == 2
        with pytest.raises(PenstockError, match="Another job"), hold(tmp_path / "t"):
            pass


def test_days_in_longer_windows_are_in_sums(tmp_path: Path) -> None:
    hour, day = HOUR - 9 * DAY_S, (HOUR - 99 * DAY_S) // DAY_S * DAY_S
    reported = [Window(start, 60, "accepted", "ns", "a", counts=Counts(64)) for start in (HOUR, HOUR + 120)]
    write_tables(tmp_path, [sample(HOUR), sample(HOUR + 60), sample(hour, 4, 3600), sample(day, 16, DAY_S), *reported])

    def sums(size: int, since: float, until: float) -> tuple[int, tuple[int, int] | None]:
        windows, span = read_sums(tmp_path, size, since, until)
        return sum(window.counts.events for window in windows), span

    assert sums(3600, day, HOUR + 3600) == (1 + 1 + 64 + 4 + 16, (day, HOUR + 3600))
    assert sums(60, hour + 600, hour + 1200) == (4, (hour, hour + 3600))
    assert sums(3600, day + 7200, day + 9000) == (16, (day, day + DAY_S))
    assert sums(60, HOUR + 70, HOUR + 90) == (1, (HOUR + 60, HOUR + 120))
    assert (size_for(0, 6 * 3600), size_for(0, 6 * 3600 + 1)) == (60, 3600)


def test_what_another_job_writes_at_the_same_time_stays(tmp_path: Path) -> None:
    """On a file system without locks: its newer commit and its attempts at runs that may still be committed."""
    dataset = Dataset(tmp_path)
    first = write_tables(tmp_path, [sample(events=5)])
    second = write_tables(tmp_path, [sample(events=7)], 2)
    dataset.is_local = False
    staging = [tmp_path / "commits" / ".half-done", tmp_path / "windows" / ".spark-staging-1" / "x"]
    attempts = [tmp_path / "windows/resolution=60/day=2026-09-21" / run / "a.parquet" for run in ("run=2-b", "run=3-b")]
    for path in [*staging, *attempts]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half")

    dataset.tidy(first)
    assert (dataset.last(), [window.counts.events for window in read_windows(tmp_path)]) == (second, [7])
    dataset.tidy(second)
    assert all(path.exists() for path in [*staging, *attempts])
    assert [path.name for path in (tmp_path / "commits").glob("*.json")] == ["0000000002.json"]
    third = replace(second, run=3)
    dataset.write(third)
    with pytest.raises(PenstockError, match="Another job has written"):
        dataset.write(second)
    dataset.tidy(third)
    assert [path.exists() for path in attempts] == [False, True], "run 2 can no longer be committed"
    for path in [*staging, *attempts[1:]]:
        os.utime(path, (0, 0))
    dataset.tidy(third)
    assert not any(path.exists() for path in [*staging, *attempts])
    assert [window.counts.events for window in read_windows(tmp_path)] == [7]


def test_former_tables_without_parts_go_on_at_their_offsets(tmp_path: Path) -> None:
    write_former(
        tmp_path / "t", [], Commit("i", "c", offsets={"x": {0: 5}}, owners={"x": ("ns", "a")}, newest={"d": 1})
    )
    shutil.rmtree(tmp_path / "t" / "records" / "parts")

    assert _committed(tmp_path / "t" / "records") == ([], {}, {"x": {0: 5}})
