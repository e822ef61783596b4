"""The sections of a report page: each reads one part of the store, and describes it with texts, charts and tables."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import is_remote
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreError
from rocketstore.progress import Report
from rocketstore.report import charts
from rocketstore.report.charts import NO_TAG
from rocketstore.report.log_numbers import LATEST, MAX_GAPS, LogBounds, LogNumbers, read_log
from rocketstore.report.page import Section, Table
from rocketstore.report.parts import LONGEST, find_expiry, read_index, read_queues
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.summary import StoreSummary
from rocketstore.text_values import format_count, format_time
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.kinds import KINDS, mend_commands
from rocketstore.verify.verify import verify

MAX_ROWS = 200  # of a table
MAX_PROBLEMS = 20  # of one kind in a section
Row = tuple[str | int | None, ...]


def with_unit(size: float) -> str:
    """Return a number of bytes with a unit, such as 1.5 GB; kB, MB, GB and TB are powers of 1024."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TB"


def or_unknown(value: int | str | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else value


def time_text(timestamp: int | None) -> str:
    """Return a time in UTC for people. Parameters: timestamp: epoch ms; None and 0 are unknown times."""
    text = None if timestamp is None else format_time(timestamp)
    return or_unknown(text and text.replace("T", " "))


def make_table(caption: str, columns: Sequence[str], rows: list[Row], *, is_folded: bool = True) -> Table:
    """Return a table of at most ``MAX_ROWS`` rows, which says how many more there are."""
    return Table(caption, columns, rows[:MAX_ROWS], is_folded, max(len(rows) - MAX_ROWS, 0))


def limited(problems: Sequence[str]) -> list[str]:
    """Return the first ``MAX_PROBLEMS`` problems, and how many more there are."""
    more = len(problems) - MAX_PROBLEMS
    return [*problems[:MAX_PROBLEMS], *([f"{format_count(more, 'more problem')} of this kind."] if more > 0 else [])]


def summary_section(summary: StoreSummary, bounds: LogBounds) -> Section:
    """Return the counts and times of a store, and a problem if messages stand behind damage at the end of the log."""
    size = None
    if summary.min_phy_offset is not None and summary.max_phy_offset is not None:
        size = summary.max_phy_offset - summary.min_phy_offset
    section = Section("Summary", problems=limited([*dict.fromkeys(summary.problems)]), texts=[*summary.notes])
    if bounds.sound_end < bounds.end:
        section.problems.append(
            f"The log is damaged at byte {bounds.sound_end:,}, and has messages behind the "
            "damage. The size and the last message of this summary are those before the damage; "
            "the sections below count all sound messages."
        )
    state = "stopped cleanly" if summary.last_exit_ok else "crashed"
    section.facts = {
        "topics": or_unknown(summary.topics),
        "queues": or_unknown(summary.queues),
        "messages in queues": or_unknown(summary.messages),
        "log": "unknown" if size is None else with_unit(size),
        "first message": time_text(summary.begin_timestamp),
        "last message": time_text(summary.end_timestamp),
        "state": "a broker runs" if summary.is_locked else state,
    }
    return section


def findings_section(store: MessageStore, config: StoreConfig | None, *, quick: bool, progress: Report) -> Section:
    """Verify the store, or samples of it. Raises: StoreError, OSError."""
    section = Section("Findings of verify")
    if is_remote(store.path):
        section.texts.append("A remote store is not checked: verify needs a local copy.")
        return section
    report = verify(store.path, quick=quick, config=config, progress=progress)
    counts = ((report.count(severity), severity) for severity in ("error", "warning", "info"))
    found = ", ".join(f"{count:,} of severity {severity}" for count, severity in counts if count)
    extent = "samples of " if quick else ""
    section.texts.append(
        f"Checked {extent}{format_count(report.records, 'record')}, "
        f"{format_count(report.queues, 'queue')} and {format_count(report.index_files, 'index file')}: "
        f"{found or 'nothing is wrong'}."
    )
    if quick:
        section.problems.append(
            f"Only samples were checked. This command checks everything: "
            f"rocketstore verify {shlex.quote(str(store.path))}"
        )
    section.tables = findings_tables(report, store.path) if report.findings else []
    return section


def path_below(path: StorePath, root: StorePath) -> str:
    """Return a path as it is shown: relative to the root of its store, if it is a local path below the root."""
    if isinstance(path, Path) and isinstance(root, Path) and path.is_relative_to(root):
        return str(path.relative_to(root))
    return str(path)


def findings_tables(report: VerifyReport, root: StorePath) -> list[Table]:
    """Return a table of the kinds of findings and how to mend them, and a table of all findings."""
    counts: dict[str, int] = defaultdict(int)
    mends: dict[str, str | None] = {}
    findings: list[Row] = []
    for finding in report.findings:
        counts[finding.kind] += 1 + finding.more
        mends[finding.kind] = finding.mend
        path = path_below(finding.path, root)
        more = f" (and {finding.more:,} more)" if finding.more else ""
        findings.append((finding.severity, finding.kind, path, finding.offset, finding.detail + more))
    kinds: list[Row] = []
    for name, count in counts.items():
        kind = KINDS[name]
        given = mends[name]
        mend = None if given is None else mend_commands([given], root)[0]
        kinds.append((kind.severity, name, count, kind.meaning, mend, kind.at_next_start))
    columns = ("severity", "kind", "findings", "meaning", "mend", "at its next start, a broker")
    return [
        make_table("Kinds of findings, and how to mend them", columns, kinds, is_folded=False),
        make_table("All findings", ("severity", "kind", "path", "offset", "detail"), findings),
    ]


# ---- the log ---------------------------------------------------------------------------------------------


def find_log_bounds(store: MessageStore, summary: StoreSummary) -> LogBounds:
    """Return the bounds and times of the log, also of messages behind damage. A summary ends before the damage."""
    begin, end = summary.min_phy_offset or 0, summary.max_phy_offset or 0
    sound_end = end
    first = summary.begin_timestamp or 0
    last = first if summary.end_timestamp is None else summary.end_timestamp
    with contextlib.suppress(StoreError, OSError, ValueError):  # ``read_numbers`` raises the error again
        log = store.commit_log
        view = log.look(again=True)
        sound_end, end = view.end, view.records_end
        message = None if view.last_phy_offset is None else log.find_message(view.last_phy_offset)
        last = last if message is None else message.store_timestamp
    return LogBounds(begin, end, min(first, last), max(first, last), sound_end)


def read_numbers(store: MessageStore, bounds: LogBounds, most: int, progress: Report) -> LogNumbers:
    """Read the log, or a sample of it. Raises: StoreError, OSError."""
    times = bounds.begin_timestamp, bounds.end_timestamp
    return read_log(store.commit_log, times, most, progress, end=bounds.end)


def sample_text(numbers: LogNumbers) -> list[str]:
    """Return the text that says which share of a log was read; an empty list if the whole log was read."""
    if not numbers.is_sampled:
        return []
    share = numbers.read_bytes / (numbers.end - numbers.begin)
    read, size = with_unit(numbers.read_bytes), with_unit(numbers.end - numbers.begin)
    return [
        f"Sampled: {read} of {size} of the log were read ({share:.2%}), in ranges spread evenly over it. All "
        "counts of messages and bytes are estimates."
    ]


def time_section(numbers: LogNumbers) -> Section:
    section = Section("Messages and bytes over time", problems=sample_text(numbers))
    section.problems += limited(
        [f"{part.error}: offsets {part.begin} to {part.end} are left out" for part in numbers.skipped]
    )
    messages = round(numbers.messages * numbers.scale)
    section.texts.append(
        f"{format_count(messages, 'message')} of {format_count(len(numbers.topics), 'topic')}. Each bar of the "
        f"charts is {step_text(numbers.step)} long. Times are store times in UTC."
    )
    if numbers.outside:
        outside = format_count(round(numbers.outside * numbers.scale), "message")
        section.texts.append(
            f"Messages older than the first or newer than the last message of the log: {outside}. "
            "The first and the last bar include them."
        )
    if not numbers.messages:
        return section
    section.charts = [
        ("Messages by topic", charts.over_time(numbers, "messages", "messages")),
        ("Bytes of records by topic", charts.over_time(numbers, "size", "bytes")),
        ("Messages of the most frequent tags, with their topic", charts.by_tag(numbers)),
    ]
    sums = {
        topic: (round(int(counts.messages.sum()) * numbers.scale), round(int(counts.size.sum()) * numbers.scale))
        for topic, counts in numbers.topics.items()
    }
    rows = [(topic, *counts) for topic, counts in sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))]
    section.tables.append(make_table("Topics, the largest first", ("topic", "messages", "bytes"), [*rows]))
    tag_rows = [(topic, NO_TAG if tag is None else tag, count) for topic, tag, count in numbers.ranked_tags()]
    if numbers.other_tags:
        tag_rows.append(("(all)", "(other tags)", round(numbers.other_tags * numbers.scale)))
    section.tables.append(make_table("Tags, the most frequent first", ("topic", "tag", "messages"), [*tag_rows]))
    return section


def step_text(step: int) -> str:
    """Return the width of a bin of time with its unit. Parameters: step: one of ``STEPS``, ms."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if step >= size:
            return f"{step // size} {unit}"
    return f"{step} ms"


def body_section(numbers: LogNumbers) -> Section:
    section = Section("Body sizes", problems=sample_text(numbers))
    section.texts.append(
        "Sizes of bodies as they are stored; some bodies may be compressed. Each bar ends where the next one begins."
    )
    if numbers.messages:
        section.charts.append(("Messages by size of the body", charts.body_sizes(numbers)))
    return section


def gaps_section(numbers: LogNumbers) -> Section:
    section = Section("Gaps in store time", problems=sample_text(numbers))
    if numbers.is_sampled:
        section.texts.append("Gaps between the ranges that were read are not known.")
    if numbers.skipped:
        section.texts.append("Gaps at damaged ranges are not counted.")
    if numbers.gaps:
        section.texts.append(f"Times of at least a second without a message; the longest ones, at most {MAX_GAPS}.")
        section.charts.append(("When each gap began, and its length in seconds", charts.gaps(numbers)))
        columns = ("length", "after", "next message at offset")
        rows: list[Row] = [
            (f"{gap.length / 1000:,.3f} s", time_text(gap.begin), gap.phy_offset) for gap in numbers.gaps
        ]
        section.tables.append(make_table("Gaps, the longest first", columns, rows))
    else:
        section.texts.append("No gap of a second or more.")
    if numbers.backward:
        backward = format_count(round(numbers.backward * numbers.scale), "message")
        section.texts.append(
            f"Messages older than the message before them: {backward}, by up to "
            f"{numbers.most_backward:,} ms. The clock of the broker went back."
        )
    return section


# ---- queues, index, consumers ----------------------------------------------------------------------------


def queues_section(store: MessageStore, bounds: LogBounds) -> Section:
    """Read the bounds of the queues, and show them beside those of the log. Raises: StoreError, OSError."""
    queues, total = read_queues(store)
    section = Section("Queues and their coverage")
    section.problems = limited(
        [f"{queue.topic}/{queue.queue_id}: {queue.problem}" for queue in queues if queue.problem]
    )
    if len(queues) < total:
        section.problems.append(f"Sampled: {len(queues):,} of {total:,} queues were read.")
    section.texts.append(
        f"{format_count(total, 'queue')}. A bar begins at the first and ends at the last record of a "
        "queue. A queue that ends early has no newer messages, or lacks units; verify finds these."
    )
    if any(queue.begin is not None for queue in queues):
        spec = charts.coverage(queues, bounds.begin, bounds.end)
        section.charts.append(("The part of the log that each of the largest queues covers, by physical offset", spec))
    rows: list[Row] = [
        (queue.topic, queue.queue_id, queue.messages, queue.min_offset, queue.max_offset, queue.begin, queue.end)
        for queue in sorted(queues, key=lambda queue: (-(queue.messages or 0), queue.topic, queue.queue_id))
    ]
    columns = ("topic", "queue", "messages", "min offset", "max offset", "first record at", "last record at")
    section.tables.append(make_table("Queues, the largest first", columns, rows))
    return section


def index_section(store: MessageStore, summary: StoreSummary) -> Section:
    """Read the index files, and compare their chains with theory. Raises: StoreError, OSError, ValueError."""
    files, total = read_index(store)
    section = Section("Index files")
    if not files:
        section.texts.append("The store has no index, or it has no items.")
        return section
    if len(files) < total:
        section.problems.append(f"Sampled: {len(files)} of {total:,} index files were read.")
    section.texts.append(
        f"{format_count(total, 'index file')}, for offsets {or_unknown(summary.index_begin_phy_offset)} to "
        f"{or_unknown(summary.index_end_phy_offset)} of the log. Theory: if keys are distinct, each item chooses its "
        "slot at random, and the lengths of chains have the Poisson distribution. Repeated keys make longer chains and "
        "leave more slots empty. A query reads the whole chain of its slot."
    )
    section.charts = [
        ("Slots in use of each file. The tick is the expected share.", charts.slot_use(files)),
        (
            f"Slots by the number of their items, up to {LONGEST}; longer chains are counted there",
            charts.chain_lengths(files),
        ),
    ]
    rows: list[Row] = [
        (file.name, file.items, file.capacity, file.slots, file.used, round(file.expected_used), file.longest)
        for file in files
    ]
    columns = ("file", "items", "room for", "slots", "slots in use", "expected", "longest chain")
    section.tables.append(make_table("Index files, the oldest first", columns, rows))
    return section


def lag_section(store: MessageStore) -> Section:
    """Read how far consumers are behind. Raises: StoreError, OSError."""
    lags = list(store.consumer_lag())
    section = Section("Consumer lag")
    if not lags:
        section.texts.append("No consumer group has saved an offset.")
        return section
    section.problems = limited([f"{entry.group}: {entry.problem}" for entry in lags if entry.problem])
    behind: dict[str, int] = defaultdict(int)
    for entry in lags:
        behind[entry.group] += entry.lag or 0
    late = sum(1 for count in behind.values() if count)
    section.texts.append(f"{format_count(len(behind), 'group')}, {late:,} of them behind the ends of their queues.")
    section.charts.append(("Messages that each group has not consumed, by topic", charts.lag(lags)))
    rows: list[Row] = [
        (
            entry.group,
            entry.topic if entry.topic_exists else f"{entry.topic} (deleted)",
            entry.queue_id,
            entry.consumer_offset,
            entry.max_offset,
            entry.lag,
            time_text(entry.oldest_timestamp) if entry.lag else None,
        )
        for entry in sorted(lags, key=lambda entry: -(entry.lag or 0))
    ]
    columns = ("group", "topic", "queue", "next offset", "end of queue", "lag", "oldest message not consumed")
    section.tables.append(make_table("Lag of each queue, the largest first", columns, rows))
    return section


def expiry_section(store: MessageStore) -> Section:
    """Find the files of the log that may be deleted. Raises: StoreError, OSError, ValueError."""
    found = find_expiry(store)
    now = time.time_ns() // 1_000_000
    section = Section("What may expire")
    section.texts.append(
        f"A broker deletes a file of the log {found.hours} hours after its last change (fileReservedTime), at the hour "
        "of deleteWhen, or earlier if the disk becomes full. Queues and index lose their oldest files with it. The "
        "last file of the log stays."
    )
    if not found.files:
        section.texts.append("The log has no file that can expire.")
        return section
    size = sum(file.size for file in found.files[: found.expired])
    section.texts.append(f"Now {found.expired:,} of {len(found.files):,} files may be deleted, {with_unit(size)}.")
    shown = [file._replace(timestamp=min(file.timestamp, LATEST)) for file in found.files]
    spec = charts.expiry(found._replace(files=shown), now)
    section.charts.append(("Bytes of the log that may be deleted by a time; the dashed line is now", spec))
    rows: list[Row] = [(file.name, with_unit(file.size), time_text(file.timestamp)) for file in found.files]
    section.tables.append(make_table("Files, the oldest first", ("file", "size", "may be deleted from"), rows))
    return section
