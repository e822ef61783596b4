"""The begin of a report page: whether the store is sound, what is behind, what may be deleted, and what to do."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rocketstore.report.page import BAD, FAIR, GOOD, UNKNOWN, Action, VerdictBox
from rocketstore.report.reading import StoreAnswers
from rocketstore.report.texts import Clock, count_text, size_text
from rocketstore.store.overview.lag import ConsumerLag
from rocketstore.store.overview.summary import StoreSummary
from rocketstore.store.usage.disk_usage import INDEX, LOG, OTHER, QUEUES, DiskUsage, PartUsage
from rocketstore.store.usage.expiry_plan import ExpiryPlan
from rocketstore.text_values import format_count
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.kinds import mend_commands

LEAST_SHARE = 0.01  # of the space of a store
MAX_PROBLEMS = 20  # of one kind in a section
MAX_FIRST_PROBLEMS = 5  # at the begin of the page


def first_problems(problems: Sequence[str], most: int = MAX_PROBLEMS) -> list[str]:
    """Return the first problems, and how many more there are. Parameters: most: the number of problems to return."""
    more = len(problems) - most
    return [*problems[:most], *([f"{format_count(more, 'more problem')} of this kind."] if more > 0 else [])]


def make_verdict(answers: StoreAnswers, root: str, clock: Clock) -> VerdictBox:
    """Return the begin of the page. Parameters: root: the path of the store."""
    checked = answers.checked.value
    headline = f"Not checked. {answers.checked.problem}" if checked is None else checked.verdict
    return VerdictBox(
        tone_of(checked),
        headline,
        sentences=list(find_sentences(answers, clock)),
        actions=list(find_actions(answers, root, clock)),
        problems=first_problems(
            [*dict.fromkeys([*damage_text(answers), *answers.summary.problems])], MAX_FIRST_PROBLEMS
        ),
        facts=find_facts(answers.summary, clock),
        notes=[*answers.summary.notes],
    )


def tone_of(checked: VerifyReport | None) -> str:
    if checked is None:
        return UNKNOWN
    if not checked.ok:
        return BAD
    return FAIR if checked.count("warning") or checked.is_partial else GOOD


def damage_text(answers: StoreAnswers) -> list[str]:
    """Return a problem if messages stand behind damage of the log."""
    bounds = answers.bounds
    if bounds.sound_end >= bounds.end:
        return []
    return [
        f"The log is damaged at byte {bounds.sound_end:,}, and has messages behind the damage. The last message "
        "of this summary is the last one before the damage; the sections below count all sound messages."
    ]


def find_facts(summary: StoreSummary, clock: Clock) -> list[tuple[str, str]]:
    """Return counts and times of a store by their names."""
    state = "stopped cleanly" if summary.last_exit_ok else "crashed"
    return [
        ("state", "a broker runs" if summary.is_locked else state),
        ("messages in queues", count_text(summary.messages)),
        ("topics", count_text(summary.topics)),
        ("queues", count_text(summary.queues)),
        ("first message", clock.text(summary.begin_timestamp)),
        ("last message", clock.text(summary.end_timestamp)),
    ]


# ---- sentences -------------------------------------------------------------------------------------------------


def find_sentences(answers: StoreAnswers, clock: Clock) -> Iterator[str]:
    """Yield the sentences below the headline: those whose parts can be read."""
    if not answers.has_messages:
        yield "The store has no messages."
    if answers.lags.value is not None:
        yield from lag_sentence(answers.lags.value)
    if answers.plan.value is not None and answers.has_messages:
        yield expiry_sentence(answers.plan.value, clock)
    if answers.usage.value is not None:
        yield from size_sentence(answers.usage.value)


def lags_by_group(lags: Sequence[ConsumerLag]) -> dict[str, int]:
    """Return the messages that each group has not consumed. Queues whose lag is unknown count as 0."""
    behind: dict[str, int] = defaultdict(int)
    for entry in lags:
        behind[entry.group] += entry.lag or 0
    return behind


def lag_sentence(lags: Sequence[ConsumerLag]) -> Iterator[str]:
    """Yield how far groups are behind; nothing without groups."""
    counts = [count for count in lags_by_group(lags).values() if count]
    unknown = {entry.group for entry in lags if entry.lag is None}
    if counts:
        who = "One group is" if len(counts) == 1 else f"{len(counts):,} groups are"
        yield f"{who} behind by {sum(counts):,}{'' if len(counts) == 1 else ' together'}."
    elif lags and not unknown:
        yield "No group is behind."
    if unknown:
        yield f"The lag of {format_count(len(unknown), 'group')} is not known in all queues."


def expiry_sentence(plan: ExpiryPlan, clock: Clock) -> str:
    """Return what a broker may delete of the log, and when."""
    files = [file for file in plan if file.part == LOG]
    if files:
        what = f"{format_count(len(files), 'file')} of the log, {size_text(sum(file.file_bytes for file in files))},"
        when = files[0].delete_timestamp
        if when is None:
            return f"{what} may be deleted, but the settings name no hour for it."
        return f"{what} may be deleted {'now' if when <= clock.now else f'from {clock.day_text(when)} on'}."
    if not any(hour in range(24) for hour in plan.rules.delete_when):
        return "Nothing may be deleted: the settings name no hour for it (deleteWhen)."
    if plan.next_timestamp is None:
        return "Nothing may be deleted: a broker keeps the last file of the log."
    return f"Nothing may be deleted before {clock.day_text(plan.next_timestamp)}."


def space_of(part: PartUsage) -> int:
    """Return the disk space of a part, bytes; the length of its files if the space is unknown."""
    return part.file_bytes if part.disk_bytes is None else part.disk_bytes


def spaces_by_part(usage: DiskUsage) -> dict[str, int]:
    """Return the disk space of log, queues, index and everything else, bytes."""
    sums = dict.fromkeys((LOG, QUEUES, INDEX, OTHER), 0)
    for part in usage:
        sums[part.part if part.part in sums else OTHER] += space_of(part)
    return sums


def size_sentence(usage: DiskUsage) -> Iterator[str]:
    """Yield the space of the parts, and how full the disks are. Other parts are named if they take space."""
    spaces = spaces_by_part(usage)
    if spaces[OTHER] < LEAST_SHARE * sum(spaces.values()):
        del spaces[OTHER]
    named = (("other files" if name == OTHER else name, size) for name, size in spaces.items())
    sizes = [f"{name} {size_text(size)}" for name, size in named if size]
    disks = [f"disk {disk.used_share:.0%} full" for disk in usage.disks]
    if text := ", ".join(sizes + disks):
        yield f"{text[0].upper()}{text[1:]}."


# ---- what to do ------------------------------------------------------------------------------------------------


def find_actions(answers: StoreAnswers, root: str, clock: Clock) -> Iterator[Action]:
    """Yield what to do, the most urgent first."""
    path = shlex.quote(root)
    if answers.checked.value is not None:
        yield from repairs(answers.checked.value, root)
    if not answers.summary.last_exit_ok and not answers.summary.is_locked:
        text = "The store was not stopped cleanly. This shows what a broker would change when it starts:"
        yield Action(text, f"rocketstore recover {path} --policy broker --dry-run")
    if answers.plan.value is not None:
        yield from before_deletion(answers.plan.value, path)
    if answers.lags.value is not None:
        yield from catch_up(answers.lags.value, path, clock)


def repairs(checked: VerifyReport, root: str) -> Iterator[Action]:
    """Yield the commands that repair what verify found."""
    if any(finding.kind == "log-missing" for finding in checked.findings):
        yield Action("If the log is elsewhere, name its directory: storePathCommitLog in the file of --broker-conf.")
    mends = (finding.mend for finding in checked.findings if finding.severity != "info" and finding.mend)
    for command in mend_commands(mends, root):
        yield Action("To repair what verify found:", command)
    if checked.quick:
        yield Action("Only samples were checked. This checks everything:", f"rocketstore verify {shlex.quote(root)}")


def before_deletion(plan: ExpiryPlan, path: str) -> Iterator[Action]:
    """Yield a full disk, and the groups that lose messages by a deletion. Parameters: path: quoted for a shell."""
    most = plan.rules.disk_max_used_ratio
    for disk in plan.disks:
        if disk.used_share > most and plan.rules.problem is None:
            text = (
                f"Make room on the disk of {disk.path}, which is {disk.used_share:.0%} full. Above {most:.0%} a broker "
            )
            yield Action(f"{text}deletes old files at any hour.")
    lost: dict[str, int] = defaultdict(int)
    for loss in plan.groups:
        lost[loss.group] += loss.messages
    for group, count in sorted(lost.items(), key=lambda item: (-item[1], item[0]))[:3]:
        text = f"Group {group} loses {format_count(count, 'message')} that it has not consumed when files are deleted:"
        yield Action(text, f"rocketstore expire {path} --groups")


def catch_up(lags: Sequence[ConsumerLag], path: str, clock: Clock) -> Iterator[Action]:
    """Yield the group that is furthest behind. Parameters: path: quoted for a shell."""
    group, count = max(lags_by_group(lags).items(), key=lambda item: item[1], default=("", 0))
    if not count:
        return
    times = [entry.oldest_timestamp for entry in lags if entry.group == group and entry.lag and entry.oldest_timestamp]
    since = f"; its oldest message is from {clock.text(min(times))}" if times else ""
    text = f"Group {group} is behind by {format_count(count, 'message')}{since}:"
    yield Action(text, f"rocketstore lag {path} --group {shlex.quote(group)}")
