"""Which sizes a store is written with: given, left by a writer, shown by files beyond doubt, or refused."""

import json
import os
import random
import shutil
from dataclasses import replace

import pytest

import rocketstore
from rocketstore import CorruptFileError, IndexFile, Message, StoreConfig
from rocketstore.config import DEFAULT_SIZES
from rocketstore.index import geometry as index_geometry
from rocketstore.survey.places import StorePlaces
from rocketstore.survey.sizes import save_settings
from rocketstore.survey.survey import survey_store

SMALL = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "mapper_file_size_batch_consume_queue": 460,
    "mapped_file_size_consume_queue_ext": 1000,
    "max_hash_slot_num": 97,
    "max_index_num": 400,
}
DIRECTORIES = {
    "mapped_file_size_commit_log": "commitlog",
    "mapped_file_size_consume_queue": "consumequeue/T/0",
    "mapper_file_size_batch_consume_queue": "batchconsumequeue/B/3",
    "mapped_file_size_consume_queue_ext": "consumequeue_ext/T/0",
}
RUNS = pytest.mark.parametrize("name", DIRECTORIES)


def writing_config(root, config=None):
    """The configuration to write a store with."""
    return survey_store(root, config).find_sized_config()


def save(root, config, **options):
    save_settings(StorePlaces.of(root, config), config, **options)


def make(directory, *sizes, start=0):
    """Make files that follow one another."""
    directory.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        with (directory / f"{start:020}").open("wb") as file:
            file.truncate(size)
        start += sizes[0]


def make_index(root, name, slots=97, items=400, keys=5):
    (root / "index").mkdir(exist_ok=True)
    with IndexFile.create(root / "index" / name, hash_slot_num=slots, index_num=items) as file:
        file.put_keys([f"T#{name}{i}" for i in range(keys)], list(range(keys)), [1_700_000_000_000] * keys)


@pytest.fixture
def store(tmp_path):
    """A store with two files of each kind, all small."""
    for name, directory in DIRECTORIES.items():
        make(tmp_path / directory, SMALL[name], SMALL[name])
    make_index(tmp_path, "20240101000000000")
    make_index(tmp_path, "20240102000000000", keys=3)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("mapper_file_size_batch_consume_queue", 100, 92),
        ("mapper_file_size_batch_consume_queue", 45, 46),
        ("mapped_file_size_consume_queue_ext", 23, 24),
    ],
)
def test_a_size_whose_files_cannot_be_filled_is_refused_for_writing(name, bad, good, tmp_path):
    with pytest.raises(ValueError, match=f"a file size of {bad} must be .*: give another {name}"):
        writing_config(tmp_path, StoreConfig(**SMALL | {name: bad}))
    assert getattr(writing_config(tmp_path, StoreConfig(**SMALL | {name: good})), name) == good
    options = {**SMALL, name: good, "enable_consume_queue_ext": True}
    with rocketstore.open(tmp_path, "a", config=StoreConfig(**options)) as store:
        store.create_topic("B", 1, queue_type="BatchCQ")
        for topic in ("B", "T") * 5:
            store.put_message(Message(topic, b"", queue_id=0))
        assert [store.consume_queue(topic, 0).max_queue_offset for topic in ("B", "T")] == [5, 5]
    with rocketstore.open(tmp_path, "r+") as store:
        assert store.put_message(Message("B", b"", queue_id=0)).queue_offset == 5


INDEX = {name: SMALL[name] for name in ("max_hash_slot_num", "max_index_num")}


def sizes(config):
    return {name: getattr(config, name) for name in DEFAULT_SIZES}


def tree(root):
    return sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*"))


# ---- from files, or defaults ---------------------------------------------------------------------------------


def test_a_store_that_is_not_there_gets_rocketmqs_sizes(tmp_path):
    assert sizes(writing_config(tmp_path / "none")) == DEFAULT_SIZES
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_what_the_files_show(store):
    before = tree(store)
    config = StoreConfig(**INDEX, max_message_size=7, other={"a": "b"})
    assert writing_config(store, config) == replace(config, **SMALL)
    assert tree(store) == before


@RUNS
def test_one_file_shows_the_size_of_its_kind_and_others_are_rocketmqs(tmp_path, name):
    make(tmp_path / DIRECTORIES[name], SMALL[name])
    log = {"mapped_file_size_commit_log": SMALL["mapped_file_size_commit_log"]}
    assert sizes(writing_config(tmp_path, StoreConfig(**log))) == {**DEFAULT_SIZES, **log, name: SMALL[name]}


@pytest.mark.parametrize("name", list(DIRECTORIES)[1:])
def test_a_kind_without_files_has_rocketmqs_size(store, name):
    for path in (store / DIRECTORIES[name]).iterdir():
        path.unlink()
    assert getattr(writing_config(store, StoreConfig(**INDEX)), name) == DEFAULT_SIZES[name]


@pytest.mark.parametrize(
    ("lost", "given", "asked"),
    [
        (["consumequeue", "batchconsumequeue"], INDEX, ["mapped_file_size_consume_queue"]),
        (["index"], {}, ["max_hash_slot_num", "max_index_num"]),
    ],
)
def test_sizes_that_the_messages_of_a_store_need_are_asked_for(store, lost, given, asked):
    """A broker does not start with queues of another size, and nothing would tell that these were guessed."""
    for name in lost:
        shutil.rmtree(store / name)
    assert sizes(writing_config(store, StoreConfig(**given)))  # there is no message
    with (store / "commitlog" / f"{0:020}").open("r+b") as file:
        file.write(b"record..")
    with pytest.raises(ValueError, match=f"no file shows {', '.join(asked)}; .*: pass config="):
        writing_config(store, StoreConfig(**given))
    known = {**given, **{name: SMALL[name] for name in asked}}
    assert sizes(writing_config(store, StoreConfig(**known))).items() >= known.items()


def test_all_sizes_that_must_be_given_are_named_at_once(store):
    """First the index alone was named, and then the queues."""
    for name in ("consumequeue", "batchconsumequeue"):
        shutil.rmtree(store / name)
    for path in (store / "index").iterdir():  # an index that shows no geometry
        path.write_bytes(bytes(path.stat().st_size))
    with (store / "commitlog" / f"{0:020}").open("r+b") as file:
        file.write(b"record..")
    with pytest.raises(ValueError, match="max_hash_slot_num") as refused:
        writing_config(store)
    assert {*refused.value.settings} == {"max_hash_slot_num", "max_index_num", "mapped_file_size_consume_queue"}
    assert str(refused.value).count("pass config=StoreConfig(") == 1
    given = {name: SMALL[name] for name in refused.value.settings}
    assert sizes(writing_config(store, StoreConfig(**given))).items() >= given.items()


def test_files_in_the_middle_of_a_run_show_its_size_too(tmp_path):
    make(tmp_path / "commitlog", 4096, 4096, start=40960)
    assert writing_config(tmp_path).mapped_file_size_commit_log == 4096


@RUNS
def test_a_last_file_of_no_length_is_skipped(store, name):
    (store / DIRECTORIES[name] / f"{2 * SMALL[name]:020}").touch()
    assert sizes(writing_config(store, StoreConfig(**INDEX))) == SMALL


def test_files_that_do_not_belong_to_a_run_are_skipped(store):
    for name in ("abc", "--5", "007", "+1", "\u0663", "99999999999"):  # of 007 and +1 RocketMQ loads 7 and 1
        make(store / "consumequeue" / "T" / name, 77)
    make(store / "consumequeue" / "T" / "0" / f"{99:020}", 77)
    (store / "consumequeue" / "file").write_bytes(b"x")
    (store / "consumequeue" / "T" / "7").write_bytes(b"x")
    (store / "commitlog" / "notes").write_bytes(b"x")
    (store / "index" / "notes").write_bytes(b"x")
    (store / "index" / "20240103000000000").touch()
    assert sizes(writing_config(store, StoreConfig(**INDEX))) == SMALL


@pytest.mark.parametrize("queue", ["-1", "7", "2147483647"])
def test_every_queue_that_rocketmq_loads_counts(store, queue):
    make(store / "consumequeue" / "T" / queue, 220)
    with pytest.raises(ValueError, match="mapped_file_size_consume_queue"):
        writing_config(store, StoreConfig(**INDEX))


def test_a_log_in_several_directories_has_one_size(tmp_path):
    make(tmp_path / "a", 4096)
    make(tmp_path / "b", 4096, start=4096)
    config = StoreConfig(store_path_commit_log=f"{tmp_path}/a,{tmp_path}/b,{tmp_path}/none")
    assert writing_config(tmp_path, config).mapped_file_size_commit_log == 4096
    make(tmp_path / "b", 5120, start=8192)
    with pytest.raises(ValueError, match=f"4096 by {tmp_path}/a/0+, 5120 by {tmp_path}/b/0+8192"):
        writing_config(tmp_path, config)


# ---- refused -------------------------------------------------------------------------------------------------


@RUNS
@pytest.mark.parametrize("length", ["shorter", "longer", "none, but not last"])
def test_files_of_two_lengths_are_refused_by_both(store, name, length):
    size = SMALL[name]
    odd = {"shorter": size // 2, "longer": 2 * size}.get(length, 0)
    make(store / DIRECTORIES[name], odd, start=2 * size)
    make(store / DIRECTORIES[name], size, start=3 * size)
    with pytest.raises(ValueError, match=rf"{name}: {size} by {store}/.*, {odd} by {store}/.*{2 * size}: RocketMQ"):
        writing_config(store, StoreConfig(**INDEX))


@RUNS
def test_two_queues_or_files_of_two_lengths_are_refused(store, name):
    other = store / DIRECTORIES[name]
    other = other if name == "mapped_file_size_commit_log" else other.parent / "9"
    make(other, 2 * SMALL[name], start=20 * SMALL[name])
    with pytest.raises(ValueError, match=f"{name}: .*{SMALL[name]} by .*{store}"):
        writing_config(store, StoreConfig(**INDEX))


@RUNS
def test_a_given_size_that_files_contradict_is_refused(store, name):
    with pytest.raises(ValueError, match=rf"{name}: {2 * SMALL[name]} by the given size, {SMALL[name]} by {store}"):
        writing_config(store, StoreConfig(**INDEX, **{name: 2 * SMALL[name]}))


@RUNS
def test_a_length_that_does_not_fit_the_name_of_its_file_is_no_size(tmp_path, name):
    make(tmp_path / DIRECTORIES[name], SMALL[name], start=SMALL[name] // 2)
    with pytest.raises(ValueError, match=f"{name}: give it: {SMALL[name]}, the length of {tmp_path}"):
        writing_config(tmp_path, StoreConfig(mapped_file_size_commit_log=None if "log" in name else 4096))


@pytest.mark.parametrize(("directory", "length"), [("consumequeue", 210), ("batchconsumequeue", 461)])
def test_a_length_that_is_no_whole_number_of_units_is_no_size(store, directory, length):
    for path in (store / directory).rglob("0*"):
        if path.is_file():
            path.unlink()
    make(store / directory / "T" / "5", length)
    with pytest.raises(ValueError, match=f"give it: {length}"):
        writing_config(store, StoreConfig(**INDEX))


def test_a_log_file_that_is_larger_than_any_of_rocketmqs_is_refused(tmp_path):
    make(tmp_path / "commitlog", 2**31)
    with pytest.raises(ValueError, match="mapped_file_size_commit_log=2147483648"):
        writing_config(tmp_path)


@pytest.mark.parametrize("kind", ["consumequeue/T/0", "index"])
def test_where_queues_or_an_index_have_no_log_it_may_be_elsewhere(tmp_path, kind):
    if kind == "index":
        make_index(tmp_path, "20240101000000000")
    else:
        make(tmp_path / kind, 200)
    with pytest.raises(ValueError, match=r"no commit log: give store_path_commit_log .*mapped_file_size_commit_log if"):
        writing_config(tmp_path, StoreConfig(**INDEX))
    assert writing_config(tmp_path, StoreConfig(**INDEX, mapped_file_size_commit_log=4096))


# ---- the index -----------------------------------------------------------------------------------------------


def test_an_index_of_another_geometry_than_rocketmqs_is_never_guessed_but_named(store):
    with pytest.raises(ValueError, match=r"pass config=StoreConfig\(max_hash_slot_num=97, max_index_num=400\)$"):
        writing_config(store)


def test_an_index_that_may_be_of_many_geometries_names_none(tmp_path):
    make(tmp_path / "commitlog", 4096)
    make_index(tmp_path, "20240101000000000", keys=0)
    with pytest.raises(ValueError, match=r"files: pass config=StoreConfig\(max_hash_slot_num=N, max_index_num=N\)$"):
        writing_config(tmp_path)


def test_rocketmqs_own_geometry_is_taken_if_the_items_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(index_geometry, "DEFAULT_HASH_SLOT_NUM", 97)
    monkeypatch.setattr(index_geometry, "DEFAULT_INDEX_NUM", 400)
    make(tmp_path / "commitlog", 4096)
    make_index(tmp_path, "20240101000000000")
    config = writing_config(tmp_path)
    assert (config.max_hash_slot_num, config.max_index_num) == (97, 400)


@pytest.mark.parametrize("given", INDEX)
def test_half_of_a_geometry_gives_the_rest(store, given):
    assert sizes(writing_config(store, StoreConfig(**{given: INDEX[given]}))) == SMALL


def test_half_of_a_geometry_without_files_has_rocketmqs_other_half(tmp_path):
    config = writing_config(tmp_path, StoreConfig(max_index_num=7))
    assert (config.max_hash_slot_num, config.max_index_num) == (5_000_000, 7)


@pytest.mark.parametrize(
    ("slots", "items"), [(97, 399), (96, 400), (98, None), (10**9, None), (None, 10**9), (None, 399)]
)
def test_a_geometry_that_the_length_or_the_items_contradict_is_refused(store, slots, items):
    """Corner 75."""
    with pytest.raises(ValueError, match=r"max_hash_slot_num=.*max_index_num="):
        writing_config(store, StoreConfig(max_hash_slot_num=slots, max_index_num=items))


def test_a_geometry_of_the_same_length_is_refused_by_the_one_that_fits(store):
    with pytest.raises(ValueError, match=r"max_index_num=399: the items of .*0102.* are found with \(97, 400\) alone"):
        writing_config(store, StoreConfig(max_hash_slot_num=102, max_index_num=399))


def test_an_older_file_shows_what_an_empty_newer_one_does_not(store):
    make_index(store, "20240103000000000", keys=0)
    assert sizes(writing_config(store, StoreConfig(**INDEX))) == SMALL
    with pytest.raises(ValueError, match="0102"):
        writing_config(store, StoreConfig(max_hash_slot_num=102, max_index_num=399))


def test_an_index_file_of_another_length_is_refused(store):
    make_index(store, "20240103000000000", items=401)
    with pytest.raises(ValueError, match=r"max_index_num=400 make 8428 bytes, but .*0103000000000 has 8448"):
        writing_config(store, StoreConfig(**INDEX))


def test_a_crashed_index_does_not_stop_a_geometry_that_is_known(store, seed):
    """After a power loss its pages may be of different times: recovery deletes it."""
    path = store / "index" / "20240102000000000"
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    for begin, end in ((40, len(data)), (40, 40 + 4 * 97), (40 + 4 * 97, len(data))):
        path.write_bytes(data[:begin] + bytes(end - begin) + data[end:])
        assert sizes(writing_config(store, StoreConfig(**INDEX))) == SMALL
    path.write_bytes(data[:36] + rng.randbytes(4) + bytes(len(data) - 40))
    assert sizes(writing_config(store, StoreConfig(**INDEX))) == SMALL


# ---- rocketstore.json ----------------------------------------------------------------------------------------

LEFT = StoreConfig(
    **SMALL,
    compat="4.9",
    enable_lmq=True,
    enabled_append_prop_crc=True,
    message_delay_level="1s 2h",
    allocate_file_ahead=False,
    store_host="10.0.0.1:10911",
)


def saved_path(root):
    return root / "config" / "rocketstore.json"


def test_a_store_is_written_again_as_it_was(tmp_path):
    save(tmp_path, LEFT)
    assert [path.name for path in (tmp_path / "config").iterdir()] == ["rocketstore.json"]
    assert writing_config(tmp_path) == LEFT


def test_only_what_the_bytes_depend_on_is_left(tmp_path):
    config = replace(LEFT, flush_disk_type="SYNC_FLUSH", file_reserved_time=1, max_message_size=5, other={"a": "b"})
    save(tmp_path, config, is_new=True)
    assert writing_config(tmp_path) == LEFT
    assert {**json.loads(saved_path(tmp_path).read_bytes()), **SMALL} == {
        **SMALL,
        "message_delay_level": "1s 2h",
        "store_host": "10.0.0.1:10911",
        "compat": "4.9",
        "enable_consume_queue_ext": False,
        "enable_multi_dispatch": False,
        "enable_lmq": True,
        "enabled_append_prop_crc": True,
        "message_index_enable": True,
        "allocate_file_ahead": False,
    }


def test_settings_that_nobody_stated_are_not_left(tmp_path):
    save(tmp_path, LEFT)
    left = json.loads(saved_path(tmp_path).read_bytes())
    assert left.keys() & {"enable_consume_queue_ext", "enable_multi_dispatch", "message_index_enable"} == set()
    (tmp_path / "broker.conf").touch()
    save(tmp_path, StoreConfig.from_broker_conf(tmp_path / "broker.conf"))
    left = json.loads(saved_path(tmp_path).read_bytes())
    assert (left["enable_multi_dispatch"], left["message_index_enable"]) == (False, True)


def test_saved_sizes_replace_those_that_a_config_leaves_out(tmp_path):
    save(tmp_path, LEFT)
    given = StoreConfig(max_index_num=7, compat="5.3")
    assert writing_config(tmp_path, given) == replace(given, **{**SMALL, "max_index_num": 7})


def test_saved_sizes_decide_where_files_do_not(store):
    save(store, StoreConfig(**INDEX))
    assert sizes(writing_config(store)) == SMALL


@RUNS
def test_a_contradiction_of_saved_sizes_and_files_is_refused_unless_the_files_size_is_given(store, name):
    save(store, StoreConfig(**{**SMALL, name: 2 * SMALL[name]}))
    known = rf"{2 * SMALL[name]} by config/rocketstore\.json"
    with pytest.raises(ValueError, match=rf"{name}: {known}, {SMALL[name]} by {store}") as caught:
        writing_config(store)
    assert ("; rebuild writes the queues again" in str(caught.value)) == (name != "mapped_file_size_commit_log")
    assert sizes(writing_config(store, StoreConfig(**{name: SMALL[name]}))) == SMALL


def test_the_same_is_not_written_again(tmp_path):
    save(tmp_path, LEFT)
    before = tree(tmp_path)
    save(tmp_path, replace(LEFT, flush_disk_type="SYNC_FLUSH"))
    assert tree(tmp_path) == before
    save(tmp_path, replace(LEFT, compat="5.3"))
    assert writing_config(tmp_path).compat == "5.3"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch, call):
    save(tmp_path, LEFT)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space"):
            save(tmp_path, replace(LEFT, compat="5.3"))
    assert writing_config(tmp_path) == LEFT
    assert [path.name for path in (tmp_path / "config").iterdir()] == ["rocketstore.json"]


@pytest.mark.parametrize("name", ["store_path_commit_log", "read_only_commit_log_store_paths"])
def test_the_place_of_a_log_elsewhere_is_never_taken_over_in_silence(tmp_path, name):
    """The store may be a copy: it would be written into the log of the other one."""
    save(tmp_path, replace(LEFT, **{name: "/data/log"}))
    for config in (None, StoreConfig(**SMALL)):
        with pytest.raises(ValueError, match=rf"{name}: give it: .*rocketstore.json has '/data/log'"):
            writing_config(tmp_path, config)
    config = StoreConfig(**{name: str(tmp_path / "log")})
    assert writing_config(tmp_path, config) == replace(config, **SMALL)
    (tmp_path / "broker.conf").write_text("mappedFileSizeCommitLog=4096\n")
    config = StoreConfig.from_broker_conf(tmp_path / "broker.conf")
    with pytest.raises(ValueError, match=f"{name}: give it: "):
        writing_config(tmp_path, config)
    (tmp_path / "commitlog").mkdir()  # a broker of a file without this line writes here
    assert writing_config(tmp_path, config) == config


DAMAGED = {
    "empty": (b"", 0),
    "cut": (b'{"compat":', 10),
    "zeros": (bytes(50), 0),
    "no utf-8": (b'{"compat":"\xff"}', 0),
    "a list": (b"[]", 0),
    "a size that is text": (b'{"max_index_num":"7"}', 0),
    "a size that is none": (b'{"max_index_num":0}', 0),
    "a size that is a boolean": (b'{"max_index_num":true}', 0),
    "a null": (b'{"max_index_num":null}', 0),
    "a flag that is a number": (b'{"enable_lmq":1}', 0),
    "what no release has": (b'{"compat":"3.0"}', 0),
    "another field": (b'{"flush_disk_type":"SYNC_FLUSH"}', 0),
    "an unknown field": (b'{"new_in_a_later_release":1}', 0),
    "objects in objects": (b'{"a":' * 100_000, 0),
    "a size of no whole units": (b'{"mapper_file_size_batch_consume_queue":660}', 0),
    "many digits": (b'{"max_index_num":%b}' % (b"9" * 5000), 0),
}


@pytest.mark.parametrize(("data", "offset"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_an_error_that_names_it_and_is_left(tmp_path, data, offset):
    saved_path(tmp_path).parent.mkdir()
    saved_path(tmp_path).write_bytes(data)
    for call in (lambda: writing_config(tmp_path, LEFT), lambda: save(tmp_path, LEFT)):
        with pytest.raises(CorruptFileError, match=r"rocketstore.json: .*remove it") as caught:
            call()
        assert (caught.value.path, caught.value.offset) == (saved_path(tmp_path), offset)
    assert saved_path(tmp_path).read_bytes() == data


def test_every_bit_flip_is_read_or_refused_as_damage(tmp_path, seed):
    save(tmp_path, LEFT)
    data = saved_path(tmp_path).read_bytes()
    rng = random.Random(seed)
    refused = 0
    for _ in range(300):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        saved_path(tmp_path).write_bytes(flipped)
        try:
            assert writing_config(tmp_path).mapped_file_size_commit_log > 0
        except CorruptFileError:
            refused += 1
    assert refused > 100
