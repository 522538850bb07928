"""Landed files are read again by workers, embedded and through Spark Connect; what cannot be read is named."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.refresh import Compared, RefreshResult
from backfill_assets_tests.landing.test_landing_files import damage
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY, BEFORE = date(2017, 3, 2), date(2017, 3, 1)
RAW = CATALOG.step("raw_sales")
LINES = [sale(basket_id=str(number)) for number in range(2_000)]


@pytest.fixture
def workshop(tmp_path: Path, each_spark: SparkSession) -> Workshop:
    """Two files of one arrival day, taken in; their rows are of the day before."""
    found = Workshop(tmp_path / "home", lambda: each_spark)
    land(found.settings.landing, "sales", str(DAY), "a", LINES)
    land(found.settings.landing, "sales", str(DAY), "b", ["no JSON", sale(basket_id="b")])
    found.build("raw_sales", [DAY])
    return found


def refresh(workshop: Workshop) -> RefreshResult:
    return workshop.builder.refresh(RAW, [DAY], run=RunInfo("refresh"), progress=workshop.messages.append)


def received(workshop: Workshop) -> list[tuple[str, int, str, str]]:
    rows = workshop.read("raw_sales", columns=["source_file", "source_line", "basket_id", "record_kind"])
    columns = (rows[name].tolist() for name in ("source_file", "source_line", "basket_id", "record_kind"))
    places = sorted(zip(*columns, strict=True), key=str)
    return [(file[-10:], line, basket, kind) for file, line, basket, kind in places]


def test_a_corrected_day_is_read_again(workshop: Workshop) -> None:
    """A line is gone, one is new and one has moved to the other file; in the preview as in what is published."""
    before = received(workshop)
    landing = workshop.settings.landing
    land(landing, "sales", str(DAY), "a", LINES[2:])
    land(landing, "sales", str(DAY), "b", ["no JSON", sale(basket_id="b"), LINES[1], sale(basket_id="new")])
    shown = workshop.builder.preview_refresh(RAW, [DAY])
    assert shown.rows == {BEFORE: (1, 1)} and not shown.publication
    done = refresh(workshop)
    assert done.rows == shown.rows and done.publication
    added = sorted({*received(workshop)} - {*before}, key=str)
    assert added == [("a.jsonl.gz", 1, "0", "deletion"), ("b.jsonl.gz", 4, "new", "received")]
    assert not refresh(workshop).publication


def test_rows_of_unchanged_files_that_are_read_otherwise_are_told(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is read otherwise than before is no correction of its source. A row that is new is another thing."""
    landing = workshop.settings.landing
    land(landing, "sales", str(DAY), "a", [sale(basket_id="0", sales_value="9.75"), *LINES[1:]])
    land(landing, "sales", str(DAY), "b", ["no JSON", sale(basket_id="b", sales_value="9.75"), sale(basket_id="new")])
    monkeypatch.setattr(Compared, "unchanged", property(lambda _: [f"sales/{DAY}/a.jsonl.gz"]))
    shown, done = workshop.builder.preview_refresh(RAW, [DAY]), refresh(workshop)
    assert shown.rows == done.rows == {BEFORE: (3, 2)}
    assert shown.read_otherwise == done.read_otherwise == 1


def test_a_damaged_file_is_named_and_nothing_is_appended(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark is asked; and by the worker that reads it, if it is damaged only then."""
    before, sessions = workshop.states("raw_sales"), workshop.sessions
    damage(workshop.settings.landing / "sales" / str(DAY) / "a.jsonl.gz")
    for attempt in (refresh, lambda found: found.builder.preview_refresh(RAW, [DAY])):
        with pytest.raises(SourceUnreadable, match=r"sales/2017-03-02/a\.jsonl\.gz: undecodable gzip at byte"):
            attempt(workshop)
    assert workshop.sessions == sessions
    monkeypatch.setattr(LandingZone, "verify_readable", lambda *_: None)
    for attempt in (refresh, lambda found: found.builder.preview_refresh(RAW, [DAY])):
        with pytest.raises(SourceUnreadable, match=r"sales/2017-03-02/a\.jsonl\.gz: undecodable gzip") as refused:
            attempt(workshop)
        assert refused.value.hint and refused.value.hint.startswith("Land the whole file again")
    assert workshop.sessions > sessions
    assert workshop.states("raw_sales") == before
