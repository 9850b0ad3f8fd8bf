"""The tables of the traffic job without Spark: merging, batches, state, compaction, retention, what is refused."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analytics.traffic.read import read_windows, window_files, with_window_files
from analytics.traffic.store import (
    BrokenTablesError,
    QueryStore,
    check_tables,
    hold,
    open_tables,
    parts,
    wipe,
)
from analytics.traffic.totals import Totals
from analytics.traffic.windows import Window, arrivals, coarsen, merge, table_of, windows_of
from knative.errors import PenstockError, UsageError
from knative.traffic.counts import Counts

HOUR = 1_790_000_000 // 3600 * 3600
FACTS: dict[str, Any] = {"counters": {"records": 1}}

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


def one(start: int = HOUR, events: int = 1, **more: Any) -> Window:
    return Window(start, 60, "stored", "ns", "a", counts=Counts(events), **more)


def store_in(folder: Path) -> QueryStore:
    store = QueryStore(folder / "records", open_tables(folder, "penstock", "cluster"))
    store.open()
    return store


def commit(store: QueryStore, batch: int) -> None:
    for name in ("offsets", "commits"):
        (store.checkpoint / name).mkdir(exist_ok=True)
        (store.checkpoint / name / str(batch)).write_text("v1")


@given(st.lists(windows, max_size=12), st.integers(0, 12))
def test_sums_do_not_depend_on_the_batches(found: list[Window], cut: int) -> None:
    whole = windows_of(merge([table_of(found)]))
    in_two = windows_of(merge([merge([table_of(found[:cut])]), merge([table_of(found[cut:])])]))
    hours = windows_of(merge([coarsen(table_of(found), 3600)]))

    assert in_two == whole
    assert len({(w.start, w.kind, w.channel, w.type) for w in whole}) == len(whole)
    assert sum(w.counts.events for w in found) == sum(w.counts.events for w in hours)
    assert sum(w.late for w in found) == sum(w.late for w in hours)
    assert sum(sum(w.latency.values()) for w in whole) == sum(sum(w.latency.values()) for w in found)
    assert {w.start % 3600 for w in hours} <= {0}


def test_windows_come_back_as_they_were(tmp_path: Path) -> None:
    window = Window(HOUR, 60, "settled", "ns", "ch", "sub", "t", "/s", Counts(9, 90, 5, 4, 3, 1), 2, {4: 5})

    store_in(tmp_path).write(0, table_of([window]), FACTS)

    assert read_windows(tmp_path) == [window]
    assert (window.tier, window.latency_s(0.5) is not None, one().latency_s(0.5)) == ("deltas", True, None)


def test_what_is_asked_for_is_found(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.write(0, table_of([one(HOUR), one(HOUR + 60), one(HOUR + 3600)]), FACTS)

    assert [w.start for w in read_windows(tmp_path, since=HOUR + 70)] == [HOUR + 60, HOUR + 3600]
    assert [w.start for w in read_windows(tmp_path, until=HOUR + 60)] == [HOUR]
    assert [(w.start, w.counts.events) for w in read_windows(tmp_path, 3600)] == [(HOUR, 2), (HOUR + 3600, 1)]
    with pytest.raises(UsageError, match="60 and 3600"):
        read_windows(tmp_path, 61)
    with pytest.raises(PenstockError, match=r"no traffic tables.*penstock job traffic"):
        read_windows(tmp_path / "elsewhere")


def test_a_repeated_batch_replaces_itself(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for events in (5, 7):
        store.write(0, table_of([one(events=events)]), {**FACTS, "newest": events})

    assert [w.counts.events for w in read_windows(tmp_path)] == [7]
    assert store.state_before(0) == {}
    assert store.state_before(1)["newest"] == 7
    with pytest.raises(BrokenTablesError, match=r"lack batch 1.*--reset"):
        store.state_before(2)


def test_compaction_changes_no_sum_and_takes_committed_batches_only(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for batch in range(5):
        store.write(batch, table_of([one(events=batch + 1, latency={3: 1})]), {**FACTS, "newest": batch})
    for batch in range(4):
        commit(store, batch)
    before = read_windows(tmp_path)
    assert store.compact(HOUR, least=5) == 0

    assert store.compact(HOUR, least=4) == 4

    assert read_windows(tmp_path) == before
    assert [(part.batch, part.compacted) for part in parts(store.parts_folder)] == [(3, True), (4, False)]
    facts = store.state_before(4)
    assert (facts["newest"], facts["counters"]) == (3, {"records": 4})
    # A kill between the new folder and the removal of the old ones: they do not count any more.
    shutil.copytree(store.parts_folder / f"batch={4:010}", store.parts_folder / f"batch={1:010}")
    assert read_windows(tmp_path) == before
    (store.parts_folder / ".tmp-of-a-kill").mkdir()
    store.open()
    assert not (store.parts_folder / ".tmp-of-a-kill").exists()
    assert {path.name for path in store.parts_folder.glob("*=*")} == {"upto=0000000003", "batch=0000000004"}
    assert read_windows(tmp_path) == before


def test_old_minutes_become_hours_and_old_hours_go(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    old, older = HOUR - 10 * 3600, HOUR - 100 * 3600
    for batch, start in enumerate((older, old, old + 120, HOUR)):
        store.write(batch, table_of([one(start)]), FACTS)
        commit(store, batch)

    store.compact(HOUR, least=2, keep_minutes_s=5 * 3600, keep_s=50 * 3600)

    assert [(w.start, w.size, w.counts.events) for w in read_windows(tmp_path)] == [(HOUR, 60, 1)]
    assert [(w.start, w.counts.events) for w in read_windows(tmp_path, 3600)] == [(old, 2), (HOUR, 1)]
    assert len(window_files(tmp_path)) == 1


def test_files_that_a_compaction_removes_while_they_are_read_are_looked_up_again(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for batch in range(3):
        store.write(batch, table_of([one()]), FACTS)
        commit(store, batch)
    reads: list[int] = []

    def read(files: list[Path]) -> list[int]:
        reads.append(len(files))
        if len(reads) == 1:
            store.compact(HOUR, least=2)
        return [pq.read_metadata(file).num_rows for file in files]

    assert with_window_files(tmp_path, read) == [1]
    assert reads == [3, 1]


def test_another_failure_with_the_files_is_raised_at_once(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.write(0, table_of([one()]), FACTS)
    reads: list[int] = []

    def read(files: list[Path]) -> None:
        reads.append(len(files))
        raise ValueError("of the reader")

    with pytest.raises(ValueError, match="of the reader"):
        with_window_files(tmp_path, read)
    assert reads == [1]


def test_checkpoint_and_tables_belong_together(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.write(0, table_of([one()]), FACTS)
    commit(store, 0)
    store_in(tmp_path)
    commit(store, 1)  # which the tables do not have
    with pytest.raises(BrokenTablesError, match=r"do not belong together.*--reset"):
        store.open()
    store.write(1, table_of([one()]), FACTS)
    (store.checkpoint / "penstock-id").write_text("another")
    with pytest.raises(BrokenTablesError, match="do not belong together"):
        store.open()
    shutil.rmtree(store.checkpoint)
    with pytest.raises(BrokenTablesError, match="do not belong together"):
        store.open()


def test_folders_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    assert check_tables(tmp_path / "new", "penstock", "c") is None
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BrokenTablesError, match=r"not empty.*--folder"):
        check_tables(tmp_path / "mine", "penstock", "c")
    with pytest.raises(UsageError, match="Nothing was deleted"):
        wipe(tmp_path / "mine")
    ours = tmp_path / "ours"
    assert open_tables(ours, "penstock", "c") == check_tables(ours, "penstock", "c")
    for instance, cluster in (("other", "c"), ("penstock", "d")):
        with pytest.raises(UsageError, match=r"another Kafka.*--folder DIR") as refused:
            check_tables(ours, instance, cluster)
        assert "--reset" not in str(refused.value), "it would delete them"
    for content in ("", "[]", "{}", json.dumps({"format": 1})):
        (ours / "tables.json").write_text(content)
        with pytest.raises(BrokenTablesError, match=r"cannot be read.*--reset"):
            check_tables(ours, "penstock", "c")
    (ours / "tables.json").write_text(json.dumps({"format": 2, "instance": "penstock", "cluster": "c", "id": "x"}))
    with pytest.raises(BrokenTablesError, match="another version"):
        check_tables(ours, "penstock", "c")
    wipe(ours)
    wipe(ours)
    assert not ours.exists()
    with pytest.raises(PenstockError, match=r"cannot be written.*--folder"):
        check_tables(tmp_path / "mine" / "letter.txt" / "t", "penstock", "c")


def test_one_job_at_a_time(tmp_path: Path) -> None:
    with (
        hold(tmp_path / "t"),
        pytest.raises(PenstockError, match=r"Another job is writing to.*--folder"),
        hold(tmp_path / "t"),
    ):
        pass
    with hold(tmp_path / "t"):
        assert not (tmp_path / "t").exists()
    assert list(tmp_path.iterdir()) == [], "no lock stays behind"


def test_a_lock_file_that_its_holder_has_removed_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job before ends between the open and the lock of this one."""
    lock, really = tmp_path / ".t.lock", fcntl.flock
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


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.write(0, table_of([one()]), FACTS)
    part = parts(store.parts_folder)[0].path
    (part / "windows.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(PenstockError, match=r"cannot be read.*--reset"):
        read_windows(tmp_path)
    for content in ("junk", "[]"):
        (part / "facts.json").write_text(content)
        with pytest.raises(BrokenTablesError, match=r"facts.json.*--reset"):
            store.state_before(1)


def test_a_compaction_during_a_read_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_in(tmp_path)
    for batch in range(2):
        store.write(batch, table_of([one()]), FACTS)
        commit(store, batch)
    read = pq.read_table

    def compacted_meanwhile(file: Path, **more: Any) -> pa.Table:
        monkeypatch.setattr(pq, "read_table", read)
        store.compact(HOUR, least=2)
        return read(file, **more)

    monkeypatch.setattr(pq, "read_table", compacted_meanwhile)
    assert [w.counts.events for w in read_windows(tmp_path)] == [2]


def test_totals_are_of_lines() -> None:
    totals = Totals()
    totals.add(table_of([one(HOUR, 3, type="x"), one(HOUR + 120, 4, source="y", latency={2: 1})]))
    totals.add(table_of([one(HOUR + 60, 5)]))
    totals.add(table_of([]))

    line = ("stored", "ns", "a", "")
    assert (totals.windows[line].counts.events, totals.windows[line].latency, totals.seconds(line)) == (12, {2: 1}, 180)


def test_what_came_in_is_counted_on_one_way() -> None:
    read, reported, other = one(), Window(HOUR, 60, "accepted", "ns", "a"), Window(HOUR, 60, "accepted", "ns", "b")

    assert arrivals([read, reported, other, Window(HOUR, 60, "settled", "ns", "a", "s")]) == [read, other]
