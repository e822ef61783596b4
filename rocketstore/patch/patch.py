"""patch: put records in place of damaged ones, in the files of a store."""

from __future__ import annotations

import os

from rocketstore.config import StoreConfig
from rocketstore.disk.store_path import StorePath
from rocketstore.errors import StoreLockedError
from rocketstore.lost.plan import plan_patch
from rocketstore.patch.apply import apply_patch
from rocketstore.patch.patch_report import PatchReport, make_report
from rocketstore.progress import Progress, show_progress
from rocketstore.recovery.store_files import open_store_files
from rocketstore.survey.requirements import begin_entry, locked
from rocketstore.survey.survey import Survey
from rocketstore.verify.findings import VerifyReport
from rocketstore.verify.verify import Verification, choose_threads


def patch(
    path: str | os.PathLike[str] | StorePath,
    *,
    dry_run: bool = False,
    report: VerifyReport | None = None,
    threads: int | None = None,
    config: StoreConfig | None = None,
    progress: Progress = False,
) -> PatchReport:
    """Put records in place of damaged ones, in the files of a store that no process is writing.

    A broker ends its log at damaged bytes, and loses all records behind them. The units of queues know which record
    stood there. So each gets a record of the same size, topic, queue id and queue offset, and with the tags of its
    unit if a sound message shows them. It has the store time of the record before the damage, a body of blanks, the
    property ``DAMAGED`` with the value 1 (``D``, or none, if there is no room), and the column ``damaged``. Bytes to
    which no unit leads become records of the topic ``ROCKETSTORE_DAMAGED``, which get no unit and are never consumed.

    A sound record of which only topic, queue id or queue offset changed gets those of its unit again, and is not lost.
    Physical offsets, message ids, queues, queue offsets and the index stay as they are. The old bytes are saved in
    ``rocketstore-cut`` first. A second call changes nothing. A call that was killed can be repeated.

    A range stays as it is if units contradict each other, or if a broker itself reads the messages there and no record
    is known to be harmless. ``refused`` has these ranges, and ``salvage`` copies the rest.

    Parameters
    ----------
    path : the root of the store.
    dry_run : change nothing, not even the lock file.
    report : of a full ``verify`` of the store as it is. Its damage is patched, and the log is not read again. None:
        verify the store now.
    threads, progress : as for ``verify``.
    config : sizes of files, and directories of the log, as for ``open``.

    Returns
    -------
    PatchReport.

    Raises
    ------
    StoreLockedError : a broker, or another writer, has the store open. UnsupportedFormatError : the log is DLedger's,
        or the queues, or the topics, are in RocksDB. ValueError : ``report`` is of a quick verification. StoreError,
        OSError.

    Source: none; a broker cuts its log off at the first bytes that it cannot read.

    Examples:
    >>> report = rocketstore.patch("demo", dry_run=True)
    >>> report.ranges, report.lost
    (0, ())
    """
    survey = begin_entry("patch", path, config)
    if report is None:
        with show_progress(progress, "patch") as shown:
            report = Verification(survey).run(quick=False, threads=choose_threads(threads), progress=shown)
    if report.quick:
        raise ValueError("report: of a quick verification, which does not read all of the log: verify without quick")
    if report.is_locked:
        raise StoreLockedError(f"{survey.places.lock} is held by another process: stop the broker first")
    if dry_run:
        return _plan_only(survey, report)
    with locked("patch", survey) as now:
        return _patch(now, report)


def _plan_only(survey: Survey, report: VerifyReport) -> PatchReport:
    with open_store_files(survey, survey.assume_sized_config()[0]).log as log:
        return make_report(plan_patch(survey.local_places, survey.settings, log, report.damaged), dry_run=True)


def _patch(now: Survey, report: VerifyReport) -> PatchReport:
    """Patch a store whose lock is held. Parameters: now: the survey under the lock."""
    with open_store_files(now, now.find_sized_config()).log as log:
        plan = plan_patch(now.local_places, now.settings, log, report.damaged)
        now.require_unchanged()
        return make_report(plan, saved=apply_patch(plan, log, now.local_places.saved_cuts))
