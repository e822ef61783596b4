"""After a kill, or with a damaged tail of the log, the store has the acknowledged messages and no others."""

import itertools
import random
import shutil
from pathlib import Path

import pytest
from reference.commit_log import read_files, scan, walk_file
from support.crash_writer import CLOSED, OPENED, message, plan, run_writer, store_config
from support.repetitions import only_some_quick
from support.sound_store import check_files, check_readable, check_recovery, cuts

import rocketstore
from rocketstore import CorruptFileError

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

# ---- real processes, really killed -------------------------------------------------------------------------

FORMS = [
    (flush_disk_type, threads, kills)
    for flush_disk_type, threads in (("SYNC_FLUSH", 1), ("ASYNC_FLUSH", 3))
    for kills in (4, 10)
]
OPERATIONS = 400


@pytest.mark.parametrize(("flush_disk_type", "threads", "kills"), only_some_quick(FORMS, ("SYNC_FLUSH", 1, 4)))
def test_a_killed_writer_leaves_all_that_was_acknowledged(flush_disk_type, threads, kills, tmp_path, seed):
    """One store, written by one process after the other; every second is killed early, even while it opens."""
    rng = random.Random(f"{seed}/kill/{flush_disk_type}")
    root, config, acks = tmp_path / "store", store_config(flush_disk_type), []
    ends = []
    for session in range(kills):
        run = run_writer(
            root,
            session=f"s{session}",
            seed=seed,
            flush_disk_type=flush_disk_type,
            threads=threads,
            operations=OPERATIONS,
            kill_after=rng.randrange(20, 50) if session % 2 else rng.choice([1, 2, 3, rng.randrange(4, 20)]),
            pause=rng.random() * rng.choice([0.0002, 0.002, 0.03]),
        )
        assert run.status == -9, run.errors
        acks += run.acks
        ends.append((len(run.acks), OPENED in run.said))
        check_readable(root, config, run.acks)
        found = check_recovery(root, config, acks, f"s{session}")
    print(f"acknowledged in each session, and whether it had opened the store: {ends}")
    assert len(found.files) > 2, "the log was never rolled"
    assert all(acked > 0 for acked, _ in ends[1::2]), "a writer did not come to write"


def test_a_writer_that_ends_by_itself_leaves_nothing_to_recover(tmp_path, seed):
    root, acks = tmp_path / "store", []
    for session in range(2):
        run = run_writer(root, session=f"s{session}", seed=seed, operations=60, threads=2)
        assert run.status == 0, run.errors
        assert CLOSED in run.said
        assert not (root / "abort").exists()
        assert run.flushed == run.acks
        acks += run.acks
        check_files(root, store_config(), acks)
    check_readable(root, store_config(), acks)


# ---- the tail of a log, damaged ------------------------------------------------------------------------------

TAIL = 64 << 10
SECTOR = 512
BLANK_HEADER = 8
CLASSES = 32  # of all lengths, each round of the soak takes every 32nd, and another 32nd than the last


class Sample:
    """A store with a log of a little more than 64 KiB, closed or as a crash leaves it, and where its records are."""

    def __init__(self, directory, seed, is_closed):
        self.root, self.config = Path(directory, "sample"), store_config()
        numbers = itertools.count()
        store = rocketstore.open(self.root, "a", config=self.config)
        while store.commit_log.max_phy_offset < TAIL + 5_000:
            store.put_messages([message(plan(f"{seed}-{next(numbers)}")) for _ in range(10)])
        store.flush()
        if not is_closed:
            self.root = Path(shutil.copytree(self.root, Path(directory, "crashed")))
        store.close()
        self.files = read_files(self.root / "commitlog")
        self.records = {at: record.total_size for at, record in scan(self.files)}
        walked = [(start + position, end) for start, data in self.files.items() for position, end in walk_file(data)]
        self.blanks = [at for at, end in walked if end.success and end.size == 0]
        self.end = max(at + size for at, size in self.records.items())

    def damaged(self, files, target):
        """A copy of the store with these files of the log."""
        shutil.copytree(self.root, target)
        shutil.rmtree(target / "commitlog")
        (target / "commitlog").mkdir()
        for start, data in files.items():
            (target / "commitlog" / f"{start:020}").write_bytes(data)
        return target

    def is_whole(self, files, at):
        """Whether a record or a blank is as it was."""
        start = max(start for start in self.files if start <= at)
        part = slice(at - start, at - start + self.records.get(at, BLANK_HEADER))
        return files.get(start, b"")[part] == self.files[start][part]


def cut_files(sample, end, is_short):
    """The log up to a physical offset: zeros behind it, or no bytes."""
    files = {}
    for start, data in sample.files.items():
        kept = data[: max(end - start, 0)]
        if kept or start == 0:
            files[start] = kept if is_short else kept.ljust(len(data), b"\0")
    return files


def zeroed_files(sample, position):
    """The log with one sector of zeros."""
    files = dict(sample.files)
    start = max(start for start in files if start <= position)
    data = bytearray(files[start])
    data[position - start : position - start + SECTOR] = bytes(len(data[position - start :][:SECTOR]))
    return {**files, start: bytes(data)}


def tree(root):
    """All names and bytes; the lock is there to be taken."""
    files = {path.relative_to(root): path for path in root.rglob("*") if path.name != "lock"}
    return {name: path.read_bytes() if path.is_file() else None for name, path in files.items()}


def check_damaged(sample, files, target):
    """Opening for writing keeps every whole record before the damage, or raises an error and changes nothing.

    After a clean stop the bodies at the end are not read, so damage there may be left as it is.
    """
    is_trusted = not (sample.root / "abort").exists()
    root = sample.damaged(files, target)
    before = tree(root)
    lost = [at for at in sample.records if not sample.is_whole(files, at)]
    first_lost = min(lost, default=sample.end)
    first_damage = min([first_lost, *(at for at in sample.blanks if not sample.is_whole(files, at))])
    is_tail = not any(at > first_damage for at in sample.records if at not in lost)
    try:
        store = rocketstore.open(root, "a", config=sample.config)
    except CorruptFileError:
        assert tree(root) == before, "what was refused has been changed"
        assert any(len(files[start]) != len(sample.files[start]) for start in files) or not is_tail or not lost
        outcome = "refused"
    else:
        store.close()
        left = read_files(root / "commitlog")
        for at in sample.records:
            assert at in lost or sample.is_whole(left, at), f"{at} was sound, and is gone"
        if is_tail and not (is_trusted and left == {**left, **files}):
            found = check_files(root, sample.config)
            assert [at for at, _ in found.records] in (
                sound := [at for at in sample.records if at < first_lost],
                [*sound, *found.torn],
            )
        outcome = "opened"
    shutil.rmtree(root)
    return outcome, is_tail


@pytest.fixture(scope="module", params=["crashed", "closed"])
def sample(request, tmp_path_factory, seed):
    return Sample(tmp_path_factory.mktemp("sample"), seed, request.param == "closed")


def cut_all(sample, ends, forms, directory):
    outcomes = [
        check_damaged(sample, cut_files(sample, end, is_short), directory / f"{end}")[0]
        for end, is_short in zip(ends, forms, strict=True)
    ]
    assert outcomes.count("opened") >= forms.count(False), "a tail of zeros is an end"


def zero_all(sample, positions, directory):
    for position in positions:
        check_damaged(sample, zeroed_files(sample, position), directory / f"{position}")


def test_a_log_that_was_cut_keeps_every_whole_record(sample, tmp_path, seed):
    rng = random.Random(f"{seed}/cut")
    boundaries = [at + delta for at in sorted(sample.records)[-20:] for delta in (-1, 0, 1)]
    ends = [rng.randint(sample.end - TAIL, sample.end) for _ in range(7)] + rng.sample(boundaries, 5)
    cut_all(sample, ends, [rng.random() < 0.3 for _ in ends], tmp_path)


def test_a_sector_of_zeros_loses_no_sound_record(sample, tmp_path, seed):
    rng = random.Random(f"{seed}/sector")
    sectors = range((sample.end - TAIL) // SECTOR * SECTOR, sample.end, SECTOR)
    zero_all(sample, [*rng.sample(sectors, 6), sectors[-1], sectors[-2]], tmp_path)


@pytest.mark.slow
def test_every_length_of_the_tail_keeps_every_whole_record(sample, tmp_path, seed):
    """Half of the lengths for each sample."""
    first = sample.end - TAIL + seed % CLASSES + (CLASSES if (sample.root / "abort").exists() else 0)
    rng = random.Random(f"{seed}/every length")
    ends = range(first, sample.end + 1, 2 * CLASSES)
    cut_all(sample, ends, [rng.random() < 0.2 for _ in ends], tmp_path)


@pytest.mark.slow
def test_every_sector_of_the_tail_loses_no_sound_record(sample, tmp_path):
    zero_all(sample, range((sample.end - TAIL) // SECTOR * SECTOR, sample.end, SECTOR), tmp_path)


def test_a_blank_of_zeros_loses_no_sound_record(sample, tmp_path):
    for at in sample.blanks:
        start = max(start for start in sample.files if start <= at)
        data = bytearray(sample.files[start])
        data[at - start : at - start + BLANK_HEADER] = bytes(BLANK_HEADER)
        check_damaged(sample, {**sample.files, start: bytes(data)}, tmp_path / f"{at}")


def test_damage_with_sound_records_behind_it_is_an_error_that_names_salvage(sample, tmp_path):
    *_, at, _ = sorted(sample.records)
    start = max(start for start in sample.files if start <= at)
    data = bytearray(sample.files[start])
    data[at - start + 4] ^= 1  # in the magic code
    root = sample.damaged({**sample.files, start: bytes(data)}, tmp_path / "store")
    before = tree(root)
    with pytest.raises(CorruptFileError, match="salvage") as raised:
        rocketstore.open(root, "a", config=sample.config)
    assert (raised.value.path, raised.value.offset) == (root / "commitlog" / f"{start:020}", at - start)
    assert tree(root) == before


def test_bytes_that_are_cut_are_zeroed_and_saved_beside_the_store(sample, tmp_path):
    last = max(sample.records)
    start = max(start for start in sample.files if start <= last)
    data = bytearray(sample.files[start])
    data[last - start + 4] ^= 1  # in the magic code
    root = sample.damaged({**sample.files, start: bytes(data)}, tmp_path / "store")
    with rocketstore.open(root, "a", config=sample.config) as store:
        assert store.commit_log.max_phy_offset == last
    assert not any((root / "commitlog" / f"{start:020}").read_bytes()[last - start :])
    (kept,) = cuts(root)
    assert kept.read_bytes().startswith(bytes(data[last - start :][: sample.records[last]]).rstrip(b"\0"))
