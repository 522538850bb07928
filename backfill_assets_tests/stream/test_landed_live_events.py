"""The tally of live events is right: landed and built by the pipeline, they become exactly what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.live import SHARES, LiveLanding, LiveSpec, live_events
from backfill_assets_tests.examples.sample.live_tally import LiveTally
from backfill_assets_tests.stream.winners import require_winners
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 3_000
SPEC = LiveSpec(
    seed=8,
    # After the last day with published rates: those of the days before are carried on.
    start=datetime(2026, 11, 6, 23, 59, 58, tzinfo=UTC),
    events_per_second=1_000,
    shares={**SHARES, "late": 0.2, "moved": 0.02},
)


def test_the_facts_of_live_events_are_the_winners_of_their_tally(tmp_path: Path, spark: SparkSession) -> None:
    workshop = Workshop(tmp_path, lambda: spark)
    events = list(islice(live_events(SPEC), EVENTS))
    LiveLanding(SPEC, workshop.settings.landing).land(events)
    workshop.build_all(DayRange(SPEC.first_day, SPEC.moment(EVENTS).date()))
    tally = LiveTally(events)
    assert len(tally.days()) == 7 and tally.superseded() and tally.deduplicated
    facts = str(workshop.settings.lakehouse / "fact_sales_transactions")
    require_winners(spark.read.format("delta").load(facts), tally)
    raw = workshop.read("raw_sales", columns=["record_kind"])["record_kind"]
    assert (raw != "supersession").sum() == tally.lines
    assert len(workshop.read("quarantine_sales", columns=["day"])) == tally.quarantined
