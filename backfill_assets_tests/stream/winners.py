"""What the facts hold, in the form in which a tally of live events says what they must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_assets_tests.examples.sample.live_tally import LiveTally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHECKSUM = "crc32(concat_ws('|', transaction_id, day, cast(sales_value * 100 AS bigint), unix_micros(updated_at)))"
"""In Spark's SQL, what ``live_tally.winner_checksum`` is in Python."""


def require_winners(facts: DataFrame, tally: LiveTally) -> None:
    """Each winner once, and nothing else: the number of lines of each day, and the sum of their checksums."""
    by_day = facts.groupBy("day").count().collect()
    assert {row["day"]: row["count"] for row in by_day} == tally.days()
    assert facts.selectExpr(f"sum({CHECKSUM}) AS total").collect()[0]["total"] == tally.checksum()
    assert facts.select("transaction_id", "day").distinct().count() == len(tally.winners())
