"""Write the pages of the documentation: those of docs/, and pages that are generated from the code.

Usage: ``.ci/docs.py DIRECTORY``. The directory is written anew. ``make docs`` then builds the site from it.
"""

import ast
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from api_pages import escape, markdown_of, write_api_pages, write_code_pages
from performance import performance_page, write_plots

TREE = Path(__file__).parent.parent
WIDTH = 100  # columns of the help of commands


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
    "spark-options.md": spark_options_page,
    "performance.md": performance_page,
}


def keep_options_together(page: str) -> str:
    """Mark short words of code outside of fences that have a hyphen, so that no line breaks after the hyphen."""
    parts = re.split(r"(^ *```.*?^ *```$)", page, flags=re.MULTILINE | re.DOTALL)
    marked = [
        part if index % 2 else re.sub(r"(?<![`\[])(`[^`\s]{0,24}-[^`\s]{0,24}`)(?![`{])", r"\1{ .short }", part)
        for index, part in enumerate(parts)
    ]
    return "".join(marked)


def write_pages(directory: Path) -> None:
    """Copy docs/ to a directory, which is deleted first, and add the generated pages."""
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(TREE / "docs", directory)
    for name, page in PAGES.items():
        (directory / name).write_text(page(), encoding="utf-8")
    write_api_pages(directory)
    for path in directory.rglob("*.md"):
        path.write_text(keep_options_together(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
    write_code_pages(Path(sys.argv[1]))
    write_plots(Path(sys.argv[1]) / "images")
