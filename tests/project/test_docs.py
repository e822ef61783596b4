"""The documentation: generated pages are complete, and the code of written pages runs."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.pages import blocks_of
from support.spark_settings import write_spark_settings

import rocketstore

TREE = Path(__file__).parent.parent.parent
DOCS = TREE / "docs"

pytestmark = pytest.mark.skipif(not (TREE / ".ci").exists(), reason="tested away from the source tree")


@pytest.fixture(scope="module")
def pages():
    """The module that writes the pages. It imports a module beside it, as a script does."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.syspath_prepend(TREE / ".ci")
    spec = importlib.util.spec_from_file_location("docs", TREE / ".ci" / "docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    monkeypatch.undo()


def test_the_help_of_each_command_is_on_the_page_of_the_command_line(pages):
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    from rocketstore.cli.group import COMMANDS

    page = pages.command_line_page()
    headings = re.findall(r"^## rocketstore ?(.*)$", page, re.MULTILINE)
    assert [name for name in headings if " " not in name] == ["", *COMMANDS]
    assert {"config check", "config repair"} <= set(headings)
    assert "--topic" in page


@pytest.fixture(scope="module")
def api(pages, tmp_path_factory):
    """The pages of the Python API: those of the tasks by name, and the overview."""
    directory = tmp_path_factory.mktemp("api")
    pages.write_api_pages(directory)
    return {path.stem: path.read_text(encoding="utf-8") for path in directory.rglob("*.md")}


def tasks_of(api):
    """The pages of the API without the overview, as one text."""
    return "\n".join(text for name, text in api.items() if name != "python-api")


def test_each_public_name_and_method_is_on_one_page_of_the_api(api):
    page = tasks_of(api)
    headings = re.findall(r"^## (\w+) \{", page, re.MULTILINE)
    assert sorted(headings) == sorted(rocketstore.__all__)
    assert "### MessageStore.query_message {" in api["open"]
    assert "mode: Literal['r', 'r+', 'a'] = 'r'" in api["open"]
    assert "(self" not in page
    assert page.count("```") % 2 == 0
    assert page.count("```pycon") > len(rocketstore.__all__)


def test_the_overview_of_the_api_leads_to_each_name(api):
    links = re.findall(r"\[(\w+)\]\(api/(\w+)\.md#(\w+)\)", api["python-api"])
    assert sorted(name for name, _, _ in links) == sorted(rocketstore.__all__)
    assert all(f"## {name} {{ #{anchor} }}" in api[page] for name, page, anchor in links)
    assert {"open", "topic", "message", "batch", "config", "functions", "results", "parts"} <= set(api)


def test_the_classes_of_rocketmq_are_no_exceptions(api):
    page = tasks_of(api)
    assert "- `Source`" not in page
    assert "Source:" not in page
    assert "**In RocketMQ:** IndexFile.putKey, for each row." in page
    assert "- `StoreLockedError`: another process writes the store.\n" in api["open"]
    assert "- `io.UnsupportedOperation`: a remote store in another mode" in api["open"]


def test_an_entry_of_the_api_leads_to_its_code(api):
    links = re.findall(r"^## (\w+) .*\n\n\[.*\]\(\.\./source/(.+)\.html#line-(\d+)\)", tasks_of(api), re.MULTILINE)
    assert len(links) > 80
    for name, path, line in links:
        code = (TREE / path).read_text(encoding="utf-8").splitlines()[int(line) - 1 :][:4]  # a decorator comes first
        assert any(re.match(rf"(?:class|def) {name}\b", text) for text in code), name


def test_a_page_of_code_has_an_anchor_at_each_line(pages, tmp_path):
    pytest.importorskip("pygments", reason="needs Pygments, from the group docs")
    from source_pages import write_source_pages

    write_source_pages(tmp_path, [rocketstore.Topic])
    page = (tmp_path / "source" / "rocketstore" / "store" / "topic.py.html").read_text(encoding="utf-8")
    assert 'name="line-20"' in page
    assert "class" in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_of_the_api_has_no_internal_methods_and_parameters(api):
    from api_pages import INTERNAL

    page = tasks_of(api)
    shown = re.findall(r"^### ([\w.]+) ", page, re.MULTILINE)
    assert {"CommitLog.scan", "CommitLog.get_message", "MessageStore.scan"} <= set(shown)
    for name, methods in INTERNAL.items():
        assert {method for method in methods.split() if not hasattr(getattr(rocketstore, name), method)} == set()
        assert {f"{name}.{method}" for method in methods.split()} & set(shown) == set()
    assert [name for name in shown if "._" in name] == []
    assert re.findall(r"[(, ](_\w+)(?=[:,=)])", "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))) == []


def test_lines_of_code_of_signatures_fit_a_page(api):
    lines = re.findall(r"^```python\n(.*?)^```", tasks_of(api), re.MULTILINE | re.DOTALL)
    assert max(len(line) for block in lines for line in block.splitlines()) <= 100


def test_the_navigation_has_six_groups_and_loads_nothing_from_other_hosts():
    text = (TREE / "mkdocs.yml").read_text(encoding="utf-8")
    groups = re.findall(r"^  - (\w+):$", text.partition("\nnav:")[2], re.MULTILINE)
    assert groups == ["Start", "Operate", "Analyse", "Spark", "Reference", "Project"]
    assert "\n  font: false" in text
    assert "url(" not in (DOCS / "style.css").read_text(encoding="utf-8")


def test_the_home_page_has_the_install_line_and_five_lines_of_code():
    before_headings = (DOCS / "index.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert 'pip install "rocketstore[' in before_headings
    (example,) = re.findall(r"^```python\n(.*?)^```", before_headings, re.MULTILINE | re.DOTALL)
    assert len([line for line in example.splitlines() if line]) == 5


def test_an_option_in_a_text_is_not_broken_at_its_hyphens(pages):
    page = pages.keep_options_together("`--topic` and [`--tag`](x.md), `a b-c`\n\n```\n`--key`\n```\n")
    assert page == "`--topic`{ .short } and [`--tag`](x.md), `a b-c`\n\n```\n`--key`\n```\n"


def test_each_option_of_spark_is_on_its_page(pages):
    pytest.importorskip("pyspark", reason="needs pyspark, from the extra 'spark'")
    from rocketstore.spark.source.options import FIELDS

    page = pages.spark_options_page()
    assert set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == set(FIELDS)
    assert "`paid||sent`" in page
    assert "txnAppId" in page


def test_each_measurement_is_on_the_page_of_performance(pages):
    page, results = pages.performance_page(), json.loads((TREE / "bench" / "results.json").read_text())
    rows = results["rows"]
    table = page.partition("## All measurements")[2]
    assert table.count("\n|") == len(rows) + 2
    slower = page.partition("## Where rocketstore is slower")[2].partition("\n## ")[0]
    assert slower.count("\n|") - 2 == sum(row["peer_ns"] is not None and row["ratio"] < 1 for row in rows)
    assert results["machine"]["cpu"] in page
    assert all(f"{name} {version}" in page for name, version in results["versions"].items())


def test_the_plots_have_each_measurement_and_a_dark_scheme(pages, tmp_path):
    pages.write_plots(tmp_path)
    page = pages.performance_page()
    rows = json.loads((TREE / "bench" / "results.json").read_text())["rows"]
    for path in tmp_path.iterdir():
        assert f"(images/{path.name})" in page
        picture = path.read_text(encoding="utf-8")
        ElementTree.fromstring(picture)
        assert "@media (prefers-color-scheme: dark)" in picture
        assert 'fill="#1c2126"' in picture.lower()  # the colour of text that the dark scheme replaces
    spark = (tmp_path / "speed-spark.svg").read_text(encoding="utf-8")
    named = [row["name"] for row in rows if row["name"].startswith("Spark:") and row["peer_ns"] is not None]
    assert named
    assert all(name in spark for name in named)
    assert spark.count("<circle ") == len(named)


def test_each_page_is_in_the_navigation_and_the_other_way_round(pages, tmp_path):
    pages.write_pages(tmp_path / "pages")
    written = {str(path.relative_to(tmp_path / "pages")) for path in (tmp_path / "pages").rglob("*.md")}
    navigation = (TREE / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert sorted(re.findall(r"([\w./-]+\.md)", navigation)) == sorted(written)


def run_block(language, block, directory, environment):
    """Run one fence ``python`` or ``sh`` in a directory."""
    command = [sys.executable, "-c", block] if language == "python" else ["sh", "-e", "-c", block]
    run = subprocess.run(
        command, cwd=directory, env=environment, text=True, capture_output=True, timeout=900, check=False
    )
    assert run.returncode == 0, f"{block}\n{run.stderr}"


def run_code(page, directory, environment, first_lines="import rocketstore"):
    """Run each fence ``python`` or ``sh`` of a page in a directory. Parameters: first_lines: of each Python fence."""
    run_each(blocks_of(page.read_text(encoding="utf-8")), directory, environment, first_lines)


def run_each(blocks, directory, environment, first_lines):
    """Run each fence on its own, in one process. A fence sees no name of another one."""
    assert blocks
    program = ["import subprocess"]
    for language, block in blocks:
        if language == "python":
            program.append(f"exec({first_lines + chr(10) + block!r}, {{'__name__': '__main__'}})")
        else:
            program.append(shell_call(block))
    run_block("python", "\n".join(program), directory, environment)


def shell_call(block):
    """The call that runs a fence ``sh`` from a Python program."""
    return f"subprocess.run(['sh', '-e', '-c', {block!r}], check=True)"


def python_of(page):
    """The fences ``python`` of a page, as one program."""
    return "\n".join(block for language, block in blocks_of(page.read_text(encoding="utf-8")) if language == "python")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a shell that has the command ``rocketstore``."""
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    directory = tmp_path_factory.mktemp("environment")
    program = directory / "bin" / "rocketstore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rocketstore "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    settings = {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{TREE}{os.pathsep}{os.environ['PYTHONPATH']}",  # where Spark finds pyspark_rocketstore
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(write_spark_settings(directory / "spark-settings")),
    }
    return {**os.environ, **settings}


@pytest.fixture(scope="module")
def after_quick_start(tmp_path_factory, environment):
    """The directory after the fences of the quick start ran there."""
    directory = tmp_path_factory.mktemp("quick-start")
    run_code(DOCS / "quick-start.md", directory, environment)
    return directory


@pytest.fixture
def started(after_quick_start, tmp_path):
    """A directory of this test, with what the quick start left."""
    return Path(shutil.copytree(after_quick_start, tmp_path, dirs_exist_ok=True))


@pytest.fixture
def libraries():
    """The libraries that examples with columns use."""
    for module in ("pyarrow", "duckdb", "polars"):
        pytest.importorskip(module, reason=f"needs {module}")


@pytest.fixture
def java():
    """What examples with Spark need."""
    pytest.importorskip("pyspark", minversion="4.1", reason="needs pyspark 4.1, from the extra 'spark'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("needs Java 17")


# Each of these has a test of its own, in this file or in test_standalone.py.
ELSEWHERE = "lake.md", "spark-large.md", "spark-recipes.md", "body-formats.md", "install-offline.md", "mqadmin.md"
HOW_TO = sorted(page.name for page in (DOCS / "how-to").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in HOW_TO if name not in ELSEWHERE and not name.endswith(".zh.md")])
def test_the_code_of_a_how_to_page_runs_after_the_quick_start(started, environment, name):
    run_page(DOCS / "how-to" / name, started, environment)


@pytest.mark.slow
def test_the_code_of_the_quick_start_runs(after_quick_start):
    with rocketstore.open(after_quick_start / "demo") as store:
        assert len(store["Orders"]) == 1000


@pytest.mark.slow
def test_the_code_of_the_home_page_runs(started, environment, libraries):
    code = python_of(DOCS / "index.md")
    assert code.count('"/data/rocketmq/store"') == 1
    run_block("python", code.replace("/data/rocketmq/store", "demo"), started, environment)


@pytest.mark.slow
def test_the_code_of_the_questions_and_answers_runs(started, environment):
    run_page(DOCS / "faq.md", started, environment)


def test_each_page_with_code_is_run_by_a_test():
    files = (TREE / "tests" / "project" / name for name in ("test_docs.py", "test_format_pages.py"))
    tests = "".join(file.read_text(encoding="utf-8") for file in files)
    pages = [path for path in [TREE / "README.md", *DOCS.rglob("*.md")] if blocks_of(path.read_text(encoding="utf-8"))]
    one_by_one = {name for name in HOW_TO if name not in ELSEWHERE}
    # A page in Chinese has the code of the one in English.
    others = {page.name for page in pages if not page.name.endswith(".zh.md")} - one_by_one
    assert {"README.md", "quick-start.md", "faq.md", "lake.md"} <= others
    assert [name for name in sorted(others) if f'/ "{name}"' not in tests] == []


def run_page(page, directory, environment):
    """Run the fences of a page in their order as one program. The page itself imports what its fences use."""
    run_block("python", program_of(page), directory, environment)


def program_of(page):
    """The fences of a page as one program."""
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    assert blocks, page
    return "\n".join(["import subprocess", *(b if language == "python" else shell_call(b) for language, b in blocks)])


@pytest.mark.slow
def test_the_code_of_the_page_about_parquet_runs(started, environment, libraries):
    run_page(DOCS / "how-to" / "lake.md", started, environment)


@pytest.mark.slow
def test_the_code_of_the_page_about_formats_of_bodies_runs(tmp_path, environment, libraries):
    pytest.importorskip("fastavro", reason="needs fastavro, from the group test")
    descriptors = pytest.importorskip("google.protobuf.descriptor_pb2", reason="needs protobuf, from the group test")
    file = descriptors.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    price = file.message_type.add(name="Price")  # as protoc reads it from the page
    price.field.add(name="id", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    price.field.add(name="amount", number=2, type="TYPE_INT32", label="LABEL_OPTIONAL")
    (tmp_path / "shop.desc").write_bytes(descriptors.FileDescriptorSet(file=[file]).SerializeToString())
    run_page(DOCS / "how-to" / "body-formats.md", tmp_path, environment)
    assert '"page": "check"' in (tmp_path / "clicks.jsonl").read_text(encoding="utf-8")


# ---- the clock ---------------------------------------------------------------------------------------------


@pytest.fixture
def clock(tmp_path, environment, monkeypatch):
    """Set the time that the program ``date`` has, a text in UTC."""
    program = tmp_path / "clock" / "date"
    program.parent.mkdir()
    date = shutil.which("date")
    # Without -d, or relative to today, date answers for the time in CLOCK.
    program.write_text(
        f"""#!/bin/sh
case "$*" in
    "-u -d yesterday +%F") exec {date} -u -d "$CLOCK 1 day ago" +%F ;;
    "-u +%F") exec {date} -u -d "$CLOCK" +%F ;;
    "-u -d 20"*) exec {date} "$@" ;;
    *) echo "this test knows no date $*" >&2; exit 9 ;;
esac
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return {**environment, "PATH": f"{program.parent}{os.pathsep}{environment['PATH']}"}


def script_of(page, name):
    """The script that a page writes to a file of this name."""
    return re.search(rf"cat > {name} << 'END'\n(.*?)^END$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[
        1
    ]


def put_hours(root, first, last):
    """Put a message for each hour of a range of hours since 2026-11-01 00:30 UTC, except on the 3rd."""
    begin = 1_793_493_000_000  # 2026-11-01T00:30Z
    with rocketstore.open(root, "a", config=rocketstore.StoreConfig.small()) as store:
        for hour in range(first, last):
            if not 48 <= hour < 72:
                store.put_message(rocketstore.Message("Orders", str(hour)), store_timestamp=begin + hour * 3_600_000)


@pytest.mark.slow
@pytest.mark.parametrize("time", ["00:10", "23:59"])
def test_a_daily_export_has_each_message_once_at_whatever_hour_it_runs(tmp_path, clock, time):
    root, files, script = tmp_path / "store", tmp_path / "days", tmp_path / "export-days"
    script.write_text(script_of(DOCS / "how-to" / "incremental-export.md", "export-days"), encoding="utf-8")
    hours_of_run = int(time[:2])
    done = 0
    for day in (2, 3, 4, 6, 6):  # the job did not run on the 5th, and twice on the 6th
        now = (day - 1) * 24 + hours_of_run
        put_hours(root, done, now)
        done = now
        run = subprocess.run(
            ["sh", script, root, files], env=clock | {"CLOCK": f"2026-11-0{day} {time}"}, text=True, capture_output=True
        )
        assert run.returncode == 0, run.stderr
        names = sorted(path.name for path in files.iterdir())
        assert names == [f"2026-11-0{before}.jsonl" for before in range(1, day)]
    rows = [
        json.loads(line) for path in sorted(files.iterdir()) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert [int(row["body"]) for row in rows] == [hour for hour in range(120) if not 48 <= hour < 72]
    assert (files / "2026-11-03.jsonl").stat().st_size == 0


@pytest.mark.slow
def test_a_daily_export_stops_at_an_error_and_tries_again(tmp_path, clock):
    root, files, script = tmp_path / "store", tmp_path / "days", tmp_path / "export-days"
    script.write_text(script_of(DOCS / "how-to" / "incremental-export.md", "export-days"), encoding="utf-8")
    put_hours(root, 0, 30)
    command, later = ["sh", script, root, files], clock | {"CLOCK": "2026-11-02 01:15"}
    moved = root.rename(tmp_path / "moved")
    assert subprocess.run(command, env=later, capture_output=True, check=False).returncode != 0
    assert list(files.iterdir()) == []
    moved.rename(root)
    subprocess.run(command, env=later, check=True)
    assert len((files / "2026-11-01.jsonl").read_text(encoding="utf-8").splitlines()) == 24


@pytest.mark.slow
def test_an_export_with_a_state_knows_no_clock(tmp_path, environment):
    root, files = tmp_path / "store", tmp_path / "files"
    command = f"rocketstore export {root} {files} --state {files}/.state --format json"
    for first, last in ((24, 48), (0, 24), (80, 90)):  # the clock goes back
        put_hours(root, first, last)
        for _ in range(2):
            subprocess.run(["sh", "-c", command], env=environment, check=True)
    bodies = [
        int(json.loads(line)["body"])
        for path in files.iterdir()
        if not path.name.startswith(".")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert sorted(bodies) == [*range(48), *range(80, 90)]


# ---- commands outside of fences that run --------------------------------------------------------------------


def commands_of(page):
    """Each command ``rocketstore`` of a page that is code in a text or a line of a fence ``text``."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"`(rocketstore [^`\n]+)`", text)
    for block in re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        joined = block.replace("\\\n", " ")
        lines += [line.partition("   #")[0].strip() for line in joined.splitlines() if line.startswith("rocketstore ")]
    return lines


def test_each_command_of_a_page_has_a_name_options_and_arguments_that_exist():
    click = pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    from rocketstore.cli.group import rocketstore as group

    wrong, seen = [], 0
    for page in sorted([TREE / "README.md", *DOCS.rglob("*.md")]):
        for line in commands_of(page):
            words = [word for word in shlex.split(line.split(" | ")[0]) if word != "..."]
            if "COMMAND" in words:
                continue
            seen += 1
            try:
                parse_command(group, words[1:])
            except click.UsageError as error:
                named = all(word.startswith("-") for word in words[2:])  # a name, perhaps with an option, in a sentence
                if not (named and isinstance(error, click.MissingParameter)):
                    wrong.append(f"{page.name}: {line}: {error.format_message()}")
    assert not wrong
    assert seen > 100


def parse_command(command, words):
    """Parse the arguments of a command as a shell gives them, without running it."""
    import click

    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            raise click.UsageError(f"there is no command {words[0]}")
        command, words = found, words[1:]
    values, rest, _ = command.make_parser(click.Context(command)).parse_args(list(words))
    if rest and not hasattr(command, "get_command"):
        raise click.UsageError(f"there is no argument {rest[0]}")
    for argument in command.params:
        if (
            isinstance(argument, click.Argument)
            and argument.required
            and not isinstance(values.get(argument.name), str | tuple | list)
        ):
            raise click.MissingParameter(param=argument)


@pytest.mark.slow
def test_the_commands_in_the_tables_run(started, environment):
    """Those of which the table has a store of its own run too: they find nothing, and say so."""
    for page in (DOCS / "command-line.md", DOCS / "how-to" / "mqadmin.md", DOCS / "how-to" / "waiting.md"):
        commands = re.findall(r"\| `(rocketstore [^`]+)`", page.read_text(encoding="utf-8"))
        assert len(commands) >= 6, page
        for number, command in enumerate(commands):
            run_table_command(command, started, environment, number)


def run_table_command(command, directory, environment, number):
    values = {
        "STORE": "demo",
        "NEW": f"new-{number}",
        " A ": " demo ",
        " B": " demo",
        "ID": "7F00000100002A9F0000000000000000",
    }
    if " import " in f"{command} " or "--follow" in command:
        return  # the files are those of the row before, and a following command does not end
    for name, value in values.items():
        command = re.sub(
            rf"(?<![\w-]){re.escape(name)}(?!\w)" if name.strip() == name else re.escape(name), value, command
        )
    run = subprocess.run(
        ["sh", "-c", command], cwd=directory, env=environment, text=True, capture_output=True, check=False, timeout=120
    )
    assert run.returncode in (0, 1), f"{command}: {run.stderr}"
    assert "Traceback" not in run.stderr
    assert "no such option" not in run.stderr.lower()


def test_the_questions_in_chinese_are_those_in_english():
    english, chinese = ((DOCS / name).read_text(encoding="utf-8") for name in ("faq.md", "faq.zh.md"))
    assert blocks_of(chinese) == blocks_of(english)
    in_english, in_chinese = (text.split("\n## ")[1:] for text in (english, chinese))
    assert len(in_english) == len(in_chinese) > 20
    for one, other in zip(in_english, in_chinese, strict=True):
        links = re.findall(r"\]\(([^)]+)\)", other.replace(".zh.md", ".md"))
        assert set(re.findall(r"\]\(([^)]+)\)", one)) == set(links), one
        assert set(re.findall(r"`([^`\n]+)`", one)) == set(re.findall(r"`([^`\n]+)`", other)), one


@pytest.mark.parametrize("name", ["quick-start", "how-to/repair", "how-to/index-gone", "how-to/patch"])
def test_a_page_in_chinese_has_the_code_and_the_parts_of_the_one_in_english(name):
    english, chinese = ((DOCS / f"{name}{end}").read_text(encoding="utf-8") for end in (".md", ".zh.md"))
    assert re.findall(r"^```.*?^```", chinese, re.DOTALL | re.MULTILINE) == re.findall(
        r"^```.*?^```", english, re.DOTALL | re.MULTILINE
    )
    assert chinese.count("\n## ") == english.count("\n## ")
    page = name.rpartition("/")[2]
    assert f"[English]({page}.md)" in chinese
    assert f"[中文]({page}.zh.md)" in english


@pytest.mark.slow
def test_the_recipes_run(tmp_path, environment, libraries):
    page = DOCS / "recipes.md"
    run_code(page, tmp_path, environment, first_lines=blocks_of(page.read_text(encoding="utf-8"))[0][1])


@pytest.mark.slow
def test_the_examples_of_the_page_about_python_run(started, environment, libraries):
    run_block("python", python_of(DOCS / "python.md"), started, environment)


@pytest.mark.slow
@pytest.mark.spark
def test_the_code_of_the_readme_and_of_the_pages_about_spark_runs(started, tmp_path, environment, libraries, java):
    """Each page is a program of its own. They share one JVM, whose start takes longest, but no session."""
    readme = tmp_path / "readme"
    readme.mkdir()
    large, recipes = (
        shutil.copytree(started / "demo", tmp_path / name / "demo").parent for name in ("large", "recipes")
    )
    programs = {
        readme: python_of(TREE / "README.md"),
        started: python_of(DOCS / "spark.md"),
        large: program_of(DOCS / "how-to" / "spark-large.md"),
        recipes: program_of(DOCS / "how-to" / "spark-recipes.md"),
    }
    run_with_spark(programs, environment)
    with rocketstore.open(readme / "copy") as store:
        assert len(store["Orders"]) == 999
    with rocketstore.open(started / "spark-copy") as store:
        assert len(store["Orders"]) == 1100  # of the example that writes, and of the stream


def run_with_spark(programs, environment):
    """Run programs, each in its directory, one after the other in one process. Parameters: programs: by directory."""
    lines = ["import os", "from pyspark.sql import SparkSession"]
    for directory, program in programs.items():
        lines.append(f"os.chdir({str(directory)!r})")
        lines.append(f"exec({program!r}, {{'__name__': '__main__'}})")
        lines.append("SparkSession.getActiveSession().stop()")
    run_block("python", "\n".join(lines), next(iter(programs)), environment)


@pytest.mark.slow
def test_the_examples_of_the_readme_run_without_spark(tmp_path, environment, libraries):
    blocks = blocks_of((TREE / "README.md").read_text(encoding="utf-8"))
    blocks = [(language, block) for language, block in blocks if "pyspark" not in block]
    run_each(blocks, tmp_path, environment, "import rocketstore")


def test_links_to_files_of_the_tree_lead_somewhere():
    """Zensical checks the links of docs/, and not those of the root."""
    links = []
    for path in TREE.glob("*.md"):
        links += re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert "docs/quick-start.md" in links
    assert [link for link in links if not link.startswith("https://") and not (TREE / link).exists()] == []


def test_the_readme_has_150_lines_the_two_commands_and_measured_figures():
    readme = (TREE / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    assert re.findall(r"^(make \w+) +#", readme, re.MULTILINE) == ["make demo", "make test"]
    rows = json.loads((TREE / "bench" / "results.json").read_text(encoding="utf-8"))["rows"]
    measured = {tuple(three_digits(row[name]) for name in ("ours_ns", "peer_ns")) for row in rows if row["peer_ns"]}
    shown = re.findall(r"\| ([\d,]+) \| ([\d,]+) \| [\d.]+x \|", readme)
    assert len(shown) == 7
    assert set(shown) <= measured


def three_digits(value):
    """A number with three significant digits, as the README shows it."""
    return f"{float(f'{value:.3g}'):,.0f}"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("xz") is None, reason="needs xz, to unpack the broker's store")
def test_the_code_of_the_tutorial_runs(tmp_path, environment, libraries):
    shutil.copy(TREE / "tests" / "golden" / "broker-5.5.0.tar.xz", tmp_path)
    run_code(DOCS / "tutorial.md", tmp_path, environment, first_lines="")
    with rocketstore.open(tmp_path / "copy") as store:
        assert len(store.query_message("LabTopic", "key-42")) == 2


def test_each_test_on_the_page_of_reliability_is_there():
    tests = set()
    for path in (TREE / "tests").rglob("*.py"):
        tests.update(re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert len(tests) > 3000  # as the page says
    page = (DOCS / "reliability.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 50
    assert named <= tests
    assert all((TREE / path).exists() for path in re.findall(r"`((?:tests|docs)/[\w/.]+)`", page))


def test_a_recipe_takes_three_lines_or_two_commands():
    recipes = (DOCS / "recipes.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(recipes) == 14
    for recipe in recipes:
        blocks = blocks_of(recipe)
        assert blocks, recipe
        for language, block in blocks:
            lines = [line for line in block.splitlines() if line and not line.startswith("assert")]
            assert len(lines) <= (3 if language == "python" else 2), block
