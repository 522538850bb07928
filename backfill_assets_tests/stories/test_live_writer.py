"""A live writer appends all through a campaign, and through the second of its cut-over. Its tally is kept apart.

The tally reads the lines that were landed with nothing of the product: each line's transaction, and by the oracle
its euros. At the end every transaction is in raw, in bronze and in the fact exactly once, and the report adds up.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.days import DayRange
from backfill_assets.examples.sample.landing_writer import landing
from backfill_assets.examples.sample.references import land_rates
from backfill_assets.rebuild.walk import shadow
from backfill_assets_tests import oracle
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import CAMPAIGN, DAYS, FACT, RUN, steps
from backfill_assets_tests.workshop import Workshop

ARRIVAL = date(2017, 3, 10)
EVERY_DAY = DayRange(DAYS.first, ARRIVAL)
REVENUE = "fact_daily_revenue"
LIVE_ROWS, LATE_ROWS = 4200, 1800
"""Of a batch: rows of the day itself, and rows of days that the campaign rebuilds."""


class Sale(NamedTuple):
    """A line as its source sent it; ``euros`` are at the rate of its day."""

    day: date
    transaction: str
    euros: Decimal
    quantity: int


class Sums(NamedTuple):
    """Of a day."""

    euros: Decimal
    lines: int
    quantity: int


NOTHING = Sums(Decimal(0), 0, 0)


def sent(path: Path) -> list[Sale]:
    """The lines of a landed file."""
    with gzip.open(path, "rt") as file:
        return [_sale(json.loads(line)) for line in file]


def _sale(line: dict[str, str]) -> Sale:
    day = date.fromisoformat(line["transaction_timestamp"][:10])
    euros = oracle.amount_eur(Decimal(line["sales_value"]), oracle.rate_as_of(day, line["currency"]))
    return Sale(day, f"{line['basket_id']}-{line['product_id']}", euros, int(line["quantity"]))


@dataclass
class LiveWriter:
    """Lands a batch, takes it into raw and refines its days, again and again, on a builder of its own."""

    workshop: Workshop
    tally: list[Sale] = field(default_factory=list)
    """Every line that it has landed."""
    appended: list[float] = field(default_factory=list)
    """When each batch was in raw."""
    batches: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    """The seconds of the batch that took longest, from landing it to bronze."""
    failure: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        started = time.monotonic()
        try:
            while not self._stop.is_set():
                self.write_batch()
        except BaseException as error:
            self.failure = error
        self.seconds = time.monotonic() - started

    def write_batch(self) -> None:
        started = time.monotonic()
        late_day = list(DAYS)[self.batches % len(DAYS)]
        for day, count in ((ARRIVAL, LIVE_ROWS), (late_day, LATE_ROWS)):
            stamp = {"transaction_timestamp": f"{day}T10:00:00Z"}
            basket, name = 90_000_000_000 + len(self.tally), f"batch-{self.batches}-{day}"
            land_lines(self.workshop.settings.landing, ARRIVAL, name, count, stamp, basket)
            self.tally += sent(self.workshop.settings.landing / "sales" / str(ARRIVAL) / f"{name}.jsonl.gz")
        self.workshop.build("raw_sales", [ARRIVAL])
        self.appended.append(time.monotonic())
        self.workshop.build("bronze_sales", [late_day, ARRIVAL])
        self.batches += 1
        self.slowest = max(self.slowest, time.monotonic() - started)

    def wait_for_batches(self, count: int) -> None:
        until = time.monotonic() + 300
        while self.batches < count and self.failure is None:
            assert time.monotonic() < until, "the live writer is starved"
            time.sleep(0.1)

    def stop(self) -> None:
        self._stop.set()


@pytest.mark.long
def test_every_row_is_there_once_though_they_came_all_the_time(wrong: Workshop) -> None:
    """Rows that came into the campaign's days while it was staged and cut over are in its result, or come after it."""
    landed_before = [sale for path in wrong.settings.landing.glob("sales/*/*") for sale in sent(path)]
    writer = LiveWriter(Workshop(wrong.settings.home, wrong.builder.lake.spark))
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        writer.wait_for_batches(1)
        lake, tell = wrong.builder.lake, wrong.messages.append
        shadow(lake, CAMPAIGN, steps(), RUN, tell)
        writer.wait_for_batches(writer.batches + 1)
        first, started = writer.batches, time.monotonic()
        done = cut_over(lake, CAMPAIGN, steps(), RUN, tell)
        ended = time.monotonic()
        writer.wait_for_batches(first + 1)
    finally:
        writer.stop()
        thread.join(timeout=120)
    assert writer.failure is None and not thread.is_alive()
    assert done.staged_again[FACT], "the writer changed days that were staged already"
    assert_report_adds_up_to_the_fact(wrong)

    with landing(wrong.settings.landing) as the_next_night:
        land_rates(the_next_night, EVERY_DAY)
    wrong.build_rates(EVERY_DAY)
    wrong.build("bronze_sales", EVERY_DAY)
    wrong.build(FACT, EVERY_DAY, "v2")
    wrong.build(REVENUE, EVERY_DAY)

    assert_each_is_there_once(wrong, [*landed_before, *writer.tally])
    late = sum(sale.day != ARRIVAL for sale in writer.tally) / len(writer.tally)
    rate, slowest = len(writer.tally) / writer.seconds, (LIVE_ROWS + LATE_ROWS) / writer.slowest
    during = sum(started <= moment <= ended for moment in writer.appended)
    print(
        f"{len(writer.tally):,} rows in {writer.batches} batches, {late:.0%} of them late: {rate:.0f} a second", end=""
    )
    print(
        f", {slowest:.0f} in the slowest batch; {during} came into raw in the {ended - started:.0f} s of the cut-over"
    )
    assert slowest >= 50 and late >= 0.3


def assert_report_adds_up_to_the_fact(workshop: Workshop) -> None:
    """Right after the cut-over, with any of the rows that came meanwhile."""
    fact = workshop.read(FACT)
    assert reported(workshop) == sums(fact["day"], fact["amount_eur"], fact["quantity"])


def assert_each_is_there_once(workshop: Workshop, tally: list[Sale]) -> None:
    """The transactions of each table are those of the tally, one by one, and so are the report's sums, day by day."""
    expected = Counter((sale.day, sale.transaction) for sale in tally)
    assert set(expected.values()) == {1}, "the writer sends nothing twice"
    raw = workshop.read("raw_sales")
    assert set(raw["record_kind"]) == {"received"}
    found = {"raw_sales": Counter(zip(raw["day"], raw["basket_id"] + "-" + raw["product_id"], strict=True))}
    for name in ("bronze_sales", FACT):
        rows = workshop.read(name, columns=["day", "transaction_id"])
        found[name] = Counter(zip(rows["day"], rows["transaction_id"], strict=True))
    for name, transactions in found.items():
        lost, extra = expected - transactions, transactions - expected
        print(
            f"{name}: {transactions.total():,} transactions, {lost.total()} lost, {extra.total()} there once too often"
        )
        assert not lost and not extra, f"{name}: {lost.most_common(3)} are lost, {extra.most_common(3)} too many"
    assert reported(workshop) == sums(
        (sale.day for sale in tally), (sale.euros for sale in tally), (sale.quantity for sale in tally)
    )


def sums(days: Iterable[date], euros: Iterable[Decimal], quantities: Iterable[int]) -> dict[date, Sums]:
    """The sums of lines, by day."""
    found: dict[date, Sums] = {}
    for day, amount, quantity in zip(days, euros, quantities, strict=True):
        before = found.get(day, NOTHING)
        found[day] = Sums(before.euros + amount, before.lines + 1, before.quantity + quantity)
    return found


def reported(workshop: Workshop) -> dict[date, Sums]:
    """The sums of the report over all stores, by day."""
    found: dict[date, Sums] = {}
    rows = workshop.read(REVENUE)
    columns = (rows[name].tolist() for name in ("day", "revenue_eur", "lines", "quantity"))
    for day, euros, lines, quantity in zip(*columns, strict=True):
        before = found.get(day, NOTHING)
        found[day] = Sums(before.euros + euros, before.lines + lines, before.quantity + quantity)
    return found
