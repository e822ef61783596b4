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


def test_the_page_of_the_api_has_no_internal_methods_and_parameters(pages, api):
    page = tasks_of(api)
    shown = re.findall(r"^### ([\w.]+) ", page, re.MULTILINE)
    assert {"CommitLog.scan", "CommitLog.get_message", "MessageStore.scan"} <= set(shown)
    for name, methods in pages.INTERNAL.items():
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
    slower = page.partition("## All measurements")[0].count("\n|") - 2
    assert slower == sum(row["peer_ns"] is not None and row["ratio"] < 1 for row in rows)
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
        command, cwd=directory, env=environment, text=True, capture_output=True, timeout=300, check=False
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


@pytest.mark.slow
def test_the_code_of_the_pages_runs(tmp_path, environment):
    elsewhere = ("lake.md", "spark-large.md", "install-offline.md")  # the last one: tests/project/test_standalone.py
    how_to = [page for page in sorted((DOCS / "how-to").glob("*.md")) if page.name not in elsewhere]
    assert len(how_to) >= 12
    for page in (DOCS / "quick-start.md", DOCS / "faq.md", *how_to):
        run_page(page, tmp_path, environment)


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


def test_the_questions_in_chinese_are_those_in_english():
    english, chinese = ((DOCS / name).read_text(encoding="utf-8") for name in ("faq.md", "faq.zh.md"))
    assert blocks_of(chinese) == blocks_of(english)
    in_english, in_chinese = (text.split("\n## ")[1:] for text in (english, chinese))
    assert len(in_english) == len(in_chinese) > 20
    for one, other in zip(in_english, in_chinese, strict=True):
        assert set(re.findall(r"\]\(([^)]+)\)", one)) == set(re.findall(r"\]\(([^)]+)\)", other)), one
        assert set(re.findall(r"`([^`\n]+)`", one)) == set(re.findall(r"`([^`\n]+)`", other)), one


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
    large = shutil.copytree(started / "demo", tmp_path / "large" / "demo").parent
    programs = {
        readme: python_of(TREE / "README.md"),
        started: python_of(DOCS / "spark.md"),
        large: program_of(DOCS / "how-to" / "spark-large.md"),
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
