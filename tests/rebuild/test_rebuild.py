"""rebuild: queues and index are those that a broker builds of the log when it has neither."""

import dataclasses
import itertools
import random
import shutil
import struct
import time
import zoneinfo

import pytest
from reference.commit_log import CommitLog, build_record, read_files, walk_file
from support.killed import killed_at
from support.profiles import SEVERAL_FILES
from support.puts import INNER_BATCH, PROFILES, Pair, fields_of, files_under
from support.rebuilt import (
    CONFIG,
    KINDS,
    LIGHT,
    QUEUE_PARTS,
    WILD,
    assert_rebuilt,
    assert_survives,
    batches_of,
    dispatched,
    fields,
    index_names,
    make_log,
    of_batches,
    options_of,
    queue_files,
    records_in_bodies,
)

from rocketstore import StoreCheckpoint, StoreConfig, rebuild, recover, verify
from rocketstore.rebuild import rebuild as module

OTHERS = ("5.3.3", "4.9.8", "4.6.0")
FILE = SEVERAL_FILES["mapped_file_size_commit_log"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that small logs are read in many pieces."""
    monkeypatch.setattr(module, "MIN_PIECE", 700)


@pytest.fixture
def store(tmp_path, seed):
    """A store of a log alone, of ordinary messages."""
    return make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)))


def built(root, config=CONFIG, **options):
    return rebuild(root, config=config, tz="UTC", memory=0, **options)


# ---- built parts -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")  # a log alone shows no delay levels
@pytest.mark.parametrize("name", KINDS)
def test_a_log_of_each_kind_of_record(tmp_path, seed, name):
    config = dataclasses.replace(CONFIG, **options_of(name))
    root = make_log(tmp_path / "store", KINDS[name](random.Random(f"{seed} {name}")))
    report = built(root, config)
    batch_topics = batches_of(name)
    model = dispatched(root, config, batch_topics)
    assert_rebuilt(root, model, names=index_names(model))
    assert (report.queues, report.index_files) == (len(model.queues), len(model.index.files))
    assert report.index_items == sum(file.index_count - 1 for file in model.index.files)
    assert (report.min_phy_offset, report.max_phy_offset) == (0, CommitLog(read_files(root / "commitlog")).max_offset)
    if batch_topics:
        of_batches(root, dict.fromkeys(batch_topics, "BatchCQ"))
    if name == "plain":
        assert recover(root, config=config, dry_run=True).actions == ()
    if name not in WILD:
        assert_survives(root, config, batch_topics)


@pytest.mark.parametrize("name", PROFILES)
def test_the_queues_and_index_of_a_writer_are_rebuilt_byte_for_byte(tmp_path, seed, name):
    draw, options = PROFILES[name]
    rng, root = random.Random(f"{seed} {name}"), tmp_path / "store"
    with_old = rng.random() < 0.5
    with Pair(root, **options) as pair:
        for _ in range(60):
            pair.put(draw(rng))
            pair.time += rng.choice((0, 1, 900, 60_000))
    old = files_under(root, *QUEUE_PARTS, "index")
    if not with_old:
        for part in (*QUEUE_PARTS, "index"):
            shutil.rmtree(root / part, ignore_errors=True)
    report = built(root, pair.config)
    assert_rebuilt(root, pair.model, names=index_names(pair.model))
    assert_survives(root, pair.config)
    kept = {path.name.partition(".")[0]: path for path in report.backups}
    assert report.out == root
    assert {path.name.partition(".bak-")[0] for path in report.backups} == {
        part for part in (*QUEUE_PARTS, "index") if with_old and any(path.startswith(part + "/") for path in old)
    }
    for path, data in old.items() if with_old else ():
        part, _, rest = path.partition("/")
        assert (kept[part] / rest).read_bytes() == data


@pytest.mark.filterwarnings("ignore:.*messageDelayLevel is assumed")  # a log alone shows no delay levels
@pytest.mark.parametrize("enable_consume_queue_ext", [False, True], ids=("plain", "ext"))
@pytest.mark.parametrize("release", ["5.5.1", *(pytest.param(release, marks=pytest.mark.slow) for release in OTHERS)])
def test_as_each_release_builds_it(tmp_path, seed, release, enable_consume_queue_ext):
    rng = random.Random(f"{seed} {release}")
    rows = KINDS["plain"](rng) + KINDS["transactions"](rng) + KINDS["many_keys"](rng) + KINDS["delayed"](rng)
    config = dataclasses.replace(CONFIG, compat=release, enable_consume_queue_ext=enable_consume_queue_ext)
    root = make_log(tmp_path / "store", rows)
    built(root, config)
    model = dispatched(root, config)
    assert_rebuilt(root, model, names=index_names(model))
    before = files_under(root, *QUEUE_PARTS, "index")
    built(root, config)
    assert files_under(root, *QUEUE_PARTS, "index") == before


@pytest.mark.parametrize("is_known", [True, False])
def test_inner_batches_make_batch_queues_unless_topics_json_has_others(tmp_path, seed, is_known):
    root = make_log(tmp_path / "store", KINDS["inner_batches"](random.Random(seed)))
    if is_known:
        of_batches(root, {"Batched": "SimpleCQ", "Orders": "BatchCQ"})
    built(root)
    model = dispatched(root, batch_topics=["Orders"] if is_known else ["Batched"])
    assert_rebuilt(root, model)
    assert (root / "batchconsumequeue" / "Batched").exists() is not is_known


def test_one_inner_batch_at_the_very_end_makes_all_queues_of_its_topic_batch_queues(tmp_path, seed):
    rows = [fields(random.Random(seed), i, topic="Batched") for i in range(50)]
    properties = {"INNER_BASE": "99", "INNER_NUM": "2"}
    rows.append({**rows[-1], "sys_flag": INNER_BATCH, "queue_offset": 99, "properties": properties})
    root = make_log(tmp_path / "store", rows)
    built(root)
    assert_rebuilt(root, dispatched(root, batch_topics=["Batched"]))
    assert not (root / "consumequeue").exists()


def test_written_batches_are_built_again(tmp_path, seed):
    rng = random.Random(seed)
    with Pair(tmp_path / "store", batch_topics=["Batched"]) as pair:
        for _ in range(50):
            number = rng.choice((1, 3))
            flags = {"sys_flag": INNER_BATCH, "properties": {"INNER_NUM": str(number)}} if number > 1 else {}
            pair.put(fields_of("Batched", b"x", queue_id=rng.randrange(2), **flags))
            pair.put(fields_of("Plain", b"y", properties={"KEYS": "a b"}))
    for topics_json in (True, False):
        if not topics_json:
            shutil.rmtree(pair.root / "config")
        built(pair.root, pair.config)
        assert_rebuilt(pair.root, pair.model)


def test_queues_are_built_beside_an_index_file_that_never_got_its_length(store):
    built(store)
    before = files_under(store, *QUEUE_PARTS)
    (store / "index" / "20000101000000000").touch()
    built(store, index=False)
    assert files_under(store, *QUEUE_PARTS) == before


# ---- where the log begins and ends -------------------------------------------------------------------------


@pytest.mark.parametrize("first_offset", [FILE, 7 * FILE])
def test_a_log_that_does_not_begin_at_0(tmp_path, seed, first_offset):
    root = make_log(tmp_path / "store", KINDS["late_queues"](random.Random(seed)), first_offset=first_offset)
    assert built(root).min_phy_offset == first_offset
    assert_rebuilt(root, dispatched(root))
    assert_survives(root)


def test_after_the_first_files_expired(store):
    built(store)
    before = files_under(store, *QUEUE_PARTS)
    for start in sorted(read_files(store / "commitlog"))[:3]:
        (store / "commitlog" / f"{start:020}").unlink()
    built(store)
    model = dispatched(store)
    assert_rebuilt(store, model)
    assert_survives(store)
    fillers = struct.pack(">qiq", 0, 2**31 - 1, 0)
    assert any(data.startswith(fillers) for data in files_under(store, *QUEUE_PARTS).values())
    assert files_under(store, *QUEUE_PARTS) != before


@pytest.mark.parametrize("ahead", [1, 2])
def test_last_files_of_zeros_are_no_part_of_it(store, ahead):
    model = dispatched(store)
    last = max(read_files(store / "commitlog"))
    for number in range(1, ahead + 1):
        (store / "commitlog" / f"{last + number * FILE:020}").write_bytes(bytes(FILE))
    built(store)
    assert_rebuilt(store, model)


def test_nothing_but_a_file_of_zeros(tmp_path):
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{2 * FILE:020}").write_bytes(bytes(FILE))
    report = built(tmp_path)
    assert (report.min_phy_offset, report.max_phy_offset) == (2 * FILE, 2 * FILE)
    assert (report.queues, report.index_files, report.index_items, report.backups) == (0, 0, 0, ())


def test_an_empty_log(tmp_path):
    (tmp_path / "commitlog").mkdir()
    report = built(tmp_path)
    assert (report.max_phy_offset, report.queues, report.index_files) == (0, 0, 0)
    assert files_under(tmp_path, *QUEUE_PARTS, "index") == {}


@pytest.mark.parametrize("stale", ["noise", "records"])
def test_stale_bytes_in_a_blank_are_no_messages(tmp_path, seed, stale, monkeypatch):
    """As releases up to 4.8 leave them; here even records that say that they belong where they are."""
    monkeypatch.setattr(module, "MIN_PIECE", 50)
    rng = random.Random(seed)
    large = [fields(rng, 90 + i, body=bytes(FILE * 5 // 8)) for i in range(2)]  # a file each: one blank is large
    store = make_log(tmp_path / "store", KINDS["plain"](rng) + large)
    model, changed = dispatched(store), 0
    for start, data in list(read_files(store / "commitlog").items())[:-1]:
        position, parsed = list(walk_file(data))[-1]
        assert (parsed.success, parsed.size) == (True, 0)
        after = rng.randbytes(FILE - position - 8)
        if stale == "records":
            row = build_record(body=b"", phy_offset=start + position + 8, properties={"KEYS": "stale"})
            after = row + after[len(row) :] if len(row) < len(after) else after
            changed += len(row) < len(after)
        (store / "commitlog" / f"{start:020}").write_bytes(data[: position + 8] + after)
    assert changed or stale == "noise"
    built(store)
    assert_rebuilt(store, model)


def test_records_in_the_bodies_of_records_are_no_messages(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(module, "MIN_PIECE", 97)
    root = make_log(tmp_path / "store", records_in_bodies(random.Random(seed)))
    built(root)
    assert_rebuilt(root, dispatched(root))
    assert not (root / "consumequeue" / "Inner").exists()


# ---- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("piece", "threads"), [(7, 3), (91, 1), (5000, 2)])
def test_parts_and_threads_make_no_difference(store, monkeypatch, piece, threads):
    monkeypatch.setattr(module, "MIN_PIECE", piece)
    built(store, threads=threads)
    assert_rebuilt(store, dispatched(store))


def test_only_the_index(store):
    built(store)
    queues = files_under(store, *QUEUE_PARTS)
    report = built(store, consume_queue=False)
    model = dispatched(store)
    assert_rebuilt(store, model, names=index_names(model))
    assert files_under(store, *QUEUE_PARTS) == queues
    assert [path.name.partition(".bak-")[0] for path in report.backups] == ["index"]
    assert report.queues == 0
    assert_survives(store)


def test_only_the_queues(store):
    built(store)
    index = files_under(store, "index")
    report = built(store, index=False)
    assert_rebuilt(store, dispatched(store))
    assert files_under(store, "index") == index
    assert [path.name.partition(".bak-")[0] for path in report.backups] == ["consumequeue"]
    assert (report.index_files, report.index_items) == (0, 0)
    assert_survives(store)


@pytest.mark.parametrize("part", ["consume_queue", "index"])
def test_the_part_that_is_not_rebuilt_is_completed(store, part):
    """Else a broker would find it behind the log, or not at all, after we said that all is well."""
    built(store, **{part: False})
    model = dispatched(store)
    assert_rebuilt(store, model, names=index_names(model) if part == "consume_queue" else None)
    assert_survives(store)


def test_a_lost_queue_is_completed_as_recover_does_where_the_index_alone_is_built(store):
    """Else the next message in it would get an offset that one of the log has."""
    built(store)
    shutil.rmtree(store / "consumequeue" / "Orders")
    built(store, consume_queue=False)
    assert_rebuilt(store, dispatched(store), names=None)


def test_an_index_alone_keeps_the_names_and_bytes_of_its_last_file(tmp_path, seed):
    """The queues are completed then; the index, which is new, is not looked at as after a crash."""
    root = make_log(tmp_path / "store", KINDS["keys_that_fill_a_file"](random.Random(seed)))
    (root / "abort").touch()
    built(root, consume_queue=False)
    model = dispatched(root)
    assert_rebuilt(root, model, names=index_names(model))
    assert not (root / "abort").exists()


def test_only_some_topics(store):
    built(store)
    before = files_under(store, *QUEUE_PARTS, "index")
    for path in (store / "consumequeue" / "Orders").glob("*/*"):
        path.write_bytes(bytes(path.stat().st_size))
    report = built(store, topic=["Orders", "NoSuchTopic"])
    assert_rebuilt(store, dispatched(store))
    assert files_under(store, *QUEUE_PARTS, "index") == before
    assert [str(path.relative_to(store)).partition(".bak-")[0] for path in report.backups] == ["consumequeue"]
    assert report.backups[0].name == "Orders"
    assert report.queues == 2
    assert_survives(store)


@pytest.mark.parametrize("name", ["light_queues", "light_queues_of_batches"])
def test_only_some_topics_where_messages_are_for_several_queues(tmp_path, seed, name):
    config = dataclasses.replace(CONFIG, **LIGHT)
    root = make_log(tmp_path / "store", KINDS[name](random.Random(seed)))
    built(root, config, topic=["%LMQ%a"], out=tmp_path / "out")
    model = dispatched(root, config, batches_of(name))
    expected = {path: data for path, data in queue_files(model).items() if "/%LMQ%a/" in path}
    assert expected
    assert files_under(tmp_path / "out") | files_under(tmp_path / "out", ".") == expected


def test_light_queues_that_are_there_are_built_again_also_if_nothing_says_so(tmp_path, seed):
    """After a kill in the swap as well, when they are in no place of theirs."""
    root = make_log(tmp_path / "store", KINDS["light_queues"](random.Random(seed)))
    built(root, dataclasses.replace(CONFIG, **LIGHT))
    (root / "config" / "rocketstore.json").unlink()
    model = dispatched(root, dataclasses.replace(CONFIG, **LIGHT))
    built(root)
    assert_rebuilt(root, model)
    (root / "config" / "rocketstore.json").unlink()
    assert killed_at(3, lambda: built(root), after=(module, "swap"))
    assert not (root / "consumequeue").exists()
    built(root)
    assert_rebuilt(root, model)
    assert not (root / "rocketstore-rebuild").exists()


def test_into_a_directory_of_its_own(store, tmp_path):
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    for path in [*store.rglob("*"), store]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    report = built(store, out=tmp_path / "new" / "out")
    for path in [store, *store.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    model = dispatched(store)
    assert_rebuilt(report.out, model, names=index_names(model))
    assert report.out == tmp_path / "new" / "out"
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    assert {path.name for path in report.out.iterdir()} == {"consumequeue", "index"}
    with pytest.raises(FileExistsError, match="not empty"):
        built(store, out=report.out)


def test_progress_is_reported_in_bytes_of_the_log(tmp_path, seed):
    root = make_log(tmp_path / "store", KINDS["plain"](random.Random(seed)), first_offset=5 * FILE)
    told = []
    report = built(root, progress=lambda done, total: told.append((done, total)))
    size = report.max_phy_offset - report.min_phy_offset
    assert {total for _, total in told} == {size}
    assert told == sorted(told)
    assert told[-1] == (size, size)
    assert len(told) > 10


def test_a_disabled_index_is_not_built_and_left(store):
    built(store)
    index = files_under(store, "index")
    built(store, dataclasses.replace(CONFIG, message_index_enable=False))
    assert files_under(store, "index") == index
    assert not list(store.glob("index.bak-*"))


def test_sizes_come_from_the_files_that_are_there(tmp_path, seed):
    with Pair(tmp_path / "store") as pair:
        for i in range(100):
            pair.put(fields_of("T", b"x" * i, queue_id=i % 2, properties={"KEYS": f"key {i}"}))
    (pair.root / "config" / "rocketstore.json").unlink()
    rebuild(pair.root, config=StoreConfig(max_hash_slot_num=13, max_index_num=40))
    assert_rebuilt(pair.root, pair.model)


def test_again_at_once(store):
    backups = {path for _ in range(3) for path in built(store).backups}
    assert len(backups) == 4
    assert all(path.exists() for path in backups)
    assert_rebuilt(store, dispatched(store))


# ---- names of index files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tz", ["UTC", "Asia/Shanghai", "America/St_Johns"])
def test_index_files_are_named_by_the_time_of_their_first_item(store, tz):
    rebuild(store, config=CONFIG, tz=tz)
    model = dispatched(store)
    names = index_names(model, zoneinfo.ZoneInfo(tz))
    assert len(names) > 5
    assert_rebuilt(store, model, names=names)


def test_without_a_zone_names_are_of_local_time(store, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        rebuild(store, config=CONFIG)
    finally:
        monkeypatch.undo()
        time.tzset()
    model = dispatched(store)
    assert_rebuilt(store, model, names=index_names(model, zoneinfo.ZoneInfo("Asia/Kolkata")))


def test_names_increase_where_times_do_not(tmp_path, seed):
    """All in one millisecond, and in the hour that comes twice."""
    rng = random.Random(seed)
    autumn = 1_698_541_200_000 - 30 * 60_000  # in Berlin the clock goes back half an hour later
    times = [autumn] * 40 + [autumn + 60_000 * i for i in range(60)]
    root = make_log(tmp_path / "store", [fields(rng, i, store_timestamp=time) for i, time in enumerate(times)])
    rebuild(root, config=CONFIG, tz="Europe/Berlin")
    model = dispatched(root)
    names = index_names(model, zoneinfo.ZoneInfo("Europe/Berlin"))
    assert names == sorted(set(names))
    assert_rebuilt(root, model, names=names)


def test_an_empty_last_index_file_is_named_by_where_the_one_before_it_ends(tmp_path, seed):
    root = make_log(tmp_path / "store", KINDS["keys_that_fill_a_file"](random.Random(seed)))
    built(root)
    model = dispatched(root)
    assert [file.index_count - 1 for file in model.index.files][-1] == 0
    assert_rebuilt(root, model, names=index_names(model))


def test_a_file_that_begins_inside_the_keys_of_a_message(tmp_path, seed):
    root = make_log(tmp_path / "store", KINDS["many_keys"](random.Random(seed)))
    built(root)
    model = dispatched(root)
    files = model.index.files
    assert any(one.item(one.index_count - 1)[1] == other.item(1)[1] for one, other in itertools.pairwise(files))
    assert_rebuilt(root, model, names=index_names(model))


@pytest.mark.parametrize("release", ["5.5.1", "5.3.3", "4.9.8"])
def test_a_rebuild_leaves_no_negative_number_in_the_checkpoint(store, release):
    config = dataclasses.replace(CONFIG, compat=release)
    StoreCheckpoint(store / "checkpoint", 0, 0, 0, -1, -5, -7).flush()
    built(store, config)
    assert "checkpoint-negative" not in {finding.kind for finding in verify(store, config=config).findings}
