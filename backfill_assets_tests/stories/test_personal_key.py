"""A key with a personal field in it does all that any other key does, and no one sees the person."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.examples.datasets import test_every_dataset
from backfill_assets_tests.stories.personal_key import (
    FIRST,
    KEY,
    PATIENT,
    SECOND,
    SOURCE,
    VISITS,
    declare_visits,
    land_and_build,
)
from backfill_assets_tests.workshop import KEY as TOKEN_KEY
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOKEN = hmac.new(TOKEN_KEY.encode(), PATIENT.encode(), hashlib.sha256).hexdigest()


@pytest.fixture(scope="module")
def visits_home(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    home = tmp_path_factory.mktemp("visits") / "home"
    with pytest.MonkeyPatch.context() as monkeypatch:
        declare_visits(monkeypatch)
        land_and_build(Workshop(home, lambda: spark))
    return home


@pytest.fixture
def workshop(visits_home: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    declare_visits(monkeypatch)
    return Workshop(shutil.copytree(visits_home, tmp_path / "home"), lambda: spark)


@pytest.fixture
def backfill(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    return Backfill(workshop.settings.home, monkeypatch)


def test_it_is_declared_as_every_dataset_is() -> None:
    """Fields are named as they are landed, also where they are personal and in the key."""
    test_every_dataset.test_its_sources_are_landed_in_three_tables_of_the_types_that_are_declared(VISITS)
    assert SOURCE.key_columns == KEY


def test_a_row_that_moved_to_another_day_is_found_by_its_token(workshop: Workshop) -> None:
    """The day that loses it keeps a marker with the token in it; no table has the person."""
    raw = workshop.read("raw_visits")
    (marker,) = raw[raw["record_kind"] == "supersession"].to_dict("records")
    assert (marker["patient_token"], marker["visit"], marker["day"]) == (TOKEN, "1", FIRST)
    assert marker["superseded_by_day"] == SECOND
    winners = workshop.read("bronze_visits").set_index(["day", "visit"])
    assert winners.loc[(FIRST, "1"), "superseded_by_day"] == SECOND
    for table in ("raw_visits", "bronze_visits", "quarantine_visits"):
        assert PATIENT not in workshop.read(table).to_csv()


def test_a_rejected_row_is_resolved_by_its_correction(backfill: Backfill) -> None:
    """Without Spark, by the token that both have; what was never corrected, or has no key, stays open."""
    told = backfill.json("raw", "quarantine", "quarantine_visits")["reasons"]
    assert sum(group["rows"] for group in told) == 3
    assert [group["resolved"] for group in told if group["reason"] == "glucose: is not a decimal(5,1)"] == [1]
    assert sum(group["resolved"] for group in told) == 1


def test_it_is_traced_by_its_token(backfill: Backfill) -> None:
    """A slash stands between the columns of a key."""
    trail = backfill.json("trace", f"{TOKEN}/1")
    assert {row["table"] for row in trail["rows"]} == {"raw_visits", "bronze_visits"}
    assert [each["outcome"] for each in trail["landed"]] == ["superseded", "published"]
    rejected = backfill.json("trace", f"{TOKEN}/3", "quarantine_visits")
    assert [each["outcome"] for each in rejected["landed"]] == ["quarantined"]


def test_it_is_traced_by_the_person_that_is_shown_to_no_one(backfill: Backfill, workshop: Workshop) -> None:
    """A person who has the value finds its rows. It is asked for: the history of a shell has none."""

    def asked(value: str, exit_code: int = 0) -> str:
        told = CliRunner().invoke(main, ["trace", "@/1"], input=f"{value}\n")
        assert told.exit_code == exit_code
        return told.output

    by_token = backfill("trace", f"{TOKEN}/1").output
    assert asked(PATIENT).endswith(by_token) and TOKEN in by_token and PATIENT not in asked(PATIENT)
    unknown = asked("another-one", exit_code=1)
    assert "B01/2016-02-15T00:30:00Z" in unknown and "another-one" not in unknown
