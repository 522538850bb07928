"""Plain Python beside the played lakehouse: what rows each day must have, and what a publication must leave behind.

Rows are names. ``names_of`` makes those of a day from the rows of what it reads; transforms and judge share it, so the
judge asks one thing only: which inputs were read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq

from backfill_assets.days import DayRange, TableDay
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.records import DayContent, Prepared, Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Reads, Step
from backfill_assets.publish.log import PublicationLog

Names = tuple[str, ...]
Rows = Mapping[str, Mapping[date, Names]]
"""The rows of each day, by table."""
Days = Mapping[date, Names]
Landed = Mapping[str, Mapping[date, Sequence[str]]]
"""What has landed, by raw table and day, in its order."""


# ------------------------------------------------------------------ what rows a day has


def _newest_rows(inputs: Mapping[str, Days]) -> Names:
    """Of raw rows ``<key>.<version>=<amount>`` the newest version of each key, but for keys that ``-<key>`` took."""
    ((names),) = [[name for found in days.values() for name in found] for days in inputs.values()]
    gone = {name[1:] for name in names if name.startswith("-")}
    newest: dict[str, tuple[int, str]] = {}
    for key, version, amount in (_parts(name) for name in names if not name.startswith("-")):
        if key not in gone:
            newest[key] = max(newest.get(key, (0, "")), (version, amount))
    return tuple(sorted(f"{key}={amount}" for key, (_, amount) in newest.items()))


def _parts(name: str) -> tuple[str, int, str]:
    key, _, rest = name.partition(".")
    version, _, amount = rest.partition("=")
    return key, int(version), amount


def _converted(inputs: Mapping[str, Days]) -> Names:
    """Each row at the last rate that is read; there is none at weekends."""
    ((rows),) = inputs["bronze"].values()
    rates = [int(_amount(name)) for _, names in sorted(inputs["rates"].items()) for name in names]
    rate = rates[-1] if rates else 0
    return tuple(sorted(f"{_key(name)}={int(_amount(name)) * rate}" for name in rows))


def _summed(inputs: Mapping[str, Days]) -> Names:
    """One row: how many there are, and their sum; none without any."""
    amounts = [int(_amount(name)) for days in inputs.values() for names in days.values() for name in names]
    return (f"{len(amounts)}={sum(amounts)}",) if amounts else ()


def _key(name: str) -> str:
    return name.partition("=")[0]


def _amount(name: str) -> str:
    return name.partition("=")[2]


_MADE: Mapping[str, Callable[[Mapping[str, Days]], Names]] = {
    "bronze": _newest_rows,
    "rates": _newest_rows,
    "fact": _converted,
    "daily": _summed,
    "weekly": _summed,
}


def names_of(table: str, reads: Iterable[Reads], period: DayRange, rows: Rows) -> Names:
    """The rows of ``period``, by just the days of ``rows`` that a version reads for it."""
    return _MADE[table](
        {read.table: {day: rows.get(read.table, {}).get(day, ()) for day in read.days(period)} for read in reads}
    )


# ------------------------------------------------------------------ what main shows


@dataclass(frozen=True, repr=False)
class Shown:
    """What main shows right after a publication."""

    names: Rows = field(default_factory=dict)
    files: Mapping[TableDay, frozenset[str]] = field(default_factory=dict)
    contents: Mapping[TableDay, DayContent] = field(default_factory=dict)
    """Of the published days, as the log has them."""

    def version(self, key: TableDay) -> str | None:
        """None for a day that is not published."""
        return self.contents[key].code_version if key in self.contents else None

    def logical(self, key: TableDay) -> str:
        return self.contents[key].logical if key in self.contents else fingerprints.NEVER_PUBLISHED

    def of(self, key: TableDay) -> Names:
        return self.names.get(key.table, {}).get(key.day, ())


_READ: dict[str, Names] = {}
"""The rows of each file: no file is written twice."""


def _names_in(storage: Storage, table: str, path: str) -> Names:
    if path not in _READ:
        column = pq.ParquetFile(Path(storage.uri(table)) / path).read(["name"]).column("name")
        _READ[path] = tuple(str(name) for name in column.to_pylist())
    return _READ[path]


def _after(storage: Storage, prepared: Prepared, before: Shown, versions: Mapping[str, int]) -> Shown:
    """What main shows once it is published, with its tables at ``versions``."""
    contents, names, files = dict(before.contents), dict(before.names), dict(before.files)
    for change in prepared.publication.tables:
        for day in change.days:
            content = prepared.result(change.table, day.day)
            contents.pop(TableDay(change.table, day.day), None)
            if content is not None:
                contents[TableDay(change.table, day.day)] = content
        by_day = read_log(storage, change.table, versions[change.table]).by_day()
        names[change.table] = {
            day: tuple(sorted(name for path in paths for name in _names_in(storage, change.table, path)))
            for day, paths in by_day.items()
        }
        files = {key: held for key, held in files.items() if key.table != change.table}
        files |= {TableDay(change.table, day): paths for day, paths in by_day.items()}
    return Shown(names, files, contents)


class Torn(AssertionError):
    """A publication left main as no order of computing could have made it."""


@dataclass(frozen=True, repr=False)
class Seen:
    """A publication, and what main showed before it and after it."""

    prepared: Prepared
    before: Shown
    after: Shown
    meanwhile: tuple[Shown, ...] = ()
    """What main showed from its prepared entry on: its place is there, and others may be closed before it."""

    @property
    def made(self) -> Publication:
        return self.prepared.publication

    @property
    def days(self) -> list[TableDay]:
        return [TableDay(change.table, day.day) for change in self.made.tables for day in change.days]

    @property
    def changed(self) -> set[TableDay]:
        return {key for key in self.days if self.before.logical(key) != self.after.logical(key)}

    @property
    def is_whole(self) -> bool:
        """Of a campaign, of its undo, or of a timeline: what reads it comes along."""
        return bool(self.made.provenance.campaign)

    def __str__(self) -> str:
        what = f"the undo of {self.made.provenance.undoes}" if self.made.provenance.undoes else self.made.kind
        return f"{self.made.id} ({what})"


@dataclass
class Judge:
    """Looks at each publication once, in their order."""

    steps: Sequence[Step]
    seen: list[Seen] = field(default_factory=list)
    prepared: dict[str, Prepared] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    """How many publications were closed when another one was prepared."""
    sequence: int = -1
    """The last entry of the log that was read."""

    def copy(self) -> Judge:
        return replace(self, seen=list(self.seen), prepared=dict(self.prepared), begun=dict(self.begun))

    @property
    def shown(self) -> Shown:
        return self.seen[-1].after if self.seen else Shown()

    def look(self, log: PublicationLog) -> list[Seen]:
        """Read the publications that were closed since the last look."""
        found: list[Seen] = []
        if log.head().version == self.sequence:
            return found
        files = log.files().between("sequence", low=self.sequence + 1)
        rows = files.read(["event", "publication", "outcome", "detail"]).to_pylist()
        for row in (row for row in rows if row["sequence"] > self.sequence):
            if row["event"] == "prepared" and row["detail"]:
                self.prepared[row["publication"]] = Prepared.model_validate_json(row["detail"])
                self.begun[row["publication"]] = len(self.seen)
            elif row["event"] == "closed" and row["outcome"] == "done":
                prepared, versions = self.prepared[row["publication"]], json.loads(row["detail"])
                shown = [Shown(), *(each.after for each in self.seen)][self.begun[row["publication"]] :]
                after = _after(log.storage, prepared, self.shown, versions)
                found.append(Seen(prepared, self.shown, after, tuple(shown)))
                self.seen.append(found[-1])
        self.sequence = max([self.sequence, *(row["sequence"] for row in rows)])
        return found

    # -------------------------------------------------------------- the properties

    def judge(self, found: Iterable[Seen], landed: Landed) -> None:
        """Raise :class:`Torn` for the first publication that is, and for raw rows that are lost or there twice."""
        for seen in found:
            self.brings_what_it_is_made_of(seen, landed)
            if seen.is_whole or seen.made.provenance.undoes:
                self.leaves_no_reader_behind(seen)
            if seen.made.provenance.undoes:
                self.brings_back_versions(seen)
                self.puts_files_back(seen)
        for table, days in landed.items():
            for day, names in days.items():
                if self.shown.of(TableDay(table, day)) != tuple(sorted(names)):
                    raise Torn(f"{table} {day} has {self.shown.of(TableDay(table, day))}, landed were {sorted(names)}")

    def brings_what_it_is_made_of(self, seen: Seen, landed: Landed) -> None:
        """Each day is what its version makes of the inputs that main has after it. Raw may have gained rows since."""
        for key in (key for key in seen.days if self.is_computed(seen.after, key)):
            if seen.after.of(key) not in (self.wanted(seen.after, key), *self.from_fewer_rows(seen, key, landed)):
                raise Torn(f"{seen} brings {self.difference(seen.after, key)}")

    def from_fewer_rows(self, seen: Seen, key: TableDay, landed: Landed) -> Iterator[Names]:
        """What a day that reads raw may be if rows arrived since it was staged: a person put it back by itself."""
        for raw in {each.table for each in self.inputs(seen.after, key)}.intersection(() if seen.is_whole else landed):
            names = tuple(landed[raw][key.day])
            for count in range(len(names)):
                yield self.wanted(Shown({raw: {key.day: names[:count]}}, contents=seen.after.contents), key)

    def leaves_no_reader_behind(self, seen: Seen) -> None:
        """A published day that reads a day which changed agrees with it, or is named as stale."""
        named = seen.made.leaves_stale
        for key in (key for key in seen.after.contents if self.is_computed(seen.after, key)):
            if key.day in named.get(key.table, ()) or seen.changed.isdisjoint(self.inputs(seen.after, key)):
                continue
            if seen.after.of(key) != self.wanted(seen.after, key):
                raise Torn(f"{seen} leaves {self.difference(seen.after, key)}")
        both = [key for key in seen.days if key.day in named.get(key.table, ())]
        if both and seen.is_whole:
            raise Torn(f"{seen} names {both[0]} as stale, which it brings")

    def brings_back_versions(self, seen: Seen) -> None:
        """After the undo of a campaign: the version from before, but for days that a later run gave another one."""
        undone = next(each for each in self.seen if each.made.id == seen.made.provenance.undoes)
        if not undone.is_whole or undone.made.provenance.undoes:
            return
        for key in undone.days:
            was, now, brought = (shown.version(key) for shown in (undone.before, seen.after, undone.after))
            built_since = was is None and seen.before.files.get(key) != undone.after.files.get(key)
            if seen.before.version(key) == brought and not built_since and now != was:
                raise Torn(f"{seen} leaves {key} by {now}, before it was by {was}")

    def puts_files_back(self, seen: Seen) -> None:
        """With nothing in between, and nothing stale before: the files of before, by name."""
        undone = self.seen[self.seen.index(seen) - 1]
        if undone.made.id != seen.made.provenance.undoes or not self.was_fresh(undone.before):
            return
        for key in undone.days:
            if seen.after.files.get(key) != undone.before.files.get(key):
                raise Torn(f"{seen} gives {key} other files than it had before, and nothing has changed since")

    def all_from_raw(self, landed: Landed) -> None:
        """Raise :class:`Torn` unless every published day is what its version makes of raw alone."""
        rows: dict[str, dict[date, Names]] = {
            table: {day: tuple(names) for day, names in days.items()} for table, days in landed.items()
        }
        for step in (step for step in self.steps if step.source is None):
            keys = [key for key in self.shown.contents if key.table == step.name]
            rows[step.name] = {key.day: self.wanted(Shown(rows, contents=self.shown.contents), key) for key in keys}
            for key in keys:
                if self.shown.of(key) != rows[step.name][key.day]:
                    raise Torn(f"in the end {key} is {self.shown.of(key)}, from raw it is {rows[step.name][key.day]}")

    # -------------------------------------------------------------- what reads what

    def step_of(self, table: str) -> Step:
        return next(step for step in self.steps if step.name == table)

    def is_computed(self, shown: Shown, key: TableDay) -> bool:
        """Is it published, and no day of raw?"""
        return key in shown.contents and self.step_of(key.table).source is None

    def reads(self, shown: Shown, key: TableDay) -> tuple[Reads, ...]:
        """What a published day reads, by the version that it has."""
        return self.step_of(key.table).version(shown.version(key)).reads

    def inputs(self, shown: Shown, key: TableDay) -> list[TableDay]:
        period = self.step_of(key.table).cadence.period(key.day)
        return [TableDay(read.table, day) for read in self.reads(shown, key) for day in read.days(period)]

    def wanted(self, shown: Shown, key: TableDay) -> Names:
        """The rows that the version of a published day makes of what is shown."""
        return names_of(key.table, self.reads(shown, key), self.step_of(key.table).cadence.period(key.day), shown.names)

    def was_fresh(self, shown: Shown) -> bool:
        """Is each published day made of just what is shown?"""
        return all(self.is_made_of_what_is_shown(shown, key) for key in shown.contents if self.is_computed(shown, key))

    def is_fresh(self, step: Step, days: Iterable[date]) -> bool:
        """Is each of ``days`` published, and made of just what main shows now?"""
        keys = [TableDay(step.name, day) for day in days]
        return all(key in self.shown.contents and self.is_made_of_what_is_shown(self.shown, key) for key in keys)

    def is_made_of_what_is_shown(self, shown: Shown, key: TableDay) -> bool:
        logicals: dict[str, dict[date, str]] = {}
        for each in self.inputs(shown, key):
            logicals.setdefault(each.table, {})[each.day] = shown.logical(each)
        return shown.contents[key].inputs == fingerprints.inputs(logicals)

    def difference(self, shown: Shown, key: TableDay) -> str:
        made = f"{shown.version(key)} makes {self.wanted(shown, key)} of what main shows"
        return f"{key} as {shown.of(key)}, and {made}"
