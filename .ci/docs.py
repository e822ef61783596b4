"""Write the pages of the documentation: those of docs/, and pages that are generated from the code.

Usage: ``.ci/docs.py DIRECTORY``. The directory is written anew. ``make docs`` then builds the site from it.
"""

import ast
import importlib
import inspect
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from performance import performance_page, write_plots

TREE = Path(__file__).parent.parent
WIDTH = 100  # columns of the help of commands
SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "Examples", "Attributes", "Yields")
# How an entry of a section begins.
ENTRIES = {
    "Parameters": r"([\w, .*]+?) ?: (.*)",
    "Attributes": r"([\w, .*]+?) ?: (.*)",
    "Raises": r"(\w+) ?: (.*)",
}


# Methods of public classes that other modules of the package call. The page leaves them out.
INTERNAL = {
    "CommitLog": "as_whole_to error find_sound_message look with_leftovers",
    "BatchConsumeQueue": "has_batches offset_after_missing_file run_type writer_type",
    "ConsumeQueue": "has_batches offset_after_missing_file run_type writer_type",
    "DispatchRequest": "of",
    "IndexFile": "check_file entries_between find_lost identity span",
    "IndexService": "build_items check_file_sizes select_phy_offsets_by_hash",
    "MappedFile": "allocate_holes check_file reading",
    "Message": "of_fields",
    "MessageBatch": "stored_columns to_put",
    "MessageStore": (
        "find_commit_log find_compacted_queues describe_missing_units formats is_bounded leave_out_compacted "
        "find_other_sources query_keys of_entry of_survey of_writing_entry plan_other_logs reads_other_logs tier"
    ),
    "PutMessagesResult": "join of",
    "RemotePath": "error forget hold_lists list_time listed_at named reading require_all version",
    "Scan": "adapted joined_with log with_rows without_phy_offsets",
    "StoreCheckpoint": "clear",
    "StoreConfig": "commit_log_paths require_usable",
    "BinaryColumn": "bytes_between values_between with_nulls",
    "ListColumn": "values_between",
    "MapColumn": "values_between",
    "StringColumn": "bytes_between values_between with_nulls",
}


# ---- command line ------------------------------------------------------------------------------------------


def help_of(command: Any, name: str) -> str:
    import click

    context = click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    return f"## {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"


def command_line_page() -> str:
    """Return docs/command-line.md, followed by the help of each command, and of the commands in groups."""
    import click

    from rocketstore.cli.group import rocketstore as group

    parts = [(TREE / "docs" / "command-line.md").read_text(encoding="utf-8"), help_of(group, "rocketstore")]
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        parts.append(help_of(command, f"rocketstore {name}"))
        inner = getattr(command, "commands", {})
        parts.extend(help_of(inner[word], f"rocketstore {name} {word}") for word in inner)
    return "\n".join(parts)


# ---- Python API --------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Escape the characters that Markdown reads as markup. Text in backticks stays."""
    parts = re.split(r"(``.*?``|`.*?`)", text, flags=re.DOTALL)
    return "".join(part if index % 2 else re.sub(r"([*\[\]<>|_])", r"\\\1", part) for index, part in enumerate(parts))


def markdown_of(docstring: str) -> str:
    """Turn a docstring with NumPy sections into Markdown: headings become bold, and parameters items of a list."""
    lines = inspect.cleandoc(docstring).splitlines()
    out: list[str] = []
    section, in_code = "", False
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if line in SECTIONS and re.fullmatch(r"-+", following):
            section = line
            out += ["", f"**{line}**", ""]
        elif re.fullmatch(r"-+", line) and index and lines[index - 1] in SECTIONS:
            continue
        elif line.lstrip().startswith(">>>") or (in_code and line.strip()):
            out += [] if in_code else ["", "```pycon"]
            in_code = True
            out.append(line.strip())
        else:
            out += ["```", ""] if in_code else []
            in_code = False
            entry = re.match(ENTRIES[section], line) if section in ENTRIES else None
            if entry:
                out.append(f"- `{entry[1]}`: {escape(entry[2])}")
            else:
                out.append(("    " if line.startswith(" ") and section else "") + escape(line.strip()))
    return "\n".join([*out, *(["```"] if in_code else [])])


def signature_of(value: Any) -> str:
    """Return the parameters of a callable, without self, cls and internal ones. Return "" if it does not show them."""
    try:
        signature = inspect.signature(value)
        shown = [parameter for name, parameter in signature.parameters.items() if not name.startswith("_")]
        text = str(signature.replace(parameters=shown))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"\A\((?:self|cls)(?:, )?", "(", text)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)  # of named tuples
    text = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", text)  # annotations are strings, and shown in quotes
    return re.sub(r"\brocketstore(\.\w+)+\.(?=\w)", "", text)


def docstring_of(value: Any) -> str:
    """Return a docstring without the signature that Cython writes in its first line."""
    text = inspect.getdoc(value) or ""
    return re.sub(r"\A\w[\w.]*\(.*\)(?: -> .*)?\n+", "", text)


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a class that users need and that have a docstring of their own."""
    seen = set(INTERNAL.get(cls.__name__, "").split())
    for base in cls.__mro__:
        if base is object or not base.__module__.startswith("rocketstore"):
            continue
        for name, value in vars(base).items():
            inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if name.startswith("_") or name in seen or not (callable(inner) or inspect.isdatadescriptor(inner)):
                continue
            seen.add(name)
            if inspect.getdoc(inner):
                yield name, inner


def api_entry(name: str, value: Any) -> str:
    parts = [f"## {name}\n"]
    is_error = isinstance(value, type) and issubclass(value, Exception)
    signature = "" if is_error else signature_of(value)
    if signature:
        parts.append(f"```python\n{name}{signature}\n```\n")
    parts.append(markdown_of(docstring_of(value)) + "\n")
    for member, inner in public_members(value) if isinstance(value, type) and not is_error else ():
        parameters = signature_of(inner) if callable(inner) else ""
        parts.append(f"### {name}.{member} {{ #{name}.{member} }}\n")
        if parameters:
            parts.append(f"```python\n{member}{parameters}\n```\n")
        parts.append(markdown_of(docstring_of(inner)) + "\n")
    return "\n".join(parts)


def python_api_page() -> str:
    """Return a page with the docstring of each public name and of its methods."""
    package = importlib.import_module("rocketstore")
    head = (
        "# Python API\n\nThis page has the docstring of each public name, as `help(rocketstore.NAME)` shows it.\n\n"
        "The examples run as tests. They use a store `demo` with 100 messages of `Orders` and one of `Users`. "
        "The public names are imported, and `rocketstore` too.\n"
    )
    names = sorted(package.__all__, key=lambda name: (name[0].isupper(), name))
    return "\n".join([head, *(api_entry(name, getattr(package, name)) for name in names)])


# ---- Spark -------------------------------------------------------------------------------------------------


def function_docstring(path: Path, name: str) -> str:
    """Return the docstring of a function without importing its module, which needs pyspark."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
    raise LookupError(f"{path}: has no function {name}")


def table_row(line: str) -> str:
    """Return a row of a table. A cell may contain ||, which separates tags, and is escaped outside of code."""
    cells = [cell.strip() for cell in line.strip("| ").replace("||", "\0").split("|")]
    cells = [cell.replace("\0", "||") for cell in cells]
    shown = [f"`{cell}`" if index in (0, 3) else escape(cell) for index, cell in enumerate(cells)]
    return f"| {' | '.join(shown)} |"


def spark_options_page() -> str:
    """Return a page with the options of reading and writing, from the docstrings of the data source."""
    source = TREE / "rocketstore" / "spark" / "source"
    out = ["# Spark options\n", "## Reading\n"]
    for line in function_docstring(source / "data_source.py", "register").splitlines():
        if line.startswith("| option") or line.startswith("| ---"):
            out.append(line)
        elif line.startswith("|"):
            out.append(table_row(line))
        else:
            out.append(escape(line))
    out += ["", "## Writing\n", markdown_of(function_docstring(source / "sink.py", "writer_of"))]
    return "\n".join(out) + "\n"


# ---- all pages ---------------------------------------------------------------------------------------------

PAGES = {
    "command-line.md": command_line_page,
    "python-api.md": python_api_page,
    "spark-options.md": spark_options_page,
    "performance.md": performance_page,
}


def write_pages(directory: Path) -> None:
    """Copy docs/ to a directory, which is deleted first, and add the generated pages."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(TREE / "docs", directory)
    for name, page in PAGES.items():
        (directory / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
    write_plots(Path(sys.argv[1]) / "images")
