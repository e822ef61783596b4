"""Print the sizes of rooms, files and functions, and check how the modules are built.

Run as ``make house``, and by ``make lint``. Sizes are no limits: a file is split when it has two subjects. The exit
status is 1 if modules import each other in a circle, if a room imports a room that stands after it in the list of
``tests/project/test_layers.py``, or if two classes have one name.
"""

import ast
import graphlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).parent.parent
PACKAGE = TREE / "rocketstore"
SHOWN = 10  # of the longest files, and of the longest functions


def modules() -> dict[str, Path]:
    """Return every Python and Cython module of the package by its dotted name below ``rocketstore``."""
    paths = [path for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".py", ".pyx")]
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in paths}


def count_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def function_sizes(names: dict[str, Path]) -> Counter[str]:
    """Count the lines of each function of the Python modules."""
    sizes: Counter[str] = Counter()
    for path in names.values():
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                sizes[f"{path.relative_to(TREE)}:{node.lineno} {node.name}"] = function_lines(node)
    return sizes


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


def room_list() -> list[str]:
    """Return the rooms in the order of their imports: each imports only itself and those before it."""
    tree = ast.parse((TREE / "tests/project/test_layers.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            rooms: list[str] = ast.literal_eval(node.value)
            return rooms
    raise ValueError("tests/project/test_layers.py has no list ROOMS")


def arrows_upwards(names: dict[str, Path]) -> Iterator[str]:
    """Find modules that import a module of a later room."""
    places = {room: place for place, room in enumerate(room_list())}
    for name, path in names.items():
        for module in sorted(imports_of(path, names)):
            if places[module.partition(".")[0]] > places[name.partition(".")[0]]:
                yield f"{path.relative_to(TREE)} imports {module}, a module of a later room"


def print_sizes(names: dict[str, Path]) -> None:
    for room, lines in room_sizes(names).most_common():
        print(f"{lines:6,}  {room}")
    print(f"{product_lines():6,}  lines of the product")
    files = Counter({str(path.relative_to(TREE)): count_lines(path) for path in names.values()})
    for title, sizes in (("longest files", files), ("longest functions", function_sizes(names))):
        print(f"{title}:")
        for place, lines in sizes.most_common(SHOWN):
            print(f"{lines:6,}  {place}")


def main() -> int:
    names = modules()
    print_sizes(names)
    faults = [*circles(names), *arrows_upwards(names), *repeated_classes(names)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
