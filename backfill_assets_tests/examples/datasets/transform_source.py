"""A fingerprint of the logic of a version: its transform, and everything of the project's declarations that it uses."""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from backfill_assets.model.contract import Contract, declared_types
from backfill_assets.model.landed_dataset import LandedDataset

PACKAGES = ("backfill_assets.examples.datasets", "backfill_assets.model")


def logic_of(transform: Callable[..., Any]) -> str:
    """A hash that changes with the logic, and not with comments, docstrings, or the modules that the code is in."""
    found = _found(transform)
    return hashlib.sha256(
        "\n".join(sorted(f"{name.rpartition('.')[2]} {code}" for name, code in found.items())).encode()
    ).hexdigest()[:16]


def names_in(transform: Callable[..., Any]) -> set[str]:
    """The functions, classes and values of the package that ``transform`` depends on."""
    return set(_found(transform))


def _found(transform: Callable[..., Any]) -> dict[str, str]:
    """The text of everything that ``transform`` is, by its name."""
    found: dict[str, str] = {}
    if isinstance(transform, FunctionType):
        _collect(transform, found)
    else:
        found["transform"] = _text_of(transform, found)
    return found


def _collect(thing: Any, found: dict[str, str]) -> None:
    name = f"{thing.__module__}.{thing.__qualname__}"
    if name in found:
        return
    if inspect.isclass(thing) and issubclass(thing, Contract):
        _collect_contract(name, thing, found)
        return
    found[name], uses = _parsed(thing)
    for used_name, used in uses:
        _add(used_name, used, found)
    if inspect.isclass(thing):
        for parent in thing.__mro__[1:]:
            _add(parent.__qualname__, parent, found)


@cache
def _parsed(thing: Any) -> tuple[str, Sequence[tuple[str, Any]]]:
    """The code of a function or class, and what of its module it uses; parsed once for all versions that use it."""
    module = inspect.getmodule(thing)
    assert module is not None
    tree = _bare(ast.parse(textwrap.dedent(inspect.getsource(thing))), vars(module))
    return ast.dump(tree), [(f"{module.__name__}.{name}", used) for name, used in _used(tree, vars(module))]


def _collect_contract(name: str, contract: type[Contract], found: dict[str, str]) -> None:
    """Types and checks: what is said of a column to people is no logic. A contract may be made, and have no source."""
    types = declared_types(contract)
    columns = {column: (types[column], field.nullable, field.checks) for column, field in contract.fields().items()}
    found[name] = _text_of(columns, found)
    for parent in contract.__mro__[1:]:
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
        if callable(value):
            _add(type(value).__qualname__, type(value), found)
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


def _bare(tree: ast.AST, namespace: Mapping[str, Any]) -> ast.AST:
    """Without docstrings, annotations, and what declares a function as the version of a table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            node.decorator_list = [each for each in node.decorator_list if not _declares(each, namespace)]
        if isinstance(node, ast.arg):
            node.annotation = None
    return tree


def _declares(decorator: ast.AST, namespace: Mapping[str, Any]) -> bool:
    """A decorator that is a method of a dataset: what it is given (rules, owners) is no logic."""
    names = (node.id for node in ast.walk(decorator) if isinstance(node, ast.Name))
    return any(isinstance(namespace.get(name), LandedDataset) for name in names)
