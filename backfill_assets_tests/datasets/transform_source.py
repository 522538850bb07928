"""A fingerprint of the logic of a version: its transform, and everything of the project's declarations that it uses."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

PACKAGES = ("backfill_assets.datasets", "backfill_assets.model")


def logic_of(transform: Callable[..., Any]) -> str:
    """A hash that changes with the logic, and not with comments, docstrings, or the modules that the code is in."""
    found: dict[str, str] = {}
    _collect(transform, found)
    return hashlib.sha256(
        "\n".join(sorted(f"{name.rpartition('.')[2]} {code}" for name, code in found.items())).encode()
    ).hexdigest()[:16]


def names_in(transform: Callable[..., Any]) -> set[str]:
    """The functions, classes and values of the package that ``transform`` depends on."""
    found: dict[str, str] = {}
    _collect(transform, found)
    return set(found)


def _collect(thing: Any, found: dict[str, str]) -> None:
    name = f"{thing.__module__}.{thing.__qualname__}"
    if name in found:
        return
    tree = _bare(ast.parse(textwrap.dedent(inspect.getsource(thing))))
    found[name] = ast.dump(tree)
    module = inspect.getmodule(thing)
    assert module is not None
    for used_name, used in _used(tree, vars(module)):
        _add(f"{module.__name__}.{used_name}", used, found)
    if inspect.isclass(thing):
        for parent in thing.__mro__[1:]:
            _add(parent.__qualname__, parent, found)


def _add(name: str, used: Any, found: dict[str, str]) -> None:
    used = inspect.unwrap(used) if callable(used) else used
    if isinstance(used, FunctionType) or inspect.isclass(used):
        if used.__module__.startswith(PACKAGES):
            _collect(used, found)
        return
    if not isinstance(used, ModuleType) and name not in found:
        found[name] = _text_of(used, found)


def _text_of(value: Any, found: dict[str, str]) -> str:
    """A value as text without addresses in memory; functions and classes in it are followed."""
    if isinstance(value, FunctionType) or inspect.isclass(value):
        _add(value.__qualname__, value, found)
        return str(value.__qualname__)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text_of(value[key], found)}" for key in value) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(_text_of(item, found) for item in value) + ")"
    if hasattr(value, "__dataclass_fields__"):
        fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return f"{type(value).__qualname__}{_text_of(fields, found)}"
    return repr(value)


def _used(tree: ast.AST, namespace: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in namespace and node.id != "__name__":
            yield node.id, namespace[node.id]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = namespace.get(node.value.id)
            if isinstance(module, ModuleType) and module.__name__.startswith(PACKAGES):
                yield f"{node.value.id}.{node.attr}", getattr(module, node.attr)


def _bare(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return tree
