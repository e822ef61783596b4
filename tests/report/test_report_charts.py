"""The charts of the report page: ticks, marks, names and legends."""

import re
from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from support import report_store

import rocketstore
from rocketstore import Message
from rocketstore.report import charts
from rocketstore.report.axes import duration_axis, number_axis, power_axis, short_count, short_size, time_ticks
from rocketstore.report.log_numbers import LogNumbers, TopicNumbers, read_log
from rocketstore.report.make_report import make_report
from rocketstore.report.sections import body_chart
from rocketstore.report.texts import Clock, duration_text, share_text, size_text
from rocketstore.report.traffic import ALL, OTHERS, SYSTEM, choose_series

BEGIN = 1_795_867_200_000  # 2026-11-28 12:00 UTC
CLOCK = Clock(UTC, BEGIN)
NAMES = ["constructor", "toString", "__proto__", "\u2028", "valueOf", "hasOwnProperty", "undefined", "null"]
NAMES += ["a.b[0]", "\"'\\", "__defineGetter__", "NaN", "订单", "注文", "주문"]


def numbers_with(sizes):
    """Return numbers of one bin. Parameters: sizes: bytes, by topic."""
    numbers = LogNumbers(0, 1000, 1000, BEGIN, 1000, 1)
    numbers.topics |= {topic: TopicNumbers(np.array([1]), np.array([size])) for topic, size in sizes.items()}
    return numbers


def test_a_size_is_what_its_unit_says():
    assert size_text(39_214_160) == "39.2 MB"  # not 37.4 MB, which are MiB
    assert [size_text(size) for size in (0, 999, 1000, 999_499, 10**9)] == [
        "0 bytes", "999 bytes", "1.0 kB", "999 kB", "1.0 GB",
    ]  # fmt: skip
    assert short_size(5_000_000) == "5 MB"
    assert [share_text(part, 1000) for part in (0, 0.5, 1, 99, 100, 1000)] == [
        "0%", "< 0.1%", "0.1%", "9.9%", "10%", "100%",
    ]  # fmt: skip
    assert [duration_text(time) for time in (5, 1000, 90_000, 86_400_000)] == ["5 ms", "1 s", "1.5 min", "1 d"]


@pytest.mark.parametrize("most", [0, 1, 3, 4, 7, 99, 1000, 1001, 123_456_789])
def test_a_number_axis_reaches_its_largest_number_in_few_round_steps(most):
    axis = number_axis(most, short_count)
    assert axis.most >= most
    assert 2 <= len(axis.ticks) <= 6
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks)
    assert (axis.ticks[0].share, axis.ticks[-1].share) == (0, 1)


@pytest.mark.parametrize("span", [1, 5, 999, 60_000, 3_600_000, 86_400_000, 30 * 86_400_000, 4_102_444_800_000])
def test_a_time_axis_has_few_ticks_within_its_bounds(span):
    ticks = time_ticks(BEGIN, BEGIN + span, CLOCK)
    assert 1 <= len(ticks) <= 8
    assert all(0 <= tick.share <= 1 for tick in ticks)
    assert len({(tick.label, tick.below) for tick in ticks}) == len(ticks)


def test_ticks_of_time_are_round_in_the_time_zone():
    clock = Clock(ZoneInfo("Asia/Kolkata"), BEGIN)  # 5 h 30 min from UTC
    assert [tick.label for tick in time_ticks(BEGIN, BEGIN + 4 * 3_600_000, clock)] == [
        "18:00", "19:00", "20:00", "21:00",
    ]  # fmt: skip
    days = time_ticks(BEGIN, BEGIN + 3 * 86_400_000, Clock(ZoneInfo("Asia/Shanghai"), BEGIN))
    assert (days[0].label, days[0].below) == ("00:00", "2026-11-29")


def test_logarithmic_axes_have_their_values_between_their_ends():
    axis = duration_axis(2000, 90_000)
    assert [tick.label for tick in axis.ticks] == ["1 s", "10 s", "1 min", "10 min"]
    assert 0 < axis.share(2000) < axis.share(90_000) < 1
    assert duration_axis(1000, 1000).share(1000) == 0
    assert [tick.label for tick in power_axis(30_000).ticks] == ["1", "10", "100", "1,000", "10 k"]


def test_topics_of_rocketmq_are_apart_and_small_topics_together():
    sizes = {f"Topic{n}": 1000 - n for n in range(9)} | {"SCHEDULE_TOPIC_XXXX": 9999, "rmq_sys_wheel_timer": 1}
    series = choose_series(numbers_with(sizes))
    assert [one.name for one in series] == [*(f"Topic{n}" for n in range(7)), OTHERS, SYSTEM]
    assert [int(one.size[0]) for one in series[-2:]] == [993 + 992, 10_000]
    assert len({one.colour for one in series}) == len(series)


def test_many_topics_of_one_size_have_one_colour():
    series = choose_series(numbers_with({f"Topic{n}": 10 for n in range(600)}))
    assert [(one.name, int(one.messages[0])) for one in series] == [(ALL, 600)]


def test_names_are_in_full_in_the_legend_and_on_hover():
    name = "biz-topic-000-events-" + "x" * 100
    numbers = numbers_with({name: 5})
    chart = charts.over_time("Messages", numbers, choose_series(numbers), CLOCK)
    assert f"<bdi>{name}</bdi>" in chart
    assert f"<title>2026-11-28 12:00:00, 1 s&#10;{name}: 1 message</title>" in chart


def test_marks_of_a_bin_are_stacked_up_to_their_sum():
    numbers = numbers_with({"A": 30, "B": 20, "C": 10})
    chart = charts.over_time("Bytes", numbers, choose_series(numbers), CLOCK, counts_bytes=True)
    heights = [float(height) for height in re.findall('height="([0-9.]+)" class="c[0-9]"', chart)]
    assert heights == pytest.approx([100, 200 / 3, 100 / 3], abs=0.01)
    assert '<i class="c0"></i><bdi>A</bdi>' in chart


def test_names_like_members_of_javascript_and_of_any_script_are_drawn(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        for name in NAMES:
            store.put_message(Message(name, b"x", keys=name, tags=name))
    with rocketstore.open(tmp_path / "store", config=report_store.CONFIG) as store:
        page = make_report(store)
    shown = page[page.index("<h2>Topics</h2>") :]
    for name in NAMES:
        assert f"<bdi>{charts.text_html(name)}</bdi>" in shown
    assert "\u2028" not in page
    assert "<bdi>\\u2028</bdi>" in page


def test_the_median_of_bodies_is_in_words():
    numbers = LogNumbers(0, 1000, 1000, BEGIN, 1000, 1)
    numbers.body_sizes[7], numbers.body_sizes[11], numbers.body_sizes[12] = 990, 9, 1  # 64 to 127, 1024, 2048 bytes
    chart = body_chart(numbers)
    assert chart.caption.endswith("half are smaller than 128 bytes, and 99 % smaller than 128 bytes")
    assert "1 KiB to 2 KiB" in chart.html


def test_a_store_of_many_topics_has_its_structure_folded(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        for n in range(30):
            store.put_message(Message(f"Topic{n:02}", b"x", keys=f"k{n}", queue_id=0))
        page = make_report(store)
    assert "Topics by bytes: the largest 15 of 30" in page
    structure = page[page.index("<h2>Index files</h2>") : page.index("<h2>Gaps")]
    assert "<figcaption>" not in structure
    assert structure.count("<details><summary>") == 5


def test_one_topic_is_a_sentence(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        store.put_message(Message("Orders", b"x"))
        page = make_report(store)
    assert "All messages are of topic Orders." in page
    assert "Topics by bytes" not in page
    assert "No message has a tag." in page


def test_bins_of_days_begin_at_midnight_of_the_time_zone(tmp_path):
    offset = 8 * 3_600_000
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        for day in range(100):
            store.put_message(Message("T", b""), store_timestamp=BEGIN + 2 * day * 86_400_000)
        numbers = read_log(store.commit_log, (BEGIN, BEGIN + 198 * 86_400_000), 1 << 30, zone_offset=offset)
    assert numbers.step == 7 * 86_400_000 or numbers.step == 86_400_000
    assert (numbers.first + offset) % 86_400_000 == 0
    assert numbers.outside == 0
