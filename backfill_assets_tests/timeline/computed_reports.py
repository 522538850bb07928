"""Facts of three days of a week, and the reports of week and month, each with the fingerprint of what it is made of.

The rows of a fact are ids, and a report has one row: the sum of those that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.model.graph import read_by
from backfill_assets.rebuild import decide
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FACT, RANKING, CLOSE = "fact_sales_transactions", "report_store_ranking", "report_monthly_close"
DAYS = MONDAY, TUESDAY, WEDNESDAY = tuple(date(2017, 3, day) for day in (6, 7, 8))
WEEK, MONTH = date(2017, 3, 6), date(2017, 3, 1)
Facts = Mapping[date, Sequence[int]]


def publish_facts(lakehouse: SmallLakehouse, id: str, facts: Facts, code: str) -> None:
    lakehouse.publish(id, {FACT: facts}, code=code, inputs=inputs_of(FACT, code, list(facts), {}))


def publish_reports(lakehouse: SmallLakehouse, id: str, facts: Facts) -> None:
    """Of the week and of the month, from ``facts``."""
    total = sum(number for ids in facts.values() for number in ids)
    for table, day in ((RANKING, WEEK), (CLOSE, MONTH)):
        rows = {table: {day: [total]}}
        inputs = inputs_of(table, "v1", [day], facts)
        lakehouse.publish(f"{id}-{table.replace('_', '-')}", rows, code="v1", inputs=inputs)


def wrong_then_right(lakehouse: SmallLakehouse) -> None:
    """Facts by v1 with their reports, and both again by v2: each day has another number."""
    for code, number in (("v1", 10), ("v2", 20)):
        facts = {day: [number + day.day] for day in DAYS}
        publish_facts(lakehouse, f"facts-{code}", facts, code)
        publish_reports(lakehouse, f"reports-{code}", facts)


def inputs_of(table: str, code: str, days: Sequence[date], facts: Facts) -> dict[date, str]:
    """The fingerprint of what each day is computed from: nothing but ``facts`` was ever published."""
    step = CATALOG.step(table)
    version = step.version(code)
    logicals = {
        name: dict.fromkeys(read, fingerprints.NEVER_PUBLISHED) for name, read in read_by(step, days, version).items()
    }
    if FACT in logicals:
        logicals[FACT] |= {day: fingerprints.logical(len(ids), sum(ids)) for day, ids in facts.items()}
    return {day: wanted.inputs for day, wanted in decide.wanted(step, version, days, logicals).items()}
