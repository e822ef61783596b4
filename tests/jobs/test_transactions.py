"""Transactions of applications: a batch that is written again is stored once, whatever ended the first write."""

import json
import os
from collections import Counter

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")

from support.puts import BEGIN, config_of
from support.unfinished import make_pieces

import rocketstore
from rocketstore import CorruptFileError, Message, recover, verify
from rocketstore.jobs import intent as intent_module
from rocketstore.jobs import transactions
from rocketstore.jobs.intent import WriteIntent, intent_path, prepared_path
from rocketstore.jobs.transactions import Transaction, last_version
from rocketstore.store.write_job import write_pieces
from rocketstore.survey.places import StorePlaces

APP = "orders/流 ../app"


def write_into(root, *arguments, **options):
    write_pieces(StorePlaces.of(root), *arguments, **options)


@pytest.fixture
def root(tmp_path):
    """A store with one message, closed."""
    with rocketstore.open(tmp_path / "store", "a", config=config_of()) as store:
        store.put_message(Message("T", b"first"), store_timestamp=BEGIN)
    return tmp_path / "store"


def write(root, version, app=APP, job="job"):
    parts = [[[{"topic": "T", "body": b"%d of %d" % (i, version)}]] for i in range(3)]
    pieces = make_pieces(root, job, parts, config_of())
    write_pieces(
        StorePlaces.of(root), job, pieces, BEGIN + version, config=config_of(), transaction=Transaction(app, version)
    )


def bodies(root):
    with rocketstore.open(root) as store:
        return Counter(message.body for batch in store.scan() for message in batch)


def of(*versions):
    return Counter([b"first", *(b"%d of %d" % (i, version) for version in versions for i in range(3))])


def test_a_batch_that_is_written_again_is_stored_once(root):
    for version in (0, 0, 1, 0, 1, 5, 3, 5):
        write(root, version)
    assert bodies(root) == of(0, 1, 5)
    assert last_version(root, APP) == 5
    assert not prepared_path(root, "job").exists()


def test_each_application_has_versions_of_its_own(root):
    for app in ("a", "b", "a"):
        write(root, 7, app)
    assert bodies(root) == of(7, 7)
    assert [last_version(root, app) for app in ("a", "b", "c")] == [7, 7, -1]


def test_a_write_without_a_transaction_notes_nothing(root):
    pieces = make_pieces(root, "job", [[[{"topic": "T", "body": b"x"}]]], config_of())
    write_into(root, "job", pieces, BEGIN, config=config_of())
    assert not (root / transactions.DIRECTORY).exists()


def test_one_note_is_left_for_an_application_and_the_store_is_sound(root):
    for version in range(4):
        write(root, version)
    assert len(list((root / transactions.DIRECTORY).iterdir())) == 1
    assert not verify(root).findings
    with rocketstore.open(root, "r+") as store:
        store.put_message(Message("T", b"behind"))
    assert last_version(root, APP) == 3


def killed_at(root, version, module, name, before):
    """Have a process that writes a batch killed at a call of a function, before it or behind it."""
    pid = os.fork()
    if pid == 0:
        call = getattr(module, name)

        def kill(*arguments, **options):
            if not before:
                call(*arguments, **options)
            os._exit(9)

        try:
            setattr(module, name, kill)
            write(root, version, job="killed")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


STEPS = [
    (intent_module, "commit_transaction", True, False),
    (transactions, "make_directory", False, False),
    (transactions, "_committed", True, False),
    (transactions, "sync_path", True, True),
    (transactions, "sync_path", False, True),
    (intent_module, "commit_transaction", False, True),
]


@pytest.mark.parametrize("opens_first", [False, True])
@pytest.mark.parametrize(("module", "name", "before", "is_committed"), STEPS)
def test_a_batch_whose_writer_is_killed_is_stored_once_when_it_is_written_again(
    root, module, name, before, is_committed, opens_first
):
    write(root, 1)
    if name == "_committed":  # which is also called when the lock was taken
        calls = iter([None])
        original = transactions._committed

        def second(*arguments):
            if next(calls, "over") == "over":
                os._exit(9)
            return original(*arguments)

        pid = os.fork()
        if pid == 0:
            try:
                transactions._committed = second
                write(root, 2, job="killed")
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    else:
        killed_at(root, 2, module, name, before)
    assert (last_version(root, APP) == 2) == is_committed
    assert intent_path(root).exists() != is_committed
    if opens_first:
        with rocketstore.open(root, "r+", config=config_of()):
            pass
        assert (last_version(root, APP) == 2) == is_committed
        assert bodies(root) == (of(1, 2) if is_committed else of(1))
    write(root, 2)
    assert bodies(root) == of(1, 2)
    assert last_version(root, APP) == 2


def test_a_commit_that_fails_is_undone_and_not_recorded(root, monkeypatch):
    write(root, 1)

    def fail(path, held):
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "sync_path", fail)
        with pytest.raises(OSError, match="Input/output"):
            write(root, 2)
    assert last_version(root, APP) == 1
    assert bodies(root) == of(1)
    write(root, 2)
    assert bodies(root) == of(1, 2)


def test_a_batch_that_another_writer_continued_behind_is_recorded_and_not_cut(root):
    """A broker, which knows no intents, was started after the crash and took a message."""
    killed_at(root, 2, intent_module, "commit_transaction", before=True)
    aside = intent_path(root).rename(root.with_name("aside"))
    with rocketstore.open(root, "r+", config=config_of()) as store:
        store.put_message(Message("T", b"of a broker"))
    aside.rename(intent_path(root))
    recover(root, config=config_of())
    assert last_version(root, APP) == 2
    write(root, 2)
    assert bodies(root) == of(2) + Counter([b"of a broker"])


@pytest.mark.parametrize("wrong", [["", 1], ["a", -1], ["a", "1"], ["a", 1 << 63], ["a"], "a", [1, 2], ["a", True]])
def test_an_intent_with_a_transaction_that_cannot_be_is_damaged(root, wrong):
    killed_at(root, 2, intent_module, "commit_transaction", before=True)
    fields = json.loads(intent_path(root).read_bytes())
    assert fields["transaction"] == [APP, 2]
    intent_path(root).write_text(json.dumps(fields | {"transaction": wrong}))
    with pytest.raises(CorruptFileError):
        WriteIntent.read(root)
    fields["transaction"] = None
    intent_path(root).write_text(json.dumps(fields))
    assert WriteIntent.read(root).transaction is None


def test_names_that_are_no_notes_are_ignored(root):
    write(root, 3)
    (note,) = (root / transactions.DIRECTORY).iterdir()
    for name in ("note", f"{note.name}.bak", note.name.replace("0000003", "00000x9"), "x" * 40 + note.name[40:]):
        (root / transactions.DIRECTORY / name).touch()
    assert last_version(root, APP) == 3
