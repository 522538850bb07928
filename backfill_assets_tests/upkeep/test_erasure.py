"""A person is erased: their rows are in no file, everything received stays accounted for, and all others stay."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.landing.blank_lines import lines_with
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.upkeep.watch import Watch
from backfill_assets_tests.cli.command import Backfill, work_with
from backfill_assets_tests.death import Died
from backfill_assets_tests.stories.personal_key import (
    FIRST,
    PATIENT,
    SECOND,
    VISITS,
    declare_visits,
    land_and_build,
    visit,
)
from backfill_assets_tests.stories.test_no_personal_value import texts_below
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import KEY as TOKEN_KEY
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKEN = hmac.new(TOKEN_KEY.encode(), PATIENT.encode(), hashlib.sha256).hexdigest()
OTHER = "patient-0002"


@pytest.fixture(scope="module")
def visits_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """One patient with a moved, a corrected, a rejected visit and a broken line; and another one, behind a line of the
    first one.
    """
    home = tmp_path_factory.mktemp("visits") / "home"
    with pytest.MonkeyPatch.context() as monkeypatch:
        declare_visits(monkeypatch)
        workshop = Workshop(home, lambda: spark)
        others = [{**visit("1", day, "90"), "patient_id": OTHER} for day in (FIRST, SECOND)]
        mixed = [visit("4", FIRST, "95"), others[0]]
        land(workshop.settings.landing, "visits", str(FIRST), "mixed", mixed)
        land(workshop.settings.landing, "visits", str(SECOND), "other", [others[1]])
        land_and_build(workshop)
    return home


@pytest.fixture
def workshop(visits_home: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    declare_visits(monkeypatch)
    return Workshop(shutil.copytree(visits_home, tmp_path / "home"), lambda: spark)


def files_with(folder: Path, *texts: str) -> list[str]:
    return [str(file) for file, text in texts_below(folder) if any(each in text for each in texts)]


def landed_with(folder: Path, text: str) -> list[str]:
    return [f"{file}:{line}" for file in sorted(folder.rglob("*.gz")) for line in lines_with(file, text)]


TYPED = ("raw", "erase", "--reason", "request 4711", "--yes", "--json")


def erase(key: str, exit_code: int = 0) -> Any:
    told = CliRunner().invoke(main, [*TYPED, key], input=f"{PATIENT}\n")
    assert told.exit_code == exit_code, (told.output, told.exception)
    if told.exception and not isinstance(told.exception, SystemExit):
        raise told.exception
    return json.loads(told.stdout or told.stderr.splitlines()[-1])


@pytest.fixture
def visits(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Commands of this process work on it."""
    Backfill(workshop.settings.home, monkeypatch)
    work_with(monkeypatch, workshop)
    return workshop


def require_gone(visits: Workshop) -> None:
    """No file has the value or its token; the other patient's visits are as they were; every row is accounted for."""
    assert files_with(Path(visits.settings.lakehouse), TOKEN[:32], PATIENT) == []
    assert landed_with(visits.settings.landing, PATIENT) == []
    assert len(landed_with(visits.settings.landing, OTHER)) == 2
    bronze, lake = visits.read("bronze_visits"), visits.builder.lake
    assert list(bronze["glucose"].astype(int)) == [90, 90] and len(visits.read("quarantine_visits")) == 0
    tables = [table for step in VISITS.steps for table in step.tables]
    look = Watch(lake.catalog, lake.storage, lake.publisher.log, lake.spark).look(tables, [FIRST, SECOND])
    assert look and all(each.passed for each in look), [each for each in look if not each.passed]


def test_a_person_is_in_no_file_afterwards_and_every_row_is_accounted_for(visits: Workshop) -> None:
    """A moved, a corrected and a rejected visit and a line that could not be read; old files and logs included."""
    landed, before = len(visits.read("raw_visits")), visits.states("raw_visits")
    assert files_with(Path(visits.settings.lakehouse), TOKEN[:32]) and landed_with(visits.settings.landing, PATIENT)
    folder = visits.settings.landing / "visits" / str(FIRST)
    delivered, mixed = folder / "a.jsonl.gz", folder / "mixed.jsonl.gz"
    as_delivered = delivered.read_bytes()
    told = erase("@")
    assert told["rows"] == [{"table": "raw_visits", "rows": 8, "days": [f"{FIRST}..{SECOND}"]}]
    assert sum(each["lines"] for each in told["blanked"]) == 7 and "still_here" not in told
    require_gone(visits)
    raw = visits.read("raw_visits")
    tombstones = raw[raw["patient_token"].isna()]
    assert (len(tombstones), len(raw)) == (16, landed + 8)
    assert set(tombstones["record_kind"]) == {"received", "supersession", "deletion"}
    for publication, why in ((told["publications"][0], "do not come back"), (before[FIRST].publication, "gone")):
        refused = CliRunner().invoke(main, ["rollback", publication, "--yes"])
        assert refused.exit_code == 1 and why in refused.output, refused.output
    assert "No row of it is here" in erase("@", exit_code=1)["error"]
    # Read again, landed files bring nothing back; without the person's line, the next one is where it was.
    lake = visits.builder.lake
    step = lake.catalog.step("raw_visits")
    assert visits.builder.refresh(step, [FIRST, SECOND], run=RunInfo("again")).publication == ""
    mixed.write_bytes(gzip.compress(b"\n".join(filter(None, gzip.decompress(mixed.read_bytes()).split(b"\n")))))
    assert visits.builder.refresh(step, [FIRST], run=RunInfo("without an empty line")).rows == {}
    # A source that delivers them once more has its rows taken in, and erased once more.
    delivered.write_bytes(as_delivered)
    assert visits.builder.refresh(step, [FIRST], run=RunInfo("delivered once more")).rows == {FIRST: (3, 0)}
    assert "still_here" not in erase("@")
    require_gone(visits)


def test_a_closed_day_keeps_its_rows_until_it_is_reopened_and_the_command_says_so(visits: Workshop) -> None:
    closing = ["close", str(FIRST), "--reason", "reported"]
    assert CliRunner().invoke(main, closing, catch_exceptions=False).exit_code == 0
    told = erase("@", exit_code=1)
    places = [each["place"] for each in told["still_here"]]
    assert [place.split(",")[0] for place in places] == [f"bronze_visits {FIRST}", f"quarantine_visits {FIRST}"]
    assert all("reported. backfill reopen" in place for place in places)
    assert CliRunner().invoke(main, ["reopen", *closing[1:]], catch_exceptions=False).exit_code == 0
    assert "still_here" not in erase("@")
    require_gone(visits)


KILLS = {
    "lines are blank": (CrashPoint.TABLES_READ, "erase"),
    "raw is published": (CrashPoint.PREPARED, "bronze"),
    "old files are named": (CrashPoint.RECLAIM_INTENDED, "reclaim"),
}


IN_TURN = [pytest.param(each, marks=[] if each == "lines are blank" else pytest.mark.long) for each in KILLS]


@pytest.mark.parametrize("at", IN_TURN)
def test_killed_anywhere_it_is_run_again(visits: Workshop, at: str) -> None:
    """Also the line that could not be read: raw has no token of its value, and the line itself is blank by then."""
    point, about = KILLS[at]

    def die(reached: CrashPoint, what: str) -> None:
        if reached is point and about in what:
            raise Died

    publisher = visits.builder.lake.publisher
    publisher.reached = die
    with pytest.raises(Died):
        CliRunner().invoke(main, [*TYPED, "@"], input=f"{PATIENT}\n", catch_exceptions=False)
    publisher.reached = nowhere
    assert "still_here" not in erase("@")
    require_gone(visits)


def test_one_row_by_its_key_and_not_while_a_timeline_shows_it(visits: Workshop) -> None:
    """The person's other rows stay. What nobody could undo is refused before anything is done."""
    CliRunner().invoke(main, ["timeline", "create", "trial"], catch_exceptions=False)
    refused = erase("@/1", exit_code=1)
    assert "trial" in refused["error"] and "timeline delete trial" in refused["hint"]
    assert landed_with(visits.settings.landing, PATIENT) and len(visits.read("bronze_visits")) == 6
    assert CliRunner().invoke(main, ["timeline", "delete", "trial", "--yes"]).exit_code == 0
    erase("@/1")
    assert sorted(visits.read("bronze_visits")["visit"]) == ["1", "1", "2", "4"]
    assert len(landed_with(visits.settings.landing, PATIENT)) == 5


def test_one_sale_by_the_key_that_joins_two_fields(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key without a person. The facts of the day are computed again; the next landed line is where it was."""
    workshop = Workshop(tmp_path / "home", lambda: spark)
    day = date(2017, 3, 1)
    land(workshop.settings.landing, "sales", str(day), "a", [sale(basket_id=f"3207489756{n}") for n in range(3)])
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, [day])
    Backfill(workshop.settings.home, monkeypatch)
    work_with(monkeypatch, workshop)
    (key,) = (key for key in workshop.read("bronze_sales")["transaction_id"] if key.startswith("32074897561"))
    told = erase(key)
    assert told["blanked"] == [{"landed_file": f"sales/{day}/a.jsonl.gz", "lines": 1}]
    assert sorted(workshop.read("bronze_sales")["source_line"]) == [1, 3]
    kept = [file for file, text in texts_below(tmp_path) if "32074897561" in text]
    assert kept == [] and landed_with(workshop.settings.landing, "32074897561") == []
