"""Timelines: each revision shows what its logic makes of what it shows beside that, or names the day as stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime

from backfill_assets.days import parse_day
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.timeline.view import StaleDays, stale_days
from backfill_assets_tests.simulator.chain import CHAIN, STEP_OF, STEPS, WEEKLY
from backfill_assets_tests.simulator.judges.log import LogJudge
from backfill_assets_tests.simulator.judges.tables import Held, TableJudge
from backfill_assets_tests.simulator.model import Rows

NAMES = ("one", "two", "three", "standby-sums-v1", "standby-sums-v2")
"""All that a timeline of a played lakehouse may be called."""
REWOUND, FORWARD = "rewound to ", "forward from "
"""How the change of a revision begins."""
_FOLDER = "_named_timelines"


class TimelineJudge:
    """Follows the revisions of every name. Tables and log must have been followed already."""

    def __init__(
        self,
        storage: Storage,
        held: Held,
        tables: Mapping[str, TableJudge],
        log: LogJudge,
        now: Callable[[], datetime],
    ) -> None:
        self.revisions: dict[str, list[NamedTimeline]] = {name: [] for name in NAMES}
        self.answered: set[str] = set()
        """The ids of those that somebody was told to have: whoever made another one may yet find out that files go."""
        self._storage = storage
        self._held = held
        self._tables = tables
        self._log = log
        self._now = now
        self._written: dict[str, bytes] = {}
        self._followed: object = None
        self._needs: dict[str, frozenset[str]] = {}
        """The files of the newest revision of each name, and of what it reads through to."""

    def follow(self) -> None:
        """Check every revision since the last look, and that all files are there that a kept timeline needs."""
        if (state := (self._held.changes, len(self.answered))) == self._followed:
            return
        for name, known in self.revisions.items():
            while isinstance(data := self._held.contents.get(path := f"{_FOLDER}/{name}/{len(known):06d}.json"), bytes):
                self._written[path] = data
                known.append(NamedTimeline.model_validate_json(data))
                self._revision(known[-1])
                self._needs[name] = frozenset(self._needed(known[-1]))
        for each in (each for each in self.kept if each.id in self.answered):
            taken = {path for table in self._tables.values() for path in table.lost}
            gone = [path for path in self._needs[each.name] - taken if path not in self._held.contents]
            assert not gone, f"{each.name} needs {gone}, which are gone"
        self._followed = state

    @property
    def kept(self) -> list[NamedTimeline]:
        """The newest revision of each name that has one, and whose age is not reached."""
        now = self._now()
        return [known[-1] for known in self.revisions.values() if known and known[-1].is_kept(now)]

    def end(self) -> None:
        """No revision was ever written over, and what a name went to is what it was."""
        changed = [path for path, data in self._written.items() if self._held.contents.get(path) != data]
        assert not changed, f"{changed} were written over"
        for each in (each for known in self.revisions.values() for each in known if each.went_to):
            name, _, number = each.went_to.rpartition("/")
            renamed = self.revisions[name][int(number)]
            assert (renamed.id, renamed.days) == (each.id, each.days), f"{each.name} is not {each.went_to}"

    def _needed(self, line: NamedTimeline) -> Iterable[str]:
        """What it names and reads through to; of what its days were computed from then, what was still there."""
        for table, days in line.days.items():
            yield from (f"{table}/{file.path}" for held in days for file in held.files)
        yield from self._files(line.base)
        if line.moment_base is not None:
            yield from (path for path in self._files(line.moment_base) if path in self._held.contents)

    def _files(self, base: TimelineBase) -> Iterable[str]:
        for table, version in base.versions.items():
            images = self._tables[table].days[version].values()
            yield from (f"{table}/{path}" for image in images for path in image.files)

    # ------------------------------------------------------------------ one revision

    def _revision(self, line: NamedTimeline) -> None:
        what = f"{line.name} {line.revision} ({line.change})"
        known = self.revisions[line.name]
        assert line.revision == len(known) - 1, f"{what} has the number of another one"
        if len(known) > 1 and known[-2].is_kept(line.changed_at):
            assert line.id == known[-2].id, f"{what} has the name of {known[-2].id}, which is kept"
        own = [f"{table}/{file.path}" for table, days in line.days.items() for held in days for file in held.files]
        if line.deleted or not all(path in self._held.contents for path in own):
            return
        for base in line.bases:
            self._is_published(base, what)
        stale = stale_days(self._storage, line, STEPS)
        self._agrees(line, stale, what)
        if line.change.startswith(REWOUND):
            self._rewound(line, what)
        elif line.change.startswith(FORWARD):
            self._went_forward(line, stale, what)

    def _agrees(self, line: NamedTimeline, stale: StaleDays, what: str) -> None:
        """Its own days are what their version makes of what it shows, but for those that it says are stale."""
        shown = self.shown(line)
        for table, days in line.days.items():
            for day, content in ((held.day, held.content) for held in days if held.content):
                rows = shown(table, day)
                assert content.rows == rows.total(), f"{what}: {table} {day} has {rows}"
                if day not in stale.get(table, ()):
                    made = CHAIN.names_of(
                        STEP_OF[table], content.code_version, day, lambda each: shown(*each).elements()
                    )
                    assert rows == Counter(made), f"{what}: {table} {day} is {rows}, beside it is {made}"

    def shown(self, line: NamedTimeline) -> Callable[[str, date], Rows]:
        """The rows of any day as readers of ``line`` see it."""
        own = line.records

        def rows(table: str, day: date) -> Rows:
            if (held := own.get(table, {}).get(day)) is not None:
                return self.rows_of(table, held.files)
            return self.at(line.base, table, day)

        return rows

    def lost(self, table: str, files: Iterable[AddedFile]) -> bool:
        """Has somebody deleted one of ``files``?"""
        return any(f"{table}/{file.path}" not in self._held.contents for file in files)

    def rows_of(self, table: str, files: Iterable[AddedFile]) -> Rows:
        found: Rows = Counter()
        for file in files:
            found.update(self._held.contents[f"{table}/{file.path}"].column("name").to_pylist())
        return found

    def at(self, base: TimelineBase, table: str, day: date) -> Rows:
        """The rows of a day as published there."""
        return self._tables[table].at(base.versions[table], day).rows if table in base.versions else Counter()

    def _is_published(self, base: TimelineBase, what: str) -> None:
        """It is one state of the log, and of all tables together."""
        _, versions = self._log.shown_at(base.sequence)
        for table, version in base.versions.items():
            images = self._tables[table].days
            assert images[version] == images[versions[table]], f"{what} reads through to {table} {version}"

    def _rewound(self, line: NamedTimeline, what: str) -> None:
        """Days of the tables asked for are as they were; what reads them is as it was, or as it is."""
        then = line.moment_base
        assert then is not None and then.sequence <= line.base.sequence, f"{what} has no moment"
        _, versions = self._log.shown_at(then.sequence)
        moment, shown = TimelineBase(sequence=then.sequence, versions=versions), self.shown(line)
        for table, days in line.days.items():
            for day in (held.day for held in days):
                was, rows = self.at(moment, table, day), shown(table, day)
                is_main = table not in line.targets and rows == self.at(line.base, table, day)
                assert rows == was or is_main, f"{what}: {table} {day} is {rows}, then it was {was}"
        weeks = {WEEKLY.cadence.start(held.day) for held in line.days.get("sums", ())}
        known = {week for week in weeks if any(self.at(each, "weekly", week) for each in (moment, line.base))}
        assert known <= line.held("weekly").keys(), f"{what} leaves out weeks of {sorted(known)}"

    def _went_forward(self, line: NamedTimeline, stale: StaleDays, what: str) -> None:
        """Each day is of the version of its table. Over its moment, all of it agrees, for that moves no more."""
        back = {(text.split()[0], parse_day(text.split()[1].rstrip(":"))) for text in line.held_back}
        for table, days in line.days.items():
            for held in (each for each in days if (table, each.day) not in back):
                version = held.content.code_version if held.content else line.versions[table]
                assert version == line.versions[table], f"{what}: {table} {held.day} is of {version}"
        if line.change.endswith("without arrivals"):
            assert line.moment_base is not None and line.base.sequence == line.moment_base.sequence, what
            assert not self.stale_of_its_own(line, stale), f"{what}: {stale} are stale"

    def stale_of_its_own(self, line: NamedTimeline, stale: StaleDays | None = None) -> dict[str, list[date]]:
        """Days of its own that it names as stale, and that no gate held back."""
        found = stale_days(self._storage, line, STEPS) if stale is None else stale
        own = {table: sorted(days.keys() & line.held(table).keys()) for table, days in found.items()}
        return {} if line.held_back else {table: days for table, days in own.items() if days}
