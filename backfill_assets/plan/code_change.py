"""The code difference between the version that days were published with and the one that rebuilds them: functions, and
those of the same module that only one of both calls. Pure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from types import CodeType, FunctionType
from typing import Any

from backfill_assets.lakehouse.records import Record
from backfill_assets.model.declaration import Step, Version
from backfill_assets.report.answer import Answer, Code, Fact
from backfill_assets.text import format_count


class CodeChange(Record):
    """``diff``: unified; empty if one version's code is gone, or both are equal."""

    table: str
    before: str
    after: str
    diff: str = ""

    @property
    def sentence(self) -> str:
        """``fact_daily_revenue: v1 becomes v2, 3 lines added and 1 removed.``"""
        return f"{self.table}: {self.before} becomes {self.after}, {self._how_much}."

    @property
    def title(self) -> str:
        return f"{self.table}: {self.before} becomes {self.after}"

    @property
    def _how_much(self) -> str:
        # The first two lines name both sides.
        lines = self.diff.splitlines()[2:]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        if not lines:
            return "whose code cannot be compared"
        return f"{format_count(added, 'line')} added and {removed:,} removed"


def code_changes(steps: Sequence[Step], versions: Iterable[tuple[str, str, str]]) -> tuple[CodeChange, ...]:
    asked = dict.fromkeys((step, before, after) for step, before, after in versions if before and before != after)
    return tuple(
        CodeChange(table=step.name, before=before, after=after, diff=_diff(step, before, after))
        for step in steps
        for name, before, after in asked
        if name == step.name and step.source is None
    )


def code_facts(changes: Sequence[CodeChange]) -> tuple[Fact, ...]:
    return (Fact("code", [each.sentence for each in changes]),) if changes else ()


def code_section(changes: Sequence[CodeChange]) -> tuple[Answer, ...]:
    parts = tuple(
        Code(f"{each.table} {each.before} {each.after}", each.diff, each.title) for each in changes if each.diff
    )
    return (Answer("What changed in the code", (*code_facts(changes), *parts), name="code"),) if changes else ()


def _diff(step: Step, before: str, after: str) -> str:
    known = {version.name: version for version in step.versions}
    if before not in known or after not in known:
        return ""
    old, new = _functions(known[before]), _functions(known[after])
    both = old.keys() & new.keys()
    left, right = ([line for name, text in each.items() if name not in both for line in text] for each in (old, new))
    return "\n".join(unified_diff(left, right, f"{step.name} {before}", f"{step.name} {after}", n=2, lineterm=""))


def _functions(version: Version) -> Mapping[str, Sequence[str]]:
    """Source lines by name, the version's own function first."""
    transform = version.transform
    named = getattr(transform, "function", None) or getattr(transform, "contract", None) or transform
    found: dict[str, Sequence[str]] = {}
    waiting: list[Any] = [inspect.unwrap(named) if callable(named) else named]
    while waiting:
        each = waiting.pop(0)
        name = getattr(each, "__qualname__", type(each).__qualname__)
        if name not in found and (lines := _source(each)):
            found[name] = lines
            waiting += _called(each)
    return found


def _source(what: Any) -> Sequence[str]:
    try:
        text = inspect.getsource(what)
    except (OSError, TypeError):  # not defined in a file
        return ()
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _called(function: Callable[..., object]) -> Iterator[FunctionType]:
    if isinstance(function, FunctionType):
        for name in _names(function.__code__):
            called = function.__globals__.get(name)
            if isinstance(called, FunctionType) and called.__module__ == function.__module__:
                yield called


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
