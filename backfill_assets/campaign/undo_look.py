"""Finds what the undo of a campaign would do, one step after the other; reads logs only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property

from backfill_assets.campaign.rollback import made_then
from backfill_assets.campaign.undo_days import (
    InputsAfter,
    TableDayState,
    UndoAction,
    UndoneDay,
    day_state,
    decide_day,
    first_of,
)
from backfill_assets.days import DayRange, TableDay, all_days, by_table
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import (
    DayContent,
    DayRecord,
    Origin,
    Prepared,
    content_in,
)
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import made_of, missing_inputs
from backfill_assets.publish.publisher import Pin
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.place import NOTHING_LAID, Overlay
from backfill_assets.rebuild.stage import filled_in, recorded_upstream
from backfill_assets.state.observed import LogView, observe
from backfill_assets.state.status import declared_version, reading_as_published
from backfill_assets.text import format_count


@dataclass(frozen=True)
class StepUndo:
    step: Step
    tables: tuple[str, ...]
    versions: Mapping[date, Version | None]
    reads: Mapping[date, Mapping[str, DayRange]]
    pin: Pin
    decided: Sequence[UndoneDay]

    def days(self, action: UndoAction) -> list[date]:
        return [each.day for each in self.decided if each.action is action]


@dataclass
class UndoLook:
    """Decides the days of one step after the other.

    ``overlay`` is what main will show, as far as steps are decided. A look that stages nothing names days to restate
    in ``restated``.
    """

    lake: Lake
    prepared: Prepared
    overlay: Overlay = NOTHING_LAID
    restated: dict[str, frozenset[date]] = field(default_factory=dict)
    withdrawn: dict[str, frozenset[date]] = field(default_factory=dict)

    @cached_property
    def view(self) -> LogView:
        return observe(self.lake.storage, self.lake.catalog.table_names, log=self.lake.publisher.log)

    @cached_property
    def contents(self) -> Callable[[str], Mapping[date, DayContent | None]]:
        return cache(self.view.contents)

    @cached_property
    def closed_at(self) -> Callable[[str], int]:
        return cache(self.lake.publisher.log.closed_at)

    def decide(self, step: Step) -> StepUndo | None:
        """Returns None if no day of ``step`` is concerned."""
        versions = self.versions_then(step)
        if not versions:
            return None
        tables, looked_at = self.tables(step), {day: self.made_of(step, day, each) for day, each in versions.items()}
        main = self.lake.publisher.pin(dict.fromkeys(tables, versions), all_days(looked_at.values()))
        pin = self.overlay.over(main)
        filled = filled_in(step, pin)
        reads = {
            day: made_of(step, version, day, filled) if version else looked_at[day] for day, version in versions.items()
        }
        published = all_days([{**decide.published_days(pin.states), **filled}, self.restated])
        decided = []
        for day, version in versions.items():
            missing = missing_inputs(step, version, [day], published).get(day, ()) if version else ()
            inputs = self.inputs(TableDay(tables[0], day), version, missing, reads[day], pin)
            found = decide_day(step.name, day, self.states(tables, day, pin), inputs, computes=True)
            # A reader that needs no change is no part of the undo.
            if found.action is not UndoAction.STANDS or not found.is_reader:
                decided.append(found)
        return StepUndo(step, tables, versions, reads, pin, decided)

    def tables(self, step: Step) -> tuple[str, ...]:
        return tuple(name for name in step.table_names if name in self.prepared.before) or step.table_names

    def versions_then(self, step: Step) -> dict[date, Version | None]:
        """Days of the publication by their former version, reading days by their present one; None where it is not
        declared: then recorded inputs count.
        """
        table = self.tables(step)[0]
        contents = self.readers(step) | {day: each.content for day, each in self.prepared.before.get(table, {}).items()}
        return {
            day: declared_version(step, content) if (content := contents[day]) is not None else None
            for day in sorted(contents)
        }

    def readers(self, step: Step) -> dict[date, DayContent | None]:
        changed = self.changed if step.versions else {}
        if not any(changed.values()):
            return {}
        contents = self.contents(step.table_names[0])
        readers = reading_as_published(step, changed, self.view.states)
        return {day: contents[day] for day in readers if contents.get(day) is not None}

    @property
    def changed(self) -> dict[str, set[date]]:
        laid = ((table, each) for table, days in self.overlay.days.items() for each in days.values())
        other = by_table((table, each.day) for table, each in laid if not self.is_in_main(table, each))
        return all_days([other, self.restated])

    def is_in_main(self, table: str, record: DayRecord) -> bool:
        content = self.contents(table).get(record.day)
        return content is not None and content.logical == record.logical

    def made_of(self, step: Step, day: date, version: Version | None) -> Mapping[str, DayRange]:
        key = TableDay(self.tables(step)[0], day)
        return made_then(self.lake.publisher.log, step, version, key, self.prepared.before_of(*key)) or {}

    def inputs(
        self, key: TableDay, version: Version | None, missing: Sequence[str], reads: Mapping[str, DayRange], pin: Pin
    ) -> InputsAfter:
        before = self.prepared.before_of(*key)
        content = before.content if before else self.contents(key.table).get(key.day)
        wanted = ""
        if reads and content is not None:
            inputs = fingerprints.inputs(
                {table: {each: pin.inputs[table].days[each] for each in days} for table, days in reads.items()}
            )
            wanted = fingerprints.input_fingerprint(content.code_version, content.parameters, inputs)
        return InputsAfter(
            wanted=wanted,
            version=version.name if version else "",
            missing=missing[0] if missing else "",
            withdrawn=first_of(reads, self.withdrawn),
            restated=first_of(reads, self.restated),
            changes=_changes(content, pin, reads),
        )

    def states(self, tables: Iterable[str], day: date, pin: Pin) -> list[TableDayState]:
        found = []
        for key in (TableDay(table, day) for table in tables):
            now = pin.states.get(key)
            other = self.other_campaign(now.origin) if now and self.prepared.before_of(*key) else ""
            found.append(day_state(self.prepared, key, now, pin.expected[key].files, other))
        return found

    def other_campaign(self, origin: Origin) -> str:
        undone = self.prepared.publication
        if origin.campaign in ("", undone.provenance.campaign):
            return ""
        return origin.campaign if self.closed_at(origin.brought_by) > self.closed_at(undone.id) else ""


def _changes(content: DayContent | None, pin: Pin, reads: Mapping[str, DayRange]) -> str:
    for table, days in reads.items():
        then = recorded_upstream(content, table) if content is not None else None
        contents = (content_in(pin.states, TableDay(table, day)) for day in days)
        rows = sum(each.rows for each in contents if each is not None)
        if then is not None and rows != then.rows:
            more = "more" if rows > then.rows else "fewer"
            return f"{table} has {format_count(abs(rows - then.rows), 'row')} {more} than it was built from"
    return ""
