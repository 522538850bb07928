"""The examples in ``backfills/`` on data in small form: checked, planned, and one of them carried out as it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.real import land_readings
from backfill_assets.lakehouse.campaign_journal import campaign_of, entries
from backfill_assets.lakehouse.campaign_reports import BegunReport
from backfill_assets.rebuild import outcome as person
from backfill_assets.rebuild.outcome import Person
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, REPORTS, TABLES, checksums
from backfill_assets_tests.stories.test_audit import Auditor
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "backfills"
NARROWED = {
    "2017-03-01..2017-05-29": str(DAYS),
    "2017-03-06..2017-03-12": "2017-03-06..2017-03-09",
}
"""The days that the examples name, and those that are there."""
ANA, BELA, MALLORY = (Person(name, "OS user") for name in ("ana", "bela", "mallory"))


def example(name: str, folder: Path) -> Path:
    """A copy of the example, of the days that are there."""
    text = (EXAMPLES / name).read_text()
    for shown, there in NARROWED.items():
        text = text.replace(shown, there)
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture
def place(wrong: Workshop, backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Whoever types there is Ana."""
    monkeypatch.setenv("BACKFILL_NOTICES", f"file:{wrong.settings.home / 'notices.jsonl'}")
    monkeypatch.setattr(person, "os_person", lambda: ANA)
    return wrong


def test_a_campaign_is_carried_out_as_its_file_says(
    place: Workshop, backfill: Backfill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """Its waves, its limits, its approvers, its recipients; afterwards the same file has nothing left to do."""
    monkeypatch.setenv("BACKFILL_APPROVAL_BY", "another-person")
    path, before = example("2017-fx.yaml", tmp_path), checksums(place)
    checked = backfill.json("plan", "-f", path, "--check")
    assert checked["may_be_carried_out"]

    id = backfill.json("plan", "-f", path)["plan"]["plan"]

    assert id == checked["plan"]["plan"]
    assert "waves of its own" in backfill("run", id, "--waves", "100%", exit_code=1).stderr

    assert backfill.json("run", id)["waits"] == "it waits for approval"

    journal = entries(place.builder.lake.storage, campaign_of(id))
    waves = [entry.wave for entry in journal if entry.kind == "wave"]
    limits = journal[0].reported(BegunReport).limits
    assert (waves, limits) == ([0, 1, 2], "errors=5%,gates=5%,nulls=1%,deviation=2%,seconds=3600,money=none")
    for who, why in ((ANA, "ana (OS user) planned it"), (MALLORY, "the plan lists as approvers: ana, bela")):
        monkeypatch.setattr(person, "os_person", lambda who=who: who)
        assert why in backfill("approve", id, "--yes", exit_code=1).stderr
    assert checksums(place) == before

    monkeypatch.setattr(person, "os_person", lambda: BELA)
    published = backfill.json("approve", id, "--yes")

    assert {row["table"] for row in published["days"] if row["published"]} == set(TABLES)
    assert checksums(place) != before
    (newest, *_) = backfill.json("history", "--limit", "1")["publications"]
    assert (newest["publication"], newest["approved_by"]) == (published["publication"], "bela (OS user)")
    (audited,) = Auditor(spark, place).ask("Who approved it")
    assert (audited["publication"], audited["approved_by"]) == (published["publication"], "bela (OS user)")
    notices = [json.loads(line) for line in (place.settings.home / "notices.jsonl").read_text().splitlines()]
    assert [notice["recipients"] for notice in notices] == [["finance-reports", "store-managers"]] * 2
    assert [notice["approved_by"] for notice in notices] == ["", "bela (OS user)"]
    assert all(notice["lines"][0].startswith("Purchases in foreign currency") for notice in notices)
    assert "nothing to rebuild" in backfill("plan", "-f", path, "--check").stdout


def test_the_reports_of_a_fact_that_is_right_again(place: Workshop, backfill: Backfill, tmp_path: Path) -> None:
    """Downstream only: the plan rebuilds what is computed from the fact, and not the fact."""
    path = example("2017-week-10-reports.yaml", tmp_path)
    assert backfill.json("plan", "-f", path, "--check")["plan"]["steps"][0]["why"] == {}
    place.build(FACT, [LATE_DAY], "v2")
    checked = backfill.json("plan", "-f", path, "--check")
    assert checked["may_be_carried_out"]
    assert {step["table"][0] for step in checked["plan"]["steps"] if step["why"]} == set(REPORTS)


def test_real_readings_from_the_landed_files_on(place: Workshop, backfill: Backfill, tmp_path: Path) -> None:
    """The whole pipeline, of the real readings of two weeks: everything that has landed is in the plan."""
    path = example("2016-sea-temperatures.yaml", tmp_path)
    assert "Nothing has landed" in backfill("plan", "-f", path, "--check", exit_code=1).output
    land_readings(DayRange.parse("2016-02-15..2016-02-28"), place.settings.landing)
    steps = backfill.json("plan", "-f", path, "--check")["plan"]["steps"]
    assert [step["why"] for step in steps] == [
        {"landed and not taken in": ["2016-02-15..2016-02-28"]},
        *[{"missing": ["2016-02-15..2016-02-28"]}] * 2,
    ]
