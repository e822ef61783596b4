"""Two stores, one of which leads into the other."""

import contextlib
import shutil
import subprocess
import sys

from support.profiles import SMALL

import rocketstore
from rocketstore import Message, StoreConfig

TEXT = "mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=2000\nmaxHashSlotNum=97\nmaxIndexNum=400\n"


def make_live(root):
    """Make a store with one message. Return its root."""
    with rocketstore.open(root, "a", config=StoreConfig(**SMALL)) as store:
        store.put_message(Message("T", b"body"))
    return root


def make_backup(live, root, *parts):
    """Copy a store without some of its parts. Return the root of the copy."""
    shutil.copytree(live, root)
    for part in parts:
        shutil.rmtree(root / part)
    return root


def contents(*roots):
    """Return the bytes of all files, by path."""
    return {path: path.read_bytes() for root in roots for path in sorted(root.rglob("*")) if path.is_file()}


@contextlib.contextmanager
def locked(root):
    """Another process, for example a broker, has a store open for writing."""
    code = "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.lockf(f,fcntl.LOCK_EX,1,0); print(1,flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code, root / "lock"], stdin=-1, stdout=-1) as holder:
        holder.stdout.readline()
        yield
        holder.communicate(b"\n")
