"""The stores that the first tries name, in the current directory."""

import json
import shutil
import time
from pathlib import Path

import pytest
from support import brokers

import rocketstore
from rocketstore import Message, StoreConfig

STEP = 600_000  # milliseconds between two messages of `big`
BODY_OF_B7 = 3406  # where the body of the message b-7 begins in the log of `default`


def write_big(root):
    """Write 400 messages of the last three days. The key order-0 is that of 100 messages."""
    begin = int(time.time() * 1000) - 400 * STEP - 3 * 3_600_000
    messages = [
        Message(
            ("orders", "payments")[n % 2],
            json.dumps({"amount": n, "city": "Xi'an"}).encode(),
            keys=[f"order-{n if n % 4 else 0}"],
            tags=("paid", "sent")[n % 2],
            uniq_key=f"{n:032X}",
        )
        for n in range(400)
    ]
    with rocketstore.open(root, "a", config=StoreConfig.small()) as store:
        store.put_messages(messages, store_timestamp=[begin + STEP * n for n in range(400)])
    offsets = '{"offsetTable": {"orders@billing": {"0": 10, "1": 12, "2": 3, "3": 20}}}'
    (root / "config" / "consumerOffset.json").write_text(offsets)


def damage_body(root):
    with (root / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(BODY_OF_B7)
        file.write(b"\xff" * 60)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The directory with the stores of this file's tries."""
    directory = tmp_path_factory.mktemp("tries")
    write_big(directory / "big")
    brokers.unpack("default", directory)
    brokers.unpack("batchcq", directory)
    brokers.unpack("multipath", directory)
    shutil.copytree(directory / "default", directory / "damaged")
    damage_body(directory / "damaged")
    shutil.copytree(directory / "big", directory / "copied")
    return directory


@pytest.fixture
def directory(stores, tmp_path, monkeypatch):
    """A current directory of this try, with links to the stores, which no try changes."""
    for name in ("big", "default", "batchcq", "multipath", "damaged", "copied"):
        (tmp_path / name).symlink_to(stores / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Path(tmp_path)
