"""A live writer appends all through a campaign, and through the second of its cut-over. Its tally is kept apart."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.build.cutover import cut_over
from backfill_assets.build.shadow import shadow
from backfill_assets.days import DayRange
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import CAMPAIGN, DAYS, FACT, RUN, steps
from backfill_assets_tests.workshop import Workshop

ARRIVAL = date(2017, 3, 10)
_FIRST_BASKET = 90_000_000_000
LIVE_ROWS, LATE_ROWS = 2100, 900
"""Of a batch: rows of the day itself, and rows of days that the campaign rebuilds."""


@dataclass
class LiveWriter:
    """Lands a batch, takes it into raw and refines its days, again and again, on a builder of its own."""

    workshop: Workshop
    tally: Counter[date] = field(default_factory=Counter)
    """The rows landed of each event day."""
    batches: int = 0
    seconds: float = 0.0
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
        late_day = list(DAYS)[self.batches % len(DAYS)]
        for day, count in ((ARRIVAL, LIVE_ROWS), (late_day, LATE_ROWS)):
            stamp = {"transaction_timestamp": f"{day}T10:00:00Z"}
            basket = _FIRST_BASKET + sum(self.tally.values())
            land_lines(self.workshop.settings.landing, ARRIVAL, f"batch-{self.batches}-{day}", count, stamp, basket)
            self.tally[day] += count
        self.workshop.build("raw_sales", [ARRIVAL])
        self.workshop.build("bronze_sales", [late_day, ARRIVAL])
        self.batches += 1

    def wait_for_batches(self, count: int) -> None:
        until = time.monotonic() + 300
        while self.batches < count and self.failure is None:
            assert time.monotonic() < until, "the live writer is starved"
            time.sleep(0.1)

    def stop(self) -> None:
        self._stop.set()


def test_every_row_is_there_once_though_they_came_all_the_time(wrong: Workshop) -> None:
    """Rows that came into the campaign's days while it was staged and cut over are in its result, or come after it."""
    before = Counter(wrong.read(FACT)["day"].tolist())
    writer = LiveWriter(Workshop(wrong.settings.home, wrong.builder.lake.spark))
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        writer.wait_for_batches(1)
        lake, tell = wrong.builder.lake, wrong.messages.append
        shadow(lake, CAMPAIGN, steps(), RUN, tell)
        writer.wait_for_batches(writer.batches + 1)
        first = writer.batches
        done = cut_over(lake, CAMPAIGN, steps(), RUN, tell)
        writer.wait_for_batches(first + 1)
    finally:
        writer.stop()
        thread.join(timeout=120)
    assert writer.failure is None and not thread.is_alive()
    assert done.staged_again[FACT], "the writer changed days that were staged already"

    wrong.build("bronze_sales", [*DAYS, ARRIVAL])
    wrong.build(FACT, DAYS, "v2")

    raw = wrong.read("raw_sales")
    landed = raw[raw["source_file"].str.contains("batch-")]
    assert not landed.duplicated(["source_file", "source_line"]).any()
    assert Counter(landed["day"].tolist()) == writer.tally
    assert Counter(wrong.read("bronze_sales", DayRange.of(ARRIVAL))["day"].tolist())[ARRIVAL] == writer.tally[ARRIVAL]
    late = Counter({day: count for day, count in writer.tally.items() if day != ARRIVAL})
    assert Counter(wrong.read(FACT)["day"].tolist()) == before + late
    rate = sum(writer.tally.values()) / writer.seconds
    print(f"\n{sum(writer.tally.values()):,} rows in {writer.batches} batches, {rate:.0f} a second; 30 % of them late")
    assert rate >= 50
