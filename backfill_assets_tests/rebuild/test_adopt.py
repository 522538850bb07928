"""Taking a table over, killed at each step and done again; and giving it back. Nothing here needs Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.engine import columns_of
from backfill_assets.lakehouse.records import DayState
from backfill_assets.model.declaration import ADOPTED, Metrics, Version
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published
from backfill_assets.quality import measures
from backfill_assets.rebuild import adopt, give_back
from backfill_assets.rebuild.adopt import Adoption, AdoptionPlan
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.give_back import GivingBack
from backfill_assets.rebuild.outcome import DaysFailed, RunInfo
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import observe_each
from backfill_assets.state.status import day_statuses
from backfill_assets.state.view import find_moment
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets_tests.death import Died
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.protocol
FACT, WEEKLY = "fact_sales_transactions", "report_store_ranking"
FIRST = date(2017, 1, 2)
DAYS = [FIRST + timedelta(days=number) for number in range(5)]
RUN = RunInfo("run", launched_by="ana")
STEP = CATALOG.step(FACT)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the judge, which asks Spark for hashes: what statistics name. On the third day, a row is wrong."""

    def measured(storage: Any, table: Any, files: Any, rows: Any) -> dict[date, Metrics]:
        def of_day(day: date, some: Sequence[Any]) -> Metrics:
            count = sum(file.rows for file in some)
            wrong = {"violating": 1} if day == DAYS[2] else {}
            return {**measures.zero_metrics(table), "rows": count, "keys": count, "checksum": str(count), **wrong}

        return {day: of_day(day, some) for day, some in files.items()}

    monkeypatch.setattr(adopt, "measure_files", measured)
    monkeypatch.setattr(adopt, "with_reports", lambda storage, table, judged, files: judged)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    folder = tmp_path / "theirs" / "sales"
    for day in DAYS:
        write(folder, day)
    return folder


def write(folder: Path, day: date, rows: int = 1, table: str = FACT) -> None:
    columns = columns_of(CATALOG.table(table).contract)
    values = {name: pa.array([None] * rows, columns.field(name).type) for name in columns.names if name != "day"}
    values["day"] = pa.array([day] * rows, pa.date32())
    write_deltalake(str(folder), pa.table(values), mode="append", partition_by=["day"])


def adoption(small: SmallLakehouse, location: object = "", *, stopped: bool = True) -> Adoption:
    return Adoption(lake_of(small), STEP, str(location), RUN, lambda _: None, writers_stopped=stopped)


def taken_over(small: SmallLakehouse, location: object = "") -> AdoptionPlan:
    asked = adoption(small, location)
    plan = asked.plan()
    asked.carry_out(plan)
    return plan


def states(small: SmallLakehouse) -> dict[date, DayState]:
    log = small.publisher.log
    return {key.day: state for key, state in log.day_states(log.head(), {FACT}).items()}


def statuses(small: SmallLakehouse) -> Mapping[date, Cause | None]:
    view = observe_each(small.storage, CATALOG.table_names)
    return day_statuses(CATALOG.steps, view)[FACT]


def test_its_days_are_published_by_name_and_fresh(small: SmallLakehouse, theirs: Path) -> None:
    """One commit on its own log that adds and removes nothing; what breaks a gate is marked."""
    before = {path: path.read_bytes() for path in theirs.glob("day=*/*")}
    version = DeltaTable(str(theirs)).version()
    plan = taken_over(small, theirs)
    assert plan.moves and plan.broken == {"contract_holds": [DAYS[2]]}
    table = small.newest(FACT)
    # Its properties are set in a commit of their own.
    assert (table.version(), small.publisher.log.head().state.versions) == (version + 2, {FACT: version + 2})
    moved = {small.storage.root + f"/{FACT}/" + str(path.relative_to(theirs)): held for path, held in before.items()}
    assert {str(path): path.read_bytes() for path in map(Path, table.file_uris())} == moved
    assert {state.content.code_version for state in states(small).values() if state.content} == {ADOPTED}
    assert states(small)[DAYS[2]].content.breaks == "contract_holds"  # type: ignore[union-attr]
    assert statuses(small) == dict.fromkeys(DAYS, None)
    kept = table.metadata().configuration["delta.deletedFileRetentionDuration"]
    assert kept == "interval 30 days", "their VACUUM must leave what a rollback needs"


def test_one_that_lies_in_the_lakehouse_already_is_not_moved(small: SmallLakehouse, theirs: Path) -> None:
    inside = Path(small.storage.root) / FACT
    adopt.move_folder(theirs, inside)
    assert not taken_over(small, inside).moves
    with pytest.raises(InvalidRequest, match="is published here already"):
        adoption(small).plan()


def test_others_who_wrote_just_now_have_to_be_stopped(small: SmallLakehouse, theirs: Path) -> None:
    """delta-rs dates its commits by the clock of this machine; the log's clock stands in 2017."""
    (why,) = adoption(small, theirs, stopped=False).plan().refused
    assert "WRITE by delta-rs" in why and "BACKFILL_WRITERS=stopped" in why
    with pytest.raises(PublicationRefused, match="within 24 hours"):
        adoption(small, theirs).carry_out(adoption(small, theirs, stopped=False).plan())
    assert theirs.exists() and not (Path(small.storage.root) / FACT).exists()


def test_a_table_that_is_there_is_not_moved_over(small: SmallLakehouse, theirs: Path) -> None:
    write(Path(small.storage.root) / FACT, FIRST)
    (why,) = adoption(small, theirs).plan().refused
    assert "is there already" in why


@pytest.mark.parametrize("table", ["raw_sales", "bronze_sales"])
def test_what_accounts_for_each_row_is_not_adopted(small: SmallLakehouse, theirs: Path, table: str) -> None:
    asked = Adoption(lake_of(small), CATALOG.step(table), str(theirs), RUN, print)
    with pytest.raises(InvalidRequest, match="accounts for each row"):
        asked.plan()


PLACES: Sequence[CrashPoint | str] = (
    "moved",
    CrashPoint.TABLES_READ,
    CrashPoint.PREPARED,
    CrashPoint.TABLE_LOADED,
    CrashPoint.TABLE_COMMITTED,
    CrashPoint.CLOSING,
)


@pytest.mark.parametrize("place", PLACES)
def test_killed_anywhere_it_is_done_again(
    small: SmallLakehouse, theirs: Path, place: CrashPoint | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same command; where the publication was on the log, whoever comes next has brought it to its end."""
    with monkeypatch.context() as patch:
        _die_at(place, small, patch)
        with pytest.raises(Died):
            taken_over(small, theirs)
        small.crash_at = None
    with suppress(InvalidRequest):  # it is published here already
        taken_over(small, theirs)
    assert statuses(small) == dict.fromkeys(DAYS, None)
    assert {path.name for path in theirs.parent.iterdir()} == set()


def _die_at(place: CrashPoint | str, small: SmallLakehouse, patch: pytest.MonkeyPatch) -> None:
    if isinstance(place, CrashPoint):
        small.crash_at = place
        return
    move = adopt.move_folder

    def moved(source: Path, target: Path) -> None:
        move(source, target)
        raise Died(place)

    patch.setattr(adopt, "move_folder", moved)
    patch.setattr(give_back, "move_folder", moved)


def test_what_others_wrote_meanwhile_is_measured_too(small: SmallLakehouse, theirs: Path) -> None:
    """Between the look and the publication: compare-and-swap is on the files that were measured."""
    asked = adoption(small, theirs)
    plan = asked.plan()
    write(theirs, DAYS[1], rows=3)
    asked.carry_out(plan)
    held = {day: state.content.rows for day, state in states(small).items() if state.content}
    assert held == {**dict.fromkeys(DAYS, 1), DAYS[1]: 4}


def test_a_run_keeps_adopted_days(small: SmallLakehouse, theirs: Path) -> None:
    """By any version, and also though nothing that they could be made of is published: nothing asks for Spark."""
    taken_over(small, theirs)
    for version in (None, "v1", AS_PUBLISHED):
        built = Builder(lake_of(small)).build(STEP, DAYS, run=RUN, version=version)
        assert [day.reused for day in built.days] == [True] * len(DAYS)
    with pytest.raises(DaysFailed, match="never published"):
        Builder(lake_of(small)).build(STEP, DAYS, run=RUN, force=True)


def test_an_adoption_is_not_rolled_back_but_given_back(small: SmallLakehouse, theirs: Path) -> None:
    taken_over(small, theirs)
    publication = states(small)[FIRST].publication
    with pytest.raises(InvalidRequest, match="has taken fact_sales_transactions over"):
        roll_back(small.publisher, publication, id="back", steps=CATALOG.steps)


def test_no_timeline_goes_back_to_before_the_adoption(small: SmallLakehouse, theirs: Path) -> None:
    """There its days would be withdrawn, and lost with the rollback window."""
    small.publish("other", {"fact_daily_revenue": {FIRST: [1]}})
    taken_over(small, theirs)
    moment = find_moment(small.storage, "other", FACT)
    asked = RewindRequest("back", [FACT], by="ana")
    with pytest.raises(PublicationRefused, match="was adopted after publication other"):
        rewound_timeline(small.storage, CATALOG.steps, asked, moment, small.now())


def test_no_version_has_the_name_of_what_is_adopted() -> None:
    with pytest.raises(InvalidRequest, match="cannot be called adopted"):
        Version(ADOPTED, "", (), lambda rows: rows)


# ------------------------------------------------------------------ given back


def giving(small: SmallLakehouse, location: object = "") -> GivingBack:
    return GivingBack(lake_of(small), FACT, str(location), RUN)


def give(small: SmallLakehouse, location: object = "") -> str:
    asked = giving(small, location)
    return asked.carry_out(asked.plan())


def test_a_table_is_given_back_as_main_has_it(small: SmallLakehouse, theirs: Path) -> None:
    """With the days that were published since, and with nothing else of ours in its folder."""
    taken_over(small, theirs)
    _publish(small, DAYS[0])
    files = set(small.newest(FACT).file_uris())
    give(small, theirs)
    found = DeltaTable(str(theirs))
    assert {path.replace(str(theirs), f"{small.storage.root}/{FACT}") for path in found.file_uris()} == files
    assert found.to_pyarrow_table().num_rows == len(DAYS) + 1
    ours = {str(path.relative_to(theirs)) for path in (theirs / "_timelines").rglob("*") if path.is_file()}
    assert ours == {str(Path(path).relative_to(theirs)) for path in found.file_uris() if "_timelines" in path}


def test_what_is_given_back_is_no_table_here_until_it_is_adopted_again(small: SmallLakehouse, theirs: Path) -> None:
    taken_over(small, theirs)
    by = give(small)
    view = observe_each(small.storage, CATALOG.table_names)
    assert view.unreadable[FACT].why == f"it was given back by {by}" and FACT not in view.versions
    with pytest.raises(LakehouseUnusable, match="was given back"):
        _publish(small, DAYS[0])
    assert Maintenance(small.publisher, [FACT], 7).plan() == ()
    taken_over(small)
    assert small.publisher.log.head().state.released == {}
    assert statuses(small) == dict.fromkeys(DAYS, None)


def test_a_table_that_was_never_adopted_has_nobody_to_go_back_to(small: SmallLakehouse) -> None:
    small.publish("own", {FACT: {FIRST: [1]}})
    with pytest.raises(InvalidRequest, match="was never adopted"):
        giving(small).plan()


@pytest.mark.parametrize("place", PLACES)
def test_killed_anywhere_it_is_given_back_by_doing_it_again(
    small: SmallLakehouse, theirs: Path, place: CrashPoint | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_over(small, theirs)
    with monkeypatch.context() as patch:
        _die_at(place, small, patch)
        with pytest.raises(Died):
            give(small, theirs)
        small.crash_at = None
    give(small, theirs)
    assert DeltaTable(str(theirs)).to_pyarrow_table().num_rows == len(DAYS)
    assert not (Path(small.storage.root) / FACT).exists()
    assert FACT in small.publisher.log.head().state.released


@dataclass
class Owners:
    """Whose table it is, and how many rows each day has: an oracle beside the lakehouse."""

    small: SmallLakehouse
    theirs: Path
    rows: dict[date, int]
    ours: bool = False
    published: list[tuple[str, date, int]] = field(default_factory=list)
    """What can be rolled back, with the rows that were there before."""

    def do(self, step: str, number: int) -> None:
        what, _, which = step.partition(" ")
        getattr(self, what)(f"{what}-{number}", DAYS[int(which or 0)])

    def adopt(self, id: str, day: date) -> None:
        if self.ours:
            with pytest.raises(InvalidRequest):
                taken_over(self.small, self.theirs)
            return
        taken_over(self.small, self.theirs)
        self.ours, self.published = True, []

    def release(self, id: str, day: date) -> None:
        if not self.ours and FACT not in self.small.publisher.log.head().state.released:
            with pytest.raises(InvalidRequest):
                give(self.small, self.theirs)
            return
        give(self.small, self.theirs)  # what is given back already stays so
        self.ours = False

    def publish(self, id: str, day: date) -> None:
        if not self.ours:
            if FACT in self.small.publisher.log.head().state.released:
                with pytest.raises(LakehouseUnusable):
                    _publish(self.small, day, id)
                # A builder refuses it before anything is staged.
                shutil.rmtree(Path(self.small.storage.root) / FACT, ignore_errors=True)
            return
        _publish(self.small, day, id)
        self.published.append((id, day, self.rows[day]))
        self.rows[day] = 2

    def undo(self, id: str, day: date) -> None:
        if self.published and self.ours:
            publication, day, before = self.published.pop()
            roll_back(self.small.publisher, publication, id=id, steps=CATALOG.steps)
            self.rows[day] = before

    def check(self) -> None:
        where = Path(self.small.storage.root) / FACT if self.ours else self.theirs
        held = DeltaTable(str(where)).to_pyarrow_table(columns=["day"]).column("day").to_pylist()
        assert {each: held.count(each) for each in self.rows} == self.rows
        assert not self.ours or statuses(self.small).keys() == self.rows.keys()


STEPS = ("adopt", "release", "publish 0", "publish 1", "publish 2", "undo")


@settings(max_examples=drawn(8))
@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9))
def test_in_any_order_each_day_holds_what_came_to_it_last(steps: list[str]) -> None:
    """Who may do what depends on whose table it is; what is refused changes nothing."""
    with tempfile.TemporaryDirectory() as folder:
        theirs = Path(folder) / "sales"
        for day in DAYS[:3]:
            write(theirs, day)
        owners = Owners(SmallLakehouse(Path(folder) / "lakehouse"), theirs, dict.fromkeys(DAYS[:3], 1))
        with clock.use(owners.small.time):
            for number, step in enumerate(steps):
                owners.do(step, number)
                owners.check()


def _publish(small: SmallLakehouse, day: date, id: str = "ours") -> None:
    """Two rows of a day, in the columns that the table has."""
    columns = columns_of(CATALOG.table(FACT).contract)
    values = {name: pa.array([None] * 2, columns.field(name).type) for name in columns.names if name != "day"}
    small.rows_of = lambda table, day, ids: pa.table({**values, "day": pa.array([day] * 2, pa.date32())})  # type: ignore[method-assign]
    assert isinstance(small.publish(id, {FACT: {day: [1, 2]}}), Published)
