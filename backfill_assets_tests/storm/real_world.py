"""The world of real processes: a real storage and log, and for each life a file of what it asks and is answered.

Nothing is judged here. What others know in the simulated world, a process here finds in the lakehouse, as a command
does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets_tests.simulator.chain import CHAIN, LANDED, Chain
from backfill_assets_tests.simulator.model import Rows, RowsOfTables, Wish, Wishes
from backfill_assets_tests.simulator.staging import rows_at
from backfill_assets_tests.simulator.told import wished
from backfill_assets_tests.simulator.world import TABLES, Life
from backfill_assets_tests.storm.clock import StormClock
from backfill_assets_tests.storm.notes import WISHES, Line, Notes, lives_in, read_lines, rows_as_json

_NEWEST = 12
_RETRIED = 6


@dataclass
class RealWorld:
    """What one process has around it. ``first`` is where its own numbers begin, which nobody else has."""

    storage: Storage
    clock: StormClock
    record: Notes
    first: int = 0
    chain: Chain = CHAIN
    tally: Counter[str] = field(default_factory=Counter)
    columns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    _counts: Counter[str] = field(default_factory=Counter)

    @property
    def folder(self) -> Path:
        return self.record.file.parent

    @property
    def log(self) -> PublicationLog:
        return PublicationLog(self.storage)

    # ------------------------------------------------------------------ lives

    def reached(self, life: Life, step: str) -> None:
        """Others go on at any time, and so does the end."""

    def rest(self, life: Life) -> None:
        """It pauses after each deed."""

    def count(self, what: str) -> int:
        self._counts[what] += 1
        return self.first + self._counts[what]

    # ------------------------------------------------------------------ what is asked and answered

    def asks(
        self,
        life: Life,
        publication: Publication,
        rows: RowsOfTables,
        inputs: RowsOfTables | None = None,
        looked_at: Mapping[str, int] | None = None,
    ) -> None:
        wishes = wished(publication, rows, inputs, looked_at)
        request = publication.model_dump(mode="json")
        self._asks(life, publication.id, wishes, {t: wish.rows for t, wish in wishes.tables.items()}, request)

    def completes(self, life: Life, publication: Publication) -> None:
        self.record.write("completed", id=publication.id, request=publication.model_dump(mode="json"))

    def intends(self, life: Life, id: str, wishes: Wishes, days: Mapping[str, Iterable[date]]) -> None:
        self._asks(life, id, wishes, days)

    def _asks(
        self,
        life: Life,
        id: str,
        wishes: Wishes,
        days: Mapping[str, Iterable[date]],
        request: Mapping[str, object] | None = None,
    ) -> None:
        self.record.write("wishes", id=id, wishes=WISHES.dump_python(wishes, mode="json"), request=request)
        written = [(table, str(day)) for table, listed in days.items() for day in listed]
        self.record.asks(life.id, "publish", id, writes=dict.fromkeys(written, id))

    def told(self, life: Life, id: str, result: Published | Conflict | None) -> None:
        self.record.told(life.id, "ok" if isinstance(result, Published) else "refused")

    def told_of(self, life: Life, error: BackfillError) -> None:
        self.tally[type(error).__name__] += 1
        self.record.told(life.id, "refused")

    def told_again(self, publication: Publication, result: Published | Conflict) -> None:
        outcome = "ok" if isinstance(result, Published) else "refused"
        self.record.write("again", id=publication.id, outcome=outcome)

    def rows_of(self, publication: Publication) -> RowsOfTables:
        return {
            change.table: {
                day.day: tuple(
                    name
                    for add in day.adds
                    for name in self.storage.read_parquet(f"{change.table}/{add.path}", ["name"])
                    .column("name")
                    .to_pylist()
                )
                for day in change.days
            }
            for change in publication.tables
        }

    def read_by(self, publication: Publication) -> RowsOfTables:
        found: dict[str, dict[date, tuple[str, ...]]] = {}
        for read in publication.inputs:
            rows = {} if read.version is None else rows_at(self.storage, read.table, read.version)
            days = found.setdefault(read.table, {})
            days.update({day: tuple(rows.get(day, Counter()).elements()) for day in read.days})
        return found

    def wrote(self, life: Life, table: str, version: int, day: date) -> None:
        """What it replaced is in its commit."""
        self.record.told(life.id, "ok")

    def send(self, due: DueNotice) -> None:
        self.record.write("heard", key=due.key)

    # ------------------------------------------------------------------ what is read

    def pins(self, life: Life, position: int, versions: Mapping[str, int], values: Mapping[TableDay, str]) -> None:
        shown = [[table, str(day), value] for (table, day), value in values.items()]
        self.record.write("pins", position=position, versions=dict(versions), values=shown)

    def sees(self, life: Life, table: str, version: int | None, rows: Mapping[date, Rows]) -> None:
        self.record.write("sees", table=table, version=version, rows=rows_as_json(rows))

    def has_read(self, life: Life, position: int | None = None) -> None:
        self.record.write("told", outcome="ok", position=position)

    # ------------------------------------------------------------------ what everybody can find out

    def published_so_far(self, tables: Collection[str]) -> list[str]:
        log = self.log
        done = [id for id, outcome in log.head().state.outcomes.items() if outcome == "done"][-_NEWEST:]
        of_these = {each.publication.id for each in log.prepared_of(done) if each.publication.writes <= set(tables)}
        return [id for id in done if id in of_these]

    def undoing(self, publication: str) -> tuple[Wishes, Mapping[str, Sequence[date]]]:
        found = self.log.find_prepared(publication)
        changes = found[0].publication.tables if found else ()
        tables = {
            change.table: Wish("replace", {}, {}, positions={p.id: (p.after, p.before or 0) for p in change.positions})
            for change in changes
        }
        return Wishes("rollback", tables, undoes=publication), {c.table: [d.day for d in c.days] for c in changes}

    def under_way(self) -> list[str]:
        return sorted(self.log.head().state.open)

    def unanswered(self) -> list[Publication]:
        """Who lives has the highest number of its name; all others of that name have died."""
        lives = lives_in(self.folder)
        newest = {actor: number for actor, number, _ in lives}
        dead = [path for actor, number, path in lives if number < newest[actor]]
        latest = sorted(dead, key=lambda path: path.stat().st_mtime)[-_RETRIED:]
        refused = {
            line["id"]
            for actor, _, path in lives
            if actor.startswith("repeater")
            for line in read_lines(path)
            if line["what"] == "again" and line["outcome"] == "refused"
        }
        found = [request for path in latest if (request := _last_request(read_lines(path)))]
        return [each for each in map(Publication.model_validate, found) if each.id not in refused]

    def has_several_files(self, table: str, day: date) -> bool:
        version = newest_version(self.storage, table)
        return version is not None and len(read_log(self.storage, table, version).of_days([day])[day]) > 1

    def was_taken_away(self, table: str) -> bool:
        return False

    def landed(self) -> Mapping[date, Sequence[str]]:
        version = newest_version(self.storage, LANDED.name)
        found = {} if version is None else rows_at(self.storage, LANDED.name, version)
        return {day: list(rows.elements()) for day, rows in found.items() if rows}


def _last_request(lines: Sequence[Line]) -> Mapping[str, object] | None:
    """What a life has asked for itself and was never answered."""
    requests = defaultdict[str, Mapping[str, object] | None](lambda: None)
    asked: str | None = None
    for line in lines:
        if line["what"] in ("wishes", "completed"):
            requests[line["id"]] = line["request"]
        elif line["what"] in ("asks", "told"):
            asked = line.get("publication")
    return requests[asked] if asked else None


def notes_of(life: Life) -> Notes:
    """For deeds that only real processes do."""
    assert isinstance(life.world, RealWorld)
    return life.world.record
