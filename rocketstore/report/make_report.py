"""Make the report page of a store: the entry of this room."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import tzinfo

import rocketstore
from rocketstore.config import StoreConfig
from rocketstore.progress import Progress, show_progress
from rocketstore.report import sections, structure
from rocketstore.report.log_numbers import SAMPLES
from rocketstore.report.page import Section, render_page
from rocketstore.report.parts import find_expiring_files
from rocketstore.report.reading import PartAnswer, StoreAnswers, attempt, read_store
from rocketstore.report.texts import Clock
from rocketstore.report.verdict import make_verdict
from rocketstore.store.message_store import MessageStore

SAMPLE = 10 << 30  # bytes of the log that are read at most


def make_report(
    store: MessageStore,
    *,
    sample: int = SAMPLE,
    config: StoreConfig | None = None,
    tz: str | tzinfo | None = None,
    progress: Progress = False,
) -> str:
    """Make one HTML page about a store: a verdict, findings, consumers, disk and expiry, messages, topics, structure.

    The page needs no other file, no network and no script. The store is only read, and a broker may be running. A part
    that cannot be read has the error instead of its charts.

    Parameters
    ----------
    store : an open store.
    sample : read at most this many bytes of the log, at least 160. If the log is larger, ranges spread evenly over it
        are read, verify checks samples only, and the page says so.
    config : for verify: as for ``rocketstore.verify``.
    tz : the time zone of all times, by name, such as Asia/Shanghai or local, or as a tzinfo. It is also the broker's,
        in which deleteWhen is. By default times are in UTC, and the broker has the zone of this machine.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that
        were read, and all its bytes: first by verify, then again from 0 for the charts.

    Returns
    -------
    The page.

    Raises
    ------
    ValueError : ``sample`` is too small, or the time zone is unknown.

    Source: none.
    """
    if sample < SAMPLES:
        raise ValueError(f"sample={sample}: at least {SAMPLES} bytes are needed")
    clock = Clock.of(tz, time.time_ns() // 1_000_000)
    broker_zone = None if tz is None else clock.zone
    with show_progress(progress, "report") as report:
        answers = read_store(store, sample=sample, config=config, clock=clock, broker_zone=broker_zone, progress=report)
    page = find_sections(store, answers, clock, broker_zone)
    made = f"Report of rocketstore {rocketstore.__version__}, made {clock.text(clock.now)}. Times are in {clock.name}."
    root = str(store.path)
    return render_page(root, made, make_verdict(answers, root, clock), page)


def find_sections(
    store: MessageStore, answers: StoreAnswers, clock: Clock, broker_zone: tzinfo | None
) -> list[Section]:
    """Return the sections in the order of the page: first what an operator needs, then the structure of the files."""
    plan = answers.plan.value
    files = (
        PartAnswer([]) if plan is None else attempt(lambda: find_expiring_files(store, plan, broker_zone, clock.now))
    )
    return [
        sections.findings_section(answers.checked, store.path),
        sections.lag_section(answers.lags, clock),
        sections.disk_section(answers.usage, answers.plan if answers.has_messages else PartAnswer(), files, clock),
        sections.traffic_section(answers.numbers, clock),
        sections.topics_section(answers.numbers),
        read_section("Index files", lambda: structure.index_section(store, answers.summary)),
        read_section("Queues and their coverage", lambda: structure.queues_section(store, answers.bounds)),
        structure.gaps_section(answers.numbers, clock),
    ]


def read_section(title: str, make: Callable[[], Section]) -> Section:
    """Return the section that ``make`` returns. If its part of the store cannot be read, the section has the error."""
    answer = attempt(make)
    return Section(title, problems=answer.problems) if answer.value is None else answer.value
