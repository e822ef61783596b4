"""Each call that a short session makes on a store fails once: an error says so, and nothing acknowledged is lost.

The calls are failed by a library that is preloaded into an interpreter of its own (tests/c/faults.c, faults.py).
"""

import argparse
import faulthandler
import random
import shutil
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import pytest
from support.crash_writer import BATCH_TOPIC, Ack, make_topics, message, plan, store_config
from support.faults import Faults, build, environment
from support.sound_store import check_recovery

import rocketstore
from rocketstore import Message, StoreError
from rocketstore.index import index_writer

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

ERRORS = [("EIO", False), ("ENOSPC", False), ("ENOSPC", True), ("SHORT", False)]
CASES = [
    (kind, error, for_ever)
    for kind in ("sync", "write", "allocate", "rename", "open", "mmap")
    for error, for_ever in ERRORS
    if error != "SHORT" or kind == "write"
]
CLASSES = 32  # of all calls, each round of the soak takes every 32nd, and another 32nd than the last
HANGS = 60  # seconds


# ---- in the child ------------------------------------------------------------------------------------------


class Session:
    """A short life of a store, with every kind of call. What fails is noted, and the next thing is tried."""

    def __init__(self, root, config):
        self.root, self.config = root, config
        self.acks, self.errors, self.turn = [], [], 0
        self.store = None
        self.is_broken = False  # the store that is open refused something

    def attempt(self, what, *args):
        try:
            return what(*args)
        except (OSError, StoreError) as error:
            self.errors.append(error)
            return None

    def run(self):
        self.attempt(make_topics, self.root)
        if self.errors:
            self.attempt(make_topics, self.root)
        if len(self.errors) > 1:
            return
        for _ in range(2):
            self.store = self.attempt(self.open) or self.attempt(self.open)
            if self.store is None:
                return
            before = len(self.errors)
            self.write()
            self.is_broken = len(self.errors) > before
            if self.is_broken:
                return
            self.attempt(self.store.close)

    def open(self):
        return rocketstore.open(self.root, "a", config=self.config)

    def write(self):
        for many in (1, 1, 30, 1, 12, 1):
            self.attempt(self.put, many)
        self.attempt(self.put_inner_batch)
        self.attempt(self.store.flush)
        self.attempt(self.put, 2)
        for ack in self.acks[-2:]:
            self.attempt(self.store.get_message, ack.topic, ack.queue_id, ack.queue_offset, 1)
            self.attempt(self.store.query_message, ack.topic, ack.ident)

    def idents(self, many, suffix=""):
        self.turn += 1
        return [f"{self.turn}.{n}{suffix}" for n in range(many)]

    def put(self, many):
        idents = self.idents(many)
        plans = [plan(each) for each in idents]
        if many == 1:
            result = self.store.put_message(message(plans[0]))
            rows = [(result.queue_id, result.queue_offset, result.phy_offset, result.size)]
        else:
            result = self.store.put_messages([message(each) for each in plans])
            columns = (result.queue_ids, result.queue_offsets, result.phy_offsets, result.sizes)
            rows = zip(*columns, strict=True)
        self.acks += [Ack.of(*row[:2], *row[2]) for row in zip(idents, plans, rows, strict=True)]

    def put_inner_batch(self):
        idents = self.idents(3, f"/{BATCH_TOPIC}/1")
        plans = [plan(each) for each in idents]
        batch = Message.batch(BATCH_TOPIC, [message(each) for each in plans])
        batch.queue_id = 1
        result = self.store.put_message(batch)
        for n, (each, planned) in enumerate(zip(idents, plans, strict=True)):
            self.acks.append(Ack.of(each, planned, 1, result.queue_offset + n, result.phy_offset, result.size))


def count_calls(faults, kind, directory, config):
    root = directory / "whole"
    faults.watch(root)
    session = Session(root, config)
    session.run()
    assert not session.errors, session.errors
    return faults.count(kind)


def fail_one(faults, case, nth, root, config):
    """Run a session in which one call fails. Return the failed call, "" if the session ended before it."""
    faulthandler.dump_traceback_later(HANGS, exit=True)
    faults.watch(root)
    faults.arm(case.kind, nth, case.error, for_ever=case.for_ever)
    session = Session(root, config)
    session.run()
    fired = faults.fired
    faults.disarm()
    check_later_puts(session, case.kind, fired)
    print(f"{case.kind} {nth}: {fired or 'not reached'}: {[str(error) for error in session.errors[:2]]}", flush=True)
    faults.ignore()
    if root.exists():
        check_recovery(Path(shutil.copytree(root, f"{root}-killed")), config, session.acks, "killed")
        if session.store is not None:
            session.attempt(session.store.close)
        check_recovery(root, config, session.acks, "closed")
    assert not background_errors, background_errors
    faulthandler.cancel_dump_traceback_later()
    return fired


def fail_one_of_the_first(faults, case, nth, config):
    """Let the nth call fail. A session may end before it, since its threads share calls: then an earlier call fails."""
    while not fail_one(faults, case, nth, case.directory / f"{nth}", config):
        assert nth > 1, f"a session without a call of {case.kind}"
        nth //= 2


def check_later_puts(session, kind, fired):
    """After a sync of the log failed nothing is taken any more: nobody knows what of it is on the disk.

    A new file of zeros may be made again.
    """
    if kind != "sync" or "/commitlog/" not in fired or fired.startswith("sync of zeros"):
        return
    assert session.errors, f"nobody was told: {fired}"
    if not session.is_broken:
        return
    before = len(session.errors), len(session.acks)
    session.attempt(session.put, 1)
    session.attempt(session.store.flush)
    assert (len(session.errors), len(session.acks)) == (before[0] + 2, before[1]), f"taken after {fired}"
    assert all(isinstance(error, StoreError) for error in session.errors[-2:])


background_errors = []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kind")
    parser.add_argument("--error")
    parser.add_argument("--for-ever", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--step", type=int)
    case = parser.parse_args()
    threading.excepthook = lambda arguments: background_errors.append(repr(arguments.exc_value))
    sys.unraisablehook = lambda arguments: background_errors.append(repr(arguments.exc_value))
    index_writer.CREATE_RETRY_SECONDS = 0
    faults, config = Faults(), store_config()
    calls = count_calls(faults, case.kind, case.directory, config)
    assert calls > 0
    chosen = range(1 + case.seed % min(case.step, calls), calls + 1, case.step)
    wrong = []
    for nth in chosen:
        try:
            fail_one_of_the_first(faults, case, nth, config)
        except Exception:
            wrong.append(f"{case.kind} {nth}: {faults.fired}\n{traceback.format_exc(limit=-4)}")
    assert not wrong, f"{len(wrong)} of {len(chosen)} calls:\n" + "\n".join(wrong)


# ---- in the parent -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return environment(build(tmp_path_factory.mktemp("faults")))


def run_child(env, directory, kind, error, for_ever, seed, step):
    command = [sys.executable, "-X", "faulthandler", __file__, str(directory), f"--kind={kind}", f"--error={error}"]
    command += [f"--seed={seed}", f"--step={step}", *(["--for-ever"] if for_ever else [])]
    run = subprocess.run(command, env=env, text=True, capture_output=True, timeout=400, check=False)
    print(run.stdout)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stderr[-20000:]}"


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in CASES}))
def test_a_call_that_fails_loses_nothing(kind, env, tmp_path, seed):
    """Corner 56."""
    _, error, for_ever = random.Random(f"{seed}/{kind}").choice([case for case in CASES if case[0] == kind])
    run_child(env, tmp_path, kind, error, for_ever, seed, 4 * CLASSES)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "error", "for_ever"), CASES)
def test_whichever_call_fails_it_loses_nothing(kind, error, for_ever, env, tmp_path, seed):
    run_child(env, tmp_path, kind, error, for_ever, seed, CLASSES)


if __name__ == "__main__":
    main()
