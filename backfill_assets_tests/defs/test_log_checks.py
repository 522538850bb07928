"""Checks that need no rows are evaluated by looking at the log and at what landed, once for each thing that happens."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.defs import log_checks
from backfill_assets.defs.checks import AS_DECLARED, AS_SENT, AS_USUAL, DELIVERED, check_key
from backfill_assets.defs.dagster_internals import newest_evaluations, shown_checks
from backfill_assets.defs.log_checks import LogChecks, log_judges
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.control_totals import CONTROL
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import ADOPTED
from backfill_assets.model.drift import FIELDS, DriftKind, FieldRows, as_text
from backfill_assets_tests.defs.conftest import DagsterLake
from backfill_assets_tests.defs.small_dataset import SMALL

RAW = "raw_sales"
FIRST, LAST = date(2017, 3, 1), date(2017, 4, 30)
MORNING = datetime(2017, 5, 1, 7, tzinfo=UTC)
"""An hour after the delivery of the last day is due."""
_SALES = SMALL.steps[0]
assert _SALES.source
DECLARED: Dataset = replace(
    SMALL,
    steps=(
        replace(_SALES, delivered_within=timedelta(hours=6), sends_totals=True),
        replace(SMALL.steps[1], sends_totals=True),
        *SMALL.steps[2:],
    ),
)


class Place(DagsterLake):
    """With a landing zone, and what Dagster shows of the checks of a raw table."""

    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        super().__init__(home, instance, catalog=Catalog((DECLARED,)))
        self.zone = LandingZone(home / "landing")
        self.seen: Any = None

    def publish(self, id: str, rows: int, *days: date) -> None:
        self.lakehouse.metrics[RAW] = {"rows": rows}
        self.lakehouse.publish(id, {RAW: {day: range(rows) for day in days}})

    def land(self, day: date, lines: int, name: str = "a", source: str = "sales") -> Path:
        folder = self.zone.root / source / str(day)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(b'{"amount":"1.5"}\n' * lines))
        return folder

    def look(self, now: datetime = MORNING) -> str:
        looked = LogChecks(
            self.instance, self.lakehouse.publisher.log, self.zone, PartitionedTables(Catalog((DECLARED,)))
        )
        words, self.seen = looked.evaluate(self.seen, now)
        return words

    def planned(self, *days: date, ended: bool = True) -> str:
        """A run that has planned the checks of ``days`` and evaluates none of them."""
        run = self.plan(days[0], days[-1], RAW)
        if ended:
            self.instance.report_run_failed(run)
        return run.run_id

    def newest(self, check: str, day: date, table: str = RAW) -> dg.AssetCheckEvaluation:
        return newest_evaluations(self.instance, check_key(table, check), day=str(day))[0]

    def statuses(self, check: str) -> dict[str, str]:
        return {each.day: each.status.value for each in shown_checks(self.instance, [check_key(RAW, check)])}


@pytest.fixture
def place(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Place:
    return Place(tmp_path, dagster_instance)


def days(first: date = FIRST, last: date = LAST) -> Sequence[date]:
    return [first + timedelta(n) for n in range((last - first).days + 1)]


def test_a_published_day_is_compared_with_the_past_once_and_again_when_it_is_published_again(place: Place) -> None:
    """The words of the warning have the numbers, and the publication that they are about."""
    place.publish("p1", 4, *days())
    assert place.look() == "Evaluated 61 checks of the log and of what landed."
    assert not place.look()
    place.publish("p2", 1, LAST)
    assert place.look() == "Evaluated 1 check of the log and of what landed."
    verdict = place.newest(AS_USUAL, LAST)
    assert not verdict.passed
    assert verdict.severity is dg.AssetCheckSeverity.WARN
    assert str(verdict.description).startswith(
        "warning, as_usual: expected 3.76 to 4.24 (median 4 of 8 Sundays), observed rows 1 -> Compare the day"
    )
    assert verdict.metadata["publication"].value == "p2"


def test_what_came_with_its_table_is_the_past_and_is_not_compared_itself(place: Place) -> None:
    """Years of days at once would be years of alarms."""
    place.lakehouse.metrics[RAW] = {"rows": 4}
    place.lakehouse.publish("all", {RAW: {day: range(4) for day in days(last=LAST - timedelta(1))}}, code=ADOPTED)
    assert not place.look()
    place.publish("own", 1, LAST)
    assert place.look() == "Evaluated 1 check of the log and of what landed."
    assert not place.newest(AS_USUAL, LAST).passed


def test_a_landing_folder_that_cannot_be_read_is_named_and_keeps_no_other_check_back(place: Place) -> None:
    place.publish("p1", 4, *days())
    outside = place.land(FIRST, 1).rename(place.zone.root.parent / "outside")
    (place.zone.root / "sales" / str(FIRST)).symlink_to(outside, target_is_directory=True)
    assert place.look().splitlines() == [
        "Evaluated 61 checks of the log and of what landed.",
        f"sales/{FIRST} is a link that leads out of the landing zone.",
        "  -> Copy the file into the landing zone.",
    ]


def test_raw_is_compared_with_what_is_declared() -> None:
    """Where its typed rows are declared; no other table is."""
    found = {table.name: log_judges(table, step) for step in CATALOG.steps for table in step.tables}
    assert {name for name, judges in found.items() if AS_DECLARED in judges} == {
        step.name for step in CATALOG.steps if step.source
    }
    fields = as_text([FieldRows(DriftKind.UNDECLARED, "loyalty_tier", 1, "gold")])
    verdict = found[RAW][AS_DECLARED]({FIRST: {"rows": 4, "received": 4, FIELDS: fields}}, FIRST)
    assert verdict and not verdict.passed and not verdict.holds_back
    assert verdict.observed.startswith("loyalty_tier is not declared: 1 of 4 rows (25.0 %)")


def test_a_day_is_judged_when_it_has_ended(place: Place) -> None:
    """A stream fills the day that goes on: until then it has fewer rows than any."""
    place.publish("p1", 4, *days())
    place.look(MORNING - timedelta(days=1))
    assert str(LAST) not in place.statuses(AS_USUAL)
    place.look()
    assert place.statuses(AS_USUAL)[str(LAST)] == "SUCCEEDED"


def test_what_a_run_planned_and_did_not_come_to_is_evaluated_for_that_run(place: Place) -> None:
    """It found one day unchanged, and did not publish the other one. A run under way is waited for."""
    place.publish("p1", 4, *days(FIRST, date(2017, 4, 29)))
    place.look()
    run = place.planned(date(2017, 4, 29), LAST)
    assert place.look() == "Evaluated 2 checks of the log and of what landed."
    assert place.newest(AS_USUAL, date(2017, 4, 29)).passed
    assert str(place.newest(AS_USUAL, LAST).description).startswith("nothing is published")
    said = place.instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    assert len(said) == 2
    place.planned(FIRST, ended=False)
    assert not place.look()


def test_a_delivery_fails_when_it_is_due_and_passes_when_it_lands(place: Place) -> None:
    place.publish("p1", 4, FIRST)
    for day in days(date(2017, 4, 28), date(2017, 4, 29)):
        place.land(day, 4)
    place.look(MORNING - timedelta(hours=2))
    assert str(LAST) not in place.statuses(DELIVERED)
    place.look()
    assert place.statuses(DELIVERED) == {"2017-04-28": "SUCCEEDED", "2017-04-29": "SUCCEEDED", "2017-04-30": "FAILED"}
    assert not place.look()
    place.land(LAST, 4)
    place.look()
    assert place.newest(DELIVERED, LAST).passed
    assert " late" in str(place.newest(DELIVERED, LAST).description)
    shutil.rmtree(place.zone.root / "sales" / "2017-04-29")
    assert not place.look(), "it was there, and was cleared away"


def test_what_landed_is_compared_with_what_was_sent_whenever_a_file_comes(place: Place) -> None:
    """A control file that comes later, and the rest of the rows, end a failure."""
    place.publish("p1", 4, FIRST)
    folder = place.land(LAST, 3)
    place.look()
    assert "_control.json beside the files" in str(place.newest(AS_SENT, LAST).description)
    (folder / CONTROL).write_text('{"rows": 4, "sums": {"amount": "6.00"}}')
    place.look()
    assert "expected rows 4, amount 6.00, observed rows 3, amount 4.5" in str(place.newest(AS_SENT, LAST).description)
    place.land(LAST, 1, "b")
    place.look()
    assert place.newest(AS_SENT, LAST).passed
    assert not place.look()
    (folder / CONTROL).write_text("{}")
    place.look()
    assert "_control.json cannot be read" in str(place.newest(AS_SENT, LAST).description)


def test_what_came_to_a_source_that_could_not_be_looked_at_is_compared_later(place: Place) -> None:
    """It came before what was read meanwhile of other sources."""
    place.publish("p1", 4, FIRST)
    folder, rates = place.land(LAST, 4), place.land(LAST, 1, source="fx_rates")
    place.look()
    assert "_control.json beside the files" in str(place.newest(AS_SENT, LAST).description)
    outside = place.zone.root.parent / CONTROL
    outside.write_text('{"rows": 4}')
    (folder / CONTROL).symlink_to(outside)
    (rates / CONTROL).write_text('{"rows": 1}')
    assert "a link that leads out of the landing zone" in place.look()
    assert place.newest(AS_SENT, LAST, "raw_fx_rates").passed
    (folder / CONTROL).unlink()
    outside.rename(folder / CONTROL)
    place.look()
    assert place.newest(AS_SENT, LAST).passed
    assert not place.look()


def test_a_look_judges_whole_publications_and_the_next_one_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """History that is looked at for the first time may take longer than a tick may."""
    place.publish("p1", 4, *days(FIRST, date(2017, 3, 10)))
    place.publish("p2", 4, *days(date(2017, 3, 11), date(2017, 3, 20)))
    place.publish("p3", 4, *days(date(2017, 3, 21), LAST))
    monkeypatch.setattr(log_checks, "_MOST_JUDGED", 12)
    assert [place.look() for _ in range(3)] == [
        f"Evaluated {count} checks of the log and of what landed." * bool(count) for count in (20, 41, 0)
    ]
