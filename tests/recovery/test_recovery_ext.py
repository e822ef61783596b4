"""Recovery of the extension files of consume queues."""

import dataclasses
import os
import shutil

import pytest
from support import damages
from support.recovered import CONFIG, CQ_FILE, complete_store_of, contents

import rocketstore
from rocketstore import CorruptFileError, Message, recover, verify

EXT = dataclasses.replace(CONFIG, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=128)


def ext_files(root):
    """Make a store whose queue has ext units; the files of these."""
    with rocketstore.open(root, "a", config=EXT) as opened:
        for i in range(20):
            opened.put_message(Message("T", b"", queue_id=0, tags=f"t{i}"))
    return sorted((root / "consumequeue_ext/T/0").iterdir())


@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
@pytest.mark.parametrize("how", ["zeros", "empty", "gone", "all"])
def test_units_whose_ext_units_did_not_come_to_the_disk_are_put_again(tmp_path, how, mode):
    """Else those of the next messages would be where these lead, with other tags."""
    path = ext_files(tmp_path)[-1]
    if how == "all":
        shutil.rmtree(path.parent)
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(128 if how == "zeros" else 0))
    mode(tmp_path, None)
    recover(tmp_path, config=EXT)
    assert recover(tmp_path, config=EXT).actions == ()
    with rocketstore.open(tmp_path, "a", config=EXT) as opened:
        opened.put_message(Message("T", b"", queue_id=0, tags="new"))
        found = [opened.get_message("T", 0, 0, 32, tag=f"t{i}").messages.queue_offset.tolist() for i in range(20)]
    assert found == [[i] for i in range(20)]
    assert [finding for finding in verify(tmp_path, config=EXT).findings if finding.kind.startswith("ext")] == []


@pytest.mark.parametrize("units", ["there", "gone"])
@pytest.mark.parametrize("how", ["zeros", "empty", "gone"])
def test_units_before_the_last_whose_ext_units_did_not_come_to_the_disk_are_put_again(tmp_path, how, units):
    files = ext_files(tmp_path)
    if units == "gone":  # made again, it goes on behind the ext units that are there
        shutil.rmtree(tmp_path / "consumequeue/T")
    path = files[len(files) // 2]
    path.unlink() if how == "gone" else path.write_bytes(bytes(128 if how == "zeros" else 0))
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").unlink()
    recover(tmp_path, config=EXT)
    assert recover(tmp_path, config=EXT).actions == ()
    with rocketstore.open(tmp_path, config=EXT) as opened:
        found = [opened.get_message("T", 0, 0, 32, tag=f"t{i}").messages.queue_offset.tolist() for i in range(20)]
    assert found == [[i] for i in range(20)]


@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("ext", [False, True], ids=["plain", "ext"])
def test_a_unit_that_lost_its_tags_code_at_the_end_of_a_file_is_put_again(tmp_path, ext, complete):
    """Nothing else is in that sector, and the units of the next file look as if it were whole."""
    config = dataclasses.replace(EXT, mapped_file_size_consume_queue=520, enable_consume_queue_ext=ext)
    with rocketstore.open(tmp_path, "a", config=config) as opened:
        for i in range(60):
            opened.put_message(Message("T", b"", queue_id=0, tags=f"t{i}"))
    before = contents(tmp_path)
    path = min((tmp_path / "consumequeue/T/0").iterdir())
    path.write_bytes(path.read_bytes()[:512] + bytes(8))
    (tmp_path / "checkpoint").unlink()
    damages.unclean(tmp_path, None)
    complete(tmp_path, config=config)
    (tmp_path / "abort").unlink(missing_ok=True)
    assert recover(tmp_path, config=config).actions == ()
    with rocketstore.open(tmp_path, config=config) as opened:
        assert opened.get_message("T", 0, 0, 32, tag="t25").messages[0].queue_offset == 25
    if not ext:
        assert contents(tmp_path) == before


@pytest.mark.parametrize("units", ["there", "gone"])
@pytest.mark.parametrize("complete", [recover, complete_store_of], ids=("recover", "open"))
@pytest.mark.parametrize("mode", [damages.clean, damages.unclean], ids=lambda mode: mode.__name__)
def test_an_ext_file_of_another_length_is_refused_before_anything_is_changed(tmp_path, mode, complete, units):
    path = ext_files(tmp_path)[-1]
    if units == "gone":
        shutil.rmtree(tmp_path / "consumequeue/T")
    os.truncate(path, 100)
    mode(tmp_path, None)
    before = contents(tmp_path)
    for options in ({"dry_run": True}, {}) if complete is recover else ({},):
        with pytest.raises(CorruptFileError, match="check the configuration") as caught:
            complete(tmp_path, config=EXT, **options)
        assert (caught.value.path, caught.value.offset) == (path, 100)
    assert contents(tmp_path) == before


def test_records_that_are_dispatched_again_for_the_index_get_no_second_ext_unit(tmp_path):
    root = tmp_path / "store"
    config = dataclasses.replace(CONFIG, enable_consume_queue_ext=True)
    with rocketstore.open(root, "a", config=config) as store:
        store.put_messages([Message("A", b"", tags="t", keys=f"k{i}", queue_id=0) for i in range(5)])
    expected = contents(root)
    for path in (root / "index").iterdir():
        path.unlink()
    recover(root, config=config)
    assert contents(root) == expected


@pytest.mark.parametrize("kept", range(12, 20))
def test_a_unit_torn_in_a_negative_tags_code_is_no_address_where_there_are_no_ext_files(tmp_path, kept):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=CONFIG) as store:
        for tags in ("TagA", "polygenelubricants"):  # whose hash is the least int
            store.put_message(Message("A", b"", tags=tags, queue_id=0))
    expected = contents(root)
    path = root / "consumequeue" / "A" / "0" / f"{0:020}"
    path.write_bytes(path.read_bytes()[: 20 + kept].ljust(CQ_FILE, b"\0"))
    damages.unclean(root, None)
    (root / "checkpoint").unlink()  # which knows the unit to be on the disk
    recover(root, config=CONFIG)
    assert contents(root) == expected
