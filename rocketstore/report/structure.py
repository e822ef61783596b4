"""The last sections of a report page, which are about structure: index files, queues, and gaps in store time."""

from __future__ import annotations

from rocketstore.report import charts
from rocketstore.report.log_numbers import MAX_GAPS, LogBounds, LogNumbers
from rocketstore.report.page import Chart, Section
from rocketstore.report.parts import LONGEST, read_index, read_queues
from rocketstore.report.reading import PartAnswer
from rocketstore.report.sections import MANY_TOPICS, Row, make_table, sample_text, the_largest
from rocketstore.report.texts import Clock, count_text, duration_text
from rocketstore.report.verdict import first_problems
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.summary import StoreSummary
from rocketstore.text_values import format_count


def index_section(store: MessageStore, summary: StoreSummary) -> Section:
    """Read the index files, and compare their chains with theory. Raises: StoreError, OSError, ValueError."""
    files, total = read_index(store)
    section = Section("Index files")
    if not files:
        section.texts = ["The index has no items."] if summary.messages else []
        return section
    if len(files) < total:
        section.problems.append(f"Sampled: {len(files)} of {total:,} index files were read.")
    section.texts.append(
        f"{format_count(total, 'index file')}, for offsets {count_text(summary.index_begin_phy_offset)} to "
        f"{count_text(summary.index_end_phy_offset)} of the log. Theory: if keys are distinct, each item chooses its "
        "slot at random, and the lengths of chains have the Poisson distribution. Repeated keys make longer chains and "
        "leave more slots empty. A query reads the whole chain of its slot."
    )
    is_folded = (summary.topics or 0) > MANY_TOPICS
    use = "Slots in use of each file; the line is the expected share"
    chains = f"Slots by the number of their items, up to {LONGEST}; longer chains are counted there"
    section.charts = [
        Chart(use, charts.slot_use(use, files), is_folded),
        Chart(chains, charts.chain_lengths(chains, files), is_folded),
    ]
    rows: list[Row] = [
        (file.name, file.items, file.capacity, file.slots, file.used, round(file.expected_used), file.longest)
        for file in files
    ]
    columns = ("file", "items", "room for", "slots", "slots in use", "expected", "longest chain")
    section.tables.append(make_table("Index files, the oldest first", columns, rows))
    return section


def queues_section(store: MessageStore, bounds: LogBounds) -> Section:
    """Read the bounds of the queues, and show them beside those of the log. Raises: StoreError, OSError."""
    queues, total = read_queues(store)
    section = Section("Queues and their coverage")
    if not total:
        return section
    section.problems = first_problems(
        [f"{queue.topic}/{queue.queue_id}: {queue.problem}" for queue in queues if queue.problem]
    )
    if len(queues) < total:
        section.problems.append(f"Sampled: {len(queues):,} of {total:,} queues were read.")
    section.texts.append(f"{format_count(total, 'queue')}.")
    shown = sum(1 for queue in queues if queue.begin is not None)
    if shown and bounds.end > bounds.begin:
        section.texts.append(
            "A bar begins at the first and ends at the last record of a queue. A queue that ends early has no newer "
            "messages, or lacks units; verify finds these."
        )
        caption = "The part of the log that each queue covers, by physical offset" + the_largest(shown)
        is_folded = len({queue.topic for queue in queues}) > MANY_TOPICS
        section.charts.append(Chart(caption, charts.coverage(caption, queues, bounds.begin, bounds.end), is_folded))
    rows: list[Row] = [
        (queue.topic, queue.queue_id, queue.messages, queue.min_offset, queue.max_offset, queue.begin, queue.end)
        for queue in sorted(queues, key=lambda queue: (-(queue.messages or 0), queue.topic, queue.queue_id))
    ]
    columns = ("topic", "queue", "messages", "min offset", "max offset", "first record at", "last record at")
    section.tables.append(make_table("Queues, the largest first", columns, rows))
    return section


def gaps_section(numbers: PartAnswer[LogNumbers], clock: Clock) -> Section:
    """Return the times without a message, and how far the clock of the broker went back."""
    section = Section("Gaps in store time")
    found = numbers.value
    if found is None or not found.messages:
        return section
    section.problems = sample_text(found)
    if found.is_sampled:
        section.texts.append("Gaps between the ranges that were read are not known.")
    if found.skipped:
        section.texts.append("Gaps at damaged ranges are not counted.")
    usual = duration_text(found.gap_limit)
    if found.gaps:
        section.texts.append(f"Times of at least {usual} without a message; the longest ones, at most {MAX_GAPS}.")
        caption = "When each gap began, and its length"
        if chart := charts.gaps(caption, found, clock):
            section.charts.append(Chart(caption, chart))
        columns = ("length", "after", "next message at offset")
        rows: list[Row] = [
            (duration_text(gap.length), clock.text(gap.begin, has_ms=True), gap.phy_offset) for gap in found.gaps
        ]
        section.tables.append(make_table("Gaps, the longest first", columns, rows))
    else:
        section.texts.append(f"No gap of {usual} or more.")
    if found.backward:
        backward = format_count(round(found.backward * found.scale), "message")
        section.texts.append(
            f"Messages older than the message before them: {backward}, by up to "
            f"{found.most_backward:,} ms. The clock of the broker went back."
        )
    return section
