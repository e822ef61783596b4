"""Check how the code is built: sizes of rooms, files and functions, circles, names, and the phrases of a style guide.

Run as ``make house``, and by ``make lint``. Sizes are printed and are no limits: a file is split when it has two
subjects. The exit status is 1 if modules import each other in a circle, if two classes have one name, or if the
phrases are too many.
"""

import ast
import graphlib
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).parent.parent
PACKAGE = TREE / "rocketstore"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50  # without the docstring
MAX_ROOM_LINES = 2500
MAX_PHRASES = 1.5  # in 1,000 words
UNLIMITED_ROOMS = {"kernels"}
PHRASES = re.compile(
    r"\b(?:what is|what was|there is none|is to be|are to be|of which|such|who|is told|is asked|goes on with|"
    r"gone on with|passed over|taken for|as it is)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
CYTHON_TEXT = re.compile(r'"""(.*?)"""|#(.*)$', re.DOTALL | re.MULTILINE)


def modules() -> dict[str, Path]:
    """Return every Python and Cython module of the package by its dotted name below ``rocketstore``."""
    paths = [path for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".py", ".pyx")]
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in paths}


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def long_files(names: dict[str, Path]) -> Iterator[str]:
    for path in names.values():
        lines = count_lines(path)
        if path.suffix == ".py" and lines > MAX_FILE_LINES:
            yield f"{path.relative_to(TREE)}: {lines} lines, more than {MAX_FILE_LINES}"


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def long_functions(names: dict[str, Path]) -> Iterator[str]:
    for path in names.values():
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and function_lines(node) > MAX_FUNCTION_LINES:
                place = f"{path.relative_to(TREE)}:{node.lineno}"
                yield f"{place}: {node.name} has {function_lines(node)} lines, more than {MAX_FUNCTION_LINES}"


def product_lines() -> int:
    """Return the lines of the package and of csrc, generated C left out."""
    paths = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd", ".pyi")]
    return sum(count_lines(path) for path in [*paths, *(TREE / "csrc").glob("*.[ch]")])


def room_sizes(names: dict[str, Path]) -> Counter[str]:
    """Count the lines of each folder. A folder inside a room is a room of its own."""
    sizes: Counter[str] = Counter()
    for name, path in names.items():
        sizes[name.rpartition(".")[0].replace(".", "/") or "rocketstore"] += count_lines(path)
    return sizes


def large_rooms(sizes: Counter[str]) -> Iterator[str]:
    for room, lines in sizes.items():
        if lines > MAX_ROOM_LINES and room not in UNLIMITED_ROOMS:
            yield f"rocketstore/{room}: {lines} lines, more than {MAX_ROOM_LINES}"


def imports_of(path: Path, names: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".pyx":
        return set(re.findall(r"^\s*(?:from|cimport|import)\s+rocketstore\.([\w.]+)", text, re.MULTILINE)) & set(names)
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rocketstore."):
            module = node.module.removeprefix("rocketstore.")
            inner = {f"{module}.{alias.name}" for alias in node.names} & set(names)
            found |= inner or {module}
    return found & set(names)


def circles(names: dict[str, Path]) -> Iterator[str]:
    """Find modules that import each other, directly or through others; one circle of each connected part."""
    needs = {name: imports_of(path, names) - {name} for name, path in names.items()}
    while True:
        try:
            graphlib.TopologicalSorter(needs).prepare()
        except graphlib.CycleError as error:
            circle = error.args[1]
            yield f"modules import each other: {' <- '.join(circle)}"
            needs = {name: needed - set(circle) for name, needed in needs.items() if name not in circle}
        else:
            return


def repeated_classes(names: dict[str, Path]) -> Iterator[str]:
    places = defaultdict(list)
    for path in names.values():
        pattern = r"^(?:cdef )?class (\w+)"
        for name in re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE):
            if not name.startswith("_"):
                places[name].append(str(path.relative_to(TREE)))
    for name, paths in places.items():
        if len(paths) > 1:
            yield f"class {name} is in {' and in '.join(paths)}"


def python_texts(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a Python file."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every docstring, comment and Markdown page of the product with its path."""
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix == ".py":
            yield from ((path, text) for text in python_texts(path))
        elif path.suffix in (".pyx", ".pxd", ".pyi"):
            for match in CYTHON_TEXT.finditer(path.read_text(encoding="utf-8")):
                yield path, match[1] or match[2] or ""
    for path in [*sorted(TREE.glob("*.md")), *sorted((TREE / "docs").rglob("*.md")), TREE / "tests" / "README.md"]:
        yield path, path.read_text(encoding="utf-8")


def phrase_rates() -> tuple[float, list[tuple[float, int, str]]]:
    """Return the phrases in 1,000 words of everything, and (rate, phrases, place) of each room or page."""
    words: Counter[str] = Counter()
    phrases: Counter[str] = Counter()
    for path, text in texts():
        inner = path.relative_to(TREE).parts
        place = "/".join(inner[:2]) if inner[0] == "rocketstore" else str(path.relative_to(TREE))
        words[place] += len(WORD.findall(text))
        phrases[place] += len(PHRASES.findall(text))
    rates = [(1000 * phrases[place] / words[place], phrases[place], place) for place in words if words[place]]
    return 1000 * phrases.total() / words.total(), sorted(rates, reverse=True)


def main() -> int:
    names = modules()
    sizes = room_sizes(names)
    for room, lines in sizes.most_common():
        print(f"{lines:6,}  {room}")
    print(f"{product_lines():6,}  lines of the product")
    rate, rates = phrase_rates()
    print(f"{rate:6.2f}  phrases of the list in 1,000 words")
    for place_rate, count, place in rates[:12]:
        print(f"        {place_rate:6.2f} {count:4}  {place}")
    for remark in (*long_files(names), *long_functions(names), *large_rooms(sizes)):
        print(remark)
    faults = [*circles(names), *repeated_classes(names)]
    if rate > MAX_PHRASES:
        faults.append(f"{rate:.2f} phrases in 1,000 words, more than {MAX_PHRASES}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
