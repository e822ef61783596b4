"""Time zones in Python: ``tz`` is the zone of times that name none, and of hours and days."""

import random
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from support.puts import open_store

import rocketstore
from rocketstore import Message
from rocketstore.store.pending.pending_message import PendingMessage
from rocketstore.store.usage import expiry_plan
from rocketstore.store.usage.zone_bins import DAY, HOUR, MINUTE, begin_of, begins_of
from rocketstore.text_values import epoch_ms, find_time_zone

STORED = 1_700_000_000_000  # 2023-11-14T22:13:20Z, 2023-11-15 06:13:20 in Shanghai
SHANGHAI, KOLKATA = "Asia/Shanghai", "Asia/Kolkata"
ZONES = [SHANGHAI, KOLKATA, "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "America/Sao_Paulo"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """48 messages, one an hour, of one key."""
    path = tmp_path_factory.mktemp("zones") / "store"
    with open_store(path) as store:
        for n in range(48):
            message = Message("T", b"%d" % n, keys=["k"], queue_id=0)
            store.put_message(message, store_timestamp=STORED + n * HOUR)
    return path


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root) as store:
        yield store


def begin_in_python(timestamp, width, zone):
    """Return the begin of the hour or day of a time, by arithmetic on local times."""
    local = datetime.fromtimestamp(timestamp / 1000, UTC).astimezone(zone)
    if width == DAY:
        return round(datetime(local.year, local.month, local.day, tzinfo=zone).timestamp() * 1000)
    into_hour = local.minute * MINUTE + local.second * 1000 + local.microsecond // 1000
    return timestamp - into_hour if width == HOUR else timestamp - timestamp % MINUTE


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("width", [MINUTE, HOUR, DAY])
def test_bins_are_those_of_local_times(name, width, seed):
    rng, zone = random.Random(seed), ZoneInfo(name)
    times = np.array([rng.randrange(1_500_000_000_000, 1_800_000_000_000) for _ in range(2000)], np.int64)
    expected = [begin_in_python(time, width, zone) for time in times.tolist()]
    assert begins_of(times, width, zone).tolist() == expected
    assert [begin_of(time, width, zone) for time in times.tolist()] == expected


@pytest.mark.parametrize("width", [HOUR, DAY])
@pytest.mark.parametrize("minutes", [7, -19.5, 485.7])
def test_bins_of_zones_that_are_off_a_quarter_are_those_of_local_times(width, minutes, seed):
    rng, zone = random.Random(seed), timezone(timedelta(minutes=minutes))
    times = np.array([1_700_000_000_000 + rng.randrange(4 * DAY) for _ in range(500)], np.int64)
    expected = [begin_in_python(time, width, zone) for time in times.tolist()]
    assert begins_of(times, width, zone).tolist() == expected
    assert [begin_of(time, width, zone) for time in times.tolist()] == expected


def test_times_beyond_the_year_9999_have_bins_of_utc():
    times = np.array([2**62, -(2**62)], np.int64)
    assert begins_of(times, DAY, ZoneInfo(KOLKATA)).tolist() == (times - times % DAY).tolist()


@pytest.mark.parametrize("when", ["2023-11-15 07:13:20", datetime(2023, 11, 15, 7, 13, 20)])
def test_a_time_without_a_zone_is_one_of_tz(store, root, when):
    times = {"since": when, "tz": SHANGHAI}
    assert store.scan(**times).count() == 47
    assert store["T"].scan(**times).count() == 47
    assert len(store.query_message("T", "k", **times)) == 47
    assert len(store.query_messages("T", ["k"], **times).messages) == 47
    assert sum(row.messages for row in store.count("topic", **times)) == 47
    assert store.get_offset_by_time("T", when, 0, tz=SHANGHAI) == 1
    assert store.find_phy_offset_by_time(when, tz=SHANGHAI) == store.find_phy_offset_by_time(STORED + HOUR)
    assert store.get_phy_offset_by_time(when, tz=ZoneInfo(SHANGHAI)) > 0
    assert len(store.pending(**times)) == len(store.dead_letters(**times)) == 0
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    assert store.dataset(**times).count_rows() == 47
    with rocketstore.open_many([root]) as stores:
        assert stores.scan(**times).count() == stores.dataset(**times).count_rows() == 47
    pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    assert rocketstore.scan_polars(root, **times).collect().height == 47


def test_the_zone_of_a_time_counts_more_than_tz(store):
    assert store.scan(since="2023-11-14 23:13:20Z", tz=SHANGHAI).count() == 47
    assert store.scan(since=STORED + HOUR, tz=SHANGHAI).count() == 47
    assert store.scan(since=date(2023, 11, 16), tz=SHANGHAI).count() == 30
    assert store.scan(since=date(2023, 11, 16)).count() == 22


@pytest.mark.parametrize("name", [SHANGHAI, KOLKATA, "UTC"])
@pytest.mark.parametrize("by", ["hour", "day"])
def test_counts_and_sizes_are_those_of_local_hours_and_days(store, by, name):
    width = {"hour": HOUR, "day": DAY}[by]
    expected = Counter(begin_in_python(STORED + n * HOUR, width, ZoneInfo(name)) for n in range(48))
    assert {row[0]: row.messages for row in store.count(by, tz=name)} == expected
    for exact in (False, True):
        assert {row.begin_timestamp: row.messages for row in store.du(by=by, tz=name, exact=exact)} == expected


def test_pending_messages_are_counted_by_local_hours(store):
    due = [STORED + n * 20 * MINUTE for n in range(7)]
    waiting = PendingMessage(*[None] * len(PendingMessage._fields))._replace(kind="delay", topic="T")
    found = store.pending()
    found._rows = [waiting._replace(due_timestamp=time) for time in [*due, None]]
    expected = Counter(begin_in_python(time, HOUR, ZoneInfo(KOLKATA)) for time in due)
    assert {row.hour_timestamp: row.messages for row in found.totals(tz=KOLKATA)} == expected | {None: 1}


def test_sql_sees_times_in_tz(store):
    pytest.importorskip("duckdb", reason="needs duckdb")
    query = "SELECT CAST(storeTimestamp AS VARCHAR) AS t, hour(storeTimestamp) AS h FROM messages LIMIT 1"
    ((utc,), (local,)) = (store.sql(query, tz=tz).to_arrow().to_pylist() for tz in ("UTC", SHANGHAI))
    assert (utc, local["h"]) == ({"t": "2023-11-14 22:13:20+00", "h": 22}, 6)
    assert local["t"] == "2023-11-15 06:13:20+08"
    with pytest.raises(ValueError, match="DuckDB does not know this time zone: give a name such as Asia/Shanghai"):
        store.sql(query, tz=timezone(timedelta(hours=8)))


HINTS = {
    "Asia/Shanghi": "did you mean 'Asia/Shanghai'?",
    "asia/shanghai": "did you mean 'Asia/Shanghai'?",
    "Mars": "give a time zone such as",
    "CST": "give a time zone such as",
    "UTC+8": "give a time zone such as",
}


@pytest.mark.parametrize("name", HINTS)
def test_an_unknown_zone_is_refused_in_one_sentence(store, name):
    calls = [store.scan, store.dataset, store.pending, store.dead_letters, store.expiry]
    calls += [lambda tz: store.count("topic", tz=tz), lambda tz: store.du(by="day", tz=tz), store.pending().totals]
    calls += [lambda tz: store.query_message("T", "k", tz=tz), lambda tz: store.sql("SELECT 1", tz=tz)]
    for call in calls:
        with pytest.raises(ValueError, match=re.escape(f"tz='{name}': there is no such time zone: {HINTS[name]}")):
            call(tz=name)
    with pytest.raises(TypeError, match="tz=8: the name of a time zone or a tzinfo was expected"):
        store.scan(tz=8)


def test_none_and_local_are_the_zone_of_this_machine():
    assert find_time_zone(None) is find_time_zone("local") is None
    local = datetime(2023, 11, 15, 7).astimezone()
    assert epoch_ms("2023-11-15 07:00", "since", None) == epoch_ms(local, "since")


def test_a_plan_of_expiry_takes_a_time_in_the_zone_of_the_broker(store, monkeypatch):
    seen = []
    monkeypatch.setattr(
        expiry_plan,
        "plan_expiry",
        lambda store, hours, before, zone: seen.append((before, zone)),
    )
    store.expiry(before="2023-11-15 07:13:20", tz=SHANGHAI)
    store.expiry(before="2023-11-14 23:13:20")
    assert seen == [(STORED + HOUR, ZoneInfo(SHANGHAI)), (STORED + HOUR, None)]
