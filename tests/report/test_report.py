"""The report page: its numbers, its texts, and its behaviour on damaged, sampled and empty stores."""

import itertools
import json
import re
import shutil
import sys

import numpy as np
import pytest
from support import report_store

import rocketstore
from rocketstore import Message
from rocketstore.report.charts import coverage
from rocketstore.report.log_numbers import Gap, LogNumbers, read_log, sample_ranges
from rocketstore.report.make_report import make_report
from rocketstore.report.page import Section, Table, render_page, script_json
from rocketstore.report.parts import LONGEST, QueueBounds, find_expiry, read_index, read_queues
from rocketstore.report.sections import (
    find_log_bounds,
    gaps_section,
    queues_section,
    read_numbers,
    summary_section,
    time_section,
)
from rocketstore.verify.kinds import KINDS

NEEDS_VEGA = "needs vl-convert-python, from the extra 'report'"
TIMES = report_store.BEGIN + 700, report_store.BEGIN + 700 * report_store.MESSAGES + 89_300


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("report") / "store"
    report_store.build(root)
    return root


@pytest.fixture(scope="module")
def store(root):
    with rocketstore.open(root, config=report_store.CONFIG) as store:
        yield store


def specs_of(page):
    data = re.search('<script id="charts" type="application/json">(.*?)</script>', page)
    return json.loads(data[1])["specs"]


def test_the_log_is_counted_by_topic_tag_and_time(store):
    numbers = read_log(store.commit_log, TIMES, 1 << 30)
    rows = [message for batch in store.scan() for message in batch]
    assert numbers.messages == len(rows) == report_store.MESSAGES
    assert not numbers.is_sampled
    assert numbers.scale == 1
    assert {topic: int(counts.messages.sum()) for topic, counts in numbers.topics.items()} == {
        topic: sum(1 for row in rows if row.topic == topic) for topic in {row.topic for row in rows}
    }
    for topic, counts in numbers.topics.items():
        size, messages = np.zeros(numbers.bins, int), np.zeros(numbers.bins, int)
        for row in rows:
            if row.topic == topic:
                place = (row.store_timestamp - numbers.first) // numbers.step
                messages[place] += 1
                size[place] += row.size
        assert counts.messages.tolist() == messages.tolist()
        assert counts.size.tolist() == size.tolist()
    assert numbers.tags == {
        key: sum(1 for row in rows if (row.topic, row.tags) == key) for key in {(row.topic, row.tags) for row in rows}
    }
    assert numbers.outside == 0


def test_bodies_are_counted_by_the_power_of_two_of_their_size(store):
    numbers = read_log(store.commit_log, TIMES, 1 << 30)
    expected = [0] * 33
    for n in range(report_store.MESSAGES):
        expected[(n % 50 * 3).bit_length()] += 1
    assert numbers.body_sizes.tolist() == expected


def test_only_the_gap_in_store_time_is_found(store):
    (gap,) = read_log(store.commit_log, TIMES, 1 << 30).gaps
    message = store.look_message_by_offset(gap.phy_offset)
    assert gap == Gap(90_000, message.store_timestamp - 90_000, message.phy_offset)


def test_a_clock_that_went_back_is_counted_and_is_no_gap(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        for time in (5000, 2000, 9000, 10_000, 9999):
            store.put_message(Message("Topic", b""), store_timestamp=report_store.BEGIN + time)
        numbers = read_log(store.commit_log, (report_store.BEGIN + 5000, report_store.BEGIN + 9999), 1 << 30)
    assert (numbers.backward, numbers.most_backward) == (2, 3000)
    assert [gap.length for gap in numbers.gaps] == [7000, 1000]
    assert numbers.outside == 2
    assert numbers.messages == 5


def test_a_sample_is_spread_evenly_over_the_log():
    assert sample_ranges(100, 1100, 1000) == [(100, 1100)]
    assert sample_ranges(7, 7, 1000) == []
    ranges = sample_ranges(0, 1_000_000, 160_000)
    assert sum(end - begin for begin, end in ranges) == 160_000
    assert {after[0] - before[0] for before, after in itertools.pairwise(ranges)} == {6250}
    assert all(0 <= begin < end <= 1_000_000 for begin, end in ranges)


def test_a_sample_estimates_the_counts_of_the_log(tmp_path):
    config = rocketstore.StoreConfig(mapped_file_size_commit_log=1 << 20)
    with rocketstore.open(tmp_path / "store", "a", config=config) as store:
        store.put_messages([Message(f"Topic{n % 3}", b"body of a message") for n in range(20_000)])
        size = store.commit_log.max_phy_offset
        time = store.summary().begin_timestamp
        numbers = read_log(store.commit_log, (time, time + 60_000), size // 4)
    assert numbers.is_sampled
    assert 0 < numbers.messages < 10_000
    assert numbers.messages * numbers.scale == pytest.approx(20_000, rel=0.1)
    assert len(numbers.topics) == 3


def test_queues_have_their_bounds_in_queue_and_log(store):
    queues, total = read_queues(store)
    assert total == len(queues) == 22
    for queue in queues:
        assert queue.problem is None
        assert queue.messages == len(store.consume_queue(queue.topic, queue.queue_id))
        units = store.consume_queue(queue.topic, queue.queue_id)[:]
        assert (queue.begin, queue.end) == (units.phy_offsets[0], units.phy_offsets[-1])


def test_chains_of_index_files_are_those_of_their_items(store):
    files, total = read_index(store)
    assert total == len(files) == len(store.index.files)
    for numbers, file in zip(files, store.index.files, strict=True):
        lengths = np.bincount(file.items(1, len(file) + 1)["key_hash"] % file.hash_slot_num, minlength=numbers.slots)
        assert numbers.chains.tolist() == np.bincount(lengths, minlength=LONGEST + 1).tolist()
        assert (numbers.used, numbers.longest) == (int((lengths > 0).sum()), int(lengths.max()))
        assert numbers.expected_chains().sum() == pytest.approx(numbers.slots)
        assert numbers.expected_chains()[0] == pytest.approx(numbers.slots - numbers.expected_used)


def test_an_old_file_may_expire_now_and_newer_files_later(store):
    found = find_expiry(store)
    names = [file.path.name for file in store.commit_log.file_run.files]
    assert [file.name for file in found.files] == names[:-1]
    assert (found.expired, found.hours) == (1, 72)
    assert found.files[0].timestamp == report_store.BEGIN + 72 * 3_600_000
    assert [file.timestamp for file in found.files] == sorted(file.timestamp for file in found.files)


def test_a_missing_extra_is_named(store, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ModuleNotFoundError, match=r'vl_convert is missing: pip install "rocketstore\[report\]"'):
        make_report(store)


def test_no_text_ends_the_script_or_is_markup():
    text = report_store.END + report_store.IMAGE + "&amp;\u2028"
    data = script_json({"topic": text})
    assert json.loads(data) == {"topic": text}
    assert not {"<", ">", "&", "\u2028"} & set(data)
    section = Section(text, [text], [text], {text: text}, [(text, {"title": text})], [Table(text, [text], [[text]])])
    page = render_page(text, text, [section], "window.vegaEmbed = 1")
    assert "alert(2)</script>" not in page
    assert "<img" not in page
    assert page.count("<script") == page.count("</script") == 3


def test_the_page_is_whole_and_asks_for_nothing_else(store):
    pytest.importorskip("vl_convert", reason=NEEDS_VEGA)
    page = make_report(store)
    assert len(specs_of(page)) == 10
    assert "default-src 'none'" in page
    head = page[: page.index('<script id="charts"')]
    assert not re.search("<(?:link|img|iframe|script)", head)
    for section in ("Findings of verify", "Body sizes", "Gaps in store time", "Index files", "Consumer lag"):
        assert f"<h2>{section}</h2>" in page
    assert "Sampled" not in page
    assert "consumer offset 999 is beyond the queue&#x27;s end" in page


def test_findings_have_their_cure(store):
    pytest.importorskip("vl_convert", reason=NEEDS_VEGA)
    page = make_report(store)
    kinds = page[: page.index("<summary>All findings")]  # the records of a name with a slash are in no queue
    for mend in ("--consume-queue", "--index"):
        assert f"<code>rocketstore rebuild {store.path} {mend}</code>" in kinds
    assert KINDS["unit-of-another-queue"].meaning in kinds
    assert "36</td><td" in kinds  # units of this kind, unlisted ones included


def test_the_page_of_a_larger_log_says_that_it_is_sampled(store):
    pytest.importorskip("vl_convert", reason=NEEDS_VEGA)
    page = make_report(store, sample=16_000)
    assert "Sampled: 15.6 kB of" in page
    assert f"rocketstore verify {store.path}" in page
    with pytest.raises(ValueError, match="at least 160 bytes"):
        make_report(store, sample=159)


def test_a_damaged_store_gets_a_page_too(root, tmp_path):
    pytest.importorskip("vl_convert", reason=NEEDS_VEGA)
    copy = tmp_path / "store"
    shutil.copytree(root, copy)
    files = sorted((copy / "commitlog").iterdir())
    data = bytearray(files[1].read_bytes())
    data[4000:4100] = b"\xff" * 100
    files[1].write_bytes(data)
    for path in (copy / "index").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    (copy / "config" / "consumerOffset.json").write_bytes(b"\0")
    with rocketstore.open(copy, config=report_store.CONFIG) as store:
        page = make_report(store)
    assert "are left out" in page
    assert '<td class="error"' in page


def test_an_empty_store_gets_a_page_without_charts(tmp_path):
    pytest.importorskip("vl_convert", reason=NEEDS_VEGA)
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG):
        pass
    with rocketstore.open(tmp_path / "store") as store:
        page = make_report(store)
    assert specs_of(page) == []
    assert "The log has no file that can expire." in page


@pytest.mark.parametrize("count", [4, 12])  # of so many topics, some are shown as "(other topics)"
def test_charts_show_topics_named_like_members_of_javascript(count, tmp_path):
    """Vega-Lite wrote an expression of the names, and looked some up in objects."""
    vl_convert = pytest.importorskip("vl_convert", reason=NEEDS_VEGA)
    names = ["constructor", "toString", "__proto__", "\u2028", "valueOf", "hasOwnProperty", "undefined", "null"]
    names = [*names, "a.b[0]", "\"'\\", "__defineGetter__", "NaN"][:count]
    offsets = {f"{name}@{name}": {"0": 0} for name in names}
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        for name in names:
            store.put_message(Message(name, b"x", keys=name, tags=name))
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    with rocketstore.open(tmp_path / "store", config=report_store.CONFIG) as store:
        page = make_report(store)
    drawn = [vl_convert.vegalite_to_svg(spec) for spec in specs_of(page)]
    assert len(drawn) == 8
    assert all(f"topic: {name};" in drawn[0] for name in names[:2])


def test_a_queue_that_cannot_be_read_has_no_numbers(root, tmp_path):
    copy = shutil.copytree(root, tmp_path / "store")
    (copy / "consumequeue" / "Topic0" / "0" / f"{2000:020}").write_bytes(bytes(4000))  # another length than the first
    with rocketstore.open(copy, config=report_store.CONFIG) as store:
        queues, _ = read_queues(store)
        section = queues_section(store, find_log_bounds(store, store.summary()))
    (bad,) = [queue for queue in queues if queue.problem]
    assert (bad.topic, bad.queue_id) == ("Topic0", 0)
    assert (bad.messages, bad.min_offset, bad.max_offset) == (None, None, None)
    assert ("Topic0", 0, None, None, None, None, None) in section.tables[0].rows
    assert section.problems[0].startswith("Topic0/0: ")


@pytest.fixture
def torn(tmp_path):
    """The root of a store of 75 messages, 2 seconds apart. The second of each three has a damaged record."""
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=report_store.CONFIG) as store:
        offsets = [
            store.put_message(Message("Topic", b"12345"), store_timestamp=report_store.BEGIN + 2000 * n).phy_offset
            for n in range(75)
        ]
    file = root / "commitlog" / ("0" * 20)
    data = bytearray(file.read_bytes())
    for offset in offsets[1::3]:
        data[offset : offset + 8] = b"\xff" * 8
    file.write_bytes(data)
    return root


def test_messages_behind_damage_are_counted(torn):
    with rocketstore.open(torn, config=report_store.CONFIG) as store:
        summary = store.summary()
        bounds = find_log_bounds(store, summary)
        numbers = read_numbers(store, bounds, 1 << 30, lambda done, total: None)
        section = summary_section(summary, bounds)
    assert (numbers.messages, len(numbers.skipped), numbers.outside) == (50, 25, 0)
    assert (bounds.begin_timestamp, bounds.end_timestamp) == (report_store.BEGIN, report_store.BEGIN + 148_000)
    assert section.problems[-1].startswith("The log is damaged at byte 101, and has messages behind the damage.")
    assert {gap.length for gap in numbers.gaps} == {2000}  # not 4000, over a damaged record
    assert "Gaps at damaged ranges are not counted." in gaps_section(numbers).texts


def test_many_problems_of_a_kind_are_counted(torn):
    with rocketstore.open(torn, config=report_store.CONFIG) as store:
        bounds = find_log_bounds(store, store.summary())
        problems = time_section(read_numbers(store, bounds, 1 << 30, lambda done, total: None)).problems
    assert len(problems) == 21
    assert problems[-1] == "5 more problems of this kind."


def test_a_sample_estimates_all_counts_on_the_page():
    numbers = LogNumbers(0, 3000, 1000, report_store.BEGIN, 1000, 1, outside=2, backward=1, most_backward=7)
    assert "last message of the log: 6 messages." in " ".join(time_section(numbers).texts)
    assert "before them: 3 messages, by up to 7 ms." in " ".join(gaps_section(numbers).texts)


def test_messages_without_a_tag_are_not_those_of_a_tag_like_the_sign_for_nothing():
    numbers = LogNumbers(0, 1, 1, report_store.BEGIN, 1000, 1, tags={("Topic", None): 2, ("Topic", "-"): 1})
    numbers.body_sizes[0] = 3
    assert time_section(numbers).tables[1].rows == [("Topic", "(no tag)", 2), ("Topic", "-", 1)]


def test_a_bar_of_a_queue_is_drawn_only_within_the_log():
    """A damaged unit may lead anywhere. Vega draws such a bar over the whole page, unless it clips the marks."""
    queues = [QueueBounds("Topic", 0, 0, 2, 150, 2**60), QueueBounds("Topic", 1, problem="cannot be read")]
    spec = coverage(queues, 100, 200)
    assert spec["encoding"]["x"]["scale"]["domain"] == [100, 200]
    assert spec["mark"]["clip"]
    assert [row["queue"] for row in spec["data"]["values"]] == ["Topic/0"]
