"""The report page: its numbers, its texts, and its behaviour on damaged, sampled and empty stores."""

import itertools
import re
import shutil
from dataclasses import replace
from datetime import UTC
from types import SimpleNamespace

import numpy as np
import pytest
from support import report_store

import rocketstore
from rocketstore import Message
from rocketstore.progress import report_nothing
from rocketstore.report import charts, log_numbers
from rocketstore.report.log_numbers import Gap, LogNumbers, TopicNumbers, read_log, sample_ranges
from rocketstore.report.make_report import make_report
from rocketstore.report.page import Action, Chart, Section, Table, VerdictBox, render_page
from rocketstore.report.parts import LONGEST, QueueBounds, find_expiring_files, read_index, read_queues
from rocketstore.report.reading import PartAnswer, find_log_bounds, read_numbers, read_store
from rocketstore.report.sections import topics_section, traffic_section, usage_charts
from rocketstore.report.structure import gaps_section, queues_section
from rocketstore.report.texts import Clock
from rocketstore.report.verdict import make_verdict
from rocketstore.store.usage.expiry_plan import plan_expiry
from rocketstore.verify.kinds import KINDS

CLOCK = Clock(UTC, report_store.BEGIN + 86_400_000)
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


def read(store, sample=1 << 30):
    return read_store(store, sample=sample, config=None, clock=CLOCK, broker_zone=UTC, progress=report_nothing)


def test_the_share_of_a_disk_is_that_of_the_sizes_beside_it(store, monkeypatch):
    disk = SimpleNamespace(total=1000 * 10**9, used=60 * 10**9, free=20 * 10**9)  # most is reserved for root
    monkeypatch.setattr(shutil, "disk_usage", lambda path: disk)
    usage = store.du()
    assert [disk.used_share for disk in usage.disks] == [0.75]
    shown = usage_charts(usage)[-1]
    assert "75%: 60.0 GB used, 20.0 GB free" in str(shown)
    assert "1000" not in str(shown)


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
        for time in (5000, 2000, 9000, *range(9001, 9031), 10_030, 10_029):
            store.put_message(Message("Topic", b""), store_timestamp=report_store.BEGIN + time)
        numbers = read_log(store.commit_log, (report_store.BEGIN + 5000, report_store.BEGIN + 9999), 1 << 30)
    assert (numbers.backward, numbers.most_backward) == (2, 3000)
    assert [gap.length for gap in numbers.gaps] == [7000, 1000]
    assert numbers.outside == 3
    assert numbers.messages == 35


@pytest.mark.parametrize("distance", [1, 1300, 45_000])
def test_a_steady_stream_has_no_gap(distance, tmp_path):
    """A fixed limit of a second made each message of a slow stream a gap."""
    rng = np.random.default_rng(5)
    with rocketstore.open(tmp_path / "store", "a", config=report_store.CONFIG) as store:
        time = report_store.BEGIN
        for _ in range(300):
            time += round(rng.exponential(distance))
            store.put_messages([Message("Topic", b"")] * 3, store_timestamp=time)
        numbers = read_log(store.commit_log, (report_store.BEGIN, time), 1 << 30)
        store.put_message(Message("Topic", b""), store_timestamp=time + 60 * distance + 1000)
        after = read_log(store.commit_log, (report_store.BEGIN, time), 1 << 30)
    assert numbers.gaps == []
    assert numbers.gap_limit >= max(1000, 15 * distance)
    assert [gap.length for gap in after.gaps] == [60 * distance + 1000]


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


def test_files_expire_at_the_hour_of_the_broker_and_the_oldest_first(store):
    now = report_store.BEGIN + 100 * 3_600_000
    plan = plan_expiry(store, None, None, UTC, now)
    found = find_expiring_files(store, plan, UTC, now)
    names = [file.path.name for file in store.commit_log.file_run.files]
    assert [file.name for file in found] == names[:-1]
    assert len([file for file in plan if file.part == "log"]) == 1
    times = [file.timestamp for file in found]
    assert times == sorted(times)
    assert {time // 3_600_000 % 24 for time in times} == {4}
    assert times[0] < now + 24 * 3_600_000 < times[1]


def test_no_text_is_markup(store):
    text = report_store.END + report_store.IMAGE + "&amp;\u2028\x1b[1m\udcff"
    shown = (
        "&lt;/script&gt;&lt;script&gt;alert(2)&lt;/script&gt;&lt;!--&lt;img src=x onerror=alert(1)&gt;&amp;amp;"
        "\\u2028\\x1b[1m\\udcff"
    )
    chart = Chart(text, charts.scaled_bars(text, [(text, text, 7)], str))
    section = Section(text, [text], [text], [chart], [Table(text, [text], [[text]])])
    verdict = VerdictBox(text, text, [text], [Action(text, text)], [text + "!"], [(text, text)], [text])
    page = render_page(text, text, replace(verdict, tone="good"), [section])
    assert "<script" not in page
    assert "<img" not in page
    assert page.isprintable() or set(filter(lambda char: not char.isprintable(), page)) == {"\n"}
    assert page.count(shown) > 20


def test_the_page_is_whole_and_asks_for_nothing_else(store):
    page = make_report(store)
    assert "default-src 'none'" in page
    assert not re.search("<(?:link|img|iframe|script)|url\\(|@import", page)
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles == [
        "Findings of verify",
        "Consumer lag",
        "Disk, and what may expire",
        "Messages and bytes over time",
        "Topics",
        "Index files",
        "Queues and their coverage",
        "Gaps in store time",
    ]
    assert "Sampled" not in page
    assert "consumer offset 999 is beyond the queue&#x27;s end" in page


def test_findings_have_their_cure(store):
    page = make_report(store)
    kinds = page[: page.index("<summary>All findings")]  # the records of a name with a slash are in no queue
    for mend in ("--consume-queue", "--index"):
        assert f"<code>rocketstore rebuild {store.path} {mend}</code>" in kinds
    assert KINDS["unit-of-another-queue"].meaning in kinds
    assert "36</td><td" in kinds  # units of this kind, unlisted ones included


def test_the_page_of_a_larger_log_says_that_it_is_sampled(store):
    page = make_report(store, sample=16_000)
    assert "Sampled: 16.0 kB of" in page
    assert f"rocketstore verify {store.path}" in page
    with pytest.raises(ValueError, match="at least 160 bytes"):
        make_report(store, sample=159)


def test_a_damaged_store_gets_a_page_too(root, tmp_path):
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


def test_messages_behind_damage_are_counted(torn, monkeypatch):
    monkeypatch.setattr(log_numbers, "GAP_FACTOR", 0.5)  # each distance is a gap
    with rocketstore.open(torn, config=report_store.CONFIG) as store:
        summary = store.summary()
        bounds = find_log_bounds(store, summary)
        numbers = read_numbers(store, bounds, 1 << 30, CLOCK, report_nothing)
        verdict = make_verdict(read(store), str(store.path), CLOCK)
    assert (numbers.messages, len(numbers.skipped), numbers.outside) == (50, 25, 0)
    assert (bounds.begin_timestamp, bounds.end_timestamp) == (report_store.BEGIN, report_store.BEGIN + 148_000)
    assert verdict.problems[0].startswith("The log is damaged at byte 101, and has messages behind the damage.")
    assert {gap.length for gap in numbers.gaps} == {2000}  # not 4000, over a damaged record
    assert "Gaps at damaged ranges are not counted." in gaps_section(PartAnswer(numbers), CLOCK).texts


def test_many_problems_of_a_kind_are_counted(torn):
    with rocketstore.open(torn, config=report_store.CONFIG) as store:
        bounds = find_log_bounds(store, store.summary())
        problems = traffic_section(
            PartAnswer(read_numbers(store, bounds, 1 << 30, CLOCK, report_nothing)), CLOCK
        ).problems
    assert len(problems) == 21
    assert problems[-1] == "5 more problems of this kind."


def test_a_sample_estimates_all_counts_on_the_page():
    numbers = LogNumbers(0, 3000, 1000, report_store.BEGIN, 1000, 1, outside=2, backward=1, most_backward=7)
    numbers.topics["Topic"] = TopicNumbers(np.array([1]), np.array([100]))
    numbers.body_sizes[1] = 1
    assert "last message of the log: 6 messages." in " ".join(traffic_section(PartAnswer(numbers), CLOCK).texts)
    assert "before them: 3 messages, by up to 7 ms." in " ".join(gaps_section(PartAnswer(numbers), CLOCK).texts)


def test_messages_without_a_tag_are_not_those_of_a_tag_like_the_sign_for_nothing():
    numbers = LogNumbers(0, 1, 1, report_store.BEGIN, 1000, 1, tags={("Topic", None): 2, ("Topic", "-"): 1})
    numbers.body_sizes[0] = 3
    numbers.topics["Topic"] = TopicNumbers(np.array([3]), np.array([300]))
    assert topics_section(PartAnswer(numbers)).tables[1].rows == [("Topic", "(no tag)", 2), ("Topic", "-", 1)]


def test_a_bar_of_a_queue_is_drawn_only_within_the_log():
    """A damaged unit may lead anywhere."""
    queues = [QueueBounds("Topic", 0, 0, 2, 150, 2**60), QueueBounds("Topic", 1, problem="cannot be read")]
    chart = charts.coverage("coverage", queues, 100, 200)
    assert re.findall('<rect x="(.*?)" width="(.*?)"', chart) == [("50%", "50%")]
    assert "Topic/1" not in chart
