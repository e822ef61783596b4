"""The unique key that a client makes, and the id of a place in the log."""

import os
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from rocketstore import CommitLog, Message, create_uniq_id
from rocketstore.messages import message_id


@pytest.fixture
def summer_time(monkeypatch):
    """A time zone whose summer time ends at 3 o'clock of the last Sunday in October."""
    monkeypatch.setattr(message_id, "month", (0, 0))
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def millis_at(monkeypatch):
    """What gives the milliseconds in a key that is made at an epoch ms."""

    def millis_at(now):
        monkeypatch.setattr(message_id, "time", SimpleNamespace(time_ns=lambda: now * 1_000_000 + 999_999))
        return fields_of(create_uniq_id())[3]

    message_id.process_prefix(os.getpid())
    return millis_at


def epoch_millis(*date):
    return int(datetime(*date).timestamp()) * 1000


def fields_of(key):
    """Address, process, number of the process, milliseconds of the month, counter."""
    data = bytes.fromhex(key)
    address = data[: len(data) - 12]
    return (address, *struct.unpack(">H4sIH", data[len(address) :]))


def test_a_unique_key_has_address_process_time_and_a_counter():
    month = datetime.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    first, second = create_uniq_id(), create_uniq_id()
    assert first == first.upper()
    assert len(first) in (32, 56)
    address, pid, number, millis, count = fields_of(first)
    assert len(address) in (4, 16)
    assert pid == os.getpid() & 0xFFFF
    assert abs(month + timedelta(milliseconds=millis) - datetime.now()) < timedelta(minutes=1)
    assert fields_of(second)[:3] == (address, pid, number)
    assert fields_of(second)[4] == (count + 1) & 0xFFFF


def test_no_two_keys_are_alike_with_threads():
    with ThreadPoolExecutor(4) as threads:
        keys = list(threads.map(lambda _: create_uniq_id(), range(20_000)))
    assert len({*keys}) == len(keys)


def test_a_forked_process_makes_other_keys():
    """The fork is of a process without other threads: a thread that ends meanwhile may hold a lock of the allocator."""
    code = """
import os
from rocketstore import create_uniq_id
key = create_uniq_id()
child = os.fork()
if child == 0:
    os.write(1, create_uniq_id().encode())
    os._exit(0)
os.waitpid(child, 0)
print(f" {key} {child}")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    other, key, child = run.stdout.split()
    assert fields_of(other)[1] == int(child) & 0xFFFF
    assert fields_of(other)[2] != fields_of(key)[2]


def test_late_in_a_month_the_milliseconds_are_more_than_an_int_holds(millis_at):
    assert millis_at(epoch_millis(2026, 2, 1) - 1) == 31 * 24 * 3600 * 1000 - 1


def test_the_milliseconds_begin_anew_with_each_month_wherever_the_clock_goes(millis_at):
    for month in (1, 2, 12, 2):
        begin, end = epoch_millis(2026, month, 1), epoch_millis(2026 + month // 12, month % 12 + 1, 1)
        assert [millis_at(now) for now in (begin - 1, begin, end - 1, end)][1:] == [0, end - 1 - begin, 0]


def test_the_month_s_begin_is_kept_until_the_month_ends(millis_at, monkeypatch):
    """Local time is slow: it is computed once a month."""
    now = epoch_millis(2026, 5, 17)
    first = millis_at(now)
    monkeypatch.setattr(message_id, "datetime", None)
    assert millis_at(now + 5) == first + 5


@pytest.mark.usefixtures("summer_time")
def test_the_milliseconds_go_on_where_summer_time_ends(millis_at, monkeypatch):
    begin, hour = epoch_millis(2026, 10, 1), 3600 * 1000
    for millis in range(577 * hour + 1, 581 * hour, hour):  # from 1 o'clock to the second 2 and on to 3
        monkeypatch.setattr(message_id, "month", (0, 0))  # that it is kept is not what makes it right
        assert millis_at(begin + millis) == millis


def test_an_ipv6_address_makes_56_digits(monkeypatch):
    monkeypatch.setattr(message_id, "local_address", lambda: socket.inet_pton(socket.AF_INET6, "2001:db8::7"))
    message_id.process_prefix.cache_clear()
    key = create_uniq_id()
    message_id.process_prefix.cache_clear()
    assert len(key) == 56
    assert fields_of(key)[0] == socket.inet_pton(socket.AF_INET6, "2001:db8::7")


def test_without_a_network_a_key_begins_with_four_bytes_of_the_time(monkeypatch):
    monkeypatch.setattr(message_id, "FAR_AWAY", ())
    assert len(message_id.local_address()) == 4


def test_a_message_that_is_put_with_a_key_is_found_by_it(tmp_path):
    key = create_uniq_id()
    with CommitLog.open(tmp_path, "a", mapped_file_size=4096) as log:
        log.append(Message("T", b"", tags="t", uniq_key=key))
    with CommitLog.open(tmp_path) as log:
        message = log.get_message(0)
    assert (message.uniq_key, list(message.properties)) == (key, ["TAGS", "UNIQ_KEY"])


@pytest.mark.parametrize("text", ["", "0", "G" * 32, "0" * 31, "0" * 55])
def test_anything_but_an_id_is_an_error(text):
    with pytest.raises(ValueError, match="is no message id"):
        message_id.phy_offset_of(text)
