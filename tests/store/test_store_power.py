"""The power fails while a store is written: messages that were acknowledged as synced are found again.

A process that is killed leaves its page cache behind, so a library that is preloaded into the writer keeps a journal of
what was synced, and kills the writer before some call. power.py makes images of what a disk may then hold.
"""

import random
import shutil

import pytest
from support.crash_writer import run_writer, store_config
from support.faults import DIRECTORY_SYNCS_LIE, FILE_SYNCS_LIE, build, environment
from support.power import Disk
from support.sound_store import check_recovery

import rocketstore
from rocketstore import CorruptFileError

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

IMAGES = 4  # of each session
OPERATIONS = 30


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return environment(build(tmp_path_factory.mktemp("faults")))


class Machine:
    """A store that one writer after the other writes, each until the power goes."""

    def __init__(self, directory, env, flush_disk_type, seed, lies=0, ext=0):
        self.directory, self.env, self.flush_disk_type, self.lies = directory, env, flush_disk_type, lies
        self.seed, self.rng, self.ext = seed, random.Random(f"{seed}/power/{flush_disk_type}/{lies}"), ext
        self.root = directory / "store"
        self.root.mkdir()
        self.durable = []  # messages that were acknowledged as synced
        self.sessions = 0

    def run(self, kill_at=0, operations=OPERATIONS):
        """Write until the power goes before a call. Gives the disk, and what the writer said."""
        self.sessions += 1
        disk = Disk.of(self.root)
        shadow = self.directory / f"shadow{self.sessions}"
        shadow.mkdir()
        run = run_writer(
            self.root,
            session=f"s{self.sessions}",
            seed=self.seed,
            env=self.env,
            flush_disk_type=self.flush_disk_type,
            threads=self.rng.choice([1, 3]),
            operations=operations,
            record=shadow,
            lies=self.lies,
            ext=self.ext,
            kill_at=kill_at,
        )
        assert run.status == 0 or (kill_at and run.status == -9), run.errors  # it may end before that call
        self.durable += run.acks if self.flush_disk_type == "SYNC_FLUSH" else run.flushed
        return disk.replay(shadow), run

    def images(self, disk):
        """Directories as they may be after the loss. The caller may change them."""
        for number in range(IMAGES):
            yield disk.image(self.directory / f"image{self.sessions}-{number}", self.rng)

    def go_on_with(self, image):
        self.root = image


def cut_if_refused(root, config):
    """Cut the log at damage if sound records stand behind it: later sectors reached the disk, and earlier ones did not.

    Opening for writing refuses such a store. Messages that were acknowledged as synced are before the damage. Before
    the first file was on the disk there is no store.
    """
    if not (root / "commitlog").is_dir():
        return
    try:
        rocketstore.recover(root, dry_run=True, config=config)
    except CorruptFileError:
        before = files_of(root)
        with pytest.raises(CorruptFileError, match="--cut-at-damage"):
            rocketstore.open(root, "a", config=config)
        assert files_of(root) == before
        dry = rocketstore.recover(root, cut_at_damage=True, dry_run=True, config=config)
        assert files_of(root) == before
        report = rocketstore.recover(root, cut_at_damage=True, config=config)
        assert report.lost == dry.lost != ()


def files_of(root):
    """All files but the lock, which each writer makes."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "lock"}


def check_loss_of_power(root, config, durable, name):
    """Make the store sound, and find all messages that were acknowledged as synced."""
    cut_if_refused(root, config)
    check_recovery(root, config, durable, name)


@pytest.mark.parametrize(
    ("flush_disk_type", "ext", "sessions"),
    [
        pytest.param("SYNC_FLUSH", 1, 2, id="SYNC_FLUSH-ext"),
        pytest.param("ASYNC_FLUSH", 0, 2, id="ASYNC_FLUSH-plain", marks=pytest.mark.slow),
        pytest.param("SYNC_FLUSH", 1, 6, id="SYNC_FLUSH-ext-longer", marks=pytest.mark.slow),
        pytest.param("ASYNC_FLUSH", 0, 6, id="ASYNC_FLUSH-plain-longer", marks=pytest.mark.slow),
        pytest.param("SYNC_FLUSH", 0, 6, id="SYNC_FLUSH-plain", marks=pytest.mark.slow),
        pytest.param("ASYNC_FLUSH", 1, 6, id="ASYNC_FLUSH-ext", marks=pytest.mark.slow),
    ],
)
def test_acknowledged_messages_survive_a_loss_of_power(flush_disk_type, ext, sessions, env, tmp_path, seed):
    """One store over several losses of power; the next writer, too, may be caught while it still recovers."""
    machine = Machine(tmp_path, env, flush_disk_type, seed, ext=ext)
    (tmp_path / "whole").mkdir()
    calls = Machine(tmp_path / "whole", env, flush_disk_type, seed, ext=ext).run()[1].calls
    config = store_config(flush_disk_type, bool(ext))
    for session in range(sessions):
        # Every second one has come to write, and the others may still be opening.
        kill_at = machine.rng.randint(calls // 2, calls) if session % 2 else machine.rng.randint(1, 60)
        disk, _ = machine.run(kill_at=kill_at)
        images = list(machine.images(disk))
        chosen = machine.rng.choice(images)
        following = shutil.copytree(chosen, tmp_path / f"store{session}")
        for image in images:
            check_loss_of_power(image, config, machine.durable, f"r{session}")
        cut_if_refused(following, config)
        machine.go_on_with(following)
    print(f"{len(machine.durable)} messages")
    assert machine.durable or flush_disk_type == "ASYNC_FLUSH"


@pytest.mark.parametrize("lies", [FILE_SYNCS_LIE, DIRECTORY_SYNCS_LIE], ids=["files", "directories"])
def test_without_syncs_messages_are_lost(lies, env, tmp_path, seed):
    """So the test above can fail: the syncs of files, or of directories, say here that they did what they did not."""
    machine = Machine(tmp_path, env, "SYNC_FLUSH", seed, lies)
    disk, run = machine.run()
    assert len(run.acks) > 30
    lost = 0
    for image in machine.images(disk):
        try:
            check_loss_of_power(image, store_config(), machine.durable, "meta")
        except Exception as error:
            print(f"{type(error).__name__}: {str(error)[:200]}")
            lost += 1
    assert lost > 0


def test_an_orderly_end_is_all_on_the_disk(env, tmp_path, seed):
    """After close() a loss of power changes nothing: no file has a byte, or a name, that was not synced."""
    machine = Machine(tmp_path, env, "ASYNC_FLUSH", seed)
    disk, run = machine.run()
    for image in machine.images(disk):
        for path in machine.root.rglob("*"):
            twin = image / path.relative_to(machine.root)
            assert twin.exists(), f"{path}: its name is not on the disk"
            assert path.is_dir() or twin.read_bytes() == path.read_bytes(), f"{path}: its bytes are not on the disk"
        check_recovery(image, store_config("ASYNC_FLUSH"), run.acks, "end")
