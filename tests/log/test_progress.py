"""One protocol of progress: False, True for a bar on standard error, or a function of what is done and the total."""

import io
import os
import pty
import shutil
import subprocess
import sys

import pytest
from support.puts import open_store

import rocketstore
from rocketstore import Message
from rocketstore.progress import FORCING, may_show_bar, show_line, show_progress


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("progress") / "store"
    with open_store(path) as store:
        for n in range(200):
            store.put_message(Message("Orders", b"%d" % n * 50, keys=[f"k{n}"], queue_id=0))
    return path


def read_all(source):
    return [len(batch) for batch in source]


def recover_without_queues(root, copy, **given):
    shutil.copytree(root, copy)
    shutil.rmtree(copy / "consumequeue")
    rocketstore.recover(copy, **given)


JOBS = {
    "verify": lambda root, out, **given: rocketstore.verify(root, **given),
    "rebuild": lambda root, out, **given: rocketstore.rebuild(root, out=out, **given),
    "salvage": lambda root, out, **given: rocketstore.salvage(root, out, **given),
    "salvage --dry-run": lambda root, out, **given: rocketstore.salvage(root, dry_run=True, **given),
    "recover": lambda root, out, **given: rocketstore.recover(shutil.copytree(root, out.with_name("copy")), **given),
    "recover --dry-run": lambda root, out, **given: rocketstore.recover(root, dry_run=True, **given),
    "recover without queues": lambda root, out, **given: recover_without_queues(root, out.with_name("copy"), **given),
    "patch": lambda root, out, **given: rocketstore.patch(root, dry_run=True, **given),
    "convert": lambda root, out, **given: rocketstore.convert(root, out, **given),
    "split": lambda root, out, **given: rocketstore.split(root, out, **given),
    "copy": lambda root, out, **given: rocketstore.copy(root, out, **given),
    "diff": lambda root, out, **given: rocketstore.diff(root, root, **given),
    "scan": lambda root, out, **given: read_all(rocketstore.open(root).scan(batch_size=10, **given)),
    "scan with threads": lambda root, out, **given: read_all(rocketstore.open(root).scan(threads=2, **given)),
    "count": lambda root, out, **given: rocketstore.open(root).count("topic", **given),
    "du": lambda root, out, **given: rocketstore.open(root).du(by="topic", exact=True, **given),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_function_is_called_up_to_the_total(name, root, tmp_path):
    calls = []
    JOBS[name](root, tmp_path / "out", progress=lambda done, total: calls.append((done, total)))
    assert calls
    assert all(0 <= done <= total for done, total in calls)
    assert calls[-1][0] == calls[-1][1] > 0


@pytest.mark.parametrize("name", JOBS)
def test_another_argument_is_refused(name, root, tmp_path):
    with pytest.raises(TypeError, match="progress=5: a function was expected, or True for a bar"):
        JOBS[name](root, tmp_path / "out", progress=5)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["verify", "scan"])
def test_without_a_terminal_a_bar_writes_nothing(name, root, tmp_path, capfd):
    JOBS[name](root, tmp_path / "out", progress=True)
    assert capfd.readouterr() == ("", "")


def test_queries_of_datasets_and_lazy_frames_report_their_scans(root):
    pytest.importorskip("pyarrow", reason="needs pyarrow, from the extra 'arrow'")
    calls = []
    given = {"progress": lambda done, total: calls.append((done, total))}
    with rocketstore.open(root) as store:
        assert store.dataset(**given).count_rows() == 200
    assert calls[-1][0] == calls[-1][1]
    pytest.importorskip("polars", minversion="1.35", reason="needs polars 1.35")
    calls.clear()
    assert rocketstore.scan_polars(root, **given).collect().height == 200
    assert calls[-1][0] == calls[-1][1]


def test_a_limited_scan_ends_its_progress(root):
    calls = []
    with rocketstore.open(root) as store:
        read_all(store.scan(limit=3, progress=lambda done, total: calls.append((done, total))))
    assert calls[-1][0] == calls[-1][1]


SCRIPT = """
import rocketstore, sys
for batch in rocketstore.open(sys.argv[1]).scan(batch_size=10, progress=True):
    pass
"""


def test_a_terminal_shows_a_bar_and_standard_output_stays_clean(root):
    pytest.importorskip("rich", reason="needs rich, from the extra 'cli'")
    main, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", SCRIPT, str(root)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=True)
    os.close(terminal)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert result.stdout == b""
    assert "scan" in shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_rich_a_line_shows_the_percentage():
    stream = Terminal()
    with show_line("verify", stream) as report:
        for done in (0, 1, 2, 2):
            report(done, 2)
    assert stream.getvalue() == "\rverify: 0 %\rverify: 50 %\rverify: 100 %\r             \r"
    silent = io.StringIO()
    with show_line("verify", silent) as report:
        report(1, 2)
    assert silent.getvalue() == ""


def test_rich_is_imported_only_where_a_bar_can_be_seen(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    for name in FORCING:
        monkeypatch.delenv(name, raising=False)
    for stream, expected in ((io.StringIO(), False), (None, False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert may_show_bar() == expected
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert may_show_bar()


def test_a_missing_rich_is_no_error(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with show_progress(True, "verify") as report:
        report(1, 2)
    assert capfd.readouterr() == ("", "")
