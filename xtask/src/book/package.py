"""Prints what a Python package makes public, as JSON: read from its sources, nothing is imported.

The package says what is public with ``__all__`` of its ``__init__.py``, which imports every name
from a module of its own, or a module as a whole; that says what is public with its ``__all__``.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

LONG = 88
"""A signature that is longer has a line per parameter."""


def main(folder: Path) -> None:
    """Print the modules that public names come from, in the order of the imports."""
    init = parsed(folder / "__init__.py")
    public = names(init)
    modules = []
    for module, imported in imports(init, folder.name):
        tree = parsed(folder / f"{module}.py")
        items = [of_module(module, tree)] if module in imported else described(tree)
        items = [item for item in items if item["name"] in imported & public]
        public -= {item["name"] for item in items}
        if items:
            doc = ast.get_docstring(tree)
            modules.append({"name": module, "doc": doc, "items": items})
    left = sorted(name for name in public if not name.startswith("__"))
    if left:
        sys.exit(f"{folder}: public, but not found in a module of the package: {', '.join(left)}")
    doc = ast.get_docstring(init)
    json.dump({"name": folder.name, "doc": doc, "modules": modules}, sys.stdout)


def parsed(path: Path) -> ast.Module:
    """Parse a source."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def names(init: ast.Module) -> set[str]:
    """Give what ``__all__`` lists."""
    for node in init.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    sys.exit("the package has no `__all__`")


def imports(init: ast.Module, package: str) -> list[tuple[str, set[str]]]:
    """Give the modules of the package that are imported from, each with the names.

    A module that is imported as a whole has its own name.
    """
    found = []
    for node in init.body:
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.module == package:
            found += [(alias.name, {alias.name}) for alias in node.names]
        elif (node.module or "").startswith(f"{package}."):
            module = str(node.module).removeprefix(f"{package}.")
            found.append((module, {alias.asname or alias.name for alias in node.names}))
    return found


def of_module(name: str, tree: ast.Module) -> dict[str, Any]:
    """Describe a module with its public functions."""
    public = names(tree)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    members = [of_function(node, owner=name, skipped=0) for node in functions]
    return {
        "kind": "module",
        "name": name,
        "signature": f"thermocline.{name}",
        "doc": ast.get_docstring(tree),
        "members": [member for member in members if member["name"] in public],
    }


def described(tree: ast.Module) -> list[dict[str, Any]]:
    """Describe the classes, functions and types of a module."""
    items = []
    for place, node in enumerate(tree.body):
        if isinstance(node, ast.ClassDef):
            items.append(of_class(node))
        elif isinstance(node, ast.FunctionDef):
            items.append(of_function(node))
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            items.append(of_alias(node, tree.body[place + 1 : place + 2]))
    return items


def of_class(node: ast.ClassDef) -> dict[str, Any]:
    """Describe a class with its public methods and properties."""
    functions = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
    public = [inner for inner in functions if not inner.name.startswith("_")]
    bases = [ast.unparse(base) for base in node.bases]
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    doc = ast.get_docstring(node)
    written = f"class {node.name}"
    if "NamedTuple" in bases or "dataclass" in decorators:
        fields = [inner for inner in node.body if isinstance(inner, ast.AnnAssign)]
        words = [parameter(ast.arg(ast.unparse(f.target), f.annotation), f.value) for f in fields]
        written = call(node.name, words)
    elif "\nParameters\n" in (doc or ""):
        # Only those that say so are made by their name.
        made = [inner for inner in functions if inner.name == "__init__"]
        written = signature(node.name, made[0], skipped=1) if made else written
    return {
        "kind": "class",
        "name": node.name,
        "bases": bases,
        "signature": written,
        "doc": doc,
        "members": [of_function(inner, owner=node.name) for inner in public],
    }


def of_function(node: ast.FunctionDef, owner: str = "", skipped: int = 1) -> dict[str, Any]:
    """Describe a function, or a method or property of its owner.

    The signature of what has an owner and is not static leaves the first parameters out.
    """
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    name = f"{owner}.{node.name}" if owner else node.name
    if decorators & {"property", "cached_property"}:
        kind, written = "property", f"{name}: {ast.unparse(node.returns or ast.Constant(None))}"
    else:
        kind = "method" if owner else "function"
        if not owner or "staticmethod" in decorators:
            skipped = 0
        written = signature(name, node, skipped)
    doc = ast.get_docstring(node)
    return {"kind": kind, "name": node.name, "signature": written, "doc": doc}


def of_alias(node: ast.AnnAssign, following: list[ast.stmt]) -> dict[str, Any]:
    """Describe a type by the string behind it."""
    name = ast.unparse(node.target)
    # The docstring of a module is the string that comes first.
    doc = ast.get_docstring(ast.Module(following, []))
    text = ast.unparse(node.value or node.target)
    return {"kind": "type", "name": name, "signature": f"{name} = {text}", "doc": doc}


def signature(name: str, node: ast.FunctionDef, skipped: int) -> str:
    """Write a function as it is called, without `self`; nothing is returned by ``__init__``."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    words = [parameter(*pair) for pair in zip(positional, defaults, strict=True)][skipped:]
    if given.vararg is not None:
        words.append(f"*{parameter(given.vararg, None)}")
    elif given.kwonlyargs:
        words.append("*")
    words += [parameter(*pair) for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg is not None:
        words.append(f"**{parameter(given.kwarg, None)}")
    end = "" if node.name == "__init__" or not node.returns else f" -> {ast.unparse(node.returns)}"
    return call(name, words, end)


def call(name: str, words: list[str], end: str = "") -> str:
    """Write a call, with a line per parameter if it is long."""
    line = f"{name}({', '.join(words)}){end}"
    if len(line) <= LONG:
        return line
    lines = "".join(f"    {word},\n" for word in words)
    return f"{name}(\n{lines}){end}"


def parameter(node: ast.arg, default: ast.expr | None) -> str:
    """Write a parameter with its type and default."""
    kind = "" if node.annotation is None else f": {ast.unparse(node.annotation)}"
    if default is None:
        return f"{node.arg}{kind}"
    between = " = " if kind else "="
    return f"{node.arg}{kind}{between}{ast.unparse(default)}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
