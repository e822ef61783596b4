"""The begin of the report page: a verdict, what is behind, what may be deleted, and what to do."""

import json
import re
import shutil
import threading
import time
from dataclasses import replace
from datetime import UTC
from zoneinfo import ZoneInfo

import pytest
from support import report_store

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.report import reading
from rocketstore.report.make_report import make_report
from rocketstore.report.page import BAD, FAIR, GOOD, UNKNOWN, Section, VerdictBox, without_repetition
from rocketstore.report.reading import read_store
from rocketstore.report.texts import Clock
from rocketstore.report.verdict import before_deletion, expiry_sentence, lag_sentence, make_verdict
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.store.usage.expiry_plan import plan_expiry

NOW = 1_795_878_000_000  # 2026-11-28 15:00 UTC, a Saturday
CLOCK = Clock(UTC, NOW)
SMALL = StoreConfig(mapped_file_size_commit_log=1 << 20)


def verdict_of(root, sample=1 << 30):
    with rocketstore.open(root) as store:
        answers = read_store(
            store, sample=sample, config=None, clock=CLOCK, broker_zone=UTC, progress=lambda done, total: None
        )
        return make_verdict(answers, str(root), CLOCK)


def lag(group, count, **values):
    return ConsumerLag(group, "Orders", 0, 5, 0, None if count is None else 5 + count, count, **values)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "store"
    with rocketstore.open(root, "a", config=SMALL) as store:
        for n in range(20):
            store.put_message(Message("Orders", b"body", keys=[f"k{n}"], queue_id=0), store_timestamp=NOW - 1000 * n)
    (root / "config").mkdir(exist_ok=True)
    offsets = {"Orders@billing": {"0": 13}, "Orders@mail": {"0": 20}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    return root


def test_a_sound_store_has_the_verdict_of_verify_lag_expiry_and_sizes(root):
    found = verdict_of(root)
    assert (found.tone, found.headline) == (GOOD, "Sound.")
    assert found.sentences[0] == "One group is behind by 7."
    assert found.sentences[1] == "Nothing may be deleted: a broker keeps the last file of the log."
    sizes = found.sentences[2]
    assert sizes.startswith("Log ")
    assert sizes.endswith("% full.")
    assert "queues " in sizes
    assert "index " in sizes
    (action,) = found.actions
    assert action.text == "Group billing is behind by 7 messages; its oldest message is from 2026-11-28 14:59:47:"
    assert action.command == f"rocketstore lag {root} --group billing"


def test_an_error_is_named_first_with_its_repair(root):
    (root / "consumequeue" / "Orders" / "0" / f"{0:020}").unlink()
    found = verdict_of(root)
    assert found.tone == BAD
    assert found.headline.startswith("Not sound: ")
    assert found.actions[0].command == f"rocketstore rebuild {root} --consume-queue"


def test_samples_are_not_the_verdict_of_a_sound_store(root):
    found = verdict_of(root, sample=1000)
    assert (found.tone, found.headline) == (FAIR, "Sound in the samples that were checked.")
    assert found.actions[0].command == f"rocketstore verify {root}"


def test_a_crashed_store_says_how_to_see_its_next_start(root):
    (root / "abort").touch()
    found = verdict_of(root)
    assert dict(found.facts)["state"] == "crashed"
    assert f"rocketstore recover {root} --policy broker --dry-run" in [action.command for action in found.actions]


def test_an_empty_store_has_a_short_page(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=SMALL):
        pass
    found = verdict_of(tmp_path / "store")
    assert (found.headline, found.sentences[0]) == ("Sound.", "The store has no messages.")
    with rocketstore.open(tmp_path / "store") as store:
        page = make_report(store)
    assert page.count("<h2>") == 3
    assert 'class="plot"' not in page
    assert "A broker deletes" not in page


@pytest.mark.parametrize("what", ["missing", "a file"])
def test_a_log_that_cannot_be_read_is_said_once(what, root):
    shutil.rmtree(root / "commitlog")
    if what == "a file":
        (root / "commitlog").write_bytes(b"")
    found = verdict_of(root)
    assert found.tone == BAD
    assert found.headline == "Not sound: the commit log is missing, so queues and index were not checked."
    with rocketstore.open(root) as store:
        page = make_report(store)
    assert page.count('<p class="warning">') == len(found.problems) == 1
    assert "storePathCommitLog" in page


def test_many_problems_do_not_stand_before_all_else(root):
    offsets = {f"Gone{n}@group": {"0": 5} for n in range(300)} | {f"Orders@group{n}": {"7": 5} for n in range(300)}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    topics = {f"Gone{n}": {"topicName": f"Gone{n}", "readQueueNums": 1, "writeQueueNums": 1} for n in range(300)}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))
    found = verdict_of(root)
    assert len(found.problems) == 6
    assert found.problems[-1] == "295 more problems of this kind."
    with rocketstore.open(root) as store:
        page = make_report(store)
    assert page.count('<p class="warning">') < 40


def test_a_store_that_is_not_checked_is_neither_good_nor_bad(root, monkeypatch):
    monkeypatch.setattr(reading, "is_remote", lambda path: True)
    found = verdict_of(root)
    assert (found.tone, found.headline[:12]) == (UNKNOWN, "Not checked.")


def test_a_problem_is_shown_at_its_first_place():
    verdict = VerdictBox(GOOD, "Sound.", problems=["a"])
    sections = [Section("1", problems=["a"]), Section("2", problems=["b", "b"]), Section("3", ["text"], ["a", "b"])]
    shown = [(section.title, section.problems) for section in without_repetition(verdict, sections)]
    assert shown == [("2", ["b"]), ("3", [])]


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([], []),
        ([lag("a", 0), lag("b", 0)], ["No group is behind."]),
        ([lag("a", 1400), lag("a", 25), lag("b", 0)], ["One group is behind by 1,425."]),
        ([lag("a", 1400), lag("b", 25)], ["2 groups are behind by 1,425 together."]),
        ([lag("a", None)], ["The lag of 1 group is not known in all queues."]),
    ],
)
def test_the_lag_is_one_sentence(lags, expected):
    assert list(lag_sentence(lags)) == expected


def test_the_next_deletion_is_named_by_its_day(tmp_path):
    report_store.build(tmp_path / "store")
    with rocketstore.open(tmp_path / "store", config=report_store.CONFIG) as store:
        times = [path.stat().st_mtime * 1000 for path in sorted((tmp_path / "store" / "commitlog").iterdir())]
        late = round(max(times)) + 200 * 3_600_000
        plan = plan_expiry(store, None, None, UTC, late)
        assert expiry_sentence(plan, Clock(UTC, late)).startswith(f"{len(times) - 1} files of the log, ")
        kept = plan_expiry(store, 10_000_000, None, UTC, late)
    assert kept.next_timestamp is not None
    assert expiry_sentence(kept, Clock(UTC, kept.next_timestamp - 30 * 3_600_000)).startswith(
        "Nothing may be deleted before "
    )


def test_a_broker_without_an_hour_for_it_deletes_nothing(tmp_path):
    report_store.build(tmp_path / "store")
    with rocketstore.open(tmp_path / "store", config=report_store.CONFIG) as store:
        plan = plan_expiry(store, 10_000_000, None, UTC, NOW)
    plan.rules = replace(plan.rules, delete_when=(25,))
    plan.next_timestamp = None
    assert expiry_sentence(plan, CLOCK) == "Nothing may be deleted: the settings name no hour for it (deleteWhen)."


def test_a_full_disk_and_unconsumed_messages_that_expire_are_to_do(tmp_path):
    report_store.build(tmp_path / "store")
    offsets = {"Topic0@slow": {"0": 0}}
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    with rocketstore.open(tmp_path / "store", config=report_store.CONFIG) as store:
        plan = plan_expiry(store, 0, None, UTC, time.time_ns() // 1_000_000 + 3_600_000)
    plan.disks = [disk._replace(path="/data", used_share=0.78) for disk in plan.disks]
    full, lost = before_deletion(plan, "store")
    assert full.text.startswith(
        "Make room on the disk of /data, which is 78% full. Above 75% a broker deletes old files"
    )
    assert re.fullmatch(r"Group slow loses [0-9]+ messages that it has not consumed when files are deleted:", lost.text)
    assert lost.command == "rocketstore expire store --groups"


@pytest.mark.slow
def test_a_page_of_a_store_that_is_being_written_has_no_problem(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=SMALL) as store:
        store.put_message(Message("Orders", b"body", keys=["k"]))
    with rocketstore.open(tmp_path / "store", "a", config=SMALL) as writer:
        is_done = threading.Event()

        def write():
            while not is_done.is_set():
                writer.put_messages([Message("Orders", b"body", keys=["k"])] * 50)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            pages = []
            for _ in range(3):
                with rocketstore.open(tmp_path / "store") as store:
                    pages.append(make_report(store))
        finally:
            is_done.set()
            thread.join()
    for page in pages:
        assert 'class="warning"' not in page
        assert "a broker runs" in page
        assert '<h2 class="headline">Sound' in page or '<h2 class="headline">Not checked' in page


def test_times_are_those_of_the_zone():
    clock = Clock(ZoneInfo("Asia/Shanghai"), NOW)
    assert clock.text(NOW) == "2026-11-28 23:00:00"
    assert clock.name == "Asia/Shanghai"
    assert clock.day_text(NOW + 3_600_000) == "Sunday 00:00"
    assert CLOCK.day_text(NOW) == "today 15:00"
    assert CLOCK.day_text(NOW + 37 * 3_600_000) == "Monday 04:00"
    assert CLOCK.day_text(NOW + 7 * 86_400_000) == "2026-12-05 15:00"
    assert CLOCK.text(0) == CLOCK.text(None) == "unknown"
    assert CLOCK.text(2**62) == f"{2**62} ms"
