"""A source without a key: rows that would be lost are noticed, and with a number each line is a row."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.days import Cadence
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.toll_passages import DAYS, FIRST, NUMBERED, SECOND, WITHOUT_KEY, passage
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWICE = "G1/2020-05-30T08:00:01Z/2"
FILE = "tolls/2020-05-30/a.jsonl.gz"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Two identical lines in one file, one more a day late, and two cars in one second that differ."""
    home = tmp_path_factory.mktemp("tolls") / "home"
    workshop = Workshop(home, lambda: spark)
    first = [passage(0), passage(1), passage(1), passage(2), passage(2, axles=5)]
    land(workshop.settings.landing, "tolls", str(FIRST), "a", first)
    land(workshop.settings.landing, "tolls", str(SECOND), "late", [passage(1), passage(0, SECOND)])
    with pytest.MonkeyPatch.context() as monkeypatch:
        declare(monkeypatch, WITHOUT_KEY)
        workshop.build("raw_tolls", DAYS)
    return home


@pytest.fixture
def workshop(home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(shutil.copytree(home, tmp_path / "home"), lambda: spark)


def test_a_key_that_is_none_publishes_nothing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of six rows of a day would be gone, and every other gate is green."""
    declare(monkeypatch, WITHOUT_KEY)
    with pytest.raises(DaysFailed) as error:
        workshop.build("bronze_tolls", DAYS)
    assert {day.day for day in error.value.failed} == {FIRST}
    broken = [rule for day in error.value.failed for rule in day.rules if rule.holds_back]
    assert [rule.rule for rule in broken] == ["few_duplicates"]
    assert broken[0].observed == (
        "3 of 6 rows give way to one of equal key and version, 2 of them to an identical line, for example "
        f"{FILE}:2 and tolls/2020-05-31/late.jsonl.gz:1"
    )
    assert "numbered=True" in str(error.value)
    assert not workshop.states("bronze_tolls")


def test_numbered_lines_are_rows_and_are_traced_to_the_month(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All seven passages are in bronze and in the report, whose only row a month has its day as key."""
    declare(monkeypatch, NUMBERED)
    workshop.build("bronze_tolls", DAYS)
    result = workshop.build("report_tolls", Cadence.MONTHLY.starts(DAYS))
    assert [day.rows for day in result.days] == [1]
    (month,) = workshop.read("report_tolls").to_dict("records")
    assert (month["passages"], month["axles"]) == (7, 17)
    backfill = Backfill(workshop.settings.home, monkeypatch)
    trails: list[dict[str, Any]] = [backfill.json("trace", f"{TWICE}/{number}", "bronze_tolls") for number in (1, 2, 3)]
    places = [
        [(line["at"]["file"], line["at"]["line"], line["outcome"]) for line in trail["landed"]] for trail in trails
    ]
    assert places == [
        [(FILE, 2, "published")],
        [(FILE, 3, "published")],
        [("tolls/2020-05-31/late.jsonl.gz", 1, "published")],
    ]
    counted = [[row["table"] for row in trail["rows"]] for trail in trails]
    assert counted == 3 * [["raw_tolls", "bronze_tolls", "report_tolls"]]
    assert trails[0]["rows"][-1]["period"] == "2020-05-01..2020-05-31"
