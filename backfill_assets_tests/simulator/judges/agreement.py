"""What a campaign, and the undo of one, leave behind: no reader contradicts it, and what was before is back.

Asked about each publication once it is closed. What it brings is judged beside it: every report equals its fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Publication
from backfill_assets_tests.simulator.chain import Chain, measured
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import NOTHING, DayImage


@dataclass(frozen=True)
class Shown:
    """What main shows right after a publication: its days, the version of each that is published, and its inputs."""

    images: Mapping[TableDay, DayImage] = field(default_factory=dict)
    versions: Mapping[TableDay, str] = field(default_factory=dict)
    inputs: Mapping[TableDay, str] = field(default_factory=dict)
    """The fingerprint of what each published day was made of."""

    def of(self, key: TableDay) -> DayImage:
        return self.images.get(key, NOTHING)

    def logical(self, key: TableDay) -> str:
        if key not in self.versions:
            return fingerprints.NEVER_PUBLISHED
        known = measured(self.of(key).rows.elements())
        return fingerprints.logical(known["rows"], str(known["checksum"]))


@dataclass(frozen=True)
class Seen:
    """A publication of the chain, between what main showed before it and after it."""

    made: Publication
    before: Shown
    after: Shown

    @property
    def days(self) -> list[TableDay]:
        return [TableDay(change.table, day.day) for change in self.made.tables for day in change.days]

    @property
    def is_whole(self) -> bool:
        """Of a campaign, of its undo, or of a timeline: what reads it comes along."""
        return bool(self.made.provenance.campaign)


@dataclass
class AgreementJudge:
    """Looks at the publications of a chain in their order."""

    tables: Mapping[str, TableJudge]
    chain: Chain
    seen: dict[str, Seen] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)

    def closed(self, made: Publication, versions: Mapping[TableDay, str | None], pinned: Mapping[str, int]) -> None:
        """``versions`` are those of its days; None for a day that is published no more."""
        if made.writes.isdisjoint(self.chain.step_of):
            return
        seen = Seen(made, self.shown, self._after(made, versions, pinned))
        self.shown, self.seen[made.id] = seen.after, seen
        if seen.is_whole or made.provenance.undoes:
            self._leaves_no_reader_behind(seen)
        if made.provenance.undoes:
            self._brings_back_versions(seen)
            self._puts_files_back(seen)

    def undoable(self) -> list[str]:
        """The newest publications of campaigns and their undos."""
        return [id for id, seen in self.seen.items() if seen.is_whole]

    def _after(self, made: Publication, versions: Mapping[TableDay, str | None], pinned: Mapping[str, int]) -> Shown:
        images, inputs = dict(self.shown.images), dict(self.shown.inputs)
        contents = {TableDay(change.table, day.day): day.content for change in made.tables for day in change.days}
        for table in made.writes:
            days = self.tables[table].days[pinned[table]]
            images |= {TableDay(table, day): image for day, image in days.items()}
        known: dict[TableDay, str | None] = {**self.shown.versions, **versions}
        for key, content in contents.items():
            inputs[key] = content.inputs if content is not None else ""
        return Shown(images, {key: each for key, each in known.items() if each is not None}, inputs)

    def _leaves_no_reader_behind(self, seen: Seen) -> None:
        """A published day that reads a day which changed agrees with it, or is named as stale."""
        changed = {key for key in seen.days if seen.before.logical(key) != seen.after.logical(key)}
        named = {TableDay(table, day) for table, days in seen.made.leaves_stale.items() for day in days}
        for key in self._computed(seen.after):
            read = self._read_by(seen.after, key)
            if key not in named and not changed.isdisjoint(read) and not self._is_foreign(seen, read):
                found, wanted = tuple(sorted(seen.after.of(key).rows.elements())), self._wanted(seen.after, key)
                assert found == wanted, f"{seen.made.id} leaves {key} as {found}, what it reads makes {wanted}"
        both = sorted(named.intersection(seen.days)) if seen.is_whole else []
        assert not both, f"{seen.made.id} names {both[0]} as stale, which it brings"

    def _is_foreign(self, seen: Seen, keys: Iterable[TableDay]) -> bool:
        """Whether others have a hand in one of ``keys``: nobody pinned their rows until this publication closed."""
        return any(key not in seen.days and seen.after.of(key).files != seen.before.of(key).files for key in keys)

    def _brings_back_versions(self, seen: Seen) -> None:
        """After the undo of a campaign: the version from before, but for days that a later run gave another one."""
        undone = self.seen[seen.made.provenance.undoes]
        if not undone.is_whole or undone.made.provenance.undoes:
            return
        for key in undone.days:
            was, now, brought = (shown.versions.get(key) for shown in (undone.before, seen.after, undone.after))
            files = seen.before.of(key).files, undone.after.of(key).files
            built_since = was is None and files[0] != files[1]
            if seen.before.versions.get(key) == brought and not built_since:
                assert now == was, f"{seen.made.id} leaves {key} by {now}, before it was by {was}"

    def _puts_files_back(self, seen: Seen) -> None:
        """With nothing in between, and nothing stale before: the files of before, by name."""
        undone = list(self.seen.values())[-2]
        if undone.made.id != seen.made.provenance.undoes or not self._is_fresh(undone.before):
            return
        other = [key for key in undone.days if seen.after.of(key).files != undone.before.of(key).files]
        assert not other, f"{seen.made.id} gives {other[0]} other files than it had, and nothing has changed since"

    # ------------------------------------------------------------------ what reads what

    def _computed(self, shown: Shown) -> Iterator[TableDay]:
        return (key for key in shown.versions if self.chain.step_of[key.table].source is None)

    def _read_by(self, shown: Shown, key: TableDay) -> list[TableDay]:
        return self.chain.reads(self.chain.step_of[key.table], shown.versions[key], key.day)

    def _wanted(self, shown: Shown, key: TableDay) -> tuple[str, ...]:
        step = self.chain.step_of[key.table]
        return self.chain.names_of(step, shown.versions[key], key.day, lambda each: shown.of(each).rows.elements())

    def _is_fresh(self, shown: Shown) -> bool:
        return all(self.is_made_of_what_is_shown(shown, key) for key in self._computed(shown))

    def is_made_of_what_is_shown(self, shown: Shown, key: TableDay) -> bool:
        """Of a published day that is computed."""
        logicals: dict[str, dict[date, str]] = {}
        for each in self._read_by(shown, key):
            logicals.setdefault(each.table, {})[each.day] = shown.logical(each)
        return shown.inputs[key] == fingerprints.inputs(logicals)
