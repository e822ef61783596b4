"""A disk that fills up while a store is written: an OSError, no killed process, and a store that opens."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.crash_writer import Ack, message, plan, store_config
from support.repetitions import only_some_quick
from support.sound_store import check_files, check_readable, check_recovery

import rocketstore
from rocketstore import StoreError

pytestmark = [pytest.mark.crash, pytest.mark.normal_build]

SIZE = 1 << 20
BALLAST = 192 << 10


def fill(root, config):
    """Put messages until the disk is full. Gives those that were acknowledged, and the error."""
    acks = []
    store = rocketstore.open(root, "a", config=config)
    error = None
    while error is None:
        planned = plan(ident := f"{len(acks)}")
        try:
            result = store.put_message(message(planned))
            acks.append(Ack.of(ident, planned, result.queue_id, result.queue_offset, result.phy_offset, result.size))
        except OSError as raised:
            error = raised
        except StoreError as raised:  # the disk was full where queues or index are written
            error = raised.__cause__
        assert len(acks) < 10_000, "1 MiB never fills up"
    try:
        store.close()
    except (OSError, StoreError):
        assert (root / "abort").exists()
    return acks, error


def fill_up(directory, flush_disk_type):
    config, root = store_config(flush_disk_type), Path(directory, "store")
    ballast = Path(directory, "ballast")
    ballast.write_bytes(bytes(BALLAST))
    acks, error = fill(root, config)
    print(f"{len(acks)} messages, then {error!r}")
    assert isinstance(error, OSError)
    assert len(acks) > 50
    check_readable(root, config, acks)
    try:
        rocketstore.open(root, "a", config=config).close()
    except OSError as refused:
        print(f"on the full disk: {refused!r}")
    check_readable(root, config, acks)
    ballast.unlink()
    with rocketstore.open(root, "a", config=config):
        pass
    check_files(root, config, acks)
    # Going on with it takes more room than there is.
    check_recovery(shutil.copytree(root, Path(directory).parent / "copy"), config, acks, "on")


def run_apart(directory, command):
    """Run a command for which a tmpfs of its own is mounted in a directory."""
    script = f'mount -t tmpfs -o size={SIZE} none "$0" && exec "$@"'
    whole = ["unshare", "-rm", "sh", "-c", script, str(directory), *command]
    return subprocess.run(whole, text=True, capture_output=True, timeout=120, check=False)


@pytest.mark.parametrize("flush_disk_type", only_some_quick(["SYNC_FLUSH", "ASYNC_FLUSH"], "SYNC_FLUSH"))
def test_a_full_disk_is_an_error_and_a_store_that_opens(flush_disk_type, tmp_path):
    (tmp_path / "disk").mkdir()
    if not shutil.which("unshare") or run_apart(tmp_path / "disk", ["true"]).returncode:
        pytest.skip("must mount a tmpfs, in a namespace of its own: unshare -rm")
    run = run_apart(
        tmp_path / "disk",
        [sys.executable, "-X", "faulthandler", __file__, str(tmp_path / "disk"), flush_disk_type],
    )
    print(run.stdout)
    assert run.returncode == 0, f"exit {run.returncode}\n{run.stderr[:8000]}"


if __name__ == "__main__":
    fill_up(*sys.argv[1:])
