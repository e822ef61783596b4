"""Imports go one way: errors, kernels, files, store, then arrow, spark and cli; in files not sideways."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rocketstore

PACKAGE = Path(rocketstore.__file__).parent
LAYERS = ["errors", "extras", "lazy", "limits", "remote_lists", "storage", "disk", "message_id", "broker_file"]
LAYERS += ["config", "service_thread", "compression", "kernels", "bodies", "arrow_import", "message"]
LAYERS += ["message_batch", "files", "store", "arrow", "spark", "cli", "__main__"]
RANKS = dict.fromkeys(LAYERS[:10], 0) | {name: rank for rank, name in enumerate(LAYERS[10:], 1)}
THIRD_PARTY = ["pyarrow", "pandas", "polars", "pyspark", "click", "rich", "lz4", "zstandard", "fsspec"]
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+c?import|c?import\s+(\S+))", re.MULTILINE)

SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyi", ".pyx", ".pxd"))
INNER = [path for path in SOURCES if path != PACKAGE / "__init__.py"]


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


def layer(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(path.suffix)


def own_imports(path):
    """(layer, module in it or "") of everything that a file imports from the package."""
    for module in imported_modules(path):
        package, _, rest = module.partition(".")
        if package == "rocketstore":
            name, _, inner = rest.partition(".")
            yield name, inner


def test_the_sources_are_found():
    assert {layer(path) for path in INNER} <= set(LAYERS)
    assert {"kernels", "files", "store"} <= {layer(path) for path in INNER}
    assert ("kernels", "keys") in set(own_imports(PACKAGE / "__init__.py"))


@pytest.mark.parametrize("path", INNER, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_only_down(path):
    # The package itself imports all below arrow, spark and cli: only these may ask it for public names.
    allowed = RANKS[layer(path)]
    for name, inner in own_imports(path):
        rank = RANKS.get(name, RANKS["store"] + 0.5)
        assert rank <= allowed, f"{path.relative_to(PACKAGE)} imports {name}.{inner}"


@pytest.mark.parametrize(
    "path", [path for path in INNER if layer(path) == "files"], ids=lambda path: path.name
)
def test_a_kind_of_file_knows_no_other_kind(path):
    inner = {inner for name, inner in own_imports(path) if name == "files"}
    # A scan and the end of a log are no kinds of files but parts of the commit log, as ext units are of a queue; a
    # writer is a part of what is read and written.
    parts = {"commit_log": {"scan"}, "consume_queue_writer": {"consume_queue_ext_writer"}}
    parts |= {"consume_queue": {"consume_queue_writer"}, "consume_queue_ext": {"consume_queue_ext_writer"}}
    parts["batch_consume_queue"] = {"consume_queue", "consume_queue_writer"}  # it is one, with other units
    parts |= {"scan": {"commit_log"}, "log_end": {"commit_log", "end_rule"}, "end_rule": {"commit_log"}}
    parts["consume_queue"] |= {"end_rule", "queue_end"}
    parts["commit_log"] |= {"end_rule", "log_writer", "put_result", "lock_file"}  # of the store that it is a part of
    parts |= {"log_plan": {"commit_log"}, "sparse_log_end": {"commit_log", "scan"}}
    parts["log_writer"] = {"allocate_service"}
    parts["broker_config"] = {"config_json", "config_values", "config_checks", "rocksdb"}  # contents, where else
    parts["config_checks"] = {"config_values"}
    parts["config_values"] = {"config_json"}
    assert inner <= {"mapped_file", "remote_file", "file_run", "put_result"} | parts.get(path.stem, set())


def outputs(script):
    """What a script writes to standard output and standard error."""
    answer = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60, check=False)
    return answer.stdout.strip(), answer.stderr.strip()


def test_importing_rocketstore_imports_nothing_of_an_extra():
    script = f"import sys, rocketstore; print([name for name in {THIRD_PARTY} if name in sys.modules])"
    assert outputs(script) == ("[]", "")


def test_nothing_is_logged_unless_asked_for():
    warn = "logging.getLogger('rocketstore').warning('told')"
    assert outputs(f"import logging, rocketstore; {warn}") == ("", "")
    assert outputs(f"import logging, rocketstore; logging.basicConfig(format='%(message)s'); {warn}") == ("", "told")
