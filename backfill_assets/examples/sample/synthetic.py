"""Synthetic sales with named, counted defects: equal requests land equal bytes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.defects import DEFECTS, FATES, SalePlace, SampleDelivery, SampleFate
from backfill_assets.examples.sample.landing_writer import LandedCounts, LandingWriter, landing
from backfill_assets.examples.sample.references import land_rates, land_synthetic_products
from backfill_assets.examples.sample.sales_line import FIELDS, Row, lines, sound_rows


@dataclass(frozen=True)
class SyntheticSpec:
    """``defects``: counts over the range; ``None`` means each one's rate, ``{}`` none."""

    days: DayRange
    rows_per_day: int
    seed: int
    defects: Mapping[str, int] | None = None


@dataclass(frozen=True)
class SampleDay:
    day: date
    path: str
    sound: list[Row]
    struck: dict[int, tuple[str, SampleDelivery]]
    """By line number in the file, from 1."""


@dataclass(frozen=True)
class Synthesis:
    defects: Mapping[str, int]
    fates: Mapping[SampleFate, int]
    landed: LandedCounts


def synthesize(spec: SyntheticSpec, root: Path, hear: Callable[[SampleDay], None] = lambda day: None) -> Synthesis:
    """With a catalogue and ECB rates. ``hear`` is called for each day, before files are in place."""
    plan = planned_defects(spec)
    waiting: defaultdict[date, list[tuple[str, SampleDelivery]]] = defaultdict(list)
    fates: Counter[SampleFate] = Counter(dict.fromkeys(FATES, 0))
    with landing(root) as writer:
        for day in spec.days:
            rng = np.random.default_rng([spec.seed, day.toordinal(), 1])
            sound, struck = _strike(spec, day, plan[day], rng)
            for defect, delivery in struck:
                waiting[delivery.arrival_day].append((defect, delivery))
            landed = _land_day(day, sound, waiting.pop(day, []), writer, rng)
            fates["published"] += len(sound)
            fates.update(delivery.fate for _, delivery in landed.struck.values())
            hear(landed)
        land_synthetic_products(writer, spec.days)
        land_rates(writer, spec.days)
    defects = {name: sum(counts.get(name, 0) for counts in plan.values()) for name in DEFECTS}
    return Synthesis(defects, fates, writer.counts)


def planned_defects(spec: SyntheticSpec) -> dict[date, dict[str, int]]:
    """Spread evenly. Raises :class:`InvalidRequest` if they do not fit."""
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


def _strike(
    spec: SyntheticSpec, day: date, defects: Mapping[str, int], rng: np.random.Generator
) -> tuple[list[Row], list[tuple[str, SampleDelivery]]]:
    rows = sound_rows(day, spec.rows_per_day, spec.seed)
    names = [name for name, count in defects.items() for _ in range(count)]
    struck = dict(zip(rng.permutation(len(rows)).tolist(), names, strict=False))
    place = SalePlace(day, spec.days, rng)
    deliveries = [
        (name, delivery)
        for index, name in struck.items()
        for delivery in DEFECTS[name].deliver(dict(zip(FIELDS, rows[index], strict=True)), place)
    ]
    return [row for index, row in enumerate(rows) if index not in struck], deliveries


def _land_day(
    day: date,
    sound: list[Row],
    arrived: list[tuple[str, SampleDelivery]],
    writer: LandingWriter,
    rng: np.random.Generator,
) -> SampleDay:
    places = np.concatenate([np.arange(len(sound)), rng.uniform(-1, len(sound), len(arrived))])
    order: list[int] = np.argsort(places, kind="stable").tolist()
    texts = lines(sound) + [delivery.text for _, delivery in arrived]
    path = writer.write("sales", day, [texts[index] for index in order])
    struck = {number: arrived[index - len(sound)] for number, index in enumerate(order, start=1) if index >= len(sound)}
    return SampleDay(day, path, sound, struck)
