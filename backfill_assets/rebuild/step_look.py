"""Decides what to do with a step's days on a place, from logs alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, is_adopted
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import Filled, missing_inputs
from backfill_assets.model.row_filter import RowFilter
from backfill_assets.publish.closed_days import BookEntry, Books, with_declared
from backfill_assets.publish.pinned import Pin, States
from backfill_assets.publish.publisher import Publisher
from backfill_assets.quality import gates
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.decide import Decision, InputFingerprint
from backfill_assets.rebuild.only_rows import wanted_of
from backfill_assets.rebuild.place import Overlay, Place
from backfill_assets.state.rolled_back import Undo, rollbacks, undo_of

if TYPE_CHECKING:
    from backfill_assets.rebuild.growing import Gain, Growing


@dataclass(frozen=True)
class StepRequest:
    """Days of one step, and which version builds them.

    ``version`` is a name, empty for the current one, or :data:`decide.AS_PUBLISHED` for each day's own. Days ``along``
    keep theirs, and are never forced.
    """

    step: Step
    days: Sequence[date]
    version: str = ""
    along: Collection[date] = frozenset()
    force: bool = False
    repairs: bool = False
    """For a repair: days that a person's rollback holds stay as they are, forced or not."""
    open_days: frozenset[date] = frozenset()
    """Days that may lack reference data; they are built again when it has landed."""
    newest_first: bool = False
    """Chunks go from the newest days to the oldest."""
    only: RowFilter | None = None
    """Compute only these rows of each day, and carry the others over."""

    @property
    def tables(self) -> tuple[str, ...]:
        return self.step.table_names

    def keys(self, day: date) -> list[TableDay]:
        return [TableDay(name, day) for name in self.tables]

    @property
    def named(self) -> Version:
        """Builds days that do not keep their own version."""
        return self.step.version("" if self.version == decide.AS_PUBLISHED else self.version)

    @property
    def versions(self) -> tuple[Version, ...]:
        """Which one builds a day is decided later."""
        return self.step.versions if any(map(self.goes_as_published, self.days)) else (self.named,)

    def goes_as_published(self, day: date) -> bool:
        return self.version == decide.AS_PUBLISHED or day in self.along

    def versions_of(self, days: Sequence[date], shown: States) -> dict[date, Version]:
        """Raises :class:`InvalidRequest` for versions not declared any more."""
        kept = [day for day in days if self.goes_as_published(day)]
        names = decide.versions_as_published(self.step, kept, shown) if kept else {}
        return {day: self.step.version(names[day]) if day in names else self.named for day in days}


@dataclass(frozen=True)
class StepDecision:
    """Decisions, and the state that they rest on: ``pin`` is main with the ``overlay`` applied."""

    pin: Pin
    overlay: Overlay
    versions: Mapping[date, Version]
    wanted: Mapping[date, InputFingerprint]
    decided: Mapping[date, Decision]
    missing: Mapping[date, Sequence[str]]
    gains: Mapping[date, Gain] = field(default_factory=dict)
    whole: Mapping[date, str] = field(default_factory=dict)
    """Why days cannot be extended; empty if their version never can be."""
    held: Mapping[date, Undo] = field(default_factory=dict)
    """Days that would be built, and stay because a person has rolled them back."""
    closed: Mapping[date, BookEntry] = field(default_factory=dict)
    """Days that would be built, and stay because somebody has closed them."""

    def days(self, *decisions: Decision) -> list[date]:
        return [day for day, decision in self.decided.items() if decision in decisions]


@dataclass(frozen=True)
class StepLooking:
    publisher: Publisher
    place: Place
    asked: StepRequest
    growing: Growing | None = None
    steps: Callable[[], Sequence[Step]] = tuple
    """All, in build order."""

    def look(
        self, days: Sequence[date], *, forced: Collection[date] = (), blocked: Collection[date] = ()
    ) -> StepDecision:
        step, tables, reads = self.asked.step, self.asked.tables, self.days_read(days)
        looked_at = gates.looked_at_beside(step)
        if self.growing:
            pin = self.growing.pin
        else:
            pin = self.publisher.pin(writes={name: list(days) for name in tables}, reads=reads, also=looked_at)
        periods = {day for start in days for day in step.cadence.period(start)}
        overlay = self.place.seen({name: periods.union(reads.get(name, ())) for name in {*reads, *looked_at}})
        undone, closed = self.undone(days, pin), self.closed(days, pin)
        gone = decide.undeclared(step, undone.keys() | closed.keys(), pin.states)
        versions = self.asked.versions_of([day for day in days if day not in gone], self.states_shown(days, pin))
        below = overlay.without(tables)
        seen = below.over(pin)
        wanted, missing = self.wanted(versions, seen), self.missing_inputs(versions, seen)
        wanted |= self.wanted_rows(wanted, pin)
        here = {day: [shown(self.place, key, pin) for key in self.asked.keys(day)] for day in days}
        same = {day for day in versions if decide.made_from(wanted[day].input_fingerprint, here[day])}
        for day in filter(self.is_laid, same):
            missing.pop(day, None)  # laid here as it is, even if an input was not there yet
        held = {day: undo for day, undo in undone.items() if day not in same}
        shut = {day: closing for day, closing in closed.items() if day not in same.difference(forced)}
        stays = self.adopted(days, pin).difference(forced) | undone.keys() | closed.keys()
        other = {day: version for day, version in versions.items() if day not in same | stays}
        gains, whole = self.growing.look(step, other, seen) if self.growing else ({}, {})
        decided = dict.fromkeys(stays, Decision.KEEP)
        for day in sorted(stays):
            missing.pop(day, None)  # adopted days have no inputs
        for day in (day for day in days if day not in stays):
            main = [pin.content(key) for key in self.asked.keys(day)]
            out, fingerprint = day in missing or day in blocked, wanted[day].input_fingerprint
            decided[day] = decide.decide(
                fingerprint, here[day], main, forced=day in forced, blocked=out, grows=day in gains
            )
        by = {day: version for day, version in versions.items() if day not in held and day not in shut}
        return StepDecision(seen, below, by, wanted, decided, missing, gains, whole, held, shut)

    def days_read(self, days: Sequence[date]) -> dict[str, set[date]]:
        """By any version that may be needed: only the pin shows which."""
        versions = replace(self.asked, days=days).versions
        return decide.all_read_days(self.asked.step, ((version, days) for version in versions))

    def adopted(self, days: Sequence[date], pin: Pin) -> set[date]:
        """Main keeps these unless forced; other places name days explicitly."""
        return set() if self.place.owner else {day for day in days if is_adopted(pin.states, self.asked.tables, day)}

    def undone(self, days: Sequence[date], pin: Pin) -> dict[date, Undo]:
        """Days that a repair leaves as a person has put them back: asked of what PREPARE compares with main."""
        keys = [key for day in days for key in self.asked.keys(day)] if self.asked.repairs else []
        if not (back := decide.rolled_back(keys, pin.states)):
            return {}
        known, steps, seen = rollbacks(self.publisher.storage), self.steps(), _PinnedDays(pin)
        found = {day: undo_of(known, steps, self.asked.step, day, seen) for day in sorted({key.day for key in back})}
        return {day: undo for day, undo in found.items() if undo and undo.holds}

    def closed(self, days: Sequence[date], pin: Pin) -> dict[date, BookEntry]:
        """Main keeps these, whoever asks for them: PREPARE would refuse them. Other places publish nothing."""
        declared = self.publisher.declared
        books = with_declared(Books(pin.closings, declared), clock.now()) if not self.place.owner else Books()
        return books.closings_of(self.asked.tables, days)

    def is_laid(self, day: date) -> bool:
        return any(self.place.record(*key) is not None for key in self.asked.keys(day))

    def states_shown(self, days: Sequence[date], pin: Pin) -> States:
        """What the place has of the step's own tables, for days that keep their version."""
        kept = [day for day in days if self.asked.goes_as_published(day)]
        return self.place.seen(dict.fromkeys(self.asked.tables, kept)).over(pin).states if kept else {}

    def wanted(self, versions: Mapping[date, Version], pin: Pin) -> dict[date, InputFingerprint]:
        logicals = {name: read.days for name, read in pin.inputs.items()}
        return {
            day: found
            for version, days in decide.by_version(versions)
            for day, found in decide.wanted(self.asked.step, version, days, logicals).items()
        }

    def wanted_rows(self, wanted: Mapping[date, InputFingerprint], pin: Pin) -> dict[date, InputFingerprint]:
        """Of days of which only some rows are computed."""
        if self.asked.only is None:
            return {}
        published = {day: [pin.content(key) for key in self.asked.keys(day)] for day in wanted}
        step, only = self.asked.step, self.asked.only
        return {day: wanted_of(step, day, only, found, published[day]) for day, found in wanted.items()}

    def missing_inputs(self, versions: Mapping[date, Version], pin: Pin) -> dict[date, list[str]]:
        """Unpublished input days do not count as empty."""
        published = decide.published_days(pin.states)
        logicals = {name: read.days for name, read in pin.inputs.items()}
        found: dict[date, list[str]] = {}
        for version, days in decide.by_version(versions):
            optional = {
                read.table: self.asked.open_days.union(published.get(read.table, ())) for read in version.reads[1:]
            }
            states = decide.filled_days([self.asked.step], logicals)
            found |= missing_inputs(self.asked.step, version, days, {**published, **optional, **states})
        return found


@dataclass(frozen=True)
class _PinnedDays:
    pin: Pin

    @property
    def states(self) -> States:
        return self.pin.states

    def filled(self, steps: Iterable[Step]) -> Filled:
        return decide.filled_days(steps, {table: read.days for table, read in self.pin.inputs.items()})


def shown(place: Place, key: TableDay, pin: Pin) -> DayContent | None:
    """Returns None if the place has nothing, or nothing known."""
    record = place.record(*key)
    return pin.content(key) if record is None else record.content
