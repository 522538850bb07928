"""Lands synthetic sales of any size with named, counted defects, and says what must become of them, day by day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.defects import DEFECTS, Place, SampleDelivery
from backfill_assets.examples.sample.landing_writer import LandingWriter, landing
from backfill_assets.examples.sample.rates import land_rates
from backfill_assets.examples.sample.sales_line import FIELDS, Row, lines
from backfill_assets.examples.sample.synthetic_products import department_on, land_synthetic_products
from backfill_assets.examples.sample.synthetic_rows import sound_rows
from backfill_assets.examples.sample.synthetic_tally import DayExpectation, Rejected, SyntheticSpec, SyntheticTally


def synthesize(spec: SyntheticSpec, root: Path) -> SyntheticTally:
    """Land the sales of ``spec``, with a small catalogue and the real ECB rates; all sales arrive within the range."""
    plan = planned_defects(spec)
    run = _Run(spec, plan)
    with landing(root) as writer:
        for day in spec.days:
            run.land_day(day, writer)
        land_synthetic_products(writer, spec.days)
        land_rates(writer, spec.days)
    return SyntheticTally(
        spec, _totals(plan), run.by_event_day, run.by_arrival_day, tuple(sorted(run.rejected)), writer.counts
    )


def planned_defects(spec: SyntheticSpec) -> dict[date, dict[str, int]]:
    """How many rows of each day get which defect, spread evenly; raises :class:`InvalidRequest` if they do not fit."""
    plan: dict[date, dict[str, int]] = {day: {} for day in spec.days}
    for name, count in _defect_counts(spec).items():
        for day, share in _spread(name, count, spec).items():
            plan[day][name] = share
    for day, counts in plan.items():
        if sum(counts.values()) > spec.rows_per_day:
            raise InvalidRequest(
                f"{sum(counts.values())} defects do not fit into the {spec.rows_per_day} rows of {day}.",
                hint="Ask for fewer --defects, or for more --rows-per-day.",
            )
    return plan


def _defect_counts(spec: SyntheticSpec) -> dict[str, int]:
    if spec.rows_per_day < 0 or min((spec.defects or {}).values(), default=0) < 0:
        raise InvalidRequest("Numbers of rows and of defects cannot be negative.")
    if spec.defects is None:
        rows = len(spec.days) * spec.rows_per_day
        return {name: round(d.rate * rows) for name, d in DEFECTS.items() if d.days(spec.days)}
    for name in spec.defects.keys() - DEFECTS.keys():
        raise InvalidRequest(f"There is no defect {name!r}.", hint=f"Defects: {', '.join(DEFECTS)}.")
    return dict(spec.defects)


def _spread(name: str, count: int, spec: SyntheticSpec) -> dict[date, int]:
    days = DEFECTS[name].days(spec.days)
    if days is None and count:
        raise InvalidRequest(f"{name} needs more days than {spec.days}.", hint="Choose a longer range.")
    if days is None:
        return {}
    rng = np.random.default_rng([spec.seed, list(DEFECTS).index(name)])
    each, left = divmod(count, len(days))
    chosen = set(rng.permutation(len(days))[:left].tolist())
    return {day: each + (n in chosen) for n, day in enumerate(days)}


class _Run:
    """The state of one synthesis: lines that still wait for their arrival day, and the tally so far."""

    def __init__(self, spec: SyntheticSpec, plan: Mapping[date, Mapping[str, int]]) -> None:
        self._spec = spec
        self._plan = plan
        self._waiting: defaultdict[date, list[tuple[str, SampleDelivery]]] = defaultdict(list)
        self.by_event_day = {day: DayExpectation() for day in spec.days}
        self.by_arrival_day: dict[date, int] = {}
        self.rejected: list[Rejected] = []

    def land_day(self, day: date, writer: LandingWriter) -> None:
        """Make the rows of ``day`` and land everything that arrives on it."""
        rng = np.random.default_rng([self._spec.seed, day.toordinal(), 1])
        sound = self._strike(day, rng)
        extra = self._waiting.pop(day, [])
        order = _interleave(len(sound), len(extra), rng)
        texts = sound + [delivery.text for _, delivery in extra]
        path = writer.write("sales", day, [texts[n] for n in order])
        self.by_arrival_day[day] = len(texts)
        self._note_rejected(path, order, len(sound), extra)

    def _strike(self, day: date, rng: np.random.Generator) -> list[str]:
        """Deliver the struck rows of ``day``; returns the lines of the others."""
        rows = sound_rows(day, self._spec.rows_per_day, self._spec.seed)
        names = [name for name, count in self._plan[day].items() for _ in range(count)]
        struck = dict(zip(rng.permutation(len(rows)).tolist(), names, strict=False))
        place = Place(day, self._spec.days, rng)
        for index, name in struck.items():
            for delivery in DEFECTS[name].deliver(dict(zip(FIELDS, rows[index], strict=True)), place):
                self._expect(name, delivery)
        sound = [row for index, row in enumerate(rows) if index not in struck]
        self._expect_sound(day, sound)
        return lines(sound)

    def _expect(self, name: str, delivery: SampleDelivery) -> None:
        self._waiting[delivery.arrival_day].append((name, delivery))
        expected = self.by_event_day[delivery.event_day]
        expected.lines[delivery.fate] += 1
        if delivery.sale:
            currency, amount, product = delivery.sale
            expected.sales[currency] += int(amount.scaleb(2))
            expected.departments[department_on(delivery.event_day, product)] += 1

    def _expect_sound(self, day: date, rows: list[Row]) -> None:
        expected = self.by_event_day[day]
        expected.lines["published"] += len(rows)
        amount, currency = FIELDS.index("sales_value"), FIELDS.index("currency")
        product = FIELDS.index("product_id")
        for row in rows:
            expected.departments[department_on(day, row[product])] += 1
            whole, _, hundredths = row[amount].partition(".")
            expected.sales[row[currency]] += int(whole) * 100 + int(hundredths or 0)

    def _note_rejected(self, path: str, order: list[int], sound: int, extra: list[tuple[str, SampleDelivery]]) -> None:
        for number, index in enumerate(order, start=1):
            if index >= sound and extra[index - sound][1].fate == "quarantined":
                self.rejected.append(Rejected(path, number, extra[index - sound][0]))


def _interleave(sound: int, extra: int, rng: np.random.Generator) -> list[int]:
    """An order in which the extra lines stand anywhere among the sound ones, so that no order can be relied on."""
    places = np.concatenate([np.arange(sound), rng.uniform(-1, sound, extra)])
    order: list[int] = np.argsort(places, kind="stable").tolist()
    return order


def _totals(plan: Mapping[date, Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(counts.get(name, 0) for counts in plan.values()) for name in DEFECTS}
