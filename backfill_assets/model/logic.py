"""A version's logic as a fingerprint: its syntax, that of project functions called, and constants; not comments,
format, local names, places, or package releases.

The input fingerprint lacks it: who edits a version in place is told.
"""

from __future__ import annotations

import ast
import builtins
import enum
import hashlib
import inspect
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

from backfill_assets.model.clocks import NAMED_IN, SQL_TAKEN_BY, asks_by_call, asks_by_name, asks_in_sql
from backfill_assets.model.declaration import Version
from backfill_assets.model.source_code import (
    ABSENT,
    ModuleSource,
    Namespace,
    Project,
    module_names,
    module_source,
    names_around,
    resolve,
)
from backfill_assets.model.syntax import SyntaxWriter, chain_of

_MARK = re.compile("\x00([^\x00]*)\x00")
_LENGTH = 16
_UNREADABLE = frozenset({"eval", "exec", "compile", "__import__", "globals", "open", "input"})
_PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal, date, time, timedelta, UUID, range)
DECLARED = "declared"
"""Reads, and what declarations decide about rows."""


@dataclass(frozen=True, order=True)
class Asked:
    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} asks for {self.what}"


@dataclass(frozen=True)
class Logic:
    fingerprint: str
    parts: Mapping[str, str]
    asks: tuple[Asked, ...] = ()
    unread: tuple[str, ...] = ()


def logic_of(version: Version, packages: Sequence[str] = ()) -> Logic:
    """Cached. Follows ``packages``, by default the project's own."""
    known = _READ.get((id(version), tuple(packages)))
    if known is None or known[0] is not version:
        known = _READ[id(version), tuple(packages)] = (version, _read(version, tuple(packages)))
    return known[1]


_READ: dict[tuple[int, tuple[str, ...]], tuple[Version, Logic]] = {}


def _read(version: Version, packages: tuple[str, ...]) -> Logic:
    project = Project(packages) if packages else Project.around(_home(version.transform))
    reading = _Reading(project)
    reads = [each.declared for each in version.reads]
    reading.parts[DECLARED] = f"{reading.value(reads)} {reading.value(version.transform)}"
    reading.follow_all()
    return reading.logic()


def _home(transform: Any) -> str:
    inner = getattr(transform, "contract", transform)
    while isinstance(inner, partial):
        inner = inner.func
    inner = inspect.unwrap(inner) if callable(inner) else inner
    return str(getattr(inner, "__module__", None) or type(inner).__module__)


@dataclass
class _Reading:
    project: Project
    is_aside: bool = False
    parts: dict[str, str] = field(default_factory=dict)
    """References number parts in order: names and places do not count."""
    waiting: deque[Callable[[], None]] = field(default_factory=deque)
    asks: set[Asked] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)

    def follow_all(self) -> None:
        while self.waiting:
            self.waiting.popleft()()

    def logic(self) -> Logic:
        number = {key: str(place) for place, key in enumerate(self.parts)}
        texts = [_MARK.sub(lambda found: f"@{number.get(found[1], found[1])}@", text) for text in self.parts.values()]
        named = {key: _MARK.sub(lambda found: _short(found[1]), text) for key, text in self.parts.items()}
        named[DECLARED] = _MARK.sub("", self.parts[DECLARED])
        parts: dict[str, str] = {}
        for key, text in named.items():
            name = _short(key)
            parts[key if name in parts else name] = _hash(text)
        return Logic(_hash("\n".join(texts)), parts, tuple(sorted(self.asks)), tuple(sorted(self.unread)))

    def look_aside(self, source: ModuleSource, made: ast.expr) -> None:
        """A constant's value is in the fingerprint; its expression may use a clock."""
        apart = _Reading(self.project, is_aside=True)
        apart.of_module(source).write(made)
        apart.follow_all()
        self.asks |= apart.asks

    # ------------------------------------------------------------------ things that are referred to

    def part(self, key: str, write: Callable[[], str]) -> str:
        if key not in self.parts:
            self.parts[key] = ""
            self.waiting.append(lambda: self.parts.__setitem__(key, write()))
        return f"\x00{key}\x00"

    def value(self, value: Any) -> str:
        if (plain := _plain(value)) is not None:
            return plain
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{self.value(key)}: {self.value(each)}' for key, each in value.items())}}}"
        if isinstance(value, list | tuple):
            return f"({', '.join(map(self.value, value))})"
        if isinstance(value, set | frozenset):
            return f"set({', '.join(sorted(map(self.value, value)))})"
        return self.thing(value)

    def thing(self, value: Any) -> str:
        if isinstance(value, partial):
            return f"partial({self.value(value.func)}, {self.value(value.args)}, {self.value(value.keywords)})"
        if isinstance(value, MethodType):
            return f"{self.value(value.__func__)} of {self.value(value.__self__)}"
        if isinstance(value, FunctionType):
            return self.function(value)
        if isinstance(value, type):
            return self.class_(value)
        for wrapped in (getattr(value, name, None) for name in ("__wrapped__", "func")):
            if isinstance(wrapped, FunctionType):
                return f"{type(value).__name__}({self.function(wrapped)})"
        return self.object(value)

    def function(self, function: FunctionType) -> str:
        """Outside the project its name counts, with project functions closed over or wrapped."""
        module, code = _module_of(function), function.__code__
        if not self.project.owns(module):
            inside = [each for each in _inside(function) if self.project.owns(_module_of(each))]
            return f"{module.partition('.')[0]}.{code.co_name}{self.value(inside)}" if inside else _path(function)
        name = f"{module}:{code.co_qualname}"
        is_one = "<" not in code.co_qualname and not function.__closure__
        return self.part(name if is_one else f"{name}:{id(function)}", lambda: self.written(function))

    def written(self, function: FunctionType) -> str:
        source = module_source(_module_of(function))
        node = source.function(function.__code__) if source else None
        if source is None or node is None:
            self.unread.add(f"{function.__qualname__} has no source that can be read")
            return f"unread {function.__qualname__}"
        names = _Names(self, source, names_around(function), frozenset(function.__code__.co_freevars))
        wrapped = getattr(function, "__wrapped__", None)
        return f"{SyntaxWriter(names, source.package).function(node)}{self.value(wrapped) if wrapped else ''}"

    def class_(self, class_: type) -> str:
        if not self.project.owns(class_.__module__):
            return _path(class_)
        key = f"{class_.__module__}:{class_.__qualname__}"
        return self.part(key, lambda: self.written_class(class_))

    def written_class(self, class_: type) -> str:
        if isinstance(inspect.getattr_static(class_, "decides_rows", None), classmethod):
            return self.value(class_.decides_rows())  # type: ignore[attr-defined]
        source = module_source(class_.__module__)
        node = source.classes.get(class_.__qualname__) if source else None
        if source is None or node is None:
            self.unread.add(f"{class_.__qualname__} has no source that can be read")
            return f"unread {class_.__qualname__}"
        return self.of_module(source).class_(node)

    def object(self, value: Any) -> str:
        owns = self.project.owns(type(value).__module__)
        kind = self.class_(type(value)) if owns else type(value).__qualname__
        if hasattr(value, "decides_rows"):
            return f"{kind}{self.value(value.decides_rows())}"
        if is_dataclass(value):
            return f"{kind}{self.value({each.name: getattr(value, each.name) for each in fields(value)})}"
        if type(value).__module__.startswith("pyspark.sql.types"):
            return str(value.json())
        if isinstance(value, BuiltinFunctionType):
            return _path(value)
        if owns and hasattr(value, "__dict__"):
            return f"{kind}{self.value(vars(value))}"
        self.unread.add(f"an object of {type(value).__qualname__} cannot be read")
        return f"an object of {kind}"

    def of_module(self, source: ModuleSource) -> SyntaxWriter:
        return SyntaxWriter(_Names(self, source, module_names(source.name)), source.package)


@dataclass
class _Names:
    reading: _Reading
    source: ModuleSource
    find: Namespace
    enclosed: frozenset[str] = frozenset()

    def name(self, chain: Sequence[str], node: ast.expr) -> str:
        first = chain[0]
        value = self.find(first)
        if first in self.enclosed:
            return ".".join([self.reading.value(None if value is ABSENT else value), *chain[1:]])
        if (path := self.source.imported.get(first)) is not None:
            return self.imported(path, chain[1:], node)
        if value is ABSENT or (first.startswith("__") and first.endswith("__")):
            return f"unknown {'.'.join(chain)}"
        if value is getattr(builtins, first, ABSENT):
            if first in _UNREADABLE:
                self.reading.unread.add(f"{self.place(node)} uses {first}: what comes of it cannot be read")
            return f"builtin {'.'.join(chain)}"
        return self.of_module(self.source, first, value, chain[1:], node)

    def imported(self, path: str, chain: Sequence[str], node: ast.expr) -> str:
        rest = list(chain)
        value = resolve(path, self.reading.project)
        while rest and isinstance(value, ModuleType):
            path = f"{path}.{rest.pop(0)}"
            value = resolve(path, self.reading.project)
        module, _, name = path.rpartition(".")
        if value is ABSENT or isinstance(value, ModuleType) or not self.reading.project.owns(module):
            return self.foreign(".".join([path, *rest]), node)
        source = module_source(module)
        if source is None:
            self.reading.unread.add(f"{path} has no source that can be read")
            return f"unread {path}"
        if (further := source.imported.get(name)) is not None and further != path:
            return _Names(self.reading, source, module_names(module)).imported(further, rest, node)
        return self.of_module(source, name, value, rest, node)

    def foreign(self, path: str, node: ast.expr) -> str:
        self.look_at(asks_by_name(path), node)
        return path

    def of_module(self, source: ModuleSource, name: str, value: Any, rest: Sequence[str], node: ast.expr) -> str:
        after = "".join(f".{each}" for each in rest)
        code = inspect.unwrap(value) if callable(value) else value
        if isinstance(code, FunctionType | type) and self.reading.project.owns(_module_of(code)):
            return f"{self.reading.value(value)}{after}"
        if isinstance(code, ModuleType | FunctionType | type | BuiltinFunctionType):
            return self.foreign(f"{_path(value)}{after}", node)
        if rest and hasattr(type(value), "is_declaration"):
            held = self.reading.value(getattr(value, rest[0], None))
            return self.reading.part(f"{source.name}:{name}.{rest[0]}", lambda: held)
        if rest and isinstance(method := inspect.getattr_static(value, rest[0], None), FunctionType):
            return f"{self.reading.value(value)}{self.reading.value(method)}"
        return f"{self.reading.part(f'{source.name}:{name}', lambda: self.constant(source, name, value))}{after}"

    def constant(self, source: ModuleSource, name: str, value: Any) -> str:
        if name in source.changed:
            self.reading.unread.add(f"{name} of {source.file} is changed while it is used: it is no constant")
        made = source.assigned.get(name)
        if _is_constant(value):
            if made is not None and not self.reading.is_aside:
                self.reading.look_aside(source, made)
            return self.reading.value(value)
        if made is None:
            self.reading.unread.add(f"{name} of {source.file} is no constant, and how it is made cannot be read")
            return f"unread {name}"
        return self.reading.of_module(source).write(made)

    def keywords(self, chain: Sequence[str], imported: str) -> Sequence[str]:
        value = resolve(imported, self.reading.project) if imported else self.find(chain[0])
        for each in chain[1:]:
            value = getattr(value, each, ABSENT) if isinstance(value, ModuleType) else ABSENT
        value = inspect.unwrap(value) if callable(value) else value
        if not isinstance(value, FunctionType) or not self.reading.project.owns(_module_of(value)):
            return ()
        code = value.__code__
        return code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]

    def declares(self, decorator: ast.expr) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        chain = chain_of(called)
        value = self.find(chain[0]) if chain else ABSENT
        return hasattr(type(value), "is_declaration")

    def called(self, node: ast.Call, texts: Sequence[str]) -> None:
        chain = chain_of(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else chain[0] if chain else ""
        path = self.path_of(chain)
        self.look_at(asks_by_call(path, method, len(node.args) + len(node.keywords)), node)
        if (path.rpartition(".")[2] or method) in SQL_TAKEN_BY:
            texts = [*texts, *(each for each in map(self.constant_text, node.args) if each)]
            for what in asks_in_sql(texts, by_name=(path.rpartition(".")[2] or method) in NAMED_IN):
                self.look_at(what, node)

    def constant_text(self, given: ast.expr) -> str:
        chain = chain_of(given)
        value = self.find(chain[0]) if chain else None
        for each in chain[1:]:
            value = getattr(value, each, None) if isinstance(value, ModuleType) else None
        return value if isinstance(value, str) else ""

    def path_of(self, chain: Sequence[str]) -> str:
        if not chain or (first := self.source.imported.get(chain[0])) is None:
            value = self.find(chain[0]) if len(chain) == 1 else ABSENT
            return _path(value) if isinstance(value, FunctionType | type) else ""
        return ".".join([first, *chain[1:]])

    def look_at(self, what: str, node: ast.expr) -> None:
        if what:
            self.reading.asks.add(Asked(self.source.file, node.lineno, what))

    def place(self, node: ast.expr) -> str:
        return f"{self.source.file}:{node.lineno}"


def _plain(value: Any) -> str | None:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, re.Pattern):
        return f"re({value.pattern!r}, {value.flags})"
    if isinstance(value, ModuleType):
        return value.__name__
    return f"{type(value).__name__}:{value!r}" if isinstance(value, _PLAIN) else None


def _is_constant(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_constant, value))
    if isinstance(value, Mapping):
        return all(_is_constant(each) for pair in value.items() for each in pair)
    return isinstance(value, (*_PLAIN, re.Pattern, FunctionType, type, partial, enum.Enum)) or (
        is_dataclass(value) and not hasattr(type(value), "is_declaration")
    )


def _module_of(thing: Any) -> str:
    """``functools.wraps`` copies ``__module__``; globals stay."""
    if isinstance(thing, FunctionType):
        return str(thing.__globals__.get("__name__", ""))
    return str(getattr(thing, "__module__", None) or "")


def _inside(function: FunctionType) -> Iterator[FunctionType]:
    around = [getattr(function, "__wrapped__", None)]
    around += [names_around(function)(name) for name in function.__code__.co_freevars]
    seen: list[FunctionType] = []
    for each in around:
        if isinstance(each, FunctionType) and each not in seen:
            seen.append(each)
            yield each


@cache
def _path(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None) or ""
    return f"{module}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _short(key: str) -> str:
    return key.split(":")[1].replace(".<locals>", "") if ":" in key else key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
