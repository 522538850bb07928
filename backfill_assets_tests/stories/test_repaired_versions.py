"""A history of two versions is damaged: the sensor's backfill builds each day by the version that it was of."""

# No postponed annotations here: Dagster reads ResourceDependency from the annotation itself.
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date

import dagster as dg
import pytest
from deltalake import DeltaTable

from backfill_assets.defs.location import code_location
from backfill_assets.defs.sensors.repairs import SENSOR
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import observe
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.stories.dagster_chain import workshop_resources
from backfill_assets_tests.stories.dagster_daemon import DagsterDaemon
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, TABLES, checksums
from backfill_assets_tests.workshop import Workshop

OLD, NEW = date(2017, 3, 7), date(2017, 3, 8)
LAST = date(2017, 3, 9)
"""Of both the neighbour; of the old logic too."""


@pytest.fixture
def daemon(wrong: Workshop) -> Iterator[DagsterDaemon]:
    with ExitStack() as stack:
        instance = stack.enter_context(dg.instance_for_test())
        yield DagsterDaemon(code_location(CATALOG, workshop_resources(wrong)), instance, SENSOR)


def statuses(workshop: Workshop) -> dict[date, Cause | None]:
    observed = observe(workshop.builder.lake.storage, CATALOG.table_names)
    return dict(day_statuses(CATALOG.steps, observed, DAYS)[FACT])


def test_each_damaged_day_comes_back_as_it_was_published(wrong: Workshop, daemon: DagsterDaemon) -> None:
    """Two days of the fact lose half their rows past the protocol: one of the old logic, one of the new."""
    wrong.build(FACT, [NEW], "v2")
    wrong.build("fact_daily_revenue", [NEW])
    wrong.build("report_department_revenue", [NEW])
    wrong.build_reports(DAYS)
    before, stale = checksums(wrong), statuses(wrong)
    assert {day for day, status in stale.items() if status is Cause.CODE_CHANGED} == set(DAYS) - {NEW}
    fact = DeltaTable(str(wrong.settings.lakehouse / FACT))
    fact.delete(f"day in ('{OLD}', '{NEW}') and quantity >= 0 and transaction_id > '5'")
    assert {statuses(wrong)[day] for day in (OLD, NEW)} == {Cause.FOREIGN_WRITE}

    daemon.until_it_waits(most=10)

    assert checksums(wrong) == before
    assert statuses(wrong) == stale, "no day has another logic than before"
    (backfill,) = daemon.instance.get_backfills()
    assert backfill.title == f"Repair: {FACT} {OLD}..{NEW}: foreign write"
    assert str(backfill.description).endswith(f"{FACT} {OLD} by v1.")
    states = wrong.states(FACT)
    assert states[OLD].publication == states[NEW].publication != states[LAST].publication
    rows = wrong.read(FACT)
    assert len(rows) == len(wrong.read("bronze_sales")), "what readers read, and not only what the log says"
    assert all(set(wrong.states(table)) == set(before[table]) for table in TABLES)
