"""CommitLog.scan: filters, threads, ranges, damage, tables, and what stops it."""

import _thread
import copy
import inspect
import os
import pickle
import random
import struct
import threading
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from reference.commit_log import make_commit_log, write_file
from reference.record import blank, build_record
from support import stores
from support.logs import ALL_COLUMNS, column_list, golden_messages, offsets_of, open_golden, rows_of
from support.waiting import replace_sleep, wait_for, wait_for_no_thread

from rocketstore import CommitLog, CorruptFileError, MessageStore, StoreClosedError
from rocketstore.disk.durable import allocate
from rocketstore.disk.holes import data_ranges
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.commit_log import RecordScanner
from rocketstore.kernels.message_columns import MESSAGE_FIELDS
from rocketstore.log import record_reader
from rocketstore.log import scan as scan_module

FILE = 4096
THREADS = (1, 2, 4)


@pytest.fixture(params=THREADS, ids=lambda n: f"{n} threads")
def threads(request):
    return request.param


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(scan_module, "CHUNK", 700)


@pytest.fixture(scope="module", params=["rich-5.5.0", "cut-5.3.3", "broker-5.5.0"])
def golden(request, tmp_path_factory):
    root = stores.unpack(request.param, tmp_path_factory.mktemp("golden"))
    with open_golden(request.param, root) as log:
        yield log, golden_messages(request.param, root)


def make(directory, records, file_size=FILE, **options):
    offsets = make_commit_log(directory, file_size, records, **options)
    return CommitLog.open(directory, mapped_file_size=file_size), offsets


def some(n):
    return [{"body": b"body %d" % i, "properties": {"KEYS": f"k{i}"}} for i in range(n)]


def damage(directory, offset, data=b"\xde\xad", at=4, file_size=FILE):
    """Overwrite bytes of the record at an offset: those of its magic, unless said otherwise."""
    with (directory / f"{offset // file_size * file_size:020d}").open("r+b") as file:
        file.seek(offset % file_size + at)
        file.write(data)


def test_a_scan_is_pickled_as_its_log_and_conditions(tmp_path):
    log, offsets = make(tmp_path, [{"topic": f"T{i % 3}", "properties": {"TAGS": "ab"[i % 2]}} for i in range(12)])
    scan = log.scan(offsets[1], columns=["phy_offset"], topic=iter(["T0", "T1"]), queue_ids={0}, tag="a")
    for again in (pickle.loads(pickle.dumps(scan)), copy.deepcopy(scan)):
        assert offsets_of(again) == offsets_of(scan) == [offsets[i] for i in (4, 6, 10)]


# ---- filters -----------------------------------------------------------------------------------------------


def wanted(fields, *, topic=None, queue_ids=None, tag=None, key=None, since=None, until=None):
    """The filter in Python, over a dumped message."""
    return (
        (topic is None or fields["topic"] in topic)
        and (queue_ids is None or fields["queue_id"] in queue_ids)
        and (tag is None or fields["tags"] in [one.strip() for one in tag.split("||")])
        and (key is None or not {*fields["keys"], fields["uniq_key"]}.isdisjoint(key))
        and (since is None or fields["store_timestamp"] >= since)
        and (until is None or fields["store_timestamp"] < until)
    )


def draw_filters(random_, messages):
    """Conditions that some message fulfils."""

    def values(name, n):
        return [message[name] for message in random_.sample(messages, n)]

    low, high = sorted(values("store_timestamp", 2))
    keys = [key for message in random_.sample(messages, 30) for key in [*message["keys"], message["uniq_key"]] if key]
    return {
        "topic": values("topic", random_.randrange(1, 4)),
        "queue_ids": values("queue_id", random_.randrange(1, 4)),
        "tag": random_.choice(["||", " || "]).join(tag or "none" for tag in values("tags", 3)),
        "key": keys[: random_.randrange(20)],
        "since": low,
        "until": high,
    }


@pytest.mark.parametrize("name", ["topic", "queue_ids", "tag", "key", "since", "until"])
def test_each_filter_alone_gives_what_python_would(name, golden, seed):
    log, messages = golden
    random_ = random.Random(seed)
    for _ in range(12):
        condition = {name: draw_filters(random_, messages)[name]}
        expected = [fields["phy_offset"] for fields in messages if wanted(fields, **condition)]
        assert offsets_of(log.scan(columns=["phy_offset"], **condition)) == expected, condition


def test_filters_together_give_what_python_would(golden, seed, threads):
    log, messages = golden
    random_ = random.Random(seed)
    hits = 0
    for _ in range(30):
        drawn = draw_filters(random_, messages)
        conditions = {name: drawn[name] for name in random_.sample(list(drawn), random_.randrange(2, 5))}
        expected = [fields for fields in messages if wanted(fields, **conditions)]
        rows = rows_of(log.scan(columns=ALL_COLUMNS, threads=threads, batch_size=50, **conditions))
        assert rows == expected, conditions
        hits += len(rows)
    assert hits


def test_a_filter_sees_text_as_java_decodes_it(tmp_path):
    log, offsets = make(
        tmp_path,
        [
            {"topic": b"t\xff", "properties": b"TAGS\x01\xed\xa0\x80\x02KEYS\x01a\xc0 b\x02"},
            {"topic": "t\ufffd", "properties": {"TAGS": "\ufffd", "KEYS": "b", "UNIQ_KEY": "题"}},
            {"topic": "t?", "properties": {"TAGS": "?"}},
        ],
    )
    for condition in ({"topic": ["t\ufffd"]}, {"tag": "x||\ufffd"}, {"key": ["b"]}):
        assert offsets_of(log.scan(**condition)) == offsets[:2]
    assert offsets_of(log.scan(key=["a\ufffd"])) == offsets[:1]
    assert offsets_of(log.scan(key=["题"])) == offsets[1:2]
    assert offsets_of(log.scan(key=["a b", "", "a"])) == []


def test_two_surrogates_that_are_a_pair_are_one_character_to_a_filter(tmp_path):
    log, offsets = make(tmp_path, [{"topic": "\U0001f600", "properties": {"TAGS": "\U0001f600"}}, {"topic": "?"}])
    pair = "\ud83d\ude00"
    for condition in ({"topic": [pair]}, {"tag": pair}):
        assert offsets_of(log.scan(**condition)) == offsets[:1]


def test_queue_ids_that_no_record_has_match_nothing(tmp_path):
    least, most = -(1 << 31), (1 << 31) - 1
    log, offsets = make(tmp_path, [{"queue_id": number} for number in (0, least, most)])
    for number, expected in ((least, offsets[1:2]), (most, offsets[2:]), (-(1 << 63), []), (1 << 32, [])):
        assert offsets_of(log.scan(queue_ids=[number])) == expected


def test_conditions_without_a_value_match_nothing(tmp_path):
    log, _ = make(tmp_path, some(5))
    for condition in (
        {"topic": []},
        {"queue_ids": []},
        {"key": []},
        {"queue_ids": [2**40]},
        {"tag": "||"},
        {"since": 2, "until": 1},
    ):
        assert list(log.scan(**condition)) == [], condition


def test_a_star_is_all_tags_as_where_a_queue_is_read(tmp_path):
    log, offsets = make(tmp_path, [{"properties": {"TAGS": "a"}}, {}, {"properties": {"TAGS": "*"}}])
    assert offsets_of(log.scan(tag="*")) == offsets_of(log.scan(tag="")) == offsets
    assert offsets_of(log.scan(tag="*||b")) == offsets[2:]


def test_thousands_of_keys_and_topics_can_be_asked_for(tmp_path):
    log, offsets = make(tmp_path, some(200), 1 << 16)
    keys = [f"k{i}" for i in range(0, 40_000, 2)]
    assert offsets_of(log.scan(key=keys, topic=[f"T{i}" for i in range(1000)] + ["TopicTest"])) == offsets[::2]


def test_a_store_s_scan_shows_what_that_of_its_log_takes():
    assert inspect.signature(MessageStore.scan) == inspect.signature(CommitLog.scan)
    assert MessageStore.scan.__doc__ == CommitLog.scan.__doc__


def test_words_may_be_strings_of_numpy(tmp_path):
    log, offsets = make(tmp_path, [{"properties": {"KEYS": "k"}}, {}])
    assert offsets_of(log.scan(topic=np.array(["TopicTest"]), key=[np.str_("k")])) == offsets[:1]


def test_filters_that_cannot_be_are_errors(tmp_path):
    log, _ = make(tmp_path, some(1))
    for error, options in (
        (TypeError, {"topic": b"T"}), (TypeError, {"key": 7}), (TypeError, {"topic": [1]}),
        (TypeError, {"key": [b"k"]}), (TypeError, {"tag": [b"a"]}), (ValueError, {"limit": -1}),
        ((TypeError, ValueError), {"queue_ids": ["x"]}), (TypeError, {"tag": 5}),
        (ValueError, {"since": "x"}), (TypeError, {"until": 1.5}),
        (ValueError, {"on_corrupt": "ignore"}), (ValueError, {"batch_size": 0}), (ValueError, {"threads": 0}),
        (ValueError, {"batch_size": 2**63}),
        (ValueError, {"columns": ["nothing"]}), (ValueError, {"columns": []}),
    ):  # fmt: skip
        with pytest.raises(error):
            log.scan(**options)


def test_one_name_stands_for_a_list_of_one(tmp_path):
    """Also a list of tags, and one queue id."""
    records = [
        {"topic": f"T{i % 2}", "queue_id": i % 3, "properties": {"KEYS": f"k{i}", "TAGS": "abc"[i % 3]}}
        for i in range(12)
    ]
    log, offsets = make(tmp_path, records)
    assert offsets_of(log.scan(topic="T1")) == offsets[1::2]
    assert offsets_of(log.scan(key="k7")) == offsets[7:8]
    assert offsets_of(log.scan(queue_ids=2)) == offsets_of(log.scan(queue_ids=np.int32(2))) == offsets[2::3]
    assert offsets_of(log.scan(tag=["a", " c "])) == offsets_of(log.scan(tag="a || c"))
    assert offsets_of(log.scan(tag=["a||b", "c"])) == offsets_of(log.scan(tag=["b", "*"])) == offsets
    assert offsets_of(log.scan(tag=[])) == []
    assert next(iter(log.scan(columns="topic"))).names == ("topic",)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_limit_ends_a_scan(tmp_path, threads):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    log, offsets = make(tmp_path, some(100), 1 << 14)
    for limit in (0, 1, 7, 99, 100, 101):
        for batch_size in (1, 10, 16384):
            scan = log.scan(limit=limit, batch_size=batch_size, threads=threads)
            assert offsets_of(scan) == offsets[:limit]
            assert scan.count() == scan.to_arrow().num_rows == min(limit, 100)
    scan = log.scan(limit=7, queue_ids=0)
    assert offsets_of(scan) == offsets_of(log.scan(queue_ids=0))[:7]


def test_head_and_count_read_nothing_that_they_do_not_need(tmp_path):
    log, offsets = make(tmp_path, some(100), 1 << 14)
    scan = log.scan(begin_offset=offsets[10])
    assert scan.count() == 90
    assert scan.head().phy_offset.tolist() == offsets[10:15]
    assert scan.head(3).phy_offset.tolist() == log.scan(offsets[10], limit=3).head().phy_offset.tolist()
    assert scan.head(1000).phy_offset.tolist() == offsets[10:]
    assert scan.head(0).names == scan.head(1).names
    assert len(scan.head(0)) == 0
    for wrong, error in (-1, ValueError), ("5", TypeError), (2.5, TypeError):
        for function in scan.head, scan.tail:
            with pytest.raises(error, match=r"^n="):
                function(wrong)
    assert offsets_of(scan) == offsets[10:]
    place = offsets[50]
    with (tmp_path / f"{place - place % (1 << 14):020}").open("r+b") as file:
        file.seek(place % (1 << 14))
        file.write(b"damage")
    assert len(log.scan().head(50)) == 50
    with pytest.raises(CorruptFileError):
        log.scan().count()


@pytest.mark.slow
def test_a_column_after_a_large_one_is_no_larger_than_its_offsets_can_tell():
    """The next batch is made as large as the last one was, and somewhat larger."""
    body, limit = bytes(32 << 20), (1 << 31) - 1
    buffer = Buffer(build_record(body=body))
    scanner = RecordScanner(["raw_body"])

    def gather(n):
        zeros = np.zeros(n, np.int64)
        scanner.gather([(buffer, 0)], zeros.astype(np.int32), zeros, zeros.astype(np.uint8), at_rest=True)
        return len(scanner.take()["raw_body"].data)

    assert gather(62) == 62 * len(body)
    with pytest.raises(MemoryError):
        gather(limit // len(body) + 1)


# ---- columns and batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_COLUMNS)
def test_each_column_alone_is_what_it_is_among_all(name, golden):
    log, messages = golden
    values = [value for batch in log.scan(columns=[name]) for value in column_list(name, batch.columns[name])]
    assert values == [fields[name] for fields in messages]


def test_columns_come_in_the_order_asked_and_those_of_tables_without(tmp_path):
    log, _ = make(tmp_path, some(1))
    (batch,) = log.scan(columns=["tags", "phy_offset", "body", "topic"])
    assert list(batch.columns) == ["tags", "phy_offset", "body", "topic"]
    (batch,) = log.scan()
    on_request = {"body_text", "body_json", "body_error", "raw_body", "tags_code"}
    on_request |= {"born_timestamp_ms", "store_timestamp_ms", "damaged"}
    assert list(batch.columns) == [name for name in MESSAGE_FIELDS if name not in on_request]


@pytest.mark.parametrize("batch_size", [1, 7, 100, 10**6])
def test_no_batch_is_larger_than_asked_and_none_is_empty(batch_size, tmp_path, threads, small_chunks):
    log, offsets = make(tmp_path, some(300))
    for options in ({}, {"key": [f"k{i}" for i in range(0, 300, 3)]}):
        batches = list(log.scan(batch_size=batch_size, threads=threads, **options))
        assert all(1 <= len(batch) <= batch_size for batch in batches)
        assert offsets_of(batches) == (offsets[::3] if options else offsets)


@pytest.mark.parametrize("columns", [["topic"], ["body"], ["properties"], ["phy_offset", "keys"]], ids=",".join)
def test_a_batch_ends_when_it_has_enough_bytes(columns, tmp_path, monkeypatch, threads):
    for module in (scan_module, record_reader):
        monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1000)
    log, _ = make(tmp_path, [{"topic": "t" * 300, "body": bytes(300), "properties": {"KEYS": "k" * 300}}] * 20)
    batches = [len(batch) for batch in log.scan(columns=columns, threads=threads)]
    assert (max(batches), sum(batches)) == (4, 20)


def test_compressed_bodies_count_as_what_becomes_of_them(tmp_path, monkeypatch, threads):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    monkeypatch.setattr(scan_module, "MAX_BATCH_BYTES", 1000)
    bodies = [bytes([i]) * n for i, n in enumerate([300] * 10 + [5000] + [300] * 3)]
    records = [{"body": zlib.compress(body), "sys_flag": 1} for body in bodies]
    records[-1] = {"body": bodies[-1]}
    records[7]["body"] = b"no zlib"
    log, _ = make(tmp_path, records)
    scan = log.scan(columns=["body"], on_corrupt="skip", threads=threads)
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        batches = [batch.to_arrow()["body"].to_pylist() for batch in scan]
    assert [len(batch) for batch in batches] == [3, 3, 4, 1, 3]
    assert [body for batch in batches for body in batch] == [*bodies[:7], None, *bodies[8:]]
    assert scan.skipped == []


def test_bodies_that_become_too_much_for_a_batch_of_given_messages_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rocketstore.messages.message_batch.INT_MAX", 1000)
    log, offsets = make(tmp_path, [{"body": zlib.compress(bytes(300)), "sys_flag": 1}] * 4)
    assert log.get_messages(offsets[:3]).body.offsets.tolist() == [0, 300, 600, 900]
    with pytest.raises(MemoryError, match="read fewer at once"):
        _ = log.get_messages(offsets).body


@pytest.mark.parametrize("kept", [(0,), (1, 2), (0, 1, 2)])
def test_columns_that_are_kept_are_not_written_over_by_later_batches(kept, tmp_path, threads):
    log, offsets = make(tmp_path, some(90))
    every = {"phy_offset": offsets, "body": [b"body %d" % i for i in range(90)]}
    columns, row = [], 0
    for i, batch in enumerate(log.scan(columns=every, batch_size=5, threads=threads)):
        name = "phy_offset" if i % 2 else "body"
        if i % 3 in kept:
            columns.append((name, batch.columns[name], every[name][row : row + len(batch)]))
        row += len(batch)
        del batch
    assert len(columns) >= 6 * len(kept)
    for name, column, values in columns:
        assert column_list(name, column) == values


def test_every_iteration_reads_the_log_again(tmp_path, threads):
    log, offsets = make(tmp_path, some(5))
    scan = log.scan(threads=threads)
    assert offsets_of(scan) == offsets_of(scan) == offsets
    place = offsets[-1] + log.get_message(offsets[-1]).size
    record = build_record(phy_offset=place)
    damage(tmp_path, place, record, at=0)
    assert offsets_of(scan) == [*offsets, place]


# ---- threads -----------------------------------------------------------------------------------------------


def test_threads_give_the_same_rows_in_the_same_order(golden, monkeypatch, threads, seed):
    log, messages = golden
    random_ = random.Random(seed)
    for chunk in (random_.randrange(1, 300), random_.randrange(300, 50_000)):
        monkeypatch.setattr(scan_module, "CHUNK", chunk if threads > 1 and chunk > 100 else max(chunk, 2000))
        assert rows_of(log.scan(columns=ALL_COLUMNS, threads=threads, verify_crc=True)) == messages


def fakes(place, count=3, **fields):
    """Bytes that look like records at a place of the log, one after the other."""
    data = b""
    for _ in range(count):
        data += build_record("Fake", b"fake", phy_offset=place + len(data), **fields)
    return data


def log_with_fakes(directory, n=40, **fields):
    """Records whose bodies are, from some byte on, records that know their own physical offset."""
    records, place = [], 0
    size_of_head = len(build_record(body=b"")) - len("TopicTest") - 3
    for i in range(n):
        body = b"x" * (i % 5) + fakes(place + size_of_head + i % 5, 1 + i % 4, **fields) + b"y" * (i % 3)
        records.append({"body": body, "queue_offset": i})
        place += len(build_record(**records[-1]))
    write_size = 1 << 16
    return make(directory, records, write_size)


@pytest.mark.parametrize("fields", [{}, {"sys_flag": 1}, {"body_crc": 1}, {"sys_flag": 0x501}], ids=repr)
def test_bodies_that_look_like_records_fool_no_thread(fields, tmp_path, monkeypatch, threads):
    log, offsets = log_with_fakes(tmp_path, **fields)
    assert log.get_message(offsets[3]).topic == "TopicTest"
    inside = log.reader.find_later(offsets[3] + 1, 1 << 16)
    assert log.get_message(inside, verify_crc=False).topic == "Fake"  # a place from which a chunk would go wrong
    for chunk in (53, 137, 300, 701, 1 << 16):
        monkeypatch.setattr(scan_module, "CHUNK", chunk)
        for on_corrupt in ("raise", "skip"):
            scan = log.scan(threads=threads, verify_crc=True, on_corrupt=on_corrupt)
            assert offsets_of(scan) == offsets
            assert scan.skipped == []


def test_a_body_longer_than_a_chunk_is_read_by_every_number_of_threads(tmp_path, small_chunks, threads):
    log, offsets = make(tmp_path, [{"body": os.urandom(i * 997 % 9000)} for i in range(40)], 1 << 16)
    assert offsets_of(log.scan(threads=threads, verify_crc=True)) == offsets


# ---- ranges ------------------------------------------------------------------------------------------------


def test_a_range_has_the_records_that_begin_in_it(tmp_path, monkeypatch, threads, seed):
    monkeypatch.setattr(scan_module, "CHUNK", 1500)
    log, offsets = make(tmp_path, some(120), first_offset=FILE)
    random_ = random.Random(seed)
    last = offsets[-1]
    places = [
        0,
        FILE,
        FILE + 1,
        last,
        last + 1,
        last + 5000,
        offsets[1],
        offsets[1] + 1,
        2 * FILE - 1,
        2 * FILE,
        2 * FILE + 1,
    ]
    for _ in range(150):
        begin, end = (
            random_.choice([*places, random_.randrange(last + 500), *random_.sample(offsets, 3)]) for _ in range(2)
        )
        expected = [offset for offset in offsets if begin <= offset < end]
        assert offsets_of(log.scan(begin, end, threads=threads)) == expected, (begin, end)
    for begin in places:
        assert offsets_of(log.scan(begin, threads=threads)) == [offset for offset in offsets if offset >= begin]
        assert offsets_of(log.scan(end_offset=begin, threads=threads)) == [
            offset for offset in offsets if offset < begin
        ]


@pytest.mark.parametrize(
    ("begin", "end"), [(-5, None), (-(2**63), 2**63 - 1), (None, -1), (2**63 - 1, None), (-(2**70), 2**70)]
)
def test_a_range_may_lead_beyond_the_log(begin, end, tmp_path, threads):
    log, offsets = make(tmp_path, some(60))
    expected = [offset for offset in offsets if (begin or 0) <= offset and (end is None or offset < end)]
    assert offsets_of(log.scan(begin, end, threads=threads)) == expected


def test_a_scan_says_where_its_last_record_ends(tmp_path, small_chunks, threads):
    log, offsets = make(tmp_path, some(60), 1 << 16)
    scan = log.scan(offsets[3], offsets[50] + 1, threads=threads)
    for _ in range(2):
        assert offsets_of(scan) == offsets[3:51]
        assert scan.position == offsets[51]


# ---- damage ------------------------------------------------------------------------------------------------


def test_a_torn_tail_is_the_end(tmp_path, threads, small_chunks):
    log, offsets = make(tmp_path, some(20))
    for data in (b"\xff" * 300, build_record(phy_offset=offsets[-1])[:50] + bytes(200), b"\xda\xa3\x20\xa7" * 20):
        damage(tmp_path, offsets[-1], data, at=0)
        for on_corrupt in ("raise", "skip"):
            scan = log.scan(threads=threads, on_corrupt=on_corrupt)
            assert offsets_of(scan) == offsets[:-1]
            assert scan.skipped == []


@pytest.mark.parametrize(
    ("at", "data", "field"),
    [
        (0, b"\x7f", "size"),
        (0, b"\xff", "size"),
        (0, bytes(4), "size"),
        (4, b"\0\0\0\0", "magic"),
        (4, b"\xda\xa3\x20\xa8", "magic"),
        (28, b"\x01", "physicalOffset"),
        (84, b"\xff", "body length"),
        (84, b"\x7f", "body length"),
        (84, b"\0\0\0\x01", None),
        (3, b"\x01", None),
        (36, b"\0\0\0\x10", None),
    ],
)
def test_damage_before_later_records_is_raised_with_its_place_and_skipped_exactly(
    at, data, field, tmp_path, threads, small_chunks
):
    """Corner 89."""
    log, offsets = make(tmp_path, some(60))
    bad = 17
    damage(tmp_path, offsets[bad], data, at)
    found = []
    with pytest.raises(CorruptFileError) as error:
        found += [offset for batch in log.scan(threads=threads, batch_size=1) for offset in batch.phy_offset.tolist()]
    assert error.value.path == tmp_path / f"{0:020d}"
    assert error.value.offset == offsets[bad]
    assert error.value.reason
    assert field is None or error.value.field == field
    scan = log.scan(threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == offsets[:bad] + offsets[bad + 1 :]
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(offsets[bad], offsets[bad + 1])]
    assert str(scan.skipped[0].error) == str(error.value)


@pytest.mark.parametrize("chunk", [150, 700, FILE])
def test_many_damaged_places_are_all_skipped_and_told(chunk, tmp_path, monkeypatch, threads, seed):
    monkeypatch.setattr(scan_module, "CHUNK", chunk)
    monkeypatch.setattr(scan_module, "ATTEMPT_SECONDS", 0)
    log, offsets = make(tmp_path, some(200))
    bad = sorted(random.Random(seed).sample(range(199), 40))
    for i in bad:
        damage(tmp_path, offsets[i])
    scan = log.scan(threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == [offset for i, offset in enumerate(offsets) if i not in bad]
    assert [skip.begin for skip in scan.skipped] == sorted({skip.begin for skip in scan.skipped})
    lost = [offset for skip in scan.skipped for offset in offsets if skip.begin <= offset < skip.end]
    assert lost == [offsets[i] for i in bad]


def test_no_damaged_place_of_a_log_at_rest_is_waited_at(tmp_path, monkeypatch, threads):
    replace_sleep(monkeypatch, scan_module, lambda seconds: pytest.fail("nobody writes here"))
    log, offsets = make(tmp_path, some(60))
    for bad in offsets[5:50:5]:
        damage(tmp_path, bad)
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    scan = log.scan(threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == [offset for i, offset in enumerate(offsets) if i not in range(5, 50, 5)]
    assert [skip.begin for skip in scan.skipped] == offsets[5:50:5]


def test_zeros_before_later_records_are_damage_and_skipped(tmp_path, threads, small_chunks):
    log, offsets = make(tmp_path, some(60))
    damage(tmp_path, offsets[3], bytes(offsets[6] - offsets[3]), at=0)
    with pytest.raises(CorruptFileError) as error:
        list(log.scan(threads=threads))
    assert error.value.offset == offsets[3]
    scan = log.scan(threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == offsets[:3] + offsets[6:]
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(offsets[3], offsets[6])]


def test_a_file_of_zeros_between_files_of_records_is_damage(tmp_path, threads):
    log, offsets = make(tmp_path, some(120))
    write_file(tmp_path, FILE, bytes(FILE))
    with pytest.raises(CorruptFileError) as error:
        list(log.scan(threads=threads))
    assert (int(Path(error.value.path).name), error.value.offset) == (FILE, 0)
    scan = log.scan(threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == [offset for offset in offsets if not FILE <= offset < 2 * FILE]
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(FILE, 2 * FILE)]


def test_a_file_cut_in_the_middle_of_the_log_is_damage(tmp_path, threads):
    offsets = make_commit_log(tmp_path, FILE, some(120))
    cut_at = next(offset for offset in offsets if offset > FILE + 1000) + 9
    os.truncate(tmp_path / f"{FILE:020d}", cut_at - FILE)
    with CommitLog.open(tmp_path, mapped_file_size=FILE) as log:
        with pytest.raises(CorruptFileError):
            list(log.scan(threads=threads))
        scan = log.scan(threads=threads, on_corrupt="skip")
        assert offsets_of(scan) == [offset for offset in offsets if offset < cut_at - 9 or offset >= 2 * FILE]
        assert [(skip.begin, skip.end) for skip in scan.skipped] == [(cut_at - 9, 2 * FILE)]


def test_a_look_ahead_passes_over_holes(tmp_path):
    size = 64 << 30
    write_file(tmp_path, 0, build_record(phy_offset=0) + b"\xff" * 8)
    os.truncate(tmp_path / f"{0:020d}", size)
    with CommitLog.open(tmp_path) as log:
        begin = time.process_time()
        assert offsets_of(log.scan()) == [0]
        assert time.process_time() - begin < 5


def test_a_look_ahead_asks_for_no_hole_behind_the_record_that_it_finds(tmp_path, monkeypatch):
    records, size = 60, 1 << 20
    path = tmp_path / f"{0:020d}"
    with path.open("wb") as file:
        for place in range(0, records * size, size):
            file.seek(place)
            file.write(build_record(phy_offset=place))
        file.truncate(records * size)
    os.utime(path, (0, 0))
    seeks, lseek = [], os.lseek
    monkeypatch.setattr(os, "lseek", lambda *place: seeks.append(place) or lseek(*place))
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan(on_corrupt="skip")) == list(range(0, records * size, size))
    assert len(seeks) < 10 * records


def test_a_wrong_body_crc_is_damage_if_bodies_are_read(tmp_path, threads, small_chunks):
    log, offsets = make(tmp_path, [*some(10), {"body": b"bad", "body_crc": 1}, *some(10)])
    for without in ({"verify_crc": False}, {"columns": ["phy_offset"]}):
        assert offsets_of(log.scan(threads=threads, **without)) == offsets
    for columns in (None, ["body"], ["topic", "raw_body"], ["body_error"]):
        with pytest.raises(CorruptFileError, match="verify_crc=False reads the message"):
            list(log.scan(threads=threads, columns=columns))
    with pytest.raises(CorruptFileError, match="is not the CRC of the body") as error:
        list(log.scan(threads=threads, verify_crc=True, columns=["phy_offset"]))
    assert (error.value.offset, error.value.field) == (offsets[10], "bodyCrc")
    scan = log.scan(threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == offsets[:10] + offsets[11:]
    assert scan.count() == 21  # reads no bodies
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(offsets[10], offsets[11])]


@pytest.mark.parametrize("at_rest", [False, True])
def test_a_last_record_that_is_whole_but_for_its_crc_is_no_end_of_the_log(at_rest, tmp_path, threads):
    log, offsets = make(tmp_path, [*some(10), {"body": b"bad", "body_crc": 1}])
    os.utime(tmp_path / f"{offsets[-1] // FILE * FILE:020d}", (1, 1) if at_rest else None)
    with pytest.raises(CorruptFileError, match="is not the CRC of the body") as error:
        list(log.scan(threads=threads, verify_crc=True))
    assert error.value.offset == offsets[10] % FILE
    scan = log.scan(threads=threads, verify_crc=True, on_corrupt="skip")
    assert offsets_of(scan) == offsets[:10]
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(offsets[10], log.max_phy_offset)]
    assert scan.position == log.max_phy_offset
    assert offsets_of(log.scan(threads=threads, verify_crc=False)) == offsets


def test_a_record_that_gets_its_body_while_it_is_looked_at_is_read(tmp_path, threads, monkeypatch):
    log, offsets = make(tmp_path, [*some(10), {"body": b"good"}])
    path = tmp_path / f"{offsets[-1] // FILE * FILE:020d}"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"good", b"go__"))
    replace_sleep(monkeypatch, scan_module, lambda seconds: path.write_bytes(whole))
    assert offsets_of(log.scan(threads=threads, verify_crc=True)) == offsets


def test_the_crc_of_the_property_is_verified_where_the_store_says_so(tmp_path, threads):
    records = [{"body": b"%d" % i, "append_prop_crc": True} for i in range(20)]
    offsets = make_commit_log(tmp_path, FILE, records)
    damage(tmp_path, offsets[7], b"\x01", at=12)  # the queue id, which the CRC of the body does not cover
    with CommitLog.open(tmp_path, force_verify_prop_crc=True) as log:
        with pytest.raises(CorruptFileError, match="__CRC32#") as error:
            list(log.scan(verify_crc=True, threads=threads))
        assert error.value.offset == offsets[7]
        scan = log.scan(verify_crc=True, on_corrupt="skip", threads=threads)
        assert offsets_of(scan) == offsets[:7] + offsets[8:]
    with CommitLog.open(tmp_path) as log:
        assert offsets_of(log.scan(verify_crc=True, threads=threads)) == offsets


def test_one_flipped_bit_in_any_body_never_gives_a_wrong_body_when_crc_is_verified(tmp_path, seed):
    random_ = random.Random(seed)
    log, offsets = make(tmp_path, [{"body": random_.randbytes(50)} for _ in range(20)])
    good = {m.phy_offset: m.body for batch in log.scan() for m in batch}
    path = tmp_path / f"{0:020d}"
    data = path.read_bytes()
    for place in random_.sample(range(offsets[-1]), 150):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << random_.randrange(8)]) + data[place + 1 :])
        scan = log.scan(verify_crc=True, on_corrupt="skip").adapted(warns=False)
        bodies = {m.phy_offset: m.body for batch in scan for m in batch if m.body_error is None}
        assert bodies.items() <= good.items(), place
        assert len(bodies) >= len(good) - 1, place


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_a_body_that_does_not_decompress_is_null_and_its_raw_body_given(tmp_path, threads, small_chunks, on_corrupt):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    packed = zlib.compress(b"hello")
    records = (
        [{"body": packed, "sys_flag": 1}] * 5
        + [{"body": b"no zlib", "sys_flag": 1}]
        + [{"body": packed, "sys_flag": 1}] * 5
    )
    log, offsets = make(tmp_path, records)
    scan = log.scan(columns=["phy_offset", "body", "body_error"], threads=threads, on_corrupt=on_corrupt)
    with pytest.warns(UserWarning, match="1 message has a body that cannot be decoded"):
        table = scan.to_arrow()
    assert table["phyOffset"].to_pylist() == offsets
    assert table["body"].to_pylist() == [*[b"hello"] * 5, None, *[b"hello"] * 5]
    errors = table["bodyError"].to_pylist()
    assert errors.pop(5).startswith("body: does not decompress with zlib")
    assert errors == [None] * 10
    assert (scan.skipped, scan.bad_bodies.count) == ([], 1)
    rows = rows_of(log.scan(columns=["phy_offset", "raw_body"], threads=threads))
    assert [row["raw_body"] for row in rows] == [fields["body"] for fields in records]


def test_the_error_of_a_body_that_does_not_decompress_names_the_file_and_the_place_in_it(tmp_path, threads):
    log, offsets = make(tmp_path, [*some(60), {"body": b"no zlib", "sys_flag": 1}, *some(3)])
    start = offsets[60] // FILE * FILE
    assert start > 0
    place = (tmp_path / f"{start:020d}", offsets[60] - start, "body")
    scan = log.scan(threads=threads)
    with pytest.warns(UserWarning, match=f"{place[0]}: body at byte {place[1]}: does not decompress"):
        messages = [message for batch in scan for message in batch]
    assert [message.phy_offset for message in messages] == offsets
    for _ in range(2):
        with pytest.raises(CorruptFileError) as raised:
            _ = messages[60].body
        assert (raised.value.path, raised.value.offset, raised.value.field) == place
    assert messages[60].body_error.startswith("body: does not decompress")
    assert (messages[59].body_error, messages[59].body) == (None, b"body 59")


@pytest.mark.parametrize("chunk", [700, FILE])
def test_messages_of_bad_bodies_stay_where_bad_records_are_left_out(chunk, tmp_path, monkeypatch, threads):
    monkeypatch.setattr(scan_module, "CHUNK", chunk)
    bodies = {i: {"body": b"no zlib", "sys_flag": 1} for i in (3, 8, 9)}
    log, offsets = make(tmp_path, [bodies.get(i, fields) for i, fields in enumerate(some(20))])
    for bad in (5, 12):
        damage(tmp_path, offsets[bad])
    scan = log.scan(threads=threads, on_corrupt="skip")
    with pytest.warns(UserWarning, match="3 messages have bodies that cannot be decoded"):
        found = offsets_of(scan)
    assert found == [offset for i, offset in enumerate(offsets) if i not in (5, 12)]
    assert [skip.begin for skip in scan.skipped] == [offsets[i] for i in (5, 12)]


def test_the_messages_before_a_damaged_place_are_given_before_it_is_raised(tmp_path, threads):
    log, offsets = make(tmp_path, some(60))
    damage(tmp_path, offsets[50])
    found = []
    with pytest.raises(CorruptFileError):
        found.extend(offset for batch in log.scan(threads=threads) for offset in batch.phy_offset.tolist())
    assert found == offsets[:50]


@pytest.mark.parametrize("within", [0, 5])
def test_a_scan_that_begins_in_damage_tells_it(within, tmp_path, threads):
    log, offsets = make(tmp_path, some(60))
    damage(tmp_path, offsets[20])
    begin = offsets[20] + within
    with pytest.raises(CorruptFileError) as raised:
        list(log.scan(begin, threads=threads))
    assert raised.value.offset == begin
    scan = log.scan(begin, threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == offsets[21:]
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(begin, offsets[21])]


def test_a_scan_that_begins_within_a_sound_record_begins_with_the_next_whatever_is_damaged_before(tmp_path, threads):
    log, offsets = make(tmp_path, [*some(5), {"body": bytes(3000)}, *some(20)])
    damage(tmp_path, offsets[4])
    for begin in (offsets[5] + 1, offsets[6] - 1, offsets[6] + 9):
        assert offsets_of(log.scan(begin, threads=threads)) == [offset for offset in offsets if offset >= begin]


@pytest.mark.parametrize(("begin", "end"), [(None, 6000), (None, 2 * FILE), (FILE, 6000), (5000, 6000)])
def test_a_file_that_is_missing_where_a_range_ends_is_reported(begin, end, tmp_path, threads):
    log, offsets = make(tmp_path, some(120))
    (tmp_path / f"{FILE:020d}").unlink()
    with pytest.raises(CorruptFileError, match="a file is missing"):
        list(log.scan(begin, end, threads=threads))
    scan = log.scan(begin, end, threads=threads, on_corrupt="skip")
    assert offsets_of(scan) == [offset for offset in offsets if begin is None and offset < FILE]
    assert [(skip.begin, skip.end) for skip in scan.skipped] == [(max(begin or 0, FILE), end)]


@pytest.mark.parametrize("size", [FILE // 2, 6000, 2 * FILE])
def test_no_file_is_skipped_if_a_wrong_size_is_given(size, tmp_path, threads):
    offsets = make_commit_log(tmp_path, FILE, some(200))
    with CommitLog.open(tmp_path, mapped_file_size=size) as log:
        assert offsets_of(log.scan(threads=threads)) == offsets
        assert log.max_phy_offset == CommitLog.open(tmp_path).max_phy_offset


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.uint32])
def test_offsets_may_be_numbers_of_numpy_and_must_be_whole(kind, tmp_path, threads):
    log, offsets = make(tmp_path, some(60))
    begin = FILE - 6  # within the blank that ends a file
    found = offsets_of(log.scan(kind(begin), kind(3 * FILE), threads=threads))
    assert found == [offset for offset in offsets if begin <= offset < 3 * FILE]
    for wrong in ({"begin_offset": 1.0}, {"end_offset": "9"}):
        with pytest.raises(TypeError):
            log.scan(**wrong)


def test_skipped_ranges_are_those_of_the_last_iteration(tmp_path):
    log, offsets = make(tmp_path, some(20))
    damage(tmp_path, offsets[5])
    scan = log.scan(on_corrupt="skip")
    list(scan)
    list(scan)
    assert len(scan.skipped) == 1
    damage(tmp_path, offsets[5], b"\xda\xa3")
    list(scan)
    assert scan.skipped == []


def test_records_that_end_in_zeros_are_read_in_a_log_at_rest(tmp_path, threads):
    log, offsets = make(
        tmp_path,
        [{"properties": b"a\x01b"}, {"properties": b"a\x01\0\0"}, {"topic": b"t\0"}, {"topic": "", "body": b""}],
    )
    for path in tmp_path.iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert offsets_of(log.scan(threads=threads)) == offsets
    assert log.get_messages(offsets).phy_offset.tolist() == offsets


# ---- tables ------------------------------------------------------------------------------------------------


def plain(value):
    """A value of a table as JSON would have it: times as epoch ms, maps as dicts, empty and missing values as None."""
    if isinstance(value, np.ndarray | list):
        items = list(value)
        if items and isinstance(items[0], dict):
            items = [(item["key"], item["value"]) for item in items]
        return (dict(items) if items and isinstance(items[0], tuple) else items) or None
    if value is None or value != value:  # NaN, NaT
        return None
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value or (None if value == {} else value)


def table_rows(names, rows):
    return [{name: plain(value) for name, value in zip(names, row, strict=True)} for row in rows]


def expected_rows(messages, columns):
    return [{MESSAGE_FIELDS[name].name: plain(fields[name]) for name in columns} for fields in messages]


def test_arrow_pandas_polars_and_duckdb_have_the_values_that_rocketmq_read(golden, threads):
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    log, messages = golden
    expected = expected_rows(messages, ALL_COLUMNS)
    scan = log.scan(columns=ALL_COLUMNS, batch_size=100, threads=threads)
    arrow = scan.to_arrow()
    names = [MESSAGE_FIELDS[name].name for name in ALL_COLUMNS]
    assert arrow.column_names == names
    arrow.validate(full=True)
    assert table_rows(names, zip(*(arrow[name].to_pylist() for name in names), strict=True)) == expected
    pandas = scan.to_pandas()
    assert table_rows(names, pandas.itertuples(index=False)) == expected
    polars = scan.to_polars()
    assert table_rows(names, polars.iter_rows()) == expected
    times = ", ".join(f"epoch_ms({name}) as {name}" for name in ("bornTimestamp", "storeTimestamp"))
    relation = duckdb.connect().execute(f"select * replace ({times}) from arrow order by phyOffset")
    assert table_rows(names, relation.fetchall()) == expected


def test_a_batch_is_a_table_too(golden):
    log, messages = golden
    first = next(iter(log.scan(columns=ALL_COLUMNS, batch_size=64)))
    expected = expected_rows(messages[:64], ALL_COLUMNS)
    names = [MESSAGE_FIELDS[name].name for name in ALL_COLUMNS]
    arrow = first.to_arrow()
    assert table_rows(names, zip(*(arrow[name].to_pylist() for name in names), strict=True)) == expected
    assert table_rows(names, first.to_polars().iter_rows()) == expected
    assert table_rows(names, first.to_pandas().itertuples(index=False)) == expected


def test_an_empty_scan_is_an_empty_table_with_all_columns(tmp_path, threads):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    with CommitLog.open(tmp_path) as log:
        scan = log.scan(threads=threads)
        assert scan.to_arrow().num_rows == 0
        assert scan.to_arrow().column_names == scan.to_polars().columns == list(scan.to_pandas().columns)
        assert "topic" in scan.to_arrow().column_names


def test_damage_reaches_whoever_reads_the_table(tmp_path, threads):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    log, offsets = make(tmp_path, some(60))
    damage(tmp_path, offsets[7])
    for make_table in (
        log.scan(threads=threads).to_arrow,
        log.scan(threads=threads).to_polars,
        log.scan(threads=threads).to_pandas,
    ):
        with pytest.raises(CorruptFileError, match="no message begins here"):
            make_table()


# ---- stopped -----------------------------------------------------------------------------------------------


def test_a_scan_that_is_not_read_to_its_end_leaves_nothing_running(tmp_path, threads, small_chunks):
    log, offsets = make(tmp_path, some(300))
    before = threading.active_count()
    for _ in range(5):
        batches = iter(log.scan(threads=threads, batch_size=2))
        assert next(batches).phy_offset.tolist() == offsets[:2]
        batches.close()
        wait_for(lambda: threading.active_count() == before)
    batches = iter(log.scan(threads=threads))
    next(batches)
    del batches
    wait_for(lambda: threading.active_count() == before)
    log.close()


def test_a_running_scan_raises_an_error_when_its_log_is_closed(tmp_path, threads, small_chunks):
    log, _ = make(tmp_path, some(3000))
    batches = iter(log.scan(threads=threads, batch_size=2))
    first = next(batches)
    log.close()
    with pytest.raises(StoreClosedError, match="is closed"):
        for _ in batches:
            pass
    assert first[0].body == b"body 0"


def read_for_ten_seconds(scan):
    end = time.perf_counter() + 10
    while time.perf_counter() < end:
        list(scan)


# Between two bytecodes it may hit a directory that was opened just now, and Python says that nobody closed it.
may_leave_a_directory_open = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@may_leave_a_directory_open
def test_ctrl_c_stops_a_scan(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(scan_module, "CHUNK", 1 << 16)
    log, offsets = make(tmp_path, [{"body": bytes(2000)} for _ in range(2000)], 8 << 20)
    for _ in range(3):
        timer = threading.Timer(0.05, _thread.interrupt_main)
        timer.start()
        begin = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            read_for_ten_seconds(log.scan(threads=threads, columns=["phy_offset"], verify_crc=True))
        timer.join()
        assert time.perf_counter() - begin < 2
    assert offsets_of(log.scan(threads=threads, columns=["phy_offset"])) == offsets
    wait_for_no_thread("rocketstore-scan")


@may_leave_a_directory_open
def test_ctrl_c_stops_a_look_ahead_over_bytes_that_are_no_records(tmp_path):
    write_file(tmp_path, 0, build_record(phy_offset=0) + struct.pack(">ii", 5, -1))
    with (tmp_path / f"{0:020d}").open("ab") as file:
        for _ in range(64):
            file.write(b"\xda\xa3\x20\xa7" * (1 << 18))
    with CommitLog.open(tmp_path) as log:
        timer = threading.Timer(0.02, _thread.interrupt_main)
        timer.start()
        begin = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            read_for_ten_seconds(log.scan())
        timer.join()
        assert time.perf_counter() - begin < 2


def test_several_scans_of_one_log_run_at_once(tmp_path):
    log, offsets = make(tmp_path, some(500))
    results = []
    workers = [
        threading.Thread(target=lambda n=n: results.append(offsets_of(log.scan(batch_size=7, threads=n))))
        for n in (1, 2, 3, 1)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [offsets] * 4
    pairs = zip(log.scan(batch_size=3), log.scan(batch_size=3), strict=True)
    assert all(a.phy_offset.tolist() == b.phy_offset.tolist() for a, b in pairs)


def test_repr_names_the_range_that_is_read(tmp_path):
    log, _ = make(tmp_path, some(1))
    text = repr(log.scan(1000, columns=["topic", "keys"]))
    assert text.startswith("<Scan of <CommitLog ")
    assert text.endswith("from 1,000 to the end: topic, keys>")


def test_a_blank_is_no_message(tmp_path):
    write_file(tmp_path, 0, blank(FILE))
    with CommitLog.open(tmp_path) as log:
        assert list(log.scan()) == []


def test_repeated_scans_do_not_read_ahead_into_unused_space(tmp_path):
    size = 64 << 20
    log, offsets = make(tmp_path, some(3), size)
    log.close()
    path = tmp_path / f"{0:020}"
    os.truncate(path, offsets[-1] + 4096)
    with path.open("r+b") as file:
        allocate(file.fileno(), size)

    def end_of_data():
        with CommitLog.open(tmp_path, mapped_file_size=size) as log:
            assert log.scan().count() == 3
        return data_ranges(path, 0, size)[-1][1]

    end_of_data()
    before = end_of_data()
    assert end_of_data() <= before + (1 << 16)
