"""What the gates said of a published day is found again where it was staged, as long as that is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict, Timeline
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.rebuild.verdicts import with_kept_rules
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol

TABLE = "fact_daily_revenue"
ONE, TWO = date(2017, 3, 1), date(2017, 3, 2)


def _rule(rows: int) -> RuleOutcome:
    return RuleOutcome("complete", "completeness", True, f"{rows} rows", f"{rows} rows")


class Judged:
    """A lakehouse whose days are judged where they are staged: one rule that counts their rows."""

    def __init__(self, root: Path) -> None:
        self.lakehouse = SmallLakehouse(root)

    def publish(self, id: str, rows: dict[date, list[int]], mode: str = "replace") -> None:
        request = self.lakehouse.request(id, {TABLE: rows}, mode=mode)  # type: ignore[arg-type]
        verdicts = {
            day: GateVerdict(
                input_fingerprint="x",
                passed=True,
                content=DayContent(rows=len(ids), checksum=str(sum(ids))),
                rules=(_rule(len(ids)),),
            )
            for day, ids in rows.items()
        }
        Timeline(self.lakehouse.storage, TABLE, f"run-{id}").judge(verdicts)
        named = request.provenance.model_copy(update={"timeline": f"run-{id}"})
        self.lakehouse.publish_request(request.model_copy(update={"provenance": named}))

    def unchanged(self) -> list[BuiltDay]:
        """What a run finds that computes nothing."""
        log = self.lakehouse.publisher.log
        states = log.day_states(log.head(), {TABLE}).values()
        days = [BuiltDay.from_log(state, {}, {}, reused=True) for state in states]
        return with_kept_rules(Storage(self.lakehouse.storage.root), log, sorted(days, key=lambda day: day.day))

    def seen(self) -> list[Sequence[str]]:
        return [[rule.observed for rule in day.rules] for day in self.unchanged()]


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Judged]:
    found = Judged(tmp_path)
    with clock.use(found.lakehouse.time):
        found.publish("one", {ONE: [1, 2], TWO: [3]})
        yield found


def test_an_unchanged_day_has_the_rules_that_it_was_judged_by(judged: Judged) -> None:
    """Each day those of its own publication."""
    assert judged.seen() == [["2 rows"], ["1 rows"]]
    judged.publish("two", {TWO: [4, 5, 6]})
    assert judged.seen() == [["2 rows"], ["3 rows"]]


def test_a_day_that_was_rolled_back_has_those_of_the_rows_that_are_there(judged: Judged) -> None:
    """The publication is another one, the rows are those that were judged."""
    judged.publish("two", {TWO: [4, 5, 6]})
    roll_back(judged.lakehouse.publisher, "two", id="back", steps=CATALOG.steps)
    assert judged.seen() == [["2 rows"], ["1 rows"]]


def test_a_day_without_rows_is_found_by_its_publication(judged: Judged) -> None:
    """It has no file that says where it was staged: a quarantine table is mostly empty."""
    judged.publish("two", {ONE: [], TWO: [4]})
    assert judged.seen() == [["0 rows"], ["1 rows"]]


def test_a_day_of_several_deliveries_has_those_of_the_newest(judged: Judged) -> None:
    """Raw is judged delivery by delivery."""
    judged.publish("two", {ONE: [7, 8, 9]}, mode="append")
    assert judged.seen() == [["3 rows"], ["1 rows"]]


def test_other_rows_are_never_shown_the_judgement(judged: Judged) -> None:
    """Nothing is made up: the timeline has judged what is not published."""
    timeline = Timeline(judged.lakehouse.storage, TABLE, "run-one")
    content = DayContent(rows=9, checksum="99")
    timeline.judge({TWO: GateVerdict(input_fingerprint="x", passed=True, content=content, rules=(_rule(9),))})
    assert judged.seen() == [["2 rows"], []]


def test_a_day_that_this_run_has_built_keeps_its_own_rules(judged: Judged) -> None:
    """Only what was reused is looked up."""
    log = judged.lakehouse.publisher.log
    (state, _) = log.day_states(log.head(), {TABLE}).values()
    fresh = BuiltDay.from_log(state, {}, {}, reused=False)
    assert with_kept_rules(judged.lakehouse.storage, log, [fresh]) == [fresh]
