"""Lands live sales second by second, as files that appear whole, with the rates and products that their days need."""

from __future__ import annotations

import gzip
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby, islice
from pathlib import Path

from backfill_assets.days import DayRange
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.sample.landing_writer import LandingWriter, landing
from backfill_assets.examples.sample.live_events import EventKind, LiveEvent, LiveSpec, live_events
from backfill_assets.examples.sample.rates import LEAD_DAYS, last_published, rate_lines
from backfill_assets.examples.sample.synthetic_products import synthetic_catalogue

TICK_SECONDS = 1.0


@dataclass
class LiveLanding:
    """Files of live sales in the landing zone ``root``, and what has landed so far: only files that are there count."""

    spec: LiveSpec
    root: Path
    files: int = 0
    by_kind: Counter[EventKind] = field(default_factory=Counter)
    _ready: set[date] = field(default_factory=set)

    @property
    def lines(self) -> int:
        return self.by_kind.total()

    def land_for(
        self,
        seconds: float | None,
        report: Callable[[LiveLanding], None] = lambda landing: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Land what is due each second, for ``seconds`` or without end; ``report`` is called after each file."""
        events, began, taken = live_events(self.spec), clock(), 0
        while True:
            passed = clock() - began
            until = passed if seconds is None else min(passed, seconds)
            due = list(islice(events, round(until * self.spec.events_per_second) - taken))
            taken += len(due)
            self.land(due)
            report(self)
            if seconds is not None and passed >= seconds:
                return
            left = TICK_SECONDS if seconds is None else min(TICK_SECONDS, seconds - passed)
            sleep(max(0.0, left - (clock() - began - passed)))

    def land(self, events: Sequence[LiveEvent]) -> None:
        """One file for each arrival day of ``events``, which is the day of their moments."""
        for day, of_day in groupby(events, key=lambda event: event.moment.date()):
            if day not in self._ready:
                land_references(self.root, DayRange(min(self.spec.first_day, day), day))
                self._ready.add(day)
            self._write(day, list(of_day))

    def _write(self, day: date, events: Sequence[LiveEvent]) -> None:
        run = f"{self.spec.start:%Y%m%dT%H%M%S}-{self.spec.seed}"
        target = self.root / "sales" / f"{day}" / f"live-{run}-{self.files + 1:06d}.jsonl.gz"
        unfinished = target.with_name(f"{target.name}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            text = "".join(f"{event.text}\n" for event in events)
            unfinished.write_bytes(gzip.compress(text.encode(), compresslevel=1, mtime=0))
            unfinished.replace(target)
        except OSError as error:
            hint = "Free space on the disk, or choose another --landing."
            raise LakehouseUnusable(f"{target} cannot be written: {error.strerror}.", hint=hint) from error
        finally:
            unfinished.unlink(missing_ok=True)
        self.files += 1
        self.by_kind.update(event.kind for event in events)


def land_references(root: Path, days: DayRange) -> None:
    """Land what facts of ``days`` need beside their sales, for each day on which nothing of a source has landed.

    Rates and products, the rates from some days before; and sales files of zero rows for the days before the last.
    """
    with landing(root) as writer:
        for day in _missing(root, "fx_rates", days.widened(before=LEAD_DAYS)):
            name = None if day <= last_published() else "live-rates"
            writer.write("fx_rates", day, rate_lines(day), name=name)
        _land_products(root, days, writer)
        for day in _missing(root, "sales", days):
            if day < days.last:
                writer.write("sales", day, [], name="live-none")


def _land_products(root: Path, days: DayRange, writer: LandingWriter) -> None:
    """The whole catalogue once, if there is none at all; a day without changes is a file of zero rows."""
    if not any(root.glob("products/*/*.jsonl.gz")):
        writer.write("products", days.first, synthetic_catalogue(days.first), name="live-catalogue")
    for day in _missing(root, "products", days):
        writer.write("products", day, [])


def _missing(root: Path, source: str, days: DayRange) -> list[date]:
    return [day for day in days if not any((root / source / f"{day}").glob("*.jsonl.gz"))]
