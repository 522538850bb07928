"""An ingest that goes on after a kill: the staged rows are used, and what supersedes them is looked for again."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.undoable import undoable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.raw_rollback import require_sound_rollback
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets_tests.death import Died
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD, NEW, LATE = (date(2017, 3, day) for day in (1, 2, 3))
MARKER, RECEIVED = "supersession", "received"


@pytest.fixture
def killed(tmp_path: Path, spark: SparkSession) -> tuple[Workshop, str]:
    """A newer version is on another day; the ingest of the older one is killed when both are staged: it and its marker.

    Also gives the publication that brought the newer version.
    """
    workshop = Workshop(tmp_path / "home", lambda: spark)
    for arrival, day in ((NEW, NEW), (LATE, OLD)):
        line = sale(transaction_timestamp=f"{day}T10:00:00Z", updated_at=f"{day}T20:00:00Z")
        land(workshop.settings.landing, "sales", str(arrival), "lines", [line])
    [newer] = workshop.build("raw_sales", [NEW]).publications
    publisher = workshop.builder.lake.publisher

    def kill(place: CrashPoint, about: str) -> None:
        if place == CrashPoint.TABLES_READ:
            raise Died

    publisher.reached = kill
    with pytest.raises(Died):
        workshop.build("raw_sales", [LATE])
    publisher.reached = nowhere
    return workshop, newer


def kinds(workshop: Workshop) -> list[tuple[date, str]]:
    rows = workshop.read("raw_sales", columns=["day", "record_kind"])
    return sorted(zip(rows["day"], rows["record_kind"], strict=True))


def test_its_rows_and_their_markers_are_there_once(killed: tuple[Workshop, str]) -> None:
    workshop, _ = killed
    workshop.build("raw_sales", [LATE])
    assert any("taken over from an earlier run" in message for message in workshop.messages)
    assert kinds(workshop) == [(OLD, RECEIVED), (OLD, MARKER), (NEW, RECEIVED)]


def test_a_version_that_was_rolled_back_meanwhile_supersedes_nothing(killed: tuple[Workshop, str]) -> None:
    """With its marker, neither of the two versions would count."""
    workshop, newer = killed
    publisher = workshop.builder.lake.publisher
    looked_at = require_sound_rollback(publisher, CATALOG, undoable(publisher, newer))
    roll_back(publisher, newer, id="undo", steps=CATALOG.steps, inputs=looked_at)
    workshop.build("raw_sales", [LATE])
    assert any("taken over from an earlier run" in message for message in workshop.messages)
    assert kinds(workshop) == [(OLD, RECEIVED)]
