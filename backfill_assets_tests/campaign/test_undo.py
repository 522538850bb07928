"""Undoing a campaign whose days have only to be put back: together, bounded, repeatable, and with nothing lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets import clock
from backfill_assets.campaign.look import look
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.standing import PlanWord, require_allowed
from backfill_assets.campaign.undo import UndoAttempt, Undone, plan_undo, undo
from backfill_assets.campaign.undo_days import UndoAction
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.publish.books import say
from backfill_assets.publish.closed_days import BookEntry, DaysClosed
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.holds import all_holds
from backfill_assets.publish.outbox import due_notices
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import lake as lake_module
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.death import Died
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
CAMPAIGN, DAY, NEXT = "campaign-0123456789abcdef", date(2017, 3, 1), date(2017, 3, 2)
RUN = RunInfo("a-run", launched_by="bob")


class Undoable:
    """Raw days, bronze built from just these by v1, and a campaign that brought other bronze days."""

    def __init__(self, small: SmallLakehouse) -> None:
        self.small = small
        self.lake = lake_of(small)

    @classmethod
    def begun(cls, home: Path) -> Undoable:
        found = cls(SmallLakehouse(home / "lakehouse"))
        found.small.publish("raw", {"raw_sales": {DAY: [1], NEXT: [2]}})
        found.bronze("old", {DAY: [1], NEXT: [2]})
        return found

    def bronze(self, id: str, rows: Mapping[date, Sequence[int]], campaign: str = "", code: str = "v1") -> None:
        """Built from raw as it is now."""
        raw = self.small.publisher.pin({}, {"raw_sales": rows}).inputs["raw_sales"].days
        inputs = {day: fingerprints.inputs({"raw_sales": {day: raw[day]}}) for day in rows}
        tables = {"bronze_sales": rows, "quarantine_sales": {day: [] for day in rows}}
        request = self.small.request(id, tables, code=code, inputs=inputs)
        made = Provenance(campaign=campaign, launched_by="ana")
        self.small.publish_request(request.model_copy(update={"provenance": made}))

    def cut_over(self) -> None:
        self.bronze("cut", {DAY: [10], NEXT: [20]}, CAMPAIGN)

    def undo(self, publisher: Publisher | None = None) -> Undone:
        lake = replace(self.lake, publisher=publisher or self.small.publisher)
        return undo(lake, in_force(self.small.publisher), RUN, print)

    def ways(self, publication: str = "cut") -> dict[date, UndoAction]:
        return {day.day: day.action for day in plan_undo(self.lake, publication).days}

    def ids(self) -> list[int]:
        return sorted(self.small.newest("bronze_sales").to_pyarrow_table().column("id").to_pylist())


def in_force(publisher: Publisher, campaign: str = CAMPAIGN) -> str:
    """The publication that brought what main has of it."""
    facts = look(publisher, campaign)
    require_allowed(PlanWord.ROLLBACK, facts)
    return facts.publication


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> SmallLakehouse:
    found = Undoable.begun(tmp_path_factory.mktemp("published"))
    with clock.use(found.small.time):
        found.cut_over()
    return found.small


@pytest.fixture
def campaign(published: SmallLakehouse, tmp_path: Path) -> Iterator[Undoable]:
    found = Undoable(published.copy(tmp_path / "lakehouse"))
    with clock.use(found.small.time):
        yield found


def test_it_is_put_back_reported_and_can_be_brought_back(campaign: Undoable) -> None:
    """By its name, again and again; people learn of each."""
    assert campaign.ways() == {DAY: UndoAction.PUT_BACK, NEXT: UndoAction.PUT_BACK}
    assert campaign.ids() == [10, 20], "looking does nothing"
    undone = campaign.undo()
    assert campaign.ids() == [1, 2] and set(undone.published.versions) == {"bronze_sales", "quarantine_sales"}
    assert [due.key for due in due_notices(campaign.small.publisher)] == [undone.published.publication]
    with pytest.raises(InvalidRequest, match=f"undone already: {undone.published.publication} did it"):
        campaign.undo()
    undo(campaign.lake, undone.published.publication, RUN, print)
    assert campaign.ids() == [10, 20]
    campaign.undo()
    assert campaign.ids() == [1, 2]
    assert all_holds(campaign.lake.storage) == []


def test_what_is_put_back_is_read_by_the_files_that_the_log_names(campaign: Undoable) -> None:
    """Main's versions from before may be gone: the newest one would give the campaign's own rows for "before"."""
    clean_up(campaign, "bronze_sales")
    held = campaign.small.publisher.log.find_prepared("cut")
    assert held is not None
    undoing = UndoAttempt(campaign.lake, held[0])
    undoing.look()
    read = undoing.overlay.days["bronze_sales"]
    assert {day: each.files for day, each in read.items()} == {
        day: before.files for day, before in held[0].before["bronze_sales"].items()
    }
    campaign.undo()
    assert campaign.ids() == [1, 2]


def clean_up(campaign: Undoable, table: str) -> None:
    """Only the newest version of ``table`` can still be read, and others made it."""
    root = Path(campaign.lake.storage.root) / table
    DeltaTable(str(root)).alter.set_table_properties({"delta.checkpointInterval": "20"})
    newest = DeltaTable(str(root))
    newest.create_checkpoint()
    for version in range(newest.version()):
        (root / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)


def test_days_that_others_rebuilt_since_are_staged_again_by_the_logic_they_had(campaign: Undoable) -> None:
    """Late rows came to raw, and a nightly run built them by the new logic; other days are put back."""
    campaign.small.publish("late", {"raw_sales": {DAY: [1, 7]}})
    assert campaign.ways() == {DAY: UndoAction.RESTATE, NEXT: UndoAction.PUT_BACK}
    campaign.bronze("nightly", {DAY: [10, 70]}, code="v2")
    assert campaign.ways() == {DAY: UndoAction.RESTATE, NEXT: UndoAction.PUT_BACK}


def test_a_dirty_tree_may_put_back_and_not_stage_again(campaign: Undoable, monkeypatch: pytest.MonkeyPatch) -> None:
    """To put files back computes nothing, and has to work when it is needed."""
    monkeypatch.setattr(lake_module, "git_commit", lambda _declared: "c0ffee+dirty")
    campaign.lake = replace(campaign.lake, refuse_dirty_tree=True)
    undone = undo(campaign.lake, "cut", RUN, print)
    assert campaign.ids() == [1, 2]
    undo(campaign.lake, undone.published.publication, RUN, print)
    campaign.small.publish("late", {"raw_sales": {DAY: [1, 7]}})
    campaign.bronze("nightly", {DAY: [10, 70]}, code="v2")
    with pytest.raises(PublicationRefused, match="BACKFILL_DIRTY_TREE"):
        undo(campaign.lake, in_force(campaign.small.publisher), RUN, print)
    assert campaign.ids() == [10, 20, 70]


FIRST = date(2017, 3, 3)


@pytest.fixture
def of_a_new_day(tmp_path: Path) -> Iterator[Undoable]:
    """The campaign brought a first day; a row was taken in there since."""
    found = Undoable.begun(tmp_path)
    with clock.use(found.small.time):
        found.small.publish("raw-3", {"raw_sales": {FIRST: [3]}})
        found.bronze("cut", {FIRST: [3], DAY: [10]}, CAMPAIGN)
        found.small.publish("late", {"raw_sales": {FIRST: [3, 30]}})
        found.bronze("since", {FIRST: [33]})
        yield found


def test_a_day_that_it_brought_first_is_taken_away_with_the_row_that_came_there(of_a_new_day: Undoable) -> None:
    """The row is in raw: the day is missing again, and the next run builds it. The undo of the undo brings it back."""
    assert of_a_new_day.ways() == {FIRST: UndoAction.WITHDRAW, DAY: UndoAction.PUT_BACK}
    undone = of_a_new_day.undo()
    assert of_a_new_day.ids() == [1, 2]
    notice = due_notices(of_a_new_day.small.publisher)[0].notice
    assert "bronze_sales: 1 as before; 1 withdrawn, since published first by what is undone." in notice.lines
    undo(of_a_new_day.lake, undone.published.publication, RUN, print)
    assert of_a_new_day.ids() == [2, 10, 33]


def test_files_that_are_gone_are_named(campaign: Undoable) -> None:
    """They were deleted past all rules: nothing is half put back."""
    held = campaign.small.publisher.log.find_prepared("cut")
    assert held is not None
    lost = held[0].before["bronze_sales"][DAY].files[0].path
    (Path(campaign.lake.storage.root) / "bronze_sales" / lost).unlink()
    with pytest.raises(PublicationRefused, match="is gone"):
        campaign.undo()
    assert campaign.ids() == [10, 20]


def test_a_day_that_moves_in_that_second_is_looked_at_again(
    campaign: Undoable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer publishes between the look and the publication: what they brought is not overwritten unseen."""
    once = [True]

    def overtaken(at: CrashPoint, about: str) -> None:
        if at is CrashPoint.LOG_READ and "rollback" in about and once:
            once.clear()
            Undoable.bronze(campaign, "overtaking", {DAY: [1]})

    publisher = Publisher(campaign.lake.storage, reached=overtaken)
    undone = campaign.undo(publisher)
    assert not once and campaign.ids() == [1, 2]
    assert {day.day: day.action for day in undone.plan.days} == {DAY: UndoAction.STANDS, NEXT: UndoAction.PUT_BACK}


def test_days_that_another_campaign_published_since_are_for_a_person(campaign: Undoable) -> None:
    """A later decision: it must not be replaced by the older logic because a nightly run came on top of it. It has to
    be undone first."""
    other = "campaign-fedcba9876543210"
    campaign.bronze("other", {DAY: [100]}, other, code="v2")
    assert campaign.ways() == {DAY: UndoAction.REFUSED, NEXT: UndoAction.PUT_BACK}
    roll_back(campaign.small.publisher, "other", id="undo-other", steps=CATALOG.steps)
    assert campaign.ways() == {DAY: UndoAction.PUT_BACK, NEXT: UndoAction.PUT_BACK}
    campaign.small.publish("late", {"raw_sales": {DAY: [1, 7]}})
    campaign.bronze("nightly", {DAY: [10, 70]}, code="v2")
    assert campaign.ways() == {DAY: UndoAction.RESTATE, NEXT: UndoAction.PUT_BACK}, "that one is undone"
    campaign.bronze("again", {DAY: [100]}, other, code="v2")
    campaign.bronze("next-night", {DAY: [100, 700]}, code="v2")
    with pytest.raises(PublicationRefused, match=f"{DAY} cannot be put back: {other} has published it since"):
        campaign.undo()
    assert campaign.ids() == [20, 100, 700]


def test_a_process_that_undoes_it_and_dies_has_undone_it_until_the_window_is_over(campaign: Undoable) -> None:
    """The next process finishes it, for both tables, and one notice is sent. Files may be reclaimed later."""
    campaign.small.crash_at = CrashPoint.TABLE_COMMITTED
    with pytest.raises(Died):
        campaign.undo()
    campaign.small.crash_at = None
    campaign.small.publisher.recover()
    assert campaign.ids() == [1, 2]
    (due,) = due_notices(campaign.small.publisher)
    campaign.small.minutes += int(timedelta(days=31).total_seconds() / 60)
    lake = replace(campaign.lake, publisher=campaign.small.publisher)
    with pytest.raises(PublicationRefused, match=f"rollback window of {due.key} is over"):
        undo(lake, due.key, RUN, print)


def test_a_campaign_on_closed_days_is_undone_once_they_are_reopened(campaign: Undoable) -> None:
    """It is refused before a person is asked, and before anything is staged again."""
    publisher, now = campaign.lake.publisher, clock.now()
    close = BookEntry(id="c", word="close", first=DAY, last=DAY, by="ana", reason="reported", at=now)
    say(publisher, close)
    for attempt in (lambda: plan_undo(campaign.lake, "cut"), campaign.undo):
        with pytest.raises(DaysClosed, match=f"bronze_sales {DAY} is closed by ana") as refused:
            attempt()
        assert refused.value.days == {name: {DAY} for name in ("bronze_sales", "quarantine_sales")}
    assert campaign.ids() == [10, 20]
    say(publisher, close.model_copy(update={"id": "r", "word": "reopen"}))
    campaign.undo()
    assert campaign.ids() == [1, 2]
