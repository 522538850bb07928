"""Versions that were edited in place since they published days.

An edit makes no day stale: it shows in the logic fingerprint of each day. Days without one are older, and taken as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from backfill_assets.days import TableDay
from backfill_assets.errors import LogicEdited
from backfill_assets.lakehouse.kept_logic import KeptLogic, keep_logic, parts_of, same_as
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.logic import DECLARED, logic_of
from backfill_assets.text import days_options, format_count, format_first, format_ranges

_MOST_RANGES, _MOST_NAMES = 3, 4
_WORDS = {DECLARED: "its declaration (reads, columns, cadence)"}


@dataclass(frozen=True)
class EditedLogic:
    step: str
    tables: tuple[str, ...]
    version: str
    days: tuple[date, ...]
    published: tuple[str, ...]
    changed: tuple[str, ...]
    """Functions, classes and constants that differ; empty if unknown."""

    @property
    def what(self) -> str:
        return format_first([_WORDS.get(each, each) for each in self.changed], _MOST_NAMES)

    @property
    def why(self) -> str:
        changed = f" ({self.what} changed)" if self.changed else ""
        return f"made with another logic than {self.version} has now{changed}"

    @property
    def next_step(self) -> str:
        days = days_options(self.days, _MOST_RANGES)
        return (
            f"put {self.version} back as it was, and declare the change as a new version; or, if it gives the same "
            f"rows, prove it: backfill run {self.step} {days} --same-rows"
        )

    def __str__(self) -> str:
        days = f"{format_ranges(self.days, _MOST_RANGES)} ({format_count(len(self.days), 'day')})"
        return f"{self.step} {days}: {self.why}"

    def concerns(self, table: str, day: date) -> bool:
        return table in self.tables and day in self._days

    @cached_property
    def _days(self) -> frozenset[date]:
        return frozenset(self.days)


def contents_of(states: Mapping[TableDay, DayState]) -> Mapping[TableDay, DayContent]:
    return {key: state.content for key, state in states.items() if state.content is not None}


def edited_logic(
    storage: Storage, steps: Iterable[Step], contents: Mapping[TableDay, DayContent]
) -> tuple[EditedLogic, ...]:
    """Reads the lakehouse only if a fingerprint differs."""
    made = _made_with(contents)
    found = (_edited(storage, step, version, made) for step in steps for version in step.versions)
    return tuple(each for each in found if each)


Made = Mapping[tuple[str, str], Mapping[str, set[date]]]
"""Days by logic fingerprint, by table and version."""


def _made_with(contents: Mapping[TableDay, DayContent]) -> Made:
    found: dict[tuple[str, str], dict[str, set[date]]] = {}
    for (table, day), content in contents.items():
        if content.logic:
            found.setdefault((table, content.code_version), {}).setdefault(content.logic, set()).add(day)
    return found


def _edited(storage: Storage, step: Step, version: Version, made: Made) -> EditedLogic | None:
    by_logic: dict[str, set[date]] = {}
    for table in step.table_names:
        for fingerprint, days in made.get((table, version.name), {}).items():
            by_logic.setdefault(fingerprint, set()).update(days)
    if not by_logic:
        return None
    now = logic_of(version)
    if by_logic.keys() <= {now.fingerprint} or by_logic.keys() <= (same := same_as(storage, now.fingerprint)):
        return None
    others = {each: days for each, days in sorted(by_logic.items()) if each not in same}
    changed = {name for each in others for name in _differing(parts_of(storage, each), now.parts)}
    of_others = sorted(set().union(*others.values()))
    return EditedLogic(
        step.name, step.table_names, version.name, tuple(of_others), tuple(others), tuple(sorted(changed))
    )


def _differing(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)} if then else set()


def refuse_edited(edited: Sequence[EditedLogic]) -> None:
    for each in edited:
        raise LogicEdited(
            f"{each}. Days of both would have one version; nothing was built.",
            hint=f"{each.next_step[0].upper()}{each.next_step[1:]}",
        )


def keep_logic_of(storage: Storage, step: Step, version: Version) -> None:
    """Call it before days are made with ``version``."""
    logic = logic_of(version)
    keep_logic(storage, logic.fingerprint, KeptLogic(step=step.name, version=version.name, parts=logic.parts))
