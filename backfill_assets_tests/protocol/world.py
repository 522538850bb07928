"""A lakehouse with all who work on it: what they do, and what they were answered, for the judges to judge."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

from backfill_assets import clock
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.crash_points import Reached, nowhere
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.publish.fold import SETTLED, fold
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.pinned import pin_again
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets.state.stream_positions import begun_id
from backfill_assets.upkeep.reclaim import finish_reclaiming, reclaim
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.protocol.actor import Actor
from backfill_assets_tests.protocol.foreign import alter, demand_feature, drop_feature, overwrite
from backfill_assets_tests.protocol.on_disk import OnDisk, TableOnDisk
from backfill_assets_tests.protocol.staging import DAYS, published_rows, rows_table, scratch
from backfill_assets_tests.simulator.judges.log import LogJudge
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import Wish, Wishes

TABLES = ("fact", "raw", "raw_more", "report")
RAW = ("raw", "raw_more")
SALES, TOPIC = "sales", "orders"
"""The source and the topic that streams read."""
RETENTION_DAYS = 1
CHECKPOINT_EVERY = 20
"""A version with a checkpoint is read from there, even if its commit is overwritten."""
Rows = Mapping[str, Mapping[date, tuple[str, ...]]]
"""Rows by table and day."""


def rows_of_offset(source: str, table: str, offset: int) -> dict[date, tuple[str, ...]]:
    """The rows that one offset of a source gives, by day: the same whenever it is read."""
    day = DAYS[(offset + len(source)) % len(DAYS)]
    return {day: tuple(f"{source}/{table}/{offset}/{number}" for number in range(1 + offset % 2))}


class World:
    """One lakehouse in a temporary folder, its actors, and those who judge it."""

    def __init__(self) -> None:
        self.root = _new_folder()
        self.storage = Storage(str(self.root))
        self.time = FakeClock(datetime.now(UTC))
        self.actors: list[Actor] = []
        self.wishes: dict[str, Wishes] = {}
        self.requests: list[Publication] = []
        self.done: set[str] = set()
        self.noticed: set[str] = set()
        self.heard: list[str] = []
        self.refused: list[str] = []
        self.foreign: dict[str, dict[int, str]] = {table: {} for table in TABLES}
        self.held = OnDisk(self.root)
        self.judges = {each: TableOnDisk(self.held, each, self.wishes, self.foreign[each]) for each in TABLES}
        self.log = LogJudge(self.held, self.wishes, self.judges, _nobody_is_told)
        self.columns = dict.fromkeys(TABLES, 0)
        self.altered: dict[str, str] = {}
        """What was changed on a table so that it cannot be written, or only in part."""
        self._numbers = Counter[str]()
        self._read_at: dict[str, int] = {}
        """The version of each table that a reader has found as its judge has it."""

    def copy(self) -> World:
        """Another lakehouse with the same past, which was judged already. Nobody may be working."""
        world = deepcopy(self)
        world.root = _new_folder()
        world.storage = Storage(str(world.root))
        shutil.copytree(self.root, world.root, dirs_exist_ok=True)
        world.held.root = world.root
        return world

    def publisher(self, reached: Reached = nowhere) -> Publisher:
        return Publisher(self.storage, retention_days=RETENTION_DAYS, reached=reached)

    def name(self, prefix: str) -> str:
        self._numbers[prefix] += 1
        return f"{prefix}{self._numbers[prefix]}"

    def days_pass(self) -> None:
        self.time.moment += timedelta(days=RETENTION_DAYS, hours=1)

    # ------------------------------------------------------- what actors were answered

    def asked(self, publication: Publication, inputs: Rows, rows: Rows) -> None:
        """An actor is about to publish: what it would mean, were it done."""
        tables = {}
        for change in publication.tables:
            tables[change.table] = Wish(
                mode=change.mode,
                rows={day.day: rows[change.table][day.day] for day in change.days},
                files={day.day: frozenset(add.path for add in day.adds) for day in change.days},
                expected={} if change.mode == "append" else {d.day: frozenset(d.expected.files) for d in change.days},
                positions={p.id: (p.before or 0, p.after) for p in change.positions},
            )
        exact = any(read.exact for read in publication.inputs)
        switches = {step: (switch.former, switch.version) for step, switch in publication.switches.items()}
        self.wishes[publication.id] = Wishes(publication.kind, tables, inputs=inputs, exact=exact, switches=switches)
        self.requests.append(publication)
        if publication.notice is not None:
            self.noticed.add(publication.id)

    def told(self, publication: str, result: object) -> None:
        """What the caller was answered must be so: done is done for good, and refused had no effect."""
        if isinstance(result, Published):
            self.done.add(publication)
        elif isinstance(result, Conflict):
            self.refused.append(publication)

    def send(self, due: DueNotice) -> None:
        """The world receives notices itself: what was said cannot be unsaid by an actor that dies next."""
        self.heard.append(due.key)

    # ------------------------------------------------------------- foreign writers

    def write_past_the_protocol(self, table: str, day: date, how: str) -> None:
        """A foreign writer commits to main directly: adds rows, deletes a day, or rewrites files."""
        main = MainTable.open(self.storage, table)
        if main is None or "name" not in {field.name for field in main.handle.schema().fields}:
            return
        if table in self.altered:
            return
        version = main.version + 1
        if how == "optimise":
            main.handle.optimize.compact(partition_filters=[("day", "=", str(day))])
        elif how == "delete" and table not in RAW:
            main.handle.delete(f"day = '{day}'")
        elif how == "add":
            rows = rows_table({day: [self.name("foreign")]}, len(main.handle.schema().fields) - 2)
            write_deltalake(main.handle, rows, mode="append")
        for newer in range(version, DeltaTable(self.storage.uri(table)).version() + 1):
            self.foreign[table][newer] = how

    def alter(self, table: str, how: str) -> None:
        """A writer alters the table so that delta-rs cannot write it, or not all of it; ``back`` takes that back."""
        if MainTable.open(self.storage, table) is None or (how == "back") != (table in self.altered):
            return
        what = self.altered.pop(table) if how == "back" else how
        if what == "rowTracking":
            version = (drop_feature if how == "back" else demand_feature)(self.storage, table, what)
        else:
            version = alter(self.storage, table, {what: None if how == "back" else "true"})
        self.foreign[table][version] = "alter"
        if how != "back":
            self.altered[table] = how

    def overwrite(self) -> None:
        """A writer without put-if-absent puts an empty commit over one of an open entry.

        Not while an actor acts on what it has read there: nothing could protect it then.
        """
        if any(actor.at in ("table loaded", "closing") for actor in self.alive()):
            return
        for table, judge in self.judges.items():
            if judge.version % CHECKPOINT_EVERY and judge.newest_is_of(self.log.open):
                overwrite(self.storage, table, judge.version)
                self.foreign[table][judge.version] = "overwrite"
                judge.step_back()
                return

    def maintain_log(self, how: str) -> None:
        """An engine, or our own maintenance, works on the log itself, while actors are in the middle of anything."""
        self.judge()
        if how == "fold":
            self.time.moment += SETTLED + timedelta(hours=1)
            publisher = self.publisher()
            fold(publisher.log, clock.now())
            reclaim(publisher, LOG_TABLE, clock_checked=True)
            return
        table = DeltaTable(self.storage.uri(LOG_TABLE))
        if how == "optimise":
            table.optimize.compact()
        else:
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=how == "vacuum")

    def weeks_at_rest(self, tables: Iterable[str], *, pinned_again: bool) -> None:
        """No actor works; engines commit nothing new, again and again, and clean up all older versions."""
        self.judge()
        for table in tables:
            if MainTable.open(self.storage, table) is not None and not self._cannot_rest(table):
                version = _commit_nothing(self.storage, table)
                self.foreign[table][version] = "nothing"
                self.judge()
                if pinned_again:
                    pin_again(self.publisher().log, [table])
                self.judge()
                _clean_up(self.root, self.storage, table)
        _commit_nothing(self.storage, LOG_TABLE)
        self.judge()
        _clean_up(self.root, self.storage, LOG_TABLE)

    def _cannot_rest(self, table: str) -> bool:
        if table in self.altered:
            return True  # delta-rs may refuse to commit anything to it
        judge, pinned = self.judges[table], self.log.map.get(table)
        changed = pinned is None or judge.days[pinned] != judge.days[-1]
        return changed or any(table in self.wishes[id].tables for id in self.log.open)

    # ------------------------------------------------------------------- judgement

    def judge(self) -> None:
        """Every invariant, at this very moment, while actors are in the middle of anything."""
        for actor in self.actors:
            if actor.error is not None and not isinstance(actor.error, BackfillError):
                raise actor.error
        for judge in self.judges.values():
            moved = judge.follow()
            assert judge.version < 0 or not judge.missing_files(judge.version), f"{judge.table}: files are missing"
            if moved and judge.table in RAW:
                self._judge_positions(judge)
        self.log.follow()
        for publication in self.done:
            assert self.log.outcomes.get(publication) == "done", f"{publication} was acknowledged, and is not done"
        for publication in self.refused:
            assert publication not in self.log.open, f"{publication} was refused, and is under way"
            assert self.log.outcomes.get(publication) != "done", f"{publication} was refused, and is done"
        self.refused.clear()
        for publication in self.heard:
            assert self.log.outcomes.get(publication) == "done", f"{publication} was announced, and is not done"

    def _judge_positions(self, judge: TableJudge) -> None:
        """Rows and positions together: every offset up to the position, once, and nothing beyond it."""
        found = Counter[str]()
        for image in judge.days[-1].values():
            found += Counter({row: n for row, n in image.rows.items() if not row.startswith("foreign")})
        wanted = Counter[str]()
        for source, position in judge.positions[-1].items():
            if source == begun_id(SALES, TOPIC):
                continue  # it says that a stream has begun, and no rows belong to it
            for offset in range(position):
                for rows in rows_of_offset(source, judge.table, offset).values():
                    wanted.update(rows)
        assert found == wanted, f"{judge.table}: {found - wanted} too much, {wanted - found} lost"

    def end(self) -> None:
        """Everybody dies; a new process recovers; and then nothing is left half done."""
        for actor in self.actors:
            actor.crash()
        for table in list(self.altered):
            self.alter(table, "back")
        publisher = self.publisher()
        publisher.recover()
        finish_reclaiming(publisher)
        self.judge()
        assert not self.log.open
        deliver(publisher, self)
        assert set(self.heard) == {id for id in self.noticed if self.log.outcomes.get(id) == "done"}
        assert not due_notices(publisher), "everything was sent, and is due again"
        self.log.check_states(publisher.log.day_states(publisher.log.head()))
        for table, judge in self.judges.items():
            if judge.version > self._read_at.get(table, -1):
                self._read_at[table] = judge.version
                found = {day: rows for day, rows in published_rows(self.storage, table).items() if rows}
                assert found == {day: image.rows for day, image in judge.days[-1].items() if image.rows}

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def alive(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.finished]

    def published_so_far(self) -> list[str]:
        return [publication for publication, outcome in self.log.outcomes.items() if outcome == "done"]


def _nobody_is_told(*_: object) -> None:
    """No history is kept here."""


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="protocol-", dir=scratch()))


def _commit_nothing(storage: Storage, table: str) -> int:
    """A version that changes no file, as VACUUM and ALTER write them."""
    handle = DeltaTable(storage.uri(table))
    handle.alter.set_table_properties({"delta.checkpointInterval": "20"})
    return DeltaTable(storage.uri(table)).version()


def _clean_up(root: Path, storage: Storage, table: str) -> None:
    handle = DeltaTable(storage.uri(table))
    handle.create_checkpoint()
    for version in range(handle.version()):
        (root / table / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def merged(parts: Iterable[Mapping[date, tuple[str, ...]]]) -> dict[date, tuple[str, ...]]:
    found: dict[date, tuple[str, ...]] = {}
    for part in parts:
        for day, rows in part.items():
            found[day] = (*found.get(day, ()), *rows)
    return found
