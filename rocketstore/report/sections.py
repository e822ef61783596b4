"""The first sections of a report page, which are about operation: findings, consumers, disk, messages and topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rocketstore.disk.store_path import StorePath
from rocketstore.report import charts
from rocketstore.report.charts import SHOWN_ROWS
from rocketstore.report.log_numbers import LogNumbers
from rocketstore.report.page import Chart, Section, Table
from rocketstore.report.parts import ExpiringFile
from rocketstore.report.reading import PartAnswer
from rocketstore.report.texts import Clock, duration_text, share_text, size_text
from rocketstore.report.traffic import choose_series, is_system, rank_topics
from rocketstore.report.verdict import first_problems, lags_by_group, space_of, spaces_by_part
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.store.usage.disk_usage import DiskUsage
from rocketstore.store.usage.expiry_plan import ExpiryPlan
from rocketstore.text_values import format_count
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.kinds import KINDS, mend_commands

MAX_ROWS = 200  # of a table
MANY_TOPICS = 20  # a store with more has its charts of single queues and index files folded
NO_TAG = "(no tag)"
Row = tuple[str | int | None, ...]


def make_table(caption: str, columns: Sequence[str], rows: list[Row], *, is_folded: bool = True) -> Table:
    """Return a table of at most ``MAX_ROWS`` rows, which says how many more there are."""
    return Table(caption, columns, rows[:MAX_ROWS], is_folded, max(len(rows) - MAX_ROWS, 0))


# ---- findings --------------------------------------------------------------------------------------------------


def findings_section(checked: PartAnswer[VerifyReport], root: StorePath) -> Section:
    """Return the findings of verify, and how to mend them."""
    section = Section("Findings of verify", problems=checked.problems)
    report = checked.value
    if report is None:
        return section
    counts = ((report.count(severity), severity) for severity in ("error", "warning", "info"))
    found = ", ".join(f"{count:,} of severity {severity}" for count, severity in counts if count)
    extent = "samples of " if report.quick else ""
    parts = f"{format_count(report.queues, 'queue')} and {format_count(report.index_files, 'index file')}"
    if report.has_log:
        records = format_count(report.records, "record")
        section.texts.append(f"Checked {extent}{records}, {parts}: {found or 'nothing is wrong'}.")
    section.tables = findings_tables(report, root) if report.findings else []
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


# ---- consumers and disk ----------------------------------------------------------------------------------------


def lag_section(lags: PartAnswer[Sequence[ConsumerLag]], clock: Clock) -> Section:
    """Return how far consumers are behind."""
    section = Section("Consumer lag", problems=lags.problems)
    if not lags.value:
        section.texts = [] if lags.value is None else ["No consumer group has saved an offset."]
        return section
    section.problems = first_problems([f"{entry.group}: {entry.problem}" for entry in lags.value if entry.problem])
    behind = lags_by_group(lags.value)
    late = sum(1 for count in behind.values() if count)
    section.texts.append(f"{format_count(len(behind), 'group')}, {late:,} of them behind the ends of their queues.")
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for entry in lags.value:
        sums[entry.group, entry.topic] += entry.lag or 0
    largest = sorted(((*names, count) for names, count in sums.items() if count), key=lambda row: (-row[2], row))
    if largest:
        caption = "Messages that each group has not consumed, by topic" + the_largest(len(largest))
        section.charts.append(Chart(caption, charts.scaled_bars(caption, largest[:SHOWN_ROWS], "{:,}".format)))
    rows: list[Row] = [
        (
            entry.group,
            entry.topic if entry.topic_exists else f"{entry.topic} (deleted)",
            entry.queue_id,
            entry.consumer_offset,
            entry.max_offset,
            entry.lag,
            clock.text(entry.oldest_timestamp) if entry.lag else None,
        )
        for entry in sorted(lags.value, key=lambda entry: -(entry.lag or 0))
    ]
    columns = ("group", "topic", "queue", "next offset", "end of queue", "lag", "oldest message not consumed")
    section.tables.append(make_table("Lag of each queue, the largest first", columns, rows))
    return section


def the_largest(count: int) -> str:
    """Return the end of the caption of a chart that shows only the largest of some rows."""
    return f": the largest {SHOWN_ROWS} of {count:,}" if count > SHOWN_ROWS else ""


def disk_section(
    usage: PartAnswer[DiskUsage], plan: PartAnswer[ExpiryPlan], files: PartAnswer[Sequence[ExpiringFile]], clock: Clock
) -> Section:
    """Return the space of the parts of a store and of its disks, and what a broker deletes."""
    problems = [*usage.problems, *plan.problems, *files.problems]
    problems += [] if usage.value is None else usage.value.reasons
    problems += [] if plan.value is None else plan.value.reasons
    return Section(
        "Disk, and what may expire",
        texts=[] if plan.value is None else expiry_texts(plan.value, clock),
        problems=first_problems(problems),
        charts=[] if usage.value is None else usage_charts(usage.value),
        tables=[
            *([] if usage.value is None else [usage_table(usage.value)]),
            *([] if plan.value is None else expiry_tables(plan.value, files.value or [], clock)),
        ],
    )


def usage_charts(usage: DiskUsage) -> list[Chart]:
    """Return a chart of the space of each part, and one of the disks; each of them only if it has bars."""
    whole = sum(map(space_of, usage))

    def text(size: int) -> str:
        return f"{size_text(size)}, {share_text(size, whole)}"

    rows = [("", name, size) for name, size in spaces_by_part(usage).items() if size]
    bars = [
        charts.Bar(
            disk.path,
            disk.used_share,
            f"{disk.used_share:.0%}: {size_text(disk.used_bytes)} used, {size_text(disk.free_bytes)} free",
        )
        for disk in usage.disks
    ]
    of_parts, of_disks = "Space of each part of the store", "Used space of each disk"
    return [
        *([Chart(of_parts, charts.scaled_bars(of_parts, rows, text))] if rows else []),
        *([Chart(of_disks, charts.bars(of_disks, bars))] if bars else []),
    ]


def usage_table(usage: DiskUsage) -> Table:
    parts: list[Row] = [
        (part.part, part.path, part.files, size_text(part.file_bytes), disk_text(part.disk_bytes)) for part in usage
    ]
    columns = ("part", "path", "files", "length of files", "space on disk")
    return make_table("Parts of the store, the largest first", columns, parts)


def disk_text(size: int | None) -> str:
    return "unknown" if size is None else size_text(size)


def expiry_texts(plan: ExpiryPlan, clock: Clock) -> list[str]:
    """Return the rules by which a broker deletes files, what it deletes now, and the notes of the plan."""
    rules = plan.rules
    hours = f"{rules.file_reserved_hours:g} hours"
    texts = [
        f"A broker deletes a file of the log {hours} after its last change (fileReservedTime), at the hour of "
        f"deleteWhen ({';'.join(f'{hour:02}' for hour in rules.delete_when)}), or earlier if a disk becomes full. "
        "Queues and index lose their oldest files with it. The last file of the log stays."
    ]
    if plan:
        messages = format_count(sum(loss.messages for loss in plan.queues), "message")
        what = f"{format_count(len(plan), 'file')} with {size_text(plan.disk_bytes)}, and {messages}"
        next_time = plan.next_timestamp
        later = "" if next_time is None else f" The next file may be deleted from {clock.day_text(next_time)} on."
        texts.append(f"To be deleted: {what}.{later}")
    return [*texts, *(f"{note[0].upper()}{note[1:]}." for note in plan.notes)]


def expiry_tables(plan: ExpiryPlan, files: Sequence[ExpiringFile], clock: Clock) -> list[Table]:
    """Return a table of the files that expire, and one of the messages that groups lose; each only if it has rows."""
    expiring: list[Row] = [
        (file.name, size_text(file.size), "never" if file.timestamp is None else clock.text(file.timestamp))
        for file in files
    ]
    losses: list[Row] = [
        (loss.group, loss.topic, loss.queue_id, loss.consumer_offset, loss.new_min_offset, loss.messages)
        for loss in plan.groups
    ]
    of_files = "file", "size", "may be deleted from"
    of_losses = "group", "topic", "queue", "next offset", "first offset after the deletion", "messages lost"
    tables = (
        make_table("Files of the log that expire, the oldest first", of_files, expiring),
        make_table("Messages that groups lose without having consumed them", of_losses, losses, is_folded=False),
    )
    return [table for table in tables if table.rows]


# ---- messages and topics ---------------------------------------------------------------------------------------


def sample_text(numbers: LogNumbers) -> list[str]:
    """Return the text that says which share of a log was read; an empty list if the whole log was read."""
    if not numbers.is_sampled:
        return []
    share = numbers.read_bytes / (numbers.end - numbers.begin)
    read, size = size_text(numbers.read_bytes), size_text(numbers.end - numbers.begin)
    return [
        f"Sampled: {read} of {size} of the log were read ({share:.2%}), in ranges spread evenly over it. All "
        "counts of messages and bytes are estimates."
    ]


def traffic_section(numbers: PartAnswer[LogNumbers], clock: Clock) -> Section:
    """Return the messages and bytes of the log over time, and the sizes of bodies."""
    section = Section("Messages and bytes over time", problems=numbers.problems)
    found = numbers.value
    if found is None:
        return section
    section.problems += sample_text(found)
    section.problems += first_problems(
        [f"{part.error}: offsets {part.begin} to {part.end} are left out" for part in found.skipped]
    )
    if not found.messages:
        return section
    messages = round(found.messages * found.scale)
    section.texts.append(
        f"{format_count(messages, 'message')} of {format_count(len(found.topics), 'topic')}. Each bar is "
        f"{duration_text(found.step)} long. Times are store times."
    )
    if found.outside:
        outside = format_count(round(found.outside * found.scale), "message")
        section.texts.append(
            f"Messages older than the first or newer than the last message of the log: {outside}. "
            "The first and the last bar include them."
        )
    series = choose_series(found)
    for caption, counts_bytes in (("Messages by topic", False), ("Bytes of records by topic", True)):
        chart = charts.over_time(caption, found, series, clock, counts_bytes=counts_bytes)
        section.charts.append(Chart(caption, chart))
    section.charts.append(body_chart(found))
    return section


def body_chart(numbers: LogNumbers) -> Chart:
    """Return the messages by the size of their body. Bars begin at powers of two."""
    counts = numbers.body_sizes
    below = np.cumsum(counts) / counts.sum()
    half, most = (size_name(1 << int(np.searchsorted(below, share))) for share in (0.5, 0.99))
    caption = f"Sizes of bodies as they are stored: half are smaller than {half}, and 99 % smaller than {most}"
    total = int(counts.sum())
    rows = [
        ("", body_range(bits), round(int(count) * numbers.scale))
        for bits, count in enumerate(counts.tolist())
        if counts[: bits + 1].any() and counts[bits:].any()
    ]

    def text(count: int) -> str:
        return f"{count:,}, {share_text(count, total * numbers.scale)}"

    return Chart(caption, charts.scaled_bars("messages by size of the body", rows, text))


def body_range(bits: int) -> str:
    """Return the sizes of a bar as text. Parameters: bits: the bit length of the sizes."""
    if bits == 0:
        return "empty"
    return "1 byte" if bits == 1 else f"{size_name(1 << bits - 1)} to {size_name(1 << bits)}"


def size_name(size: int) -> str:
    """Return a power of two with a unit that is one: 4,096 bytes as 4 KiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size >>= 10
    return f"{size} GiB"


def topics_section(numbers: PartAnswer[LogNumbers]) -> Section:
    """Return the messages and bytes of each topic and tag."""
    section = Section("Topics")
    found = numbers.value
    if found is None or not found.messages:
        return section
    section.problems = sample_text(found)
    users, system = rank_topics(found)
    whole = sum(int(counts.size.sum()) for counts in found.topics.values())
    if len(users) + len(system) == 1:
        section.texts.append(f"All messages are of topic {[*users, *system][0]}.")
    for caption, topics in (("Topics by bytes", users), ("Topics of RocketMQ itself, by bytes", system)):
        if topics and len(users) + len(system) > 1:
            caption += the_largest(len(topics))
            section.charts.append(Chart(caption, topic_bars(caption, topics[:SHOWN_ROWS], found, whole)))
    rows: list[Row] = [
        (
            topic,
            round(int(found.topics[topic].messages.sum()) * found.scale),
            round(int(found.topics[topic].size.sum()) * found.scale),
            share_text(int(found.topics[topic].size.sum()), whole),
        )
        for topic in [*users, *system]
    ]
    section.tables.append(make_table("Topics, the largest first", ("topic", "messages", "bytes", "share"), rows))
    ranked = found.ranked_tags()
    if any(tag is not None for _, tag, _ in ranked):
        tags = [(topic, NO_TAG if tag is None else tag, count) for topic, tag, count in ranked]
        section.charts.append(tag_chart(tags, is_folded=len(found.topics) > MANY_TOPICS))
        section.tables.append(tag_table(tags, round(found.other_tags * found.scale)))
    else:
        section.texts.append("No message has a tag.")
    return section


def topic_bars(caption: str, topics: Sequence[str], numbers: LogNumbers, whole: int) -> str:
    """Return a bar for each topic. Parameters: whole: the bytes of all topics that were read."""
    sizes = {topic: int(numbers.topics[topic].size.sum()) for topic in topics}
    most = max(sizes.values())
    bars = []
    for topic, size in sizes.items():
        messages = format_count(round(int(numbers.topics[topic].messages.sum()) * numbers.scale), "message")
        text = f"{size_text(size * numbers.scale)}, {share_text(size, whole)}, {messages}"
        bars.append(charts.Bar(topic, size / most, text))
    return charts.bars(caption, bars)


def tag_chart(tags: Sequence[tuple[str, str, int]], *, is_folded: bool) -> Chart:
    """Return the messages by topic and tag; those of topics of the system only if there are no others.

    Parameters: tags: topic, tag and messages, the most frequent first.
    """
    of_users = [row for row in tags if not is_system(row[0])] or tags
    caption = "Messages by topic and tag" + the_largest(len(of_users))
    return Chart(caption, charts.scaled_bars(caption, of_users[:SHOWN_ROWS], "{:,}".format), is_folded)


def tag_table(tags: Sequence[tuple[str, str, int]], others: int) -> Table:
    """Return the messages by topic and tag. Parameters: others: messages with tags that were not counted one by one."""
    rows: list[Row] = [*tags, *([("(all)", "(other tags)", others)] if others else [])]
    return make_table("Tags, the most frequent first", ("topic", "tag", "messages"), rows)
