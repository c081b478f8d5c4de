"""The types in the `.pyi` files are those of the modules: the same names, parameters and documentation.

`BLESS=1` writes the documentation, which is that of the Rust sources, into the files again.
"""

import ast
import inspect
import os
from pathlib import Path

import pytest

import pagelift

try:
    from pagelift import transport
except ImportError:
    transport = None

HERE = Path(__file__).parent.parent / "pagelift"
INSTALLED = Path(pagelift.__file__).parent
NO_NIXL = pytest.mark.skipif(transport is None, reason="this pagelift was built without NIXL")
MODULES = pytest.mark.parametrize(
    ("module", "name"), [(pagelift, "__init__.pyi"), pytest.param(transport, "transport.pyi", marks=NO_NIXL)]
)
# What Python makes of a class by itself, and what is documented at the class.
UNDOCUMENTED = {"__new__", "__int__", "__len__", "__contains__", "__enter__", "__exit__"}
PLAIN = {"__repr__", "__doc__", "__module__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__weakref__"}


def stub(name):
    """The file of the sources, where they are beside the tests."""
    return HERE / name if (HERE / name).exists() else INSTALLED / name


def members(tree, owner, path=()):
    """Each class and function of the file, with what the module has by that name."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and (not node.name.startswith("_") or path):
            found = inspect.getattr_static(owner, node.name, None)
            yield node, found, (*path, node.name)
            if isinstance(node, ast.ClassDef):
                yield from members(node, found, (*path, node.name))


def documentation(found, name):
    if name in UNDOCUMENTED:
        return None
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    return inspect.cleandoc(found.__doc__)


def parameters(node):
    arguments = node.args
    count, optional = len(arguments.args), len(arguments.defaults)
    for index, argument in enumerate(arguments.args):
        yield argument.arg, "positional", index >= count - optional
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument.arg, "keyword", default is not None


@MODULES
def test_names_and_parameters_are_the_modules(module, name):
    tree = ast.parse(stub(name).read_text())
    listed = {}
    for node, found, path in members(tree, module):
        assert found is not None, f"{path} is not in the module"
        listed.setdefault(path[:-1], set()).add(path[-1])
        name = path[-1]
        if isinstance(node, ast.ClassDef):
            bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
            assert bases == [base.__name__ for base in found.__bases__ if base is not object], path
            final = any(isinstance(mark, ast.Name) and mark.id == "final" for mark in node.decorator_list)
            assert final == (not found.__flags__ & (1 << 10)), f"{path}: `final` or not"
        elif any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list):
            assert inspect.isgetsetdescriptor(found) or inspect.ismemberdescriptor(found), path
        else:
            if name == "__new__":
                found = getattr(module, path[0])
            elif name in UNDOCUMENTED:
                continue
            elif isinstance(found, staticmethod):
                found = found.__func__
            signature = inspect.signature(found)
            own = {"positional": "POSITIONAL_OR_KEYWORD", "keyword": "KEYWORD_ONLY"}
            expected = [(argument, own[kind], optional) for argument, kind, optional in parameters(node)]
            expected = [entry for entry in expected if entry[0] not in ("cls", "self")]
            real = [
                (name, parameter.kind.name.replace("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD"), parameter.default is not parameter.empty)
                for name, parameter in signature.parameters.items()
                if name not in ("self", "cls")
            ]
            assert real == expected, path
    public = {name for name in module.__all__ if not name.startswith("_")}
    assert listed[()] == public
    for name in public:
        value = getattr(module, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            defined = {own for own in vars(value) if own not in PLAIN}
            assert defined == listed.get((name,), set()), name


@MODULES
def test_names_for_types_alone_are_private(module, name):
    """What a program may import is there when it runs."""
    named = [target.id for node in ast.parse(stub(name).read_text()).body if isinstance(node, ast.Assign) for target in node.targets]
    assert all(own.startswith("_") for own in named), named


@MODULES
def test_documentation_is_the_modules(module, name):
    text = stub(name).read_text()
    tree = ast.parse(text)
    wrong = []
    for node, found, path in members(tree, module):
        expected = documentation(found, path[-1])
        if expected != ast.get_docstring(node):
            wrong.append((node, expected, path))
    if os.environ.get("BLESS") and stub(name) == HERE / name:
        stub(name).write_text(blessed(text, wrong))
    else:
        assert not wrong, f"BLESS=1 writes them: {[path for *_, path in wrong]}"
    assert len({path for *_, path in members(tree, module)}) > (150 if module is pagelift else 40)


def blessed(text, wrong):
    """The file with these docstrings in place of what is there."""
    lines = text.splitlines()
    for node, doc, _ in sorted(wrong, key=lambda entry: -entry[0].lineno):
        first, indent = node.body[0], " " * (node.col_offset + 4)
        words = [indent + line if line else "" for line in f'"""{doc}"""'.splitlines()] if doc else []
        if len(words) > 1:
            words[-1] = words[-1].removesuffix('"""')
            words.append(indent + '"""')
        if isinstance(first, ast.Expr) and first.value.value is ...:
            # `...` after the colon: the docstring is the body.
            line = lines[first.lineno - 1][: first.col_offset].rstrip()
            lines[first.lineno - 1 : first.end_lineno] = [line, *words]
        elif isinstance(first, ast.Expr) and isinstance(first.value.value, str):
            lines[first.lineno - 1 : first.end_lineno] = words
        else:
            lines[first.lineno - 1 - len(getattr(first, "decorator_list", [])) : first.lineno - 1 - len(getattr(first, "decorator_list", []))] = words
    return "\n".join(lines) + "\n"


def test_the_installed_types_are_these():
    for name in ("__init__.pyi", "transport.pyi"):
        assert (INSTALLED / name).read_text() == stub(name).read_text()
    assert (INSTALLED / "py.typed").exists()


@MODULES
def test_the_tree_of_exceptions(module, name):
    for own in module.__all__:
        value = getattr(module, own)
        if own.endswith("Error"):
            assert issubclass(value, pagelift.PageliftError) and value.__module__ == module.__name__
    for child in ("ControlError", "NixlError", "SchemaError"):
        assert module is pagelift or issubclass(getattr(module, child), module.TransportError)
    for child, parent in [("CapacityError", "PlanError"), ("RingFullError", "LaunchError"), ("CaptureError", "BackendError")]:
        assert issubclass(getattr(pagelift, child), getattr(pagelift, parent))


@pytest.mark.skipif(transport is not None, reason="this pagelift was built with NIXL")
def test_a_package_without_nixl_says_what_to_do():
    with pytest.raises(ImportError, match="--features nixl' pip install ./python"):
        import pagelift.transport
