"""Options that take one value or several."""

import json

import pytest
from click.testing import CliRunner

import rocketstore
from rocketstore import Message, StoreConfig
from rocketstore.cli.group import rocketstore as main


@pytest.fixture
def root(tmp_path):
    with rocketstore.open(tmp_path / "store", "a", config=StoreConfig.small()) as store:
        for n in range(12):
            store.put_message(Message("ABC"[n % 3], b"%d" % n, keys=[f"k{n % 2}", f"l{n % 4}"]))
    return tmp_path / "store"


def bodies(*args):
    found = CliRunner().invoke(main, [*map(str, args)], catch_exceptions=False)
    return [int(json.loads(line)["body"]) for line in found.stdout.splitlines()]


def test_query_finds_several_keys_in_several_topics_each_message_once(root):
    assert bodies("query", root, "--topic", "A", "--topic", "B", "--key", "k0", "--key", "l0") == [10, 6, 4, 0]
    assert bodies("query", root, "--key", "l1", "--key", "k1", "--key", "k1") == [11, 9, 7, 5, 3, 1]
    assert bodies("query", root, "--key", "l1", "--key", "k1", "--limit", "2") == [11, 9]
    assert bodies("query", root, "--topic", "C", "--topic", "B", "--since", "1h") == [1, 2, 4, 5, 7, 8, 10, 11]


def test_query_in_index_files_takes_several_keys(root):
    one = CliRunner().invoke(main, ["query", str(root / "index"), "--topic", "A", "--key", "k0"]).stdout.splitlines()
    both = [*map(str, ["query", root / "index", "--topic", "A", "--topic", "B", "--key", "k0", "--key", "k1"])]
    found = CliRunner().invoke(main, both).stdout.splitlines()
    assert len(one) == 2
    assert len(found) == 8
