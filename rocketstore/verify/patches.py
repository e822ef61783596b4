"""Find out which findings ``patch`` mends: those at damaged bytes in whose place records can stand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from rocketstore.config import StoreConfig
from rocketstore.disk.ranges import find_overlap
from rocketstore.errors import StoreError
from rocketstore.log.commit_log import CommitLog
from rocketstore.lost.plan import PatchPlan, plan_patch
from rocketstore.survey.places import LocalPlaces
from rocketstore.verify.findings import Finding
from rocketstore.verify.kinds import KINDS, SALVAGE

MOST_CHANGED = 1000
# What is found of a record in whose head one place changed.
AT_CHANGED_RECORDS = {
    "log-queue-offset-gap", "log-queue-offset-again", "queue-missing", "unit-again", "unit-missing",
    "unit-of-another-queue", "unit-shifted",
}  # fmt: skip
# What is found of lost messages elsewhere: in queues, in the index, at the next record of a queue, in the checkpoint.
AT_LOST_MESSAGES = {
    "log-queue-offset-gap", "log-tail", "unit-no-record", "unit-beyond-log", "index-item-no-record", "checkpoint-ahead",
    "checkpoint-offset",
}  # fmt: skip


def plan_mends(
    places: LocalPlaces,
    config: StoreConfig,
    log: CommitLog,
    damaged: Sequence[tuple[int, int]],
    contradicted: Sequence[int],
) -> PatchPlan | None:
    """Plan what ``patch`` would do; None if it would do nothing, or if the files that the plan needs cannot be read.

    Parameters: damaged: ranges of the log. contradicted: physical offsets of records that units contradict; very many
    of them mean that a queue is wrong.
    """
    changed = [(at, at + 1) for at in contradicted] if len(contradicted) <= MOST_CHANGED else []
    if not damaged and not changed:
        return None
    with suppress(StoreError, OSError, ValueError):
        return plan_patch(places, config, log, [*damaged, *changed])
    return None


def with_patches(findings: Sequence[Finding], plan: PatchPlan, log: CommitLog) -> list[Finding]:
    """Return the findings, marked if ``patch`` mends them.

    If some damage cannot be patched, findings elsewhere keep their command.
    """
    ranges = [(part.begin, max(part.end, part.begin + 1)) for part in plan.ranges]
    starts = {file.path: file.file_from_offset for file in log.file_run.files}
    are_all_patched = bool(ranges) and not plan.refused

    def can_patch(finding: Finding) -> bool:
        if finding.is_dledger or (KINDS[finding.kind].mend is None and finding.kind not in AT_LOST_MESSAGES):
            return False
        if finding.kind in AT_CHANGED_RECORDS and plan.corrected:
            return True
        if finding.kind in AT_LOST_MESSAGES:
            return are_all_patched
        if KINDS[finding.kind].mend != SALVAGE or finding.path not in starts:
            return False
        offset = starts[finding.path] + finding.offset
        return find_overlap(ranges, offset, offset + 1) is not None

    return [replace(finding, can_patch=True) if can_patch(finding) else finding for finding in findings]
