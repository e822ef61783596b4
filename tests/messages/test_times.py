"""Times as users write them, in a time zone."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rocketstore.text_values import format_time, parse_time

NOW = datetime(2026, 11, 28, 20, 30, tzinfo=UTC)
SHANGHAI = ZoneInfo("Asia/Shanghai")  # it is the 29th there


@pytest.fixture(autouse=True)
def at_now(monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: int(NOW.timestamp()) * 10**9)


def read(text, zone=UTC):
    return datetime.fromtimestamp(parse_time(text, zone) / 1000, UTC)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1h", 60),
        ("-1h", 60),
        ("1 hour ago", 60),
        ("2 Hours ago", 120),
        ("90s", 1.5),
        ("5 min", 5),
        ("5 minutes", 5),
        ("1d", 1440),
        ("1 week ago", 10080),
    ],
)
def test_a_duration_is_a_time_before_now_in_every_zone(text, minutes):
    for zone in (UTC, SHANGHAI, None):
        assert read(text, zone) == NOW - timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("text", "in_utc", "in_shanghai"),
    [
        ("10:00", "2026-11-28T10:00Z", "2026-11-29T02:00Z"),
        ("9:30:15.5", "2026-11-28T09:30:15.5Z", "2026-11-29T01:30:15.5Z"),
        ("today", "2026-11-28T00:00Z", "2026-11-28T16:00Z"),
        ("yesterday", "2026-11-27T00:00Z", "2026-11-27T16:00Z"),
        ("yesterday 14:00", "2026-11-27T14:00Z", "2026-11-28T06:00Z"),
        ("Today 9:00", "2026-11-28T09:00Z", "2026-11-29T01:00Z"),
        ("2026-11-21", "2026-11-21T00:00Z", "2026-11-20T16:00Z"),
        ("2026-11-21 10:00", "2026-11-21T10:00Z", "2026-11-21T02:00Z"),
        ("2026-11-21T10:00+01:00", "2026-11-21T09:00Z", "2026-11-21T09:00Z"),
        ("1700000000000", "2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"),
    ],
)
def test_a_time_without_a_zone_is_one_of_the_given_zone(text, in_utc, in_shanghai):
    assert read(text) == datetime.fromisoformat(in_utc)
    assert read(text, SHANGHAI) == datetime.fromisoformat(in_shanghai)


def test_the_local_zone_is_that_of_this_machine(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        assert parse_time("yesterday 14:00", None) == parse_time("yesterday 14:00", SHANGHAI)
        assert format_time(1_700_000_000_000, None) == "2023-11-15T06:13:20.000+08:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "text",
    ["", "25:00", "10:0", "yesterday14:00", "10:00 yesterday", "hour ago", "-1.5h", "--1h", "1 year ago", " 10:00"],
)
def test_a_text_that_is_no_time_is_refused(text):
    for zone in (UTC, SHANGHAI, None):
        with pytest.raises(ValueError, match="is no time: give an ISO 8601 time"):
            parse_time(text, zone)


def test_a_time_beyond_the_years_of_a_zone_is_shown_in_utc():
    last = 253_402_300_799_999
    assert format_time(last, SHANGHAI) == "9999-12-31T23:59:59.999Z"
