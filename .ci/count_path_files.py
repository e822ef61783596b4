"""Count the files through which a function passes the path of a store, from the sources alone.

A file counts if it has a function that can be called from the given one, and that takes a path or a configuration.
Calls
are found by their names: of imported functions and classes, of functions of the same file, and of methods. A method of
an object whose class is not known counts in each class that has a method of this name, in the modules that the first
module imports, itself or through others.

Usage: python .ci/count_path_files.py [--list] [recovery.recover:recover]
"""

import argparse
import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "rocketstore"
CARRIERS = {"Path", "StorePath", "AnyPath", "PathLike", "StoreConfig", "SizedConfig", "AnyConfig"}


class Function:
    """A function or method: its module, the name of its class or None, and its syntax tree."""

    def __init__(self, module, owner, node):
        self.module, self.owner, self.node = module, owner, node

    @property
    def name(self):
        return f"{self.module}:{self.owner}.{self.node.name}" if self.owner else f"{self.module}:{self.node.name}"


def carries_path(function):
    """Return whether a function takes a path or a configuration, by the types of its parameters."""
    arguments = function.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return any(mentions(argument.annotation) for argument in every if argument is not None)


def mentions(annotation):
    if annotation is None:
        return False
    names = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(annotation)}
    texts = [node.value for node in ast.walk(annotation) if isinstance(node, ast.Constant)]
    return not CARRIERS.isdisjoint(names) or any(name in str(text) for text in texts for name in CARRIERS)


def read_package(package):
    """Return all functions by (module, class, name), the imports of each module, and the bases of each class."""
    functions, imports, bases = {}, {}, {}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).with_suffix("").as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports[module] = imported_names(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                functions[module, None, node.name] = Function(module, None, node)
            elif isinstance(node, ast.ClassDef):
                bases[module, node.name] = [base for base in map(base_name, node.bases) if base]
                for item in node.body:
                    if isinstance(item, ast.FunctionDef):
                        functions[module, node.name, item.name] = Function(module, node.name, item)
    return functions, imports, bases


def base_name(node):
    node = node.value if isinstance(node, ast.Subscript) else node
    return getattr(node, "id", getattr(node, "attr", None))


def imported_names(tree):
    """Return the module and the name of each name that a module imports from the package, not for types alone."""
    found = {}
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rocketstore"):
            module = node.module.removeprefix("rocketstore").lstrip(".").replace(".", "/")
            found |= {(name.asname or name.name): (module, name.name) for name in node.names}
    return found


def statements(tree):
    """Yield the nodes of a module, without the branches of ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"):
            yield node
            yield from statements(node)


class Calls:
    """The calls of a package, as far as its sources show them."""

    def __init__(self, package):
        self.functions, self.imports, self.bases = read_package(package)
        self.methods = {}

    def reached_from(self, module, name):
        """Return all functions that can be called from one."""
        modules = self.imported_by(module)
        for (place, owner, method), function in self.functions.items():
            if owner is not None and place in modules:
                self.methods.setdefault(method, []).append(function)
        start = self.functions[module, None, name]
        found, waiting = {start.name: start}, [start]
        while waiting:
            for function in self.called_by(waiting.pop()):
                if function.name not in found:
                    found[function.name] = function
                    waiting.append(function)
        return list(found.values())

    def imported_by(self, module):
        """Return a module and all modules that it imports, itself or through others."""
        found, waiting = {module}, [module]
        while waiting:
            for place, _ in self.imports.get(waiting.pop(), {}).values():
                if place not in found:
                    found.add(place)
                    waiting.append(place)
        return found

    def called_by(self, function):
        for node in ast.walk(function.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield from self.named(function.module, node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield from self.method(function, node)

    def named(self, module, name):
        module, name = self.imports[module].get(name, (module, name))
        if (module, None, name) in self.functions:
            yield self.functions[module, None, name]
        yield from self.members(module, name, ("__init__", "__new__", "__post_init__", "__enter__", "__iter__"))

    def members(self, module, owner, names):
        """Yield the methods with these names of a class, or of the bases from which it inherits them."""
        if (module, owner) not in self.bases:
            return
        for name in names:
            found = self.find_member(module, owner, name)
            if found is not None:
                yield found

    def find_member(self, module, owner, name):
        if (module, owner, name) in self.functions:
            return self.functions[module, owner, name]
        for base in self.bases.get((module, owner), ()):
            found = self.find_member(*self.imports[module].get(base, (module, base)), name)
            if found is not None:
                return found
        return None

    def method(self, function, node):
        value = node.value
        if isinstance(value, ast.Name):
            if value.id in ("self", "cls") and function.owner is not None:
                found = self.find_member(function.module, function.owner, node.attr)
                return [found] if found is not None else self.overrides(function, node.attr)
            target = self.imports[function.module].get(value.id, (function.module, value.id))
            if target in self.bases:
                found = self.find_member(*target, node.attr)
                return [found] if found is not None else []
        return self.methods.get(node.attr, [])

    def overrides(self, function, name):
        return [method for method in self.methods.get(name, []) if method.module == function.module]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("function", nargs="?", default="recovery.recover:recover")
    parser.add_argument("--list", action="store_true", help="print the functions of each file")
    parser.add_argument("--package", type=Path, default=PACKAGE)
    arguments = parser.parse_args()
    module, _, name = arguments.function.partition(":")
    calls = Calls(arguments.package)
    reached = calls.reached_from(module.replace(".", "/"), name)
    files = {}
    for function in reached:
        if carries_path(function):
            files.setdefault(function.module, []).append(function.name.partition(":")[2])
    for file, names in sorted(files.items()):
        print(f"{file}.py", *([": ", ", ".join(sorted(names))] if arguments.list else []), sep="")
    print(f"{len(files)} files; {len(reached)} functions in {len({f.module for f in reached})} files are reached")


if __name__ == "__main__":
    main()
