"""Count the files through which a function passes the path of a store, from the sources alone.

A file counts if it has a function that can be called from the given one, and that takes a path or a configuration.

Calls are found by their names: of imported functions and classes, of functions of the same file, and of methods. The
class of an object is known by annotations: of parameters, fields and results, and by the class that is called to make
it. A method of an object whose class is not known counts in each class that has a method of this name, in the modules
that the first module imports, itself or through others. Names in annotations and in ``isinstance`` call nothing.

Usage: python .ci/count_path_files.py [--list] [recovery.recover:recover]
"""

import argparse
import ast
import builtins
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "rocketstore"
CARRIERS = {"Path", "StorePath", "AnyPath", "PathLike", "StoreConfig", "SizedConfig", "AnyConfig"}
CONSTRUCTORS = ("__init__", "__new__", "__post_init__", "__enter__", "__iter__")
OTHER = ("", "")  # the class of an object that is of no class of the package


class Function:
    """A function or method: its module, the name of its class or None, and its syntax tree."""

    def __init__(self, module, owner, node):
        self.module, self.owner, self.node = module, owner, node

    @property
    def name(self):
        return f"{self.module}:{self.owner}.{self.node.name}" if self.owner else f"{self.module}:{self.node.name}"

    @property
    def arguments(self):
        """All parameters, with their annotations."""
        found = self.node.args
        every = [*found.posonlyargs, *found.args, *found.kwonlyargs, found.vararg, found.kwarg]
        return [argument for argument in every if argument is not None]


def carries_path(function):
    """Return whether a function takes a path or a configuration, by the types of its parameters."""
    return any(mentions(argument.annotation) for argument in function.arguments)


def mentions(annotation):
    if annotation is None:
        return False
    names = {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(annotation)}
    texts = [node.value for node in ast.walk(annotation) if isinstance(node, ast.Constant)]
    return not CARRIERS.isdisjoint(names) or any(name in str(text) for text in texts for name in CARRIERS)


class Package:
    """The functions, classes and imports of a package.

    Attributes: functions: by (module, class or None, name). imports: of each module: (module, name) by name. bases: of
    each class. fields: the annotations of the attributes of each class.
    """

    def __init__(self, package):
        self.functions, self.imports, self.bases, self.fields, self.subclasses = {}, {}, {}, {}, {}
        self.externals, self.aliases, self._implementations, self._types = {}, {}, {}, {}
        for path in sorted(package.rglob("*.py")):
            module = path.relative_to(package).with_suffix("").as_posix()
            tree = ast.parse(path.read_text(encoding="utf-8"))
            self.imports[module] = imported_names(tree)
            self.externals[module] = external_names(tree)
            for node in tree.body:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.aliases[module, node.targets[0].id] = node.value
                if isinstance(node, ast.FunctionDef):
                    self.functions[module, None, node.name] = Function(module, None, node)
                elif isinstance(node, ast.ClassDef):
                    self._add_class(module, node)
        for module, owner in self.bases:
            for base in self.bases_of((module, owner)):
                self.subclasses.setdefault(base, []).append((module, owner))

    def _add_class(self, module, node):
        self.bases[module, node.name] = [base for base in map(base_name, node.bases) if base]
        self.fields[module, node.name] = fields = {}
        for item in node.body:
            if isinstance(item, ast.FunctionDef):
                self.functions[module, node.name, item.name] = Function(module, node.name, item)
                given = Function(module, node.name, item)
                fields |= {name: value for name, value in assigned_fields(given).items() if name not in fields}
            elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                fields[item.target.id] = item.annotation, None

    def find(self, module, name):
        """Return the module and the name of an object that a module names, None for a name of another package."""
        found = self.imports[module].get(name, (module, name))
        seen = set()
        while found[0] in self.imports and found not in self.bases and found not in seen:
            seen.add(found)
            following = self.imports[found[0]].get(found[1])
            if following is None:
                break
            found = following
        return found

    def keep_subclasses(self, modules):
        """Forget the subclasses in other modules than those that can be imported."""
        for base, subclasses in self.subclasses.items():
            self.subclasses[base] = [subclass for subclass in subclasses if subclass[0] in modules]

    def bases_of(self, owner):
        return [self.find(owner[0], base) for base in self.bases.get(owner, ())]

    def find_member(self, owner, name):
        """Return the method of a class, or of the base from which it inherits the method; None without one."""
        if (*owner, name) in self.functions:
            return self.functions[(*owner, name)]
        return next((found for base in self.bases_of(owner) if (found := self.find_member(base, name))), None)

    def find_members(self, owner, name):
        """Return the method of a class, and those of its subclasses that override it."""
        found = [self.find_member(owner, name)]
        waiting = list(self.subclasses.get(owner, ()))
        while waiting:
            subclass = waiting.pop()
            found.append(self.functions.get((*subclass, name)))
            waiting += self.subclasses.get(subclass, ())
        return [method for method in found if method is not None]

    def implementations(self, protocol):
        """Return the classes that have all methods of a protocol."""
        if protocol not in self._implementations:
            wanted = {name for module, owner, name in self.functions if (module, owner) == protocol}
            found = {
                owner
                for owner in self.bases
                if owner != protocol and not self.is_protocol(owner) and all(self.has(owner, name) for name in wanted)
            }
            self._implementations[protocol] = found
        return self._implementations[protocol]

    def is_protocol(self, owner):
        return "Protocol" in self.bases[owner]

    def has(self, owner, name):
        return self.find_member(owner, name) is not None or self.find_field(owner, name) is not None

    def types_of(self, function):
        """Return the types in a function; None while they are being found."""
        if function.name not in self._types:
            self._types[function.name] = None
            self._types[function.name] = Types(self, function)
        return self._types[function.name]

    def find_field(self, owner, name):
        """Return the annotation or value of an attribute, its method if it is a value, and its module; None without."""
        if name in self.fields.get(owner, {}):
            return *self.fields[owner][name], owner[0]
        return next((found for base in self.bases_of(owner) if (found := self.find_field(base, name))), None)


def base_name(node):
    node = node.value if isinstance(node, ast.Subscript) else node
    return getattr(node, "id", getattr(node, "attr", None))


def assigned_fields(function):
    """Return the annotation or the value of each attribute that a method gives to ``self``, with the method."""
    found = {}
    for node in ast.walk(function.node):
        if isinstance(node, ast.AnnAssign) and is_of_self(node.target):
            found[node.target.attr] = node.annotation, None
        elif isinstance(node, ast.Assign) and function.node.name == "__init__":
            for target, value in pairs_of(node):
                if is_of_self(target):
                    found.setdefault(target.attr, (value, function))
    return found


def is_of_self(node):
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def pairs_of(node):
    """Yield each target of an assignment with its value."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def imported_names(tree):
    """Return the module and the name of each name that a module imports from the package, not for types alone."""
    found = {}
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rocketstore"):
            module = node.module.removeprefix("rocketstore").lstrip(".").replace(".", "/")
            found |= {(name.asname or name.name): (module, name.name) for name in node.names}
    return found


def external_names(tree):
    """Return the names that a module imports from other packages."""
    found = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("rocketstore"):
            found |= {name.asname or name.name for name in node.names}
    return found


def statements(tree):
    """Yield the nodes of a module, without the branches of ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING"):
            yield node
            yield from statements(node)


def evaluated(node):
    """Yield the nodes of a function that are evaluated when it is called: no annotations, no classes of checks."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        if isinstance(node, ast.Call) and name == "args" and getattr(node.func, "id", None) == "isinstance":
            value = value[:1]
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from evaluated(child)


class Calls:
    """The calls of a package, as far as its sources show them."""

    def __init__(self, package):
        self.package = Package(package)
        self.methods = {}

    def reached_from(self, module, name):
        """Return all functions that can be called from one."""
        modules = self.imported_by(module)
        for (place, owner, method), function in self.package.functions.items():
            if owner is not None and place in modules:
                self.methods.setdefault(method, []).append(function)
        self.package.keep_subclasses(modules)
        start = self.package.functions[module, None, name]
        found, waiting = {start.name: start}, [start]
        while waiting:
            caller = waiting.pop()
            for function in self.called_by(caller):
                if function.name not in found:
                    function.caller = caller
                    found[function.name] = function
                    waiting.append(function)
        return list(found.values())

    def imported_by(self, module):
        """Return a module and all modules that it imports, itself or through others."""
        found, waiting = {module}, [module]
        while waiting:
            for place, _ in self.package.imports.get(waiting.pop(), {}).values():
                if place not in found:
                    found.add(place)
                    waiting.append(place)
        return found

    def called_by(self, function):
        types = self.package.types_of(function)
        for node in evaluated(function.node):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield from self.named(function.module, node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield from self.method(types, node)

    def named(self, module, name):
        target = self.package.find(module, name)
        if (target[0], None, target[1]) in self.package.functions:
            yield self.package.functions[target[0], None, target[1]]
        if target in self.package.bases:
            yield from filter(None, (self.package.find_member(target, name) for name in CONSTRUCTORS))

    def method(self, types, node):
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", None) == "super":
            bases = self.package.bases_of(types.owner)
            return list(filter(None, (self.package.find_member(base, node.attr) for base in bases)))
        owners = types.classes_of(node.value)
        if owners is None:
            return self.methods.get(node.attr, [])
        found = {}
        for owner in owners:
            for method in self.package.find_members(owner, node.attr) if is_class(owner) else ():
                found[method.name] = method
        return list(found.values())


class Types:
    """The classes of the objects in a function, as its annotations show them.

    A class is (module, name); OTHER is any class of another package; ("[]", classes) is a container of objects. None
    stands for objects whose classes are not known.
    """

    def __init__(self, package, function):
        self.package, self.module = package, function.module
        self.owner = (function.module, function.owner)
        self.known = {}
        for argument in function.arguments:
            self.known[argument.arg] = self.classes_in(argument.annotation, self.module)
        for argument in (function.node.args.vararg, function.node.args.kwarg):
            if argument is not None:
                self.known[argument.arg] = {container(self.known[argument.arg])}
        if function.owner is not None and function.node.args.args:
            self.known[function.node.args.args[0].arg] = {self.owner}
        self.known |= {node.name: None for node in evaluated(function.node) if is_nested(node, function.node)}
        self.known |= {
            argument.arg: None
            for node in evaluated(function.node)
            if is_nested(node, function.node)
            for argument in Function(None, None, node).arguments
        }
        given, self.learned = {name: known for name, known in self.known.items() if known is not None}, {}
        unknown = dict.fromkeys(self.known)
        for _ in range(3):  # a variable may get its value from another one that is assigned behind it
            self.known, self.learned = unknown | self.learned | given, {}
            for node in evaluated(function.node):
                self._learn(node)
        self.known = unknown | self.learned | given

    def _learn(self, node):
        if isinstance(node, ast.Assign):
            for target, value in pairs_of(node):
                self._set(target, self.classes_of(value))
        elif isinstance(node, ast.AnnAssign):
            self._set(node.target, self.classes_in(node.annotation, self.module))
        elif isinstance(node, ast.NamedExpr):
            self._set(node.target, self.classes_of(node.value))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._set(node.optional_vars, self.classes_of(node.context_expr))
        elif isinstance(node, ast.For | ast.comprehension):
            self._set(node.target, elements(self.classes_of(node.iter)))
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            self._set(ast.Name(node.name), self.classes_of(node.type))

    def _set(self, target, classes):
        if isinstance(target, ast.Name):
            known = self.learned.get(target.id, set())
            self.learned[target.id] = None if known is None or classes is None else known | classes
        elif isinstance(target, ast.Tuple | ast.List | ast.Starred):
            for each in target.elts if hasattr(target, "elts") else [target.value]:
                self._set(each, elements(classes))

    def classes_of(self, node):
        """Return the classes that the value of an expression may have; None if they are not known."""
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._result(node)
        if isinstance(node, ast.Subscript):
            return elements(self.classes_of(node.value))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):  # a path and a name are a path
            return self.classes_of(node.left)
        if isinstance(node, ast.IfExp):
            return self._joined(node.body, node.orelse)
        if isinstance(node, ast.BoolOp):
            return self._joined(*node.values)
        if isinstance(node, ast.List | ast.Set | ast.Tuple):
            return {container(self._joined(*node.elts))}
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return {container(self.classes_of(node.elt))}
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.Compare | ast.Dict | ast.DictComp):
            return {OTHER}
        return None

    def _named(self, name):
        if name in self.known:
            return self.known[name]
        target = self.package.find(self.module, name)
        if target in self.package.bases:
            return {target}
        return {OTHER} if name in self.package.externals[self.module] else None

    def _joined(self, *nodes):
        found = [self.classes_of(node) for node in nodes]
        return None if None in found else set().union(*found)

    def _attribute(self, node):
        owners = self.classes_of(node.value)
        return None if owners is None else self._of_each(owners, lambda owner: self._member(owner, node.attr))

    def _of_each(self, owners, find):
        found = [find(owner) if is_class(owner) else {OTHER} for owner in owners]
        return None if None in found else set().union(*found)

    def _member(self, owner, name):
        """Return the classes of an attribute of an object of a class."""
        method, field = self.package.find_member(owner, name), self.package.find_field(owner, name)
        if method is not None and is_property(method):
            return self.classes_in(method.node.returns, method.module, owner)
        if field is None:
            return None
        annotation, function, module = field
        if function is None:
            return self.classes_in(annotation, module, owner)
        types = self.package.types_of(function)
        return None if types is None else types.classes_of(annotation)

    def _result(self, node):
        if isinstance(node.func, ast.Name):
            return self._result_of_name(node)
        if not isinstance(node.func, ast.Attribute):
            return None
        owners = self.classes_of(node.func.value)
        return None if owners is None else self._of_each(owners, lambda owner: self._returned(owner, node.func.attr))

    def _result_of_name(self, node):
        name = node.func.id
        if name in self.known:
            return None
        target = self.package.find(self.module, name)
        if target in self.package.bases:
            return {target}
        function = self.package.functions.get((target[0], None, target[1]))
        if function is not None:
            return self.classes_in(function.node.returns, function.module)
        if (
            name in ("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset", "next", "max", "min")
            and node.args
        ):
            found = self.classes_of(node.args[0])
            return elements(found) if name in ("next", "max", "min") else found
        if name == "enumerate" and node.args:
            found = elements(self.classes_of(node.args[0]))
            return {container({container(None if found is None else found | {OTHER})})}
        if name in ("map", "zip", "filter", "getattr", "super"):
            return None
        return {OTHER} if name in self.package.externals[self.module] else None

    def _returned(self, owner, name):
        method = self.package.find_member(owner, name)
        return None if method is None else self.classes_in(method.node.returns, method.module, owner)

    def classes_in(self, annotation, module, owner=None):
        """Return the classes of an annotation; None if it has another form, or names what is not known."""
        if isinstance(annotation, ast.Constant):
            if annotation.value is None:
                return {OTHER}
            annotation = ast.parse(str(annotation.value), mode="eval").body
        if isinstance(annotation, ast.BinOp):
            parts = [self.classes_in(part, module, owner) for part in (annotation.left, annotation.right)]
            return None if None in parts else set().union(*parts)
        if isinstance(annotation, ast.Subscript):
            return self._classes_in_subscript(annotation, module, owner)
        if isinstance(annotation, ast.Name):
            return self._classes_of_name(annotation.id, module, owner)
        return {OTHER} if isinstance(annotation, ast.Attribute) else None

    def _classes_in_subscript(self, annotation, module, owner):
        name, inner = base_name(annotation), annotation.slice
        if name in PASSING:
            return self.classes_in(inner, module, owner)
        if name in CONTAINERS:
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            parts = parts[:1] if name in KEYED or name == "Generator" else parts
            found = [self.classes_in(part, module, owner) for part in parts if not is_ellipsis(part)]
            return {container(None if None in found else set().union(*found))}
        return self._classes_of_name(name, module, owner)

    def _classes_of_name(self, name, module, owner):
        if name == "Self":
            return None if owner is None else {owner}
        if name in ("Any", "Callable"):
            return None
        target = self.package.find(module, name)
        if target in self.package.bases:
            is_protocol = self.package.is_protocol(target)
            return {OTHER, *self.package.implementations(target)} if is_protocol else {target}
        alias = self.package.aliases.get(target)
        if alias is not None:
            return self._classes_of_alias(alias, target[0], owner)
        return {OTHER} if name in self.package.externals[module] else None

    def _classes_of_alias(self, alias, module, owner):
        if isinstance(alias, ast.Call) and base_name(alias.func) == "TypeVar":
            given = [*alias.args[1:], *(keyword.value for keyword in alias.keywords if keyword.arg == "bound")]
            found = [self.classes_in(part, module, owner) for part in given]
            return None if None in found or not found else set().union(*found)
        return self.classes_in(alias, module, owner)


def is_class(owner):
    return owner != OTHER and owner[0] != "[]"


def container(classes):
    return "[]", None if classes is None else frozenset(classes)


def elements(classes):
    """Return the classes of the elements of containers; None if one of the objects is no known container."""
    if classes is None or any(owner[0] != "[]" or owner[1] is None for owner in classes):
        return None
    return set().union(*(owner[1] for owner in classes))


def is_nested(node, function):
    return isinstance(node, ast.FunctionDef) and node is not function


def is_ellipsis(node):
    return isinstance(node, ast.Constant) and node.value is ...


def is_property(method):
    names = {base_name(node) for node in method.node.decorator_list}
    return not names.isdisjoint({"property", "lazy_property", "cached_property"})


KEYED = {"dict", "Mapping", "MutableMapping", "OrderedDict"}
CONTAINERS = KEYED | {
    "list",
    "set",
    "tuple",
    "frozenset",
    "Sequence",
    "Iterator",
    "Iterable",
    "Collection",
    "Generator",
}
PASSING = {"closing", "AbstractContextManager", "type"}  # of which ``with`` and a call give an object of the class


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("function", nargs="?", default="recovery.recover:recover")
    parser.add_argument("--list", action="store_true", help="print the functions of each file")
    parser.add_argument("--why", help="print the calls that lead to a function, such as log/commit_log:CommitLog.open")
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
    if arguments.why:
        function = next((function for function in reached if function.name == arguments.why), None)
        while function is not None:
            print(function.name)
            function = getattr(function, "caller", None)
    print(f"{len(files)} files; {len(reached)} functions in {len({f.module for f in reached})} files are reached")


if __name__ == "__main__":
    main()
