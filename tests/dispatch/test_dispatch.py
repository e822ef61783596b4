"""From records to queues and index: what the kernel collects, and what the dispatcher writes of it."""

import itertools
import random
import threading
import time

import numpy as np
import pytest
from reference.commit_log import CommitLog as ReferenceLog
from reference.commit_log import read_files, write_file
from reference.index_file import IndexService as ReferenceIndex
from reference.index_file import key_hash
from reference.record import COMMIT, INNER_BATCH, blank, build_record, parse_record
from support import stores
from support.profiles import SEVERAL_FILES
from support.puts import (
    BEGIN,
    PREPARED,
    PROFILES,
    ROLLBACK,
    SCHEDULE_TOPIC,
    assert_same_files,
    config_of,
    draw_plain,
    files_under,
    model_of,
    with_host,
)

from rocketstore import (
    CommitLog,
    ConsumeQueue,
    ConsumeQueueExt,
    CorruptFileError,
    IndexService,
    StoreConfig,
    StoreError,
)
from rocketstore.disk import file_run_writer
from rocketstore.dispatch.dispatcher import Dispatcher
from rocketstore.dispatch.light_queues import more_queues
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.dispatch import ITEM, MULTI_DISPATCH, REQUEST, RequestScanner, by_queue, sort_requests
from rocketstore.kernels.queue_id import QueueId
from rocketstore.survey.places import StorePlaces

LEVELS = StoreConfig().message_delay_level


def scanner_of(*, indexes_tags=True, levels=LEVELS, anywhere=False):
    return RequestScanner(message_delay_level=levels, indexes_tags=indexes_tags, anywhere=anywhere)


def draw_log(rng, count, profile="plain", size=1 << 16):
    """The bytes of a file with drawn records, and the records as the reference reads them."""
    draw, _ = PROFILES[profile]
    data, records = bytearray(), []
    for number in range(count):
        fields = with_host(draw(rng), config_of())
        properties = {name: value for name, value in fields["properties"].items() if value is not None}
        place = {"phy_offset": len(data), "queue_offset": number, "store_timestamp": BEGIN + number}
        data += build_record(**{**fields, "properties": properties, **place})
    position = 0
    while position < len(data):
        record = parse_record(bytes(data), position).record
        records.append(record)
        position += record.total_size
    return bytes(data) + blank(size - len(data)), records


def expected_requests(records):
    """(queue, phy_offset, size, tags_code, store_timestamp, base, batch_size) of what goes to queues."""
    found = []
    for r in records:
        if r.sys_flag & ROLLBACK in (0, COMMIT):
            place = (r.topic, r.queue_id), r.phy_offset, r.total_size
            found.append((*place, r.tags_code, r.store_timestamp, r.msg_base_offset, r.batch_size))
    return found


def expected_items(records, *, indexes_tags=True):
    service = ReferenceIndex(7, 10, index_tags=indexes_tags)
    return [
        (record.phy_offset, record.store_timestamp, key_hash(key))
        for record in records
        if record.sys_flag & ROLLBACK != ROLLBACK
        for key in service.keys_of(record)
    ]


def found_requests(scanner, requests):
    names = ("phy_offset", "size", "tags_code", "store_timestamp", "msg_base_offset", "batch_size")
    columns = [requests[name].tolist() for name in names]
    return list(zip([scanner.queues[number] for number in requests["queue"]], *columns, strict=True))


def found_items(items):
    return list(zip(*(items[name].tolist() for name in ("phy_offset", "store_timestamp", "key_hash")), strict=True))


# ---- the kernel --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_requests_and_items_are_the_reference_s(profile, seed):
    data, records = draw_log(random.Random(f"{seed} scan {profile}"), 150, profile)
    for indexes_tags in (True, False):
        scanner = scanner_of(indexes_tags=indexes_tags)
        end = records[-1].phy_offset + records[-1].total_size
        assert scanner.scan(Buffer(data), 0, 0, len(data)) == end
        requests, items = scanner.take()
        assert (requests.dtype, items.dtype) == (REQUEST, ITEM)
        assert found_requests(scanner, requests) == expected_requests(records)
        assert found_items(items) == expected_items(records, indexes_tags=indexes_tags)
        assert (scanner.last_phy_offset, scanner.last_store_timestamp) == (
            records[-1].phy_offset,
            records[-1].store_timestamp,
        )


def test_chunks_give_the_requests_that_the_whole_gives(seed):
    rng = random.Random(f"{seed} pieces")
    data, records = draw_log(rng, 120)
    ends = [record.phy_offset + record.total_size for record in records]
    scanner, at, requests, items = scanner_of(), 0, [], []
    while at < ends[-1]:
        if rng.random() < 0.5:
            stop = rng.choice([end for end in ends if end > at])
            at = scanner.scan(Buffer(data), 0, at, stop)
            assert at == stop
        else:
            at = scanner.scan(Buffer(data), 0, at, ends[-1], rng.randrange(1, 2000))
            assert at in ends
        if rng.random() < 0.5:
            for taken, whole in zip(scanner.take(), (requests, items), strict=True):
                whole.append(taken)
    for taken, whole in zip(scanner.take(), (requests, items), strict=True):
        whole.append(taken)
    assert found_requests(scanner, np.concatenate(requests)) == expected_requests(records)
    assert found_items(np.concatenate(items)) == expected_items(records)


def test_taking_takes_once_and_keeps_the_queues():
    data, records = draw_log(random.Random(1), 10)
    scanner = scanner_of()
    assert [len(taken) for taken in scanner.take()] == [0, 0]
    assert (scanner.last_phy_offset, scanner.last_store_timestamp, scanner.queues) == (-1, -1, [])
    scanner.scan(Buffer(data), 0, 0, len(data))
    first, _ = scanner.take()
    assert [len(taken) for taken in scanner.take()] == [0, 0]
    scanner.scan(Buffer(data), 0, 0, len(data))
    again, _ = scanner.take()
    assert again["queue"].tolist() == first["queue"].tolist()
    assert len(set(scanner.queues)) == len(scanner.queues) == len({(r.topic, r.queue_id) for r in records})


@pytest.mark.parametrize("room", [1, 500, 5000])
def test_a_scan_ends_when_it_has_collected_enough(room, seed):
    data, records = draw_log(random.Random(f"{seed} room"), 60)
    ends = [record.phy_offset + record.total_size for record in records]
    scanner, at, requests = scanner_of(), 0, []
    while at < ends[-1]:
        stop = scanner.scan(Buffer(data), 0, at, ends[-1], room=room)
        taken, items = scanner.take()
        more = [r.phy_offset for r in records if at <= r.phy_offset < stop]
        assert stop in ends
        assert stop == ends[-1] or taken.nbytes + items.nbytes >= room
        assert room > 1 or items["phy_offset"].tolist() + taken["phy_offset"].tolist() == [more[-1]] * (
            len(items) + len(taken)
        )
        requests.append(taken)
        at = stop
    assert found_requests(scanner, np.concatenate(requests)) == expected_requests(records)


@pytest.mark.parametrize("sys_flag", [0, INNER_BATCH])
def test_inner_batches_are_told_of(sys_flag):
    scanner = scanner_of()
    record = build_record(sys_flag=sys_flag, properties={"INNER_NUM": "2", "INNER_BASE": "0"})
    scanner.scan(Buffer(record), 0, 0, len(record))
    assert scanner.has_inner == (sys_flag != 0)


def test_requests_are_sorted_by_queue_in_their_order(seed):
    rng = np.random.default_rng(seed)
    requests = np.zeros(5000, REQUEST)
    for name in REQUEST.names:
        requests[name] = rng.integers(-(2**31), 2**31 - 1, len(requests))
    requests["queue"] = rng.choice([0, 3, 4, 9], len(requests))
    columns, ends = by_queue(requests, 11)
    order = np.argsort(requests["queue"], kind="stable")
    for name, column in columns.items():
        assert np.array_equal(column, requests[name][order])
    assert np.array_equal(ends, np.cumsum(np.bincount(requests["queue"], minlength=11)))
    rows, row_ends = sort_requests(requests, 11)
    assert (rows == requests[order]).all()
    assert row_ends.tolist() == ends.tolist()
    assert by_queue(requests[:0], 2)[1].tolist() == [0, 0]
    for number in (-1, 11):
        requests["queue"][77] = number
        with pytest.raises(ValueError, match=f"of queue {number}, of 11"):
            by_queue(requests, 11)
        with pytest.raises(ValueError, match=f"of queue {number}, of 11"):
            sort_requests(requests, 11)


def test_the_file_may_begin_anywhere_in_the_log():
    record = build_record(phy_offset=7000)
    scanner = scanner_of()
    assert scanner.scan(Buffer(record), 7000, 7000, 9000) == 7000 + len(record)
    assert scanner.take()[0]["phy_offset"].tolist() == [7000]
    with pytest.raises(ValueError, match="6999"):
        scanner.scan(Buffer(record), 7000, 6999, 9000)


def test_many_queues_keep_their_numbers():
    records = b"".join(build_record(topic=f"T{i % 3000}", queue_id=i % 7) for i in range(30_000))
    scanner = scanner_of(anywhere=True)
    assert scanner.scan(Buffer(records), 0, 0, len(records)) == len(records)
    requests, _ = scanner.take()
    assert [scanner.queues[number] for number in requests["queue"]] == [(f"T{i % 3000}", i % 7) for i in range(30_000)]
    assert len(scanner.queues) == 21_000


def seconds_of(topics):
    """Return the least processor time of three scans of records with these topics."""
    records = b"".join(build_record(topic=topic) for topic in topics)
    seconds = []
    for _ in range(3):
        scanner = scanner_of(anywhere=True)
        begin = time.thread_time()
        assert scanner.scan(Buffer(records), 0, 0, len(records)) == len(records)
        seconds.append(time.thread_time() - begin)
        assert scanner.queues == [(topic.decode(errors="replace"), 0) for topic in topics]
    return min(seconds)


# Pairs with one Java hash, and pairs that differ in bits that a product with any odd number keeps.
PAIRS = [(b"Aa", b"BB"), (b"abcdefghijklmnop", b"abcdefg\xe8ijk\xecmno\xf0")]


@pytest.mark.parametrize("pair", PAIRS, ids=("java", "odd"))
def test_topics_that_are_chosen_are_told_apart_as_fast_as_others(pair):
    chosen = [b"".join(topic) for topic in itertools.product(pair, repeat=15)]
    others = [(b"%0240d" % number)[-len(topic) :] for number, topic in enumerate(chosen)]
    assert seconds_of(chosen) < 30 * seconds_of(others)


def test_topics_that_decode_to_the_same_text_are_of_one_queue():
    """As they are to RocketMQ, which names a queue by what it decodes."""
    topics = (b"X\xff", "X\ufffd".encode(), b"X", b"X\xfe", b"X\xc0\x80")
    records = b"".join(build_record(topic=topic) for topic in topics)
    scanner = scanner_of(anywhere=True)
    scanner.scan(Buffer(records), 0, 0, len(records))
    requests, _ = scanner.take()
    assert scanner.queues == [("X\ufffd", 0), ("X", 0), ("X\ufffd\ufffd", 0)]
    assert requests["queue"].tolist() == [0, 0, 1, 0, 2]


def test_a_record_that_says_another_physical_offset_is_one_for_a_broker_alone():
    records = build_record() + build_record(phy_offset=5)
    first = len(records) // 2
    with pytest.raises(CorruptFileError, match="physicalOffset") as caught:
        scanner_of().scan(Buffer(records), 0, 0, len(records))
    assert caught.value.offset == first
    scanner = scanner_of(anywhere=True)
    assert scanner.scan(Buffer(records), 0, 0, len(records)) == len(records)
    assert scanner.take()[0]["phy_offset"].tolist() == [0, 5]


def test_delay_levels_are_those_of_the_configuration():
    record = build_record(topic=SCHEDULE_TOPIC, properties={"DELAY": "2"}, store_timestamp=BEGIN)
    scanner = scanner_of(levels="1s 1h")
    scanner.scan(Buffer(record), 0, 0, len(record))
    assert scanner.take()[0]["tags_code"].tolist() == [BEGIN + 3_600_000]


def test_records_that_name_more_queues_are_marked():
    properties = [{}, {"INNER_MULTI_DISPATCH": "a"}, {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": "0"}]
    records = b"".join(build_record(properties=items) for items in properties)
    scanner = scanner_of(anywhere=True)
    scanner.scan(Buffer(records), 0, 0, len(records))
    flags = scanner.take()[0]["flags"] & MULTI_DISPATCH != 0
    assert not flags[0]
    assert flags[2]


@pytest.mark.parametrize("offset", ["1" * 5000, "", "x", "²", "\u0085", "0 ", "\U0001d7cf"])
def test_an_offset_that_is_no_number_gives_no_more_queues(offset):
    properties = {"INNER_MULTI_DISPATCH": "a,b", "INNER_MULTI_QUEUE_OFFSET": f"{offset},3"}
    config = StoreConfig(enable_multi_dispatch=True)
    assert list(more_queues(("T", 5), properties, config, ())) == []
    properties["INNER_MULTI_DISPATCH"] = "a/,b"  # RocketMQ does not read the offset of such a name
    assert list(more_queues(("T", 5), properties, config, ())) == [(("b", 5), 3)]


@pytest.mark.parametrize("offset", ["-1", f"{2**63 - 1}", f"{2**63 // 20 - 1}"])
def test_an_offset_without_a_place_in_a_queue_drops_its_queue_alone(offset):
    properties = {"INNER_MULTI_DISPATCH": "a,b", "INNER_MULTI_QUEUE_OFFSET": f"{offset},3"}
    config = StoreConfig(enable_multi_dispatch=True)
    assert list(more_queues(("T", 5), properties, config, ())) == [(("b", 5), 3)]


@pytest.mark.parametrize("offset", ["7", "+7", "0007", "0" * 5000 + "7", "\u0667", "+\uff17"])
def test_offsets_in_light_queues_are_numbers_as_java_reads_them(offset):
    properties = {"INNER_MULTI_DISPATCH": "a,b", "INNER_MULTI_QUEUE_OFFSET": f"{offset},-0"}
    config = StoreConfig(enable_multi_dispatch=True)
    assert list(more_queues(("T", 5), properties, config, ())) == [(("a", 5), 7), (("b", 5), 0)]


@pytest.mark.parametrize(("blank", "is_blank"), [(" ", True), ("\x1c\u3000", True), ("\xa0", False), ("\x85", False)])
def test_light_queues_without_a_name_that_java_takes_for_blank(blank, is_blank):
    config = StoreConfig(enable_multi_dispatch=True)
    properties = {"INNER_MULTI_DISPATCH": blank, "INNER_MULTI_QUEUE_OFFSET": "0"}
    assert list(more_queues(("T", 5), properties, config, ())) == [((blank, 5), 0)] * (not is_blank)
    properties = {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": blank}
    assert list(more_queues(("T", 5), properties, config, ())) == []


def test_messages_of_batch_queues_are_for_no_more_queues():
    properties = {"INNER_MULTI_DISPATCH": "a", "INNER_MULTI_QUEUE_OFFSET": "0"}
    config = StoreConfig(enable_multi_dispatch=True)
    assert list(more_queues(("T", 5), properties, config, {"U"})) == [(("a", 5), 0)]
    assert list(more_queues(("T", 5), properties, config, {"T"})) == []


def test_a_blank_ends_a_file():
    """Corner 10."""
    record = build_record()
    data = record + blank(50) + build_record()
    scanner = scanner_of()
    assert scanner.scan(Buffer(data), 0, 0, len(data)) == len(record)
    assert len(scanner.take()[0]) == 1


@pytest.mark.parametrize(
    ("behind", "field"),
    [
        (bytes(200), None),
        (b"\x00\x00\x00\x64\xde\xad\xbe\xef" + bytes(200), "magic"),
        (build_record()[:50], None),
        (build_record()[:4], None),
        (build_record(topic=SCHEDULE_TOPIC, properties={"DELAY": "x"}), "DELAY"),
        (build_record(properties={"INNER_NUM": "x", "INNER_BASE": "1"}), "INNER_NUM"),
        (build_record(properties={"INNER_NUM": "32768", "INNER_BASE": "1"}), "INNER_NUM"),
        (build_record(total_size=95) + bytes(200), None),
        (build_record(total_size=-5) + bytes(200), None),
        (build_record(total_size=2**31 - 1) + bytes(200), None),
        (build_record(body_length=2**31 - 1) + bytes(200), None),
        (build_record(topic_length=-1) + bytes(200), None),
        (build_record(properties_length=5000) + bytes(200), None),
    ],
)
def test_bytes_that_are_no_record_raise_an_error_and_requests_before_them_are_kept(behind, field):
    """Corner 110."""
    record = build_record(phy_offset=0)
    data = record + behind
    scanner = scanner_of()
    with pytest.raises(CorruptFileError) as corrupt:
        scanner.scan(Buffer(data), 0, 0, len(data))
    assert corrupt.value.offset == len(record)
    if field is not None:
        assert field in corrupt.value.field
    requests, _ = scanner.take()
    assert requests["phy_offset"].tolist() == [0]


def test_every_cut_of_a_record_is_corrupt():
    record = build_record(properties={"KEYS": "k", "TAGS": "t"})
    for size in range(1, len(record)):
        with pytest.raises(CorruptFileError):
            scanner_of().scan(Buffer(record[:size]), 0, 0, size)
        with pytest.raises(CorruptFileError):
            scanner_of().scan(Buffer(record), 0, 0, size)


def test_every_flipped_byte_of_a_record_is_a_record_or_corrupt(seed):
    rng = random.Random(f"{seed} flip")
    record = build_record(properties={"KEYS": "k", "TAGS": "t", "UNIQ_KEY": "u"}, body=b"x")
    for position in range(len(record)):
        data = bytearray(record + build_record(phy_offset=len(record)) + bytes(300))
        data[position] ^= 1 << rng.randrange(8)
        scanner = scanner_of()
        try:
            scanner.scan(Buffer(bytes(data)), 0, 0, len(record))
        except CorruptFileError:
            continue
        requests, items = scanner.take()
        assert len(requests) <= 1
        assert len(items) <= 3


# ---- the dispatcher ----------------------------------------------------------------------------------------


class Built:
    """A log that the reference wrote, and a dispatcher beside it."""

    def __init__(self, root, rows, *, batch_topics=(), index=True, as_broker=False, **options):
        self.root, self.config = root, config_of(**options)
        self.model = model_of(self.config, batch_topics=batch_topics)
        for number, row in enumerate(rows):
            self.model.put(with_host(row, self.config), BEGIN + 1000 * number)
        for start, data in self.model.files.items():
            write_file(root / "commitlog", start, bytes(data).ljust(self.config.mapped_file_size_commit_log, b"\0"))
        self.log = CommitLog.open(
            root / "commitlog",
            mapped_file_size=self.config.mapped_file_size_commit_log,
            message_delay_level=self.config.message_delay_level,
        )
        geometry = {"hash_slot_num": self.config.max_hash_slot_num, "index_num": self.config.max_index_num}
        service = IndexService.open(root / "index", "a", compat=self.config.compat, **geometry) if index else None
        self.dispatcher = Dispatcher(
            StorePlaces.of(root), self.config, self.log, service, set(batch_topics), as_broker=as_broker
        )
        self.end = self.model.phy_offset

    def check(self):
        self.dispatcher.flush()
        self.dispatcher.close()
        assert_same_files(self.root, self.model)


@pytest.mark.parametrize("profile", [name for name, (_, options) in PROFILES.items() if "enable_lmq" not in options])
def test_queues_and_index_are_the_reference_s(profile, seed, tmp_path):
    draw, options = PROFILES[profile]
    rng = random.Random(f"{seed} build {profile}")
    built = Built(tmp_path / "store", [draw(rng) for _ in range(200)], **options)
    built.dispatcher.dispatch(0, built.end)
    assert built.dispatcher.last_phy_offset == built.model.last.phy_offset
    assert built.dispatcher.last_store_timestamp == built.model.last.store_timestamp
    built.check()


def test_part_by_part_gives_the_same_files(seed, tmp_path):
    rng = random.Random(f"{seed} piecewise")
    built = Built(tmp_path / "store", [draw_plain(rng) for _ in range(200)])
    ends = [offset + record.total_size for offset, record in ReferenceLog(read_files(built.root / "commitlog")).records]
    at = 0
    for end in [*sorted(rng.sample(ends[:-1], 40)), built.end]:
        built.dispatcher.dispatch(at, end)
        at = end
    built.check()


def test_records_that_are_dispatched_twice_are_put_once(seed, tmp_path):
    """Corner 40."""
    rng = random.Random(f"{seed} again")
    built = Built(tmp_path / "store", [draw_plain(rng) for _ in range(100)], index=False)
    ends = [offset + record.total_size for offset, record in ReferenceLog(read_files(built.root / "commitlog")).records]
    for end in (ends[30], ends[60], ends[60], built.end):
        built.dispatcher.dispatch(0, end)
    built.dispatcher.flush()
    built.dispatcher.close()
    expected = {path: data for path, data in built.model.data_files().items() if not path.startswith("commitlog")}
    assert files_under(built.root, "consumequeue") == expected


def test_what_a_broker_dispatches_again_has_another_ext_unit_and_no_other_unit(tmp_path):
    """Corner 55."""
    rows = [{**draw_plain(random.Random(i)), "topic": "T", "queue_id": 0} for i in range(5)]
    options = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 4096}
    built = Built(tmp_path / "store", rows, index=False, as_broker=True, **options)
    built.dispatcher.dispatch(0, built.end)
    once = files_under(built.root, "consumequeue")
    built.dispatcher.dispatch(0, built.end)
    built.dispatcher.close()
    assert files_under(built.root, "consumequeue") == once
    ext = ConsumeQueueExt.open(built.root / "consumequeue_ext" / "T" / "0")
    with ConsumeQueue.open(built.root / "consumequeue" / "T" / "0") as queue:
        first = queue[:].tags_codes.tolist()
    size = first[1] - first[0]
    assert [ext.read(address) for address in first] == [ext.read(address + 5 * size) for address in first]
    assert (len(first), None in map(ext.read, first), ext.read(first[0] + 10 * size)) == (5, False, None)


def test_a_range_without_a_file_is_an_error(tmp_path):
    built = Built(tmp_path / "store", [draw_plain(random.Random(1)) for _ in range(5)])
    with pytest.raises(StoreError, match="no file"):
        built.dispatcher.dispatch(1 << 30, (1 << 30) + 1)
    built.dispatcher.dispatch(0, 0)
    assert built.dispatcher.last_phy_offset == -1


def test_a_log_file_that_is_begun_is_no_reason_to_list_all_files(tmp_path, monkeypatch):
    built = Built(tmp_path / "store", [draw_plain(random.Random(i)) for i in range(100)])
    *later, _ = sorted((tmp_path / "store" / "commitlog").iterdir(), reverse=True)
    assert len(later) >= 3
    for path in later:
        path.rename(tmp_path / path.name)
    built.log.refresh()
    for path in later:
        (tmp_path / path.name).rename(path)
    monkeypatch.setattr(built.log.file_run, "_list", None)
    built.dispatcher.dispatch(0, built.end)
    built.check()


def test_more_queues_than_are_kept_open_are_all_written(tmp_path):
    rows = [{**draw_plain(random.Random(i)), "topic": f"T{i % 300}"} for i in range(900)]
    built = Built(tmp_path / "store", rows, index=False, mapped_file_size_commit_log=1 << 16)
    built.dispatcher.dispatch(0, built.end)
    built.dispatcher.close()
    expected = {path: data for path, data in built.model.data_files().items() if not path.startswith("commitlog")}
    assert files_under(built.root, "consumequeue") == expected


def test_each_round_begins_with_the_queues_whose_files_are_open(tmp_path, monkeypatch):
    built = Built(tmp_path / "store", [], index=False)
    queues, opened = [QueueId(f"T{number}", 0) for number in range(5)], []
    monkeypatch.setattr(built.dispatcher, "_max_open", 3)
    open_path = file_run_writer.open_path
    monkeypatch.setattr(
        file_run_writer,
        "open_path",
        lambda path, *flags, **held: opened.append(path) or open_path(path, *flags, **held),
    )
    for number in range(4):
        requests = np.zeros(len(queues), REQUEST)
        requests["queue"], requests["size"], requests["batch_size"] = np.arange(len(queues)), 100, 1
        requests["phy_offset"], requests["msg_base_offset"] = 1000 * number, number
        built.dispatcher.put_requests(requests, queues)
    assert [writer.max_queue_offset for writer in built.dispatcher.queues().values()] == [4] * len(queues)
    built.dispatcher.close()
    assert len(opened) == 3 * (len(queues) - 3)  # the first round makes the files


def test_queues_may_be_asked_for_while_others_are_written(tmp_path):
    rows = [{**draw_plain(random.Random(i)), "topic": f"T{i % 200}", "queue_id": 0} for i in range(2000)]
    built = Built(tmp_path / "store", rows, index=False, mapped_file_size_commit_log=1 << 20)
    lock, stop = threading.Lock(), threading.Event()

    def ask():
        while not stop.is_set():
            with lock:
                for i in range(200):
                    built.dispatcher.queue(f"T{i}", 0)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with lock:
            built.dispatcher.dispatch(0, built.end)
    finally:
        stop.set()
        thread.join()
    built.dispatcher.close()
    assert sum(writer.max_queue_offset for writer in reopened(built).values()) == 2000


def reopened(built):
    dispatcher = Dispatcher(StorePlaces.of(built.root), built.config, built.log, None, set())
    return {(f"T{i}", 0): dispatcher.queue(f"T{i}", 0) for i in range(200)}


GOLDEN = [name for name in stores.NAMES if name.split("-")[0] in ("basic", "rich", "crc", "batch", "lmq", "cqext")]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_queues_of_a_broker_s_log_are_the_broker_s_byte_for_byte(name, tmp_path):
    golden = stores.unpack(name, tmp_path)
    settings = {**SEVERAL_FILES, **stores.settings(name)}
    settings.pop("force_verify_prop_crc", None)
    config = StoreConfig(**settings)
    log = CommitLog.open(golden / "commitlog", mapped_file_size=config.mapped_file_size_commit_log)
    batches = {path.name for path in (golden / "batchconsumequeue").glob("*")}
    dispatcher = Dispatcher(StorePlaces.of(tmp_path / "built"), config, log, None, batches)
    dispatcher.dispatch(0, log.max_phy_offset)
    dispatcher.close()
    parts = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
    assert files_under(tmp_path / "built", *parts) == files_under(golden, *parts)


def test_prepared_and_rolled_back_messages_make_no_queue(tmp_path):
    """Corner 17."""
    rows = [{**draw_plain(random.Random(1)), "sys_flag": kind} for kind in (PREPARED, ROLLBACK)]
    built = Built(tmp_path / "store", rows)
    built.dispatcher.dispatch(0, built.end)
    assert built.dispatcher.last_phy_offset == built.model.last.phy_offset
    assert not (built.root / "consumequeue").exists()
    built.check()
