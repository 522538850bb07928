"""Judges quarantined rows again by today's contract and code, and rebuilds days of freed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.rows import published_rows
from backfill_assets.landing.deletions import days_with_deletions, standing_rows
from backfill_assets.landing.quarantine import Rejects, general
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import NOT_KNOWN, Days, Filled, reading, walk_downstream
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake, Progress, waiting
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.spark.computed import computed
from backfill_assets.state.observed import filled_in
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_assets.publish.publisher import Pin

_PLACE = ("day", "source_file", "source_line")


@dataclass(frozen=True)
class Judged:
    """Quarantined rows of one day: ``freed`` would be accepted now."""

    table: str
    day: date
    reason: str | None
    """In general form: of freed rows the old reason, of others the present one. None counts each row once."""
    freed: int
    still_bad: int


def judge_again(lake: Lake, rejects: Rejects, days: DayRange | None, progress: Progress) -> list[Judged]:
    """What a rebuild of ``days`` would do with their quarantine, in one Spark job. Rows deleted by the source since are
    not counted.
    """
    filled = quarantined_days(lake, rejects, days)
    if not filled:
        return []
    pin = _pin_inputs(lake, rejects, filled)
    progress(f"{rejects.table}: the rejected rows of {format_count(len(filled), 'day')} are judged again ...")
    counts: dict[tuple[date, str | None], Counter[bool]] = {}
    with waiting(progress, f"{rejects.table}: Spark judges rejected rows again"):
        for row in _verdicts(lake, rejects, pin, filled).collect():
            for reason in {None, *map(general, row["now"] or row["then"])}:
                counts.setdefault((row["day"], reason), Counter())[row["now"] is None] += row["count"]
    return [
        Judged(rejects.table, day, reason, freed=found[True], still_bad=found[False])
        for (day, reason), found in sorted(counts.items(), key=lambda each: (each[0][0], each[0][1] or ""))
    ]


def quarantined_days(lake: Lake, rejects: Rejects, days: DayRange | None = None) -> list[date]:
    held = (
        day
        for (table, day), state in lake.states(rejects.step).items()
        if table == rejects.table and state.content is not None and state.content.rows
    )
    return sorted(day for day in held if days is None or day in days)


def to_rebuild(
    catalog: Catalog,
    freed: Mapping[str, Sequence[date]],
    published: Mapping[str, Collection[date]],
    filled: Filled = NOT_KNOWN,
) -> dict[str, list[date]]:
    """Days to build, by step in build order: those with freed rows (by bronze step), and published ones downstream."""

    def visit(step: Step, own: set[date], readers: set[date]) -> set[date]:
        return own | readers.intersection(published.get(step.name, ()))

    def readers(step: Step, changed: Days) -> set[date]:
        return {day for version in step.versions for day in reading(step, changed, version, filled)}

    found = walk_downstream(catalog.steps, freed, visit, readers)
    return {step.name: sorted(found[step.name]) for step in catalog.steps if step.name in found}


def rebuild(
    builder: Builder, freed: Mapping[str, Sequence[date]], run: RunInfo, progress: Progress
) -> Iterator[tuple[Step, BuildResult]]:
    """Build the days with freed rows and those downstream, step by step.

    Steps in ``freed`` are forced, by the current version; later ones keep each day's. If a step raises, those before it
    stay published.
    """
    catalog = builder.lake.catalog
    states = {key: state for step in catalog.steps for key, state in builder.lake.states(step).items()}
    filled = filled_in(catalog.steps, states)
    for name, days in to_rebuild(catalog, freed, decide.published_days(states), filled).items():
        step = catalog.step(name)
        version = None if name in freed else AS_PUBLISHED
        progress(f"{name}: {format_count(len(days), step.cadence.noun)} ...")
        yield step, builder.build(step, days, run=run, version=version, force=name in freed, progress=progress)


def _pin_inputs(lake: Lake, rejects: Rejects, days: Sequence[date]) -> Pin:
    (step,) = lake.with_current([rejects.step])
    reads = decide.read_days(step, step.version(), days)
    return lake.publisher.pin(writes={}, reads={**reads, rejects.table: list(days)})


def _verdicts(lake: Lake, rejects: Rejects, pin: Pin, days: Collection[date]) -> DataFrame:
    """``day, then, now, count``: reasons; ``now`` is null for accepted rows."""
    inputs = {name: _read(lake, pin, name) for name in pin.inputs if name != rejects.table}
    then = _read(lake, pin, rejects.table).select(*_PLACE, F.col("reasons").alias("then"))
    raw = inputs[rejects.raw]
    again = {**inputs, rejects.raw: raw.join(then.select(*_PLACE), list(_PLACE), "left_semi").select(*raw.columns)}
    (step,) = lake.with_current([rejects.step])
    now = computed(step.version(), again)[rejects.table].select(*_PLACE, F.col("reasons").alias("now"))
    judged = then.join(raw.select(*_PLACE), list(_PLACE), "left_semi").join(now, list(_PLACE), "left")
    return judged.groupBy("day", "then", "now").count()


def _read(lake: Lake, pin: Pin, name: str) -> DataFrame:
    read, table = pin.inputs[name], lake.catalog.table(name)
    rows = published_rows(lake.spark(), lake.storage, read, struct_type(table.contract))
    return standing_rows(rows) if days_with_deletions(pin.states, table, read.days) else rows
