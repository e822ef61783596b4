"""``rocketstore demo``."""

import os
import signal
import time

import numpy as np
import pytest
from cli import run, start

from rocketstore import IndexFile

NO_JAVA = {"PATH": "/nonexistent", "JAVA_HOME": ""}
GEOMETRY = ["--slots", "97", "--items", "1000"]


def test_ctrl_c_ends_at_once_and_says_nothing(tmp_path):
    out = tmp_path / "demo"
    process = start("demo", "--messages", 50_000_000, "--out", out, env=os.environ | NO_JAVA)
    until = time.monotonic() + 60
    while not (out.is_dir() or time.monotonic() > until):
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stdout == ""
    assert [line for line in stderr.splitlines() if line] == [
        "Spark is left out: Java is missing, it needs 17 or newer."
    ]


SMALL = ["demo", "--messages", 3000, "--lookups", 1000, "--absent", 100]


def test_the_demo_without_java_does_the_serial_part(monkeypatch, tmp_path):
    for name, value in NO_JAVA.items():
        monkeypatch.setenv(name, value)
    result = run(*SMALL, *GEOMETRY, "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stderr == "Spark is left out: Java is missing, it needs 17 or newer.\n"
    assert "all 1,000 messages found" in result.stdout
    assert len(list((tmp_path / "out" / "serial").iterdir())) == 4


def test_the_demo_looks_given_keys_up_in_files_that_are_there(monkeypatch, tmp_path):
    for name, value in NO_JAVA.items():
        monkeypatch.setenv(name, value)
    index = tmp_path / "index"
    index.mkdir()
    with IndexFile.create(index / "20231114221320000", hash_slot_num=97, index_num=1000) as file:
        file.put_keys(["k1", "k2", "k1", "k3"], np.arange(4) * 100, np.full(4, 1_700_000_000_000), topic="T")
    keys = tmp_path / "keys"
    keys.write_text("k1\nk2\nabsent\n")
    result = run("demo", "--index", index, "--topic", "T", "--keys", keys)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[-2:] == ["3", "candidates"]


def test_the_demo_does_not_write_among_other_files(tmp_path):
    (tmp_path / "file").touch()
    result = run(*SMALL, "--out", tmp_path)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"Error: {tmp_path}: is not empty: give a new directory"


@pytest.mark.spark
def test_the_demo_finds_the_same_with_spark():
    from rocketstore.cli.demo import why_no_spark

    if why_no_spark():
        pytest.skip(why_no_spark())
    process = start(*SMALL, *GEOMETRY)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "4 of 4 files the same" in out
    assert out.count("1,100 answers the same") == 2
