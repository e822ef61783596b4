"""Appending encoded records to a file: where they are put, in which order, and what a full file does."""

import random

import numpy as np
import pytest
from reference.record import blank, build_record, parse_record
from support.puts import BEGIN, COMMIT, PREPARED, ROLLBACK, draw_plain, message_of

from rocketstore import MappedFile, Message, StoreClosedError
from rocketstore.kernels.appender import Appender
from rocketstore.kernels.buffer import Buffer
from rocketstore.kernels.record_encoder import RecordEncoder

SIZE = 1000
HOST = "10.0.0.1:10911"


class Log:
    """An appender with a file of SIZE bytes, an encoder, and the columns of what it answers."""

    def __init__(self, directory, from_offset=0, position=0, starts=None, **options):
        self.directory, self.starts = directory, dict(starts or {})
        self.appender = Appender()
        self.encoder = RecordEncoder(HOST, lambda topic: 0, **options)
        self.set_file(from_offset, position)

    def set_file(self, from_offset, position=0):
        self.file = MappedFile(self.directory / f"{from_offset:020}", "r+", create_size=SIZE)
        self.appender.set_file(self.file.buffer, from_offset, position)

    def add(self, *messages, **options):
        for message in messages:
            self.encoder.add(message, **options)
        return self

    def append(self, first=0, store_timestamp=BEGIN, is_batch=False):
        n = len(self.encoder)
        for queue in self.encoder.queues:
            if queue not in self.appender.queues():
                self.appender.set_queue_offset(*queue, self.starts.get(queue, 0))
        self.phy_offsets, self.queue_offsets = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        return self.appender.append(
            self.encoder, first, store_timestamp, is_batch, self.phy_offsets, self.queue_offsets
        )

    @property
    def data(self):
        return bytes(self.file.view())

    @property
    def next_offsets(self):
        return {queue: self.appender.queue_offset(*queue) for queue in self.appender.queues()}


def body(size):
    """A message of topic T whose record has so many bytes."""
    return Message("T", bytes(size - 92), queue_id=0, born_timestamp=1)


def test_records_follow_each_other_byte_for_byte(seed, tmp_path):
    rng = random.Random(f"{seed} append")
    rows = [draw_plain(rng) for _ in range(3)]
    log = Log(tmp_path, from_offset=5000, position=10)
    assert log.add(*map(message_of, rows)).append() == sum(1 for offset in log.phy_offsets if offset >= 0)
    expected, counts = bytearray(10), {}
    for row in rows:
        queue = row["topic"], row["queue_id"]
        place = {"phy_offset": 5000 + len(expected), "queue_offset": counts.get(queue, 0)}
        record = build_record(**{**row, **place, "store_timestamp": BEGIN, "store_host": HOST})
        if len(expected) + len(record) + 8 > SIZE:
            break
        counts[queue] = counts.get(queue, 0) + 1
        expected += record
    assert log.data.startswith(bytes(expected))
    assert log.next_offsets.items() >= counts.items()


def test_queue_offsets_go_on_where_they_were_set(tmp_path):
    log = Log(tmp_path, starts={("T", 0): 40, ("Other", 3): 40})
    for _ in range(2):
        log.encoder.clear()
        log.add(body(92), Message("Other", b"", queue_id=3), body(92)).append()
    assert log.queue_offsets.tolist() == [42, 41, 43]
    assert log.next_offsets == {("T", 0): 44, ("Other", 3): 42}


def test_a_queue_offset_can_be_set_again(tmp_path):
    log = Log(tmp_path)
    with pytest.raises(KeyError):
        log.appender.queue_offset("T", 0)
    for following in (7, 3):
        log.appender.set_queue_offset("T", 0, following)
        assert log.next_offsets == {("T", 0): following}
    with pytest.raises(OverflowError):
        log.appender.set_queue_offset("T", 0, 2**63)
    assert log.next_offsets == {("T", 0): 3}


def test_nothing_is_appended_while_a_queue_is_unknown(tmp_path):
    log = Log(tmp_path)
    log.appender.set_queue_offset("T", 0, 0)
    log.add(body(100), Message("Other", b"", queue_id=0), body(100))
    offsets = np.zeros((2, 3), np.int64)
    for is_batch in (False, True):
        assert log.appender.append(log.encoder, 0, BEGIN, is_batch, offsets[0], offsets[1]) == 0
    assert log.appender.append_message(log.encoder, Message("New", b"", queue_id=0), BEGIN, HOST) is None
    assert (log.appender.position, log.appender.is_full) == (0, False)
    assert log.data == bytes(SIZE)


def test_only_plain_and_committed_records_are_counted(tmp_path):
    """Corner 15."""
    log = Log(tmp_path, starts={("T", 0): 5})
    kinds = [0, PREPARED, COMMIT, ROLLBACK, 0]
    assert log.add(*(Message("T", b"", queue_id=0, sys_flag=kind) for kind in kinds)).append() == 5
    assert log.queue_offsets.tolist() == [5, 0, 6, 0, 7]
    assert [parse_record(log.data, 92 * i).record.queue_offset for i in range(5)] == [5, 0, 6, 0, 7]


def test_a_message_may_take_several_queue_offsets(tmp_path):
    log = Log(tmp_path)
    log.add(body(92), message_num=1).add(body(92), message_num=7).add(body(92), message_num=1).append()
    assert log.queue_offsets.tolist() == [0, 1, 8]
    assert log.next_offsets == {("T", 0): 9}


def test_a_time_is_given_or_the_record_s_own(tmp_path):
    log = Log(tmp_path)
    message = body(92)
    message.store_timestamp = 77
    log.add(message, keeps_store=True).append(store_timestamp=None)
    log.append(store_timestamp=-5)
    assert [parse_record(log.data, at).record.store_timestamp for at in (0, 92)] == [77, -5]
    assert log.appender.last_store_timestamp == -5
    assert log.appender.last_phy_offset == 92


@pytest.mark.parametrize(("left", "fits"), [(9, True), (8, True), (7, False), (0, False)])
def test_8_bytes_stay_behind_the_last_record(left, fits, tmp_path):
    log = Log(tmp_path, position=100)
    assert log.add(body(SIZE - 100 - left)).append() == (1 if fits else 0)
    if fits:
        assert log.appender.position == SIZE - left
        log.encoder.clear()
        assert log.add(body(92)).append() == 0
        assert log.data[SIZE - left :] == blank(left)
    else:
        assert log.data[100:] == blank(900)
    assert log.appender.position == SIZE
    assert log.appender.phy_offset == SIZE


def test_a_full_file_is_left_unchanged(tmp_path):
    log = Log(tmp_path, position=SIZE)
    for _ in range(3):
        assert log.add(body(92)).append() == 0
        assert log.data == bytes(SIZE)


def test_a_file_too_full_for_a_blank_is_left_unchanged(tmp_path):
    log = Log(tmp_path, position=SIZE - 7)
    assert log.add(body(92)).append() == 0
    assert log.data == bytes(SIZE)
    assert log.appender.position == SIZE


def test_a_blank_keeps_the_bytes_behind_its_8_bytes(tmp_path):
    """Corner 11."""
    log = Log(tmp_path, position=500)
    log.file.view()[500:] = b"\xaa" * 500
    assert log.add(body(500)).append() == 0
    assert log.data == bytes(500) + blank(500)[:8] + b"\xaa" * 492


def test_appending_continues_in_the_next_file_with_the_message_that_did_not_fit(tmp_path):
    log = Log(tmp_path, position=400)
    log.add(*(body(200) for _ in range(7)))
    assert log.append() == 2
    assert log.phy_offsets.tolist() == [400, 600, -1, -1, -1, -1, -1]
    log.set_file(SIZE)
    assert log.append(first=2) == 6
    assert log.phy_offsets[2:].tolist() == [1000, 1200, 1400, 1600, -1]
    assert log.queue_offsets[2:].tolist() == [2, 3, 4, 5, -1]


def test_a_batch_goes_whole_or_not_at_all(tmp_path):
    log = Log(tmp_path, position=400)
    log.add(*(body(198) for _ in range(3)))
    assert log.append(is_batch=True) == 0
    assert log.data[400:] == blank(600)
    assert log.next_offsets.get(("T", 0), 0) == 0
    log.set_file(SIZE, 398)
    assert log.append(is_batch=True) == 3
    assert log.phy_offsets.tolist() == [1398, 1596, 1794]


def test_without_a_file_nothing_is_appended(tmp_path):
    log = Log(tmp_path)
    log.appender = Appender()
    assert log.appender.is_full
    assert log.add(body(92)).append() == 0
    assert log.appender.last_phy_offset == log.appender.last_store_timestamp == -1


def test_nothing_to_append_is_nothing(tmp_path):
    log = Log(tmp_path)
    assert log.append() == log.append(is_batch=True) == 0
    assert log.data == bytes(SIZE)


@pytest.mark.parametrize("position", [-1, SIZE + 1])
def test_a_place_outside_of_the_file_is_refused(position, tmp_path):
    with pytest.raises(ValueError, match="appended"):
        Log(tmp_path, position=position)


def test_a_file_open_for_reading_is_refused(tmp_path):
    log = Log(tmp_path)
    with pytest.raises(ValueError, match="appended"):
        log.appender.set_file(Buffer(b"\0" * 100), 0, 0)
    with pytest.raises(TypeError):
        log.appender.set_file(None, 0, 0)


def test_columns_must_have_room(tmp_path):
    log = Log(tmp_path).add(body(92), body(92))
    short, right = np.empty(1, np.int64), np.empty(2, np.int64)
    for columns in ((short, right), (right, short)):
        with pytest.raises(ValueError, match="2 records"):
            log.appender.append(log.encoder, 0, BEGIN, False, *columns)
    with pytest.raises(ValueError, match=r"-1|2 records"):
        log.appender.append(log.encoder, -1, BEGIN, False, right, right)
    with pytest.raises((ValueError, TypeError)):
        log.appender.append(log.encoder, 0, BEGIN, False, right.astype(np.int32), right)
    assert log.data == bytes(SIZE)


def test_a_closed_file_is_an_error(tmp_path):
    log = Log(tmp_path).add(body(92))
    log.file.close()
    with pytest.raises(StoreClosedError):
        log.append()
