"""After a broker cut its log, new messages have no index items until the log has passed its old end."""

import pytest
from support import cli, cut_store
from support.profiles import SMALL

import rocketstore
from rocketstore import StoreConfig, rebuild, recover
from rocketstore.verify.kinds import KINDS

CONFIG = StoreConfig(**SMALL | {"mapped_file_size_consume_queue": cut_store.CQ_FILE}, compat="5.3.3")


def cut(root, properties):
    root = cut_store.store_of(root / "store", 30)
    cut_store.cut_off(root, 10, properties=properties)
    return root


def keys(i):
    return {"KEYS": f"n{i}"}


def answer(root, key, **options):
    with rocketstore.open(root, config=CONFIG) as store:
        found = store.query_message("T0", key, **options)
        return [message.body for message in found], found.complete, found.reasons


def rebuild_index(root):
    rebuild(root, index=True, consume_queue=False, config=CONFIG)


@pytest.mark.parametrize("repair", [rebuild_index, lambda root: recover(root, config=CONFIG)])
def test_a_query_by_key_says_that_messages_after_a_cut_are_not_indexed(repair, tmp_path):
    root = cut(tmp_path, keys)
    bodies, complete, reasons = answer(root, "n1")
    assert (bodies, complete) == ([], False)
    assert any("behind the end of the log" in reason for reason in reasons)
    assert answer(root, "k5")[:2] == ([b"old005"], False)
    report = rocketstore.verify(root, config=CONFIG)
    assert "index-key-missing" in {finding.kind for finding in report.findings}
    assert KINDS["index-key-missing"].mend == "rebuild --index"
    repair(root)
    assert answer(root, "n1") == ([b"n"], True, [])
    assert rocketstore.verify(root, config=CONFIG).ok


def test_a_broker_that_wrote_no_key_after_its_cut_lacks_no_items(tmp_path):
    assert answer(cut(tmp_path, None), "k5") == ([b"old005"], True, [])


def test_the_command_names_the_commands_that_help(tmp_path):
    root = cut(tmp_path, keys)
    result = cli.run("query", root, "--topic", "T0", "--key", "n1")
    assert result.exit_code == 1
    assert "the answer may be incomplete: the index reaches to offset" in result.stderr
    assert "rebuild" in result.stderr
