"""The copy of the example that `penstock up` serves: what the user did to it stays, what is ours follows the port."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.local.packaged import example
from app.local.probes import resources_in, subscriptions_by_channel
from app.local.quickstart import _digest, place_quickstart, plan, resources_of_up
from knative.errors import PenstockError, UsageError
from knative.resources.values import KafkaChannel, Subscription

QUICKSTART = example("quickstart")

_MINE = "apiVersion: messaging.knative.dev/v1\nkind: KafkaChannel\nmetadata: {name: mine}\n"


def ports(folder: Path) -> set[str]:
    """Of the subscribers of all subscriptions in a folder."""
    subscriptions = [resource for resource in resources_in(folder) if isinstance(resource, Subscription)]
    return {subscription.subscriber.uri.split(":")[2].split("/")[0] for subscription in subscriptions}


def files(folder: Path) -> dict[str, bytes]:
    """What the user sees in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder, said = resources_of_up(QUICKSTART, tmp_path, 29_001)
    assert folder == tmp_path / "quickstart"
    assert said == [f"Using the resources in {folder}."]
    return folder


def test_without_a_port_the_example_itself_is_served(tmp_path: Path) -> None:
    for port in (8090, 0):
        assert resources_of_up(QUICKSTART, tmp_path, port) == (QUICKSTART, [])
    assert list(tmp_path.iterdir()) == []


def test_installed_example_is_copied_before_it_is_served(tmp_path: Path) -> None:
    folder, said = resources_of_up(QUICKSTART, tmp_path, 0, in_place=False)
    assert folder == tmp_path / "quickstart"
    assert files(folder) == files(QUICKSTART)
    assert said == [f"Using the resources in {folder}."]


def test_unedited_copy_follows_the_port(copy: Path) -> None:
    assert ports(copy) == {"29001"}
    for port, expected in ((29_002, "29002"), (8090, "8090"), (29_003, "29003"), (0, "8090")):
        assert resources_of_up(QUICKSTART, copy.parent, port)[0] == copy, "from then on, whatever the port"
        assert ports(copy) == {expected}
    assert files(copy) == files(QUICKSTART)


@pytest.mark.parametrize("port", [29_001, 29_002, 8090, 0])
def test_what_the_user_did_to_the_copy_stays(copy: Path, port: int) -> None:
    (copy / "mine.yaml").write_text(_MINE)
    channel = (copy / "channel.yaml").read_text().replace("numPartitions: 4", "numPartitions: 7")
    (copy / "channel.yaml").write_text(channel)
    (copy / "subscriptions.yaml").unlink()
    before = files(copy)
    for _ in range(2):
        folder, said = resources_of_up(QUICKSTART, copy.parent, port)
        assert folder == copy
        assert files(copy) == before
        assert any("channel.yaml" in sentence for sentence in said) == bool(port)


def test_only_the_edited_file_is_left_behind(copy: Path) -> None:
    (copy / "channel.yaml").write_text("")
    resources_of_up(QUICKSTART, copy.parent, 29_002)
    assert (copy / "channel.yaml").read_bytes() == b""
    assert ports(copy) == {"29002"}


@pytest.mark.parametrize("record", [b"", b"[]", b"{", b"\xff"])
def test_record_that_cannot_be_read_overwrites_nothing(copy: Path, record: bytes) -> None:
    (copy / ".written.json").write_bytes(record)
    (copy / "channel.yaml").write_text(_MINE)
    resources_of_up(QUICKSTART, copy.parent, 29_005)
    assert (copy / "channel.yaml").read_text() == _MINE


def test_files_that_the_example_gained_come_along(tmp_path: Path) -> None:
    example = tmp_path / "example"
    shutil.copytree(QUICKSTART, example)
    place_quickstart(example, tmp_path / "copy", 29_001)
    (example / "team").mkdir()
    (example / "team" / "MINE.YML").write_text(_MINE)
    (example / "notes.txt").write_text("no resource")
    place_quickstart(example, tmp_path / "copy", 29_001)
    assert (tmp_path / "copy" / "team" / "MINE.YML").read_text() == _MINE
    assert not (tmp_path / "copy" / "notes.txt").exists()
    (example / "team" / "MINE.YML").unlink()
    place_quickstart(example, tmp_path / "copy", 29_001)
    assert (tmp_path / "copy" / "team" / "MINE.YML").exists(), "nothing is removed"


def test_home_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PenstockError, match=r"cannot be written to .*--home DIR"):
        resources_of_up(QUICKSTART, tmp_path / "file" / "home", 29_001)


_contents = st.dictionaries(st.sampled_from("abc"), st.sampled_from([b"", b"x", b"127.0.0.1:1", b"127.0.0.1:2"]))


@given(st.lists(st.tuples(_contents, st.dictionaries(st.sampled_from("abc"), st.none() | st.binary(max_size=1)))))
def test_edit_is_never_overwritten(rounds: list[tuple[dict[str, bytes], dict[str, bytes | None]]]) -> None:
    """A start, then what the user does to the files, then the next start ..."""
    present: dict[str, bytes] = {}
    record: dict[str, str] = {}
    edited: dict[str, bytes | None] = {}
    for contents, edits in rounds:
        done = plan(contents, present, record)
        for name, content in edited.items():
            assert name not in done.write or contents[name] == content or content is None
            if content is None and name in record:
                assert name not in done.write, "what was deleted stays deleted"
        present.update(done.write)
        record = dict(done.written)
        # A file that was changed back cannot be distinguished from an unedited one.
        edited = {
            name: content
            for name, content in edits.items()
            if present.get(name) != content and (content is None or _digest(content) != record.get(name))
        }
        for name, content in edited.items():
            if content is None:
                del present[name]
            else:
                present[name] = content


_REPOSITORY = Path(__file__).parents[4]
_QUICKSTART = _REPOSITORY / "examples" / "quickstart"


def test_quickstart_is_what_the_commands_expect(tmp_path: Path) -> None:
    resources = resources_in(_QUICKSTART)
    assert subscriptions_by_channel(resources) == {"default/quickstart": 2}
    channel = next(resource for resource in resources if isinstance(resource, KafkaChannel))
    assert channel.partitions == 4
    assert channel.hosts[0] == "my-kafkachannel-service.mynamespace.svc.cluster.local"
    place_quickstart(_QUICKSTART, tmp_path / "copy", 29999)
    uris = {
        resource.subscriber.uri for resource in resources_in(tmp_path / "copy") if isinstance(resource, Subscription)
    }
    assert uris == {"http://127.0.0.1:29999/good", "http://127.0.0.1:29999/picky"}
    with pytest.raises(UsageError, match="no directory"):
        resources_in(tmp_path / "nowhere")
