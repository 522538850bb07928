"""A rollback holds its days as long as no input of them has changed since; then they are built again by themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import Before, DayChange, Kind, Origin, Prepared, Publication, TableChange
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.rolled_back import Rollbacks, published_logical
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets_tests.plan.world import World
from backfill_assets_tests.upkeep.weeks import (
    MONDAY,
    D,
    E,
    Event,
    happened,
    late,
    one_version_world,
    published,
    two_version_world,
    withdrawn,
)

AT = datetime(2017, 4, 1, tzinfo=UTC)


@dataclass
class Undos:
    """What people have rolled back in a world, and what was published when each of it was done."""

    world: World
    prepared: dict[str, Prepared] = field(default_factory=dict)
    then: dict[str, Mapping[TableDay, str]] = field(default_factory=dict)

    def undo(self, name: str, *keys: TableDay, undoes: str = "", of_raw: Collection[TableDay] = ()) -> None:
        """A person puts ``keys`` back, and takes the newest rows of some days ``of_raw`` away with it."""
        undone = (
            self.prepared[undoes].publication if undoes else Publication(id=f"of-{name}", kind="replace", tables=())
        )
        self._move(name, "rollback", [*keys, *of_raw], undone)
        for key in of_raw:
            self.world.publish(key.table, key.day)
        self.then[name] = {key: published_logical(state) for key, state in self.world.states.items()}

    def compact(self, name: str, *keys: TableDay) -> None:
        self._move(name, "compact", keys)

    def _move(self, name: str, kind: Kind, keys: Sequence[TableDay], undone: Publication | None = None) -> None:
        before: dict[str, dict[date, Before]] = {}
        for key in keys:
            state = self.world.states[key]
            image = Before(content=state.content, publication=state.publication, origin=state.origin)
            before.setdefault(key.table, {})[key.day] = image
        left = self.world.copy()
        for key in keys:
            left.publish(*key)
        tables = tuple(
            TableChange(
                table=table,
                table_schema="",
                days=tuple(
                    DayChange(
                        day=day,
                        content=left.states[TableDay(table, day)].content,
                        origin=self._origin_before(table, day, undone).put_back(name, undone) if undone else None,
                    )
                    for day in days
                ),
            )
            for table, days in before.items()
        )
        prepared = Prepared(publication=Publication(id=name, kind=kind, tables=tables), before=before, window_days=30)
        self.prepared[name] = prepared
        for key in keys:
            origin = prepared.origin(*key)
            self.world.states[key] = replace(self.world.states[key], publication=name, origin=origin)

    def _origin_before(self, table: str, day: date, undone: Publication) -> Origin:
        """Before what is undone: as it was before an undo, and of what a person undoes first, any."""
        known = self.prepared.get(undone.id)
        return known.before[table][day].origin if known else Origin("first")

    def rollbacks(self) -> Rollbacks:
        found = {name: (prepared, AT) for name, prepared in self.prepared.items()}
        return Rollbacks(found.get, lambda name, key: self.then[name].get(key, "none"))


@pytest.fixture
def undos() -> Undos:
    return Undos(one_version_world())


def decide(undos: Undos, *events: Event) -> RepairDecision:
    world = happened(undos.world, *events)
    return repairs_needed(RepairContext(world.steps, world.observed(), rollbacks=undos.rollbacks()))


def launched(decision: RepairDecision) -> list[dict[str, set[date]]]:
    return [{table: set(days) for table, days in each.days.items()} for each in decision.launch]


FACT, REVENUE, BRONZE, RAW = (TableDay(table, D) for table in ("fact", "revenue", "bronze", "raw"))
FACT_AND_REPORTS = {"fact": {D}, "revenue": {D}, "weekly": {MONDAY}}
CORRECTED = published("bronze", D, checksum="8")
CORRECTED_AGAIN = published("bronze", D, checksum="9")


def test_a_day_that_was_put_back_is_built_again_when_an_input_of_it_has_changed_since(undos: Undos) -> None:
    """And says so. Until then it stays, also where it is older than its inputs."""
    happened(undos.world, CORRECTED)
    undos.undo("undo", FACT)
    held = decide(undos)
    assert held.launch == ()
    assert [str(each.days[0]) for each in held.for_people] == [str(D)]
    (found,) = held.stale
    assert found.cause is Cause.ROLLED_BACK
    over = decide(undos, CORRECTED_AGAIN)
    assert launched(over) == [FACT_AND_REPORTS] and over.for_people == ()
    (repair,) = over.launch
    assert repair.title == "Repair: fact 2017-03-07: input changed since an undo"
    assert "A person had put these back, and what they are made of changes: fact 2017-03-07." in repair.description


def test_it_is_built_by_the_version_that_its_rows_were_put_back_with() -> None:
    """A campaign had brought the new logic, and an undo the old one again: a late row is no reason for the new one."""
    undos = Undos(two_version_world())
    undos.undo("undo", FACT)
    (repair,) = decide(undos, CORRECTED).launch
    assert repair.versions == {"fact": {"v1": (D,)}}


def test_what_was_published_again_with_the_same_content_is_no_change(undos: Undos) -> None:
    """A compaction of an input, and a run that made the same rows; another day of the input is another input."""
    happened(undos.world, CORRECTED)
    undos.undo("undo", FACT)
    undos.compact("merged", BRONZE)
    happened(undos.world, published("bronze", D, checksum="8"), published("bronze", E, checksum="8"))
    assert [each["fact"] for each in launched(decide(undos))] == [{E}]


def test_a_day_that_nothing_published_since_is_not_looked_up_in_the_past(undos: Undos) -> None:
    """Its own record says when it was published: no list of what was is read for it."""
    state = undos.world.states[FACT]
    since = Rollbacks(published_then=lambda *_: "other", closed_at=lambda _: state.sequence)
    assert not since.has_changed("undo", FACT, undos.world.observed())
    assert replace(since, closed_at=lambda _: state.sequence - 1).has_changed("undo", FACT, undos.world.observed())


def test_a_foreign_write_to_an_input_is_no_change_of_it(undos: Undos) -> None:
    """It is repaired, and then the input is what it was when the person undid the day."""
    happened(undos.world, CORRECTED)
    undos.undo("undo", FACT)
    undos.world.write_past_the_protocol("bronze", D)
    (repair,) = decide(undos).launch
    assert set(repair.days) == {"bronze", "quarantine"}


def test_a_late_row_a_campaign_and_an_undo_that_meet_on_a_day_are_one_backfill(undos: Undos) -> None:
    """A day that is as its inputs are comes along: it is kept if what is built before it turns out the same."""
    undos.undo("undo", FACT, REVENUE)
    assert decide(undos).launch == ()
    assert launched(decide(undos, late(D))) == [
        {"bronze": {D}, "quarantine": {D}, "fact": {D}, "revenue": {D}, "weekly": {MONDAY}}
    ]


def test_one_that_is_older_than_its_inputs_waits_until_these_have_changed(undos: Undos) -> None:
    """Else the repair of bronze would undo what the person did, also where it makes the same rows again."""
    happened(undos.world, CORRECTED)
    undos.undo("undo", FACT)
    (repair,) = decide(undos, published("raw", D, checksum="3", rows=2)).launch
    assert set(repair.days) == {"bronze", "quarantine"}


def test_the_undo_of_one_table_of_a_chain_holds_no_other(undos: Undos) -> None:
    """What it is made of is rebuilt by hand: then the report follows, and no longer waits for a person."""
    undos.undo("undo", REVENUE)
    assert launched(decide(undos, published("fact", D, checksum="8"))) == [{"revenue": {D}, "weekly": {MONDAY}}]


def test_an_undo_that_was_undone_holds_nothing_and_a_third_one_counts_from_its_own_moment(undos: Undos) -> None:
    """Also below a compaction."""
    undos.undo("undo", FACT)
    happened(undos.world, CORRECTED)
    undos.undo("redo", FACT, undoes="undo")
    assert launched(decide(undos)) == [FACT_AND_REPORTS]
    undos.undo("undo-again", FACT, undoes="redo")
    undos.compact("merged", FACT)
    assert decide(undos).launch == ()
    assert launched(decide(undos, CORRECTED_AGAIN)) == [FACT_AND_REPORTS]


def test_a_day_that_an_undo_withdrew_is_built_when_its_inputs_change(undos: Undos) -> None:
    """Nothing was put back that has a version: the current one counts."""
    happened(undos.world, withdrawn("revenue", D))
    undos.undo("undo", REVENUE)
    assert decide(undos).launch == ()
    assert {"revenue": {D}} in launched(decide(undos, published("fact", D, checksum="8")))


def test_a_person_is_asked_where_the_undo_withdrew_rows_of_raw(undos: Undos) -> None:
    """Only there, and only when something came since: what is left of raw may be what he did not want."""
    happened(undos.world, late(D, E))
    undos.undo("undo", BRONZE, FACT, of_raw=[RAW])
    assert [each["bronze"] for each in launched(decide(undos))] == [{E}]
    asked = decide(undos, published("raw", D, checksum="11", rows=4), published("rates", D, checksum="8"))
    assert all(D not in each.days.get(table, ()) for each in asked.launch for table in ("bronze", "fact"))
    causes = {(each.table, each.day): each.cause for each in asked.stale if each.day == D}
    assert causes == {("bronze", D): Cause.UNDONE_WITH_RAW, ("fact", D): Cause.UNDONE_WITH_RAW}
    assert "it was undone with its rows of raw; to build it from what raw has now, launch its days" in {
        each.next_step for each in asked.for_people
    }


@given(st.lists(st.sampled_from(["change", "same", "undo", "redo", "merge"]), max_size=8))
def test_in_any_order_a_stale_day_is_held_just_while_its_inputs_are_those_of_the_newest_undo(story: list[str]) -> None:
    """A plain model: what was there at the newest undo that stands, and what is there now."""
    undos, checksum, undone = Undos(one_version_world()), 7, list[tuple[str, int]]()
    for number, what in enumerate(story):
        if what == "change":
            checksum += 1
        if what in ("change", "same"):
            happened(undos.world, published("bronze", D, checksum=str(checksum)))
        elif what == "merge":
            undos.compact(f"merge-{number}", FACT)
        elif (what == "undo" and len(undone) % 2 == 0) or (what == "redo" and len(undone) % 2):
            undos.undo(f"undo-{number}", FACT, undoes=undone[-1][0] if undone else "")
            undone.append((f"undo-{number}", checksum))
    found = decide(undos)
    stale = checksum != 7
    held = len(undone) % 2 == 1 and undone[-1][1] == checksum
    assert bool(found.launch) is (stale and not held)
    assert bool(found.stale) is stale
    assert {each.shows for each in found.stale} <= {Cause.INPUT}
