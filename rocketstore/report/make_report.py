"""Make the report page of a store: the entry of this room."""

from __future__ import annotations

import time
from collections.abc import Callable

import rocketstore
from rocketstore.config import StoreConfig
from rocketstore.errors import StoreError, text_of
from rocketstore.extras import import_extra
from rocketstore.progress import Progress, show_progress
from rocketstore.report import sections
from rocketstore.report.log_numbers import SAMPLES, LogNumbers
from rocketstore.report.page import Section, render_page
from rocketstore.store.message_store import MessageStore
from rocketstore.text_values import format_time

SAMPLE = 10 << 30  # bytes of the log that are read at most


def make_report(
    store: MessageStore,
    *,
    sample: int = SAMPLE,
    config: StoreConfig | None = None,
    progress: Progress = False,
) -> str:
    """Make one HTML page about a store: its messages, queues, index, consumers, what may expire, and findings.

    The page needs no other file and no network. The store is only read, and a broker may be running. A part that
    cannot be read has the error instead of its charts.

    Parameters
    ----------
    store : an open store.
    sample : read at most this many bytes of the log, at least 160. If the log is larger, ranges spread evenly over it
        are read, verify checks samples only, and the page says so.
    config : for verify: as for ``rocketstore.verify``.
    progress : True shows a bar on standard error. A function is called with the bytes of the log that
        were read, and all its bytes: first by verify, then again from 0 for the charts.

    Returns
    -------
    The page. Encode it as UTF-8 with errors="backslashreplace", since paths may have bytes that are no UTF-8.

    Raises
    ------
    ModuleNotFoundError : vl-convert-python is missing; the error names the extra. ValueError : ``sample`` is too small.

    Source: none.
    """
    scripts: str = import_extra("vl_convert", "report").javascript_bundle()
    if sample < SAMPLES:
        raise ValueError(f"sample={sample}: at least {SAMPLES} bytes are needed")

    with show_progress(progress, "report") as report:
        summary = store.summary()
        bounds = sections.find_log_bounds(store, summary)
        page: list[Section] = [sections.summary_section(summary, bounds)]
        quick = bounds.end - bounds.begin > sample
        page.append(
            read_section(
                "Findings of verify",
                lambda: sections.findings_section(store, config, quick=quick, progress=report),
            )
        )
        numbers: LogNumbers | None = None
        try:
            numbers = sections.read_numbers(store, bounds, sample, report)
        except (StoreError, OSError, ValueError) as error:
            page.append(Section("Messages and bytes over time", problems=[text_of(error)]))
    if numbers is not None:
        page += [make(numbers) for make in (sections.time_section, sections.body_section, sections.gaps_section)]
    page += [
        read_section("Queues and their coverage", lambda: sections.queues_section(store, bounds)),
        read_section("Index files", lambda: sections.index_section(store, summary)),
        read_section("Consumer lag", lambda: sections.lag_section(store)),
        read_section("What may expire", lambda: sections.expiry_section(store)),
    ]
    made = format_time(time.time_ns() // 1_000_000)
    return render_page(str(store.path), f"Report of rocketstore {rocketstore.__version__}, made {made}", page, scripts)


def read_section(title: str, make: Callable[[], Section]) -> Section:
    """Return the section that ``make`` returns. If its part of the store cannot be read, the section has the error."""
    try:
        return make()
    except (StoreError, OSError, ValueError, KeyError) as error:
        return Section(title, problems=[text_of(error)])
