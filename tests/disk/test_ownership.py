"""Modes and owners of files that rocketstore makes in a store, and links in place of its files."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.profiles import SMALL

import rocketstore
from rocketstore import CorruptFileError, Message, StoreConfig, StoreError
from rocketstore.disk.create import create_directory, create_file, open_own_file

CONFIG = StoreConfig(**SMALL)
OWNER = 1234  # user and group of the store; nobody has this number
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who alone can act for another user")


@pytest.fixture(autouse=True)
def umask():
    old = os.umask(0o022)
    yield
    os.umask(old)


@pytest.fixture
def root():
    """A store of some files of each kind, in a directory that its owner can enter: pytest's own are root's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "store"
        with rocketstore.open(path, "a", config=CONFIG) as store:
            put(store, 200)
        yield path


def put(store, count):
    store.put_messages([Message("T", b"x" * 50, keys=[str(i)], queue_id=i % 3) for i in range(count)])


def below(directory):
    return [directory, *directory.rglob("*")]


def give_to_owner(directory, file_mode=0o644, directory_mode=0o755):
    for path in below(directory):
        path.chmod(directory_mode if path.is_dir() else file_mode)
        os.chown(path, OWNER, OWNER)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def modes_by_kind(directory):
    """Return the set of modes that the files of a store have, and of those that its directories have."""
    paths = below(directory)
    return {mode_of(path) for path in paths if path.is_file()}, {mode_of(path) for path in paths if path.is_dir()}


def rebuild(root):
    rocketstore.rebuild(root)


def recover_without_queues(root):
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")
    (root / "abort").touch()
    os.chown(root / "abort", OWNER, OWNER)
    rocketstore.recover(root, config=CONFIG)


def put_to_new_files(root):
    with rocketstore.open(root, "a") as store:
        put(store, 400)
        store.put_message(Message("new topic", b"x"))


def cut_a_torn_tail(root):
    log = max((root / "commitlog").iterdir())
    with rocketstore.open(root) as store:
        end = store.commit_log.max_phy_offset % CONFIG.mapped_file_size_commit_log
    with log.open("r+b") as file:
        file.seek(end)
        file.write((500).to_bytes(4, "big") + b"\xda\xa3\x20\xa7" + b"x" * 20)
    (root / "abort").touch()
    os.chown(root / "abort", OWNER, OWNER)
    assert rocketstore.recover(root, config=CONFIG).actions


def make_topic(root):
    with rocketstore.open(root, "a") as store:
        store.create_topic("another", 4)


def import_rows(root):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    rows = root.with_name("rows.jsonl")
    rows.write_text('{"topic": "imported", "body": "x"}\n')
    subprocess.run([sys.executable, "-m", "rocketstore", "import", str(rows), str(root)], check=True)


CHANGES = [rebuild, recover_without_queues, put_to_new_files, cut_a_torn_tail, make_topic, import_rows]


@as_root
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mask", [pytest.param(0o022, marks=pytest.mark.slow), 0o077])
def test_what_root_makes_belongs_to_the_owner_of_the_store(root, change, mask):
    give_to_owner(root)
    os.umask(mask)
    change(root)
    foreign = [path for path in below(root) if (path.stat().st_uid, path.stat().st_gid) != (OWNER, OWNER)]
    assert foreign == []
    script = (  # the modules are imported before the process becomes another user's
        f"import os, rocketstore; rocketstore.Message; os.setgid({OWNER}); os.setuid({OWNER})\n"
        f"with rocketstore.open({str(root)!r}, 'a') as store: store.put_message(rocketstore.Message('T', b'x'))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("file_mode", "directory_mode"), [(0o600, 0o700), (0o640, 0o750), (0o600, 0o755)])
def test_new_files_can_be_read_by_no_more_people_than_those_beside_them(root, change, file_mode, directory_mode):
    for path in below(root):
        path.chmod(directory_mode if path.is_dir() else file_mode)
    if os.geteuid() == 0:
        give_to_owner(root, file_mode, directory_mode)
    change(root)
    numbered = [path for path in below(root) if path.is_file() and path.name.isdecimal()]
    cut = list((root / "rocketstore-cut").glob("*"))
    assert {mode_of(path) for path in (*numbered, *cut)} == {file_mode}
    others = {path for path in below(root) if path.is_file()} - {*numbered, *cut}
    assert [path for path in others if mode_of(path) & ~(directory_mode & 0o644)] == []
    directories = {mode_of(path) for path in below(root) if path.is_dir()}
    assert directories == {directory_mode}


def test_a_copy_that_salvage_makes_is_as_private_as_the_original(root, tmp_path):
    for path in below(root):
        path.chmod(0o700 if path.is_dir() else 0o600)
    rocketstore.salvage(root, tmp_path / "out")
    assert modes_by_kind(tmp_path / "out") == ({0o600}, {0o700})


def test_a_copy_that_salvage_makes_of_private_files_in_public_directories_is_private(root, tmp_path):
    for path in below(root):
        path.chmod(0o755 if path.is_dir() else 0o600)
    rocketstore.salvage(root, tmp_path / "out")
    public = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and mode_of(path) & 0o077]
    assert {path.name for path in public} <= {"checkpoint", "lock", "rocketstore.json", "topics.json"}


def test_salvage_follows_no_link_out_of_the_store(root, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "x"}')
    (root / "config" / "other.json").symlink_to(secret)
    with pytest.warns(UserWarning, match=r"other\.json: leads out of the store and is not copied"):
        rocketstore.salvage(root, tmp_path / "out")
    assert not (tmp_path / "out" / "config" / "other.json").exists()


@pytest.mark.parametrize("name", ["abort", "lock", "checkpoint"])
def test_a_link_in_the_place_of_a_file_leaves_its_target_unchanged(root, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_bytes(bytes(4096))
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(victim)
    with rocketstore.open(root, "a") as store:
        put(store, 3)
    assert victim.read_bytes() == bytes(4096)


@pytest.mark.parametrize("name", ["abort", "lock", "checkpoint"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_named(root, name):
    (root / name).unlink(missing_ok=True)
    os.mkfifo(root / name)
    with pytest.raises(CorruptFileError, match=rf"{name}: file type.*a regular file was expected"):
        rocketstore.open(root, "a")
    assert stat.S_ISFIFO((root / name).stat().st_mode)


def test_a_link_to_a_missing_file_makes_no_file_there(root, tmp_path):
    for name in ("abort", "lock"):
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(tmp_path / "missing")
        if name == "abort":
            shutil.rmtree(root / "index")
            rocketstore.recover(root, config=CONFIG)
            assert not (tmp_path / "missing").exists()
            (root / name).unlink(missing_ok=True)
            (root / name).symlink_to(tmp_path / "missing")
            rocketstore.open(root, "a").close()
        else:
            with pytest.raises(StoreError, match=r"lock: is a link to a file that is missing"):
                rocketstore.open(root, "a")
        assert not (tmp_path / "missing").exists()


def test_the_lock_that_a_link_leads_to_is_taken(root, tmp_path):
    """A broker that was started with this link locks its target."""
    (root / "lock").rename(tmp_path / "locked")
    (root / "lock").symlink_to(tmp_path / "locked")
    other = tmp_path / "other"
    other.mkdir()
    (other / "lock").symlink_to(tmp_path / "locked")
    with rocketstore.open(root, "a"), pytest.raises(rocketstore.StoreLockedError):
        rocketstore.open(other, "a", config=CONFIG)


def test_links_in_the_place_of_temporary_files_are_not_followed(root, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("topics.json", "topics.json.bak", "rocketstore.json"):
        (root / "config" / f"{name}.tmp-{os.getpid()}").symlink_to(victim)
    make_topic(root)
    assert victim.read_text() == "precious"


def test_a_tail_is_not_saved_through_a_link(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (root / "rocketstore-cut").symlink_to(tmp_path / "elsewhere")
    before = (max((root / "commitlog").iterdir())).stat().st_size
    with pytest.raises(StoreError, match=r"rocketstore-cut: is a link"):
        cut_a_torn_tail(root)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert max((root / "commitlog").iterdir()).stat().st_size == before


def test_a_new_file_is_never_made_through_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "link")
    os.close(open_own_file(tmp_path / "link"))
    assert not (tmp_path / "link").is_symlink()
    assert not (tmp_path / "victim").exists()


def test_a_new_file_has_the_mode_of_its_model(tmp_path):
    (tmp_path / "model").touch(0o600)
    os.close(create_file(tmp_path / "file", like=tmp_path / "model"))
    assert mode_of(tmp_path / "file") == 0o600


def test_a_first_numbered_file_has_the_mode_of_a_file_in_the_model_directory(tmp_path):
    for name in ("log", "queues/topic/0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "log/00").touch(0o600)
    for name, model_directory, mode in [("10", None, 0o644), ("11", "log", 0o644), ("a", "log", 0o644)]:
        path = tmp_path / "queues/topic/0" / name
        os.close(create_file(path, model_directory=model_directory))
        assert mode_of(path) == mode  # beside it stands 10
    (tmp_path / "queues/topic/1").mkdir()
    os.close(create_file(tmp_path / "queues/topic/1/10", model_directory="log"))
    assert mode_of(tmp_path / "queues/topic/1/10") == 0o600


def test_a_new_directory_lets_in_no_more_people_than_the_one_around_it(tmp_path):
    tmp_path.chmod(0o750)
    create_directory(tmp_path / "inner")
    assert mode_of(tmp_path / "inner") == 0o750
    with pytest.raises(FileExistsError):
        create_directory(tmp_path / "inner")


def test_a_new_store_has_the_modes_that_the_umask_gives(tmp_path):
    os.umask(0o027)
    with rocketstore.open(tmp_path / "new", "a", config=CONFIG) as store:
        put(store, 3)
    assert modes_by_kind(tmp_path / "new") == ({0o640}, {0o750})
