"""Imports go one way, from the rooms at the end of one list to those before them."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rocketstore

PACKAGE = Path(rocketstore.__file__).parent
ROOMS = [  # each imports only itself and those before it
    "errors",
    "extras",
    "lazy",
    "limits",
    "logger",
    "made_by",
    "text_values",
    "progress",
    "keywords",
    "names_of_other_tools",
    "preview",
    "compat",
    "kernels",
    "java_text",
    "broker_file",
    "arrow",
    "disk",
    "root_places",
    "messages",
    "config",
    "state",
    "log",
    "queue",
    "index",
    "tier",
    "survey",
    "dispatch",
    "jobs",
    "query",
    "incremental",
    "recovery",
    "dataset",
    "sql",
    "store",
    "brokers",
    "rebuild",
    "lost",
    "verify",
    "patch",
    "salvage",
    "compare",
    "convert",
    "bundle",
    "backup",
    "public_names",
    "__init__",
    "report",
    "spark",
    "cli",
    "__main__",
]
THIRD_PARTY = [
    "pyarrow",
    "pandas",
    "polars",
    "pyspark",
    "click",
    "rich",
    "lz4",
    "zstandard",
    "fsspec",
    "rocksdict",
    "duckdb",
    "google",
    "prompt_toolkit",
]
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+c?import|c?import\s+(\S+))", re.MULTILINE)

SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyi", ".pyx", ".pxd"))


def imported_modules(path):
    """The names of all modules that a file imports, at its top or inside a function."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".pyx", ".pxd"):
        return {first or second for first, second in CYTHON_IMPORT.findall(text)}
    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports here name the whole module"
            modules.add(node.module)
            if node.module == "rocketstore":
                modules.update(f"rocketstore.{alias.name}" for alias in node.names)
    return modules


def room(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(path.suffix)


def own_imports(path):
    """Yield the room of everything that a file imports from the package; public names are those of ``__init__``."""
    for module in imported_modules(path):
        package, _, rest = module.partition(".")
        if package == "rocketstore":
            name = rest.partition(".")[0]
            yield name if name in ROOMS else "__init__"


def test_every_source_is_in_a_room_of_the_list():
    assert {room(path) for path in SOURCES} == set(ROOMS)
    assert "kernels" in set(own_imports(PACKAGE / "public_names.py"))


def test_imports_go_only_down():
    for path in SOURCES:
        for name in own_imports(path):
            assert ROOMS.index(name) <= ROOMS.index(room(path)), f"{path.relative_to(PACKAGE)} imports from {name}"


# ---- rooms below survey get their paths as arguments ---------------------------------------------------------

# A log's default directory is in the root; a log alone that is opened for appending looks at the store around it.
ASK_FOR_PLACES = {"config.py", "log/commit_log.py"}
ROOT_NAMES = {
    "commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "checkpoint", "abort", "rocksdbstore",
    "rocketstore-cut",
}  # fmt: skip
BELOW_SURVEY = [path for path in SOURCES if ROOMS.index(room(path)) < ROOMS.index("survey") and path.suffix == ".py"]


def test_rooms_below_survey_get_their_paths_as_arguments():
    found = (path for path in BELOW_SURVEY if "RootPlaces" in path.read_text(encoding="utf-8"))
    asking = {path.relative_to(PACKAGE).as_posix() for path in found}
    assert asking - {"root_places.py"} == ASK_FOR_PLACES


def test_rooms_below_survey_spell_no_name_in_a_root():
    for path in BELOW_SURVEY:
        assert path.name == "root_places.py" or ROOT_NAMES.isdisjoint(texts_in(path)), path


# ---- disk/ knows no RocketMQ --------------------------------------------------------------------------------

BYTES_ONLY = {"buffer", "mapping"}  # kernels that know neither records nor units nor items
STORE_NAMES = {
    "commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "config", "checkpoint", "abort",
    "lock", "rocketstore.json", "rocketstore-cut", "rocksdbstore", "topics.json",
}  # fmt: skip
OF_DISK = [path for path in SOURCES if room(path) == "disk"]


def texts_in(path):
    """The texts in the code of a file, without docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in statements:
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def test_disk_knows_no_records_and_no_names_of_a_store():
    for path in OF_DISK:
        modules = imported_modules(path)
        assert "rocketstore.kernels" not in modules, path
        assert {name.split(".")[2] for name in modules if name.startswith("rocketstore.kernels.")} <= BYTES_ONLY, path
        parts = {part for text in texts_in(path) for part in text.split("/")}
        assert parts & STORE_NAMES == set(), path


def outputs(script):
    """What a script writes to standard output and standard error."""
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False)
    return answer.stdout.strip(), answer.stderr.strip()


def test_importing_rocketstore_imports_nothing_of_an_extra():
    script = f"import sys, rocketstore; print([name for name in {THIRD_PARTY} if name in sys.modules])"
    assert outputs(script) == ("[]", "")


@pytest.mark.parametrize("script", ["import rocketstore", "import rocketstore.cli.group"])
def test_importing_rocketstore_or_its_command_imports_no_numpy(script):
    if "cli" in script:
        pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    assert outputs(f"import sys; {script}; print('numpy' in sys.modules)") == ("False", "")


def test_the_help_of_the_command_imports_nothing_of_an_extra_but_click():
    pytest.importorskip("click", reason="needs click, from the extra 'cli'")
    script = "import sys; sys.argv = ['rocketstore', '--help']; from rocketstore.cli import main\n"
    heavy = [name for name in ["numpy", *THIRD_PARTY] if name != "click"]
    script += f"try: main()\nfinally: print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    shown, imported = outputs(script)
    assert ("hexdump" in shown, imported) == (True, "[]")


def test_every_public_name_is_found():
    assert {"open", "MessageStore", "StoreError", "verify"} < {*rocketstore.__all__}
    assert all(hasattr(rocketstore, name) for name in rocketstore.__all__)
    assert {*rocketstore.__all__} <= {*dir(rocketstore)}


def test_nothing_is_logged_unless_asked_for():
    warn = "logging.getLogger('rocketstore').warning('told')"
    assert outputs(f"import logging, rocketstore.logger; {warn}") == ("", "")
    assert outputs(f"import logging, rocketstore; logging.basicConfig(format='%(message)s'); {warn}") == ("", "told")
