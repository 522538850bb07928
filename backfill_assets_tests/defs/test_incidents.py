"""The asset ``incidents`` and the job of that name: what is wrong where people look, and what they say of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import dagster as dg
import pytest
import yaml

from backfill_assets.defs.incidents import (
    INCIDENTS,
    JOB,
    STEP,
    Word,
    incidents_metadata,
    launchpad,
    show_incidents,
)
from backfill_assets.lakehouse.records import Detail
from backfill_assets.upkeep.incidents import Happened, IncidentBook
from backfill_assets_tests.defs.conftest import DagsterLake, shown_on
from backfill_assets_tests.upkeep.incident import DAY, OPENED_AT, incident

FACTS = (
    Detail(label="affected", words="1 day of bronze_sales: 7 rows"),
    Detail(label="page", words="incidents", link="/assets/incidents"),
    Detail(label="repair", words="late_1", link="/runs/b/late_1"),
)
OPEN = incident(
    words="rows came",
    facts=FACTS,
    next_step="backfill run plan-1",
    state="person",
    before={DAY: "6 rows"},
    history=(Happened(at=OPENED_AT, words="opened: rows came"),),
)


@pytest.fixture
def lake(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> DagsterLake:
    found = DagsterLake(tmp_path, dagster_instance)
    IncidentBook(found.lakehouse.storage).write(OPEN)
    return found


def test_an_entry_says_what_is_wrong_where_it_is_shown_and_all_of_it_beside() -> None:
    """Dagster shows a thousand characters where they are: what a person needs first comes first."""
    closed = incident(id="over-1", state="closed", outcome="right again")
    shown = {name: str(value.value) for name, value in incidents_metadata([OPEN], [closed]).items()}
    assert shown["all"].splitlines() == [
        f"- **for a person**: bronze_sales {DAY}: late rows",
        f"- **closed**: bronze_sales {DAY}: late rows: right again",
    ]
    short = shown[OPEN.id].split("\n\n")
    assert short == [
        f"**bronze_sales {DAY}: late rows: rows came.**",
        "**To do:** `backfill run plan-1`",
        "**affected:** 1 day of bronze_sales: 7 rows",
        "**repair:** [late_1](/runs/b/late_1)",
    ]
    full = shown[f"{OPEN.id}: in full"]
    assert "2017-04-01 00:00:00Z: opened: rows came" in full and f"{DAY}: 6 rows" in full
    assert all(len(text) <= 1000 for name, text in shown.items() if not name.endswith("in full"))


def test_what_is_too_long_to_be_shown_is_left_to_the_entry_in_full() -> None:
    """From the end, and counted: a link is never cut in two."""
    long = OPEN.model_copy(update={"facts": (*FACTS, *(Detail(label=f"f{n}", words="x" * 300) for n in range(5)))})
    shown = incidents_metadata([long], [])
    text = str(shown[long.id].value)
    assert len(text) <= 1000 and text.startswith("**bronze_sales") and text.endswith("x" * 300 + "\n\nand 3 more")
    assert str(shown[f"{long.id}: in full"].value).count("x" * 300) == 5


def test_a_page_is_written_when_it_says_something_else(lake: DagsterLake) -> None:
    seen: object = ""
    for _ in range(2):
        with dg.build_sensor_context(instance=lake.instance, resources=lake.resources) as context:
            _, seen = show_incidents(context, context.resources.backfill, seen)
    (page,) = shown_on(lake.instance, INCIDENTS)
    assert page["open"] == 1 and OPEN.id in page


def test_its_button_opens_the_launchpad_of_the_job_filled_in(lake: DagsterLake) -> None:
    """What it fills in is a configuration that the job takes: a person adds a reason and their name."""
    address = urlsplit(launchpad("a_location", OPEN.id, Word.ACKNOWLEDGE, until="4h"))
    assert address.path == f"/locations/a_location/jobs/{JOB}/playground/setup"
    (filled,) = parse_qs(address.query)["config"]
    job = lake.defs.resolve_job_def(JOB)
    tags = {"user": "ann"}
    assert job.execute_in_process(yaml.safe_load(filled), instance=lake.instance, tags=tags).success
    (said,) = IncidentBook(lake.lakehouse.storage).acknowledgements().values()
    assert said.by == "ann (tag user of the Dagster run)" and said.until == said.at + timedelta(hours=4)


def test_one_is_closed_with_a_reason_and_not_without(lake: DagsterLake) -> None:
    book = IncidentBook(lake.lakehouse.storage)
    refused = lake.run_job(JOB, STEP, incident=OPEN.id, action="CLOSE")
    assert not refused.success and not book.closings()
    assert lake.run_job(JOB, STEP, incident=OPEN.id, action="CLOSE", reason="Easter").success
    assert [(each.by, each.reason) for each in book.closings().values()] == [("unknown", "Easter")]
