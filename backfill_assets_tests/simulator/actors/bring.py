"""A timeline is brought to main by its plan, with all that is computed from its days, or is refused."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.model.declaration import Step
from backfill_assets.timeline.rewind import differing_from_main
from backfill_assets_tests.simulator.actors.timelines import chosen
from backfill_assets_tests.simulator.chain import CHAIN, COMPUTED, STEP_OF, STEPS, lake_of
from backfill_assets_tests.simulator.chain_plans import publish_timeline
from backfill_assets_tests.simulator.world import PlayedLife


def bring(life: PlayedLife) -> None:
    """Main shows its days then; days that it does not hold are left as they were."""
    if (line := chosen(life, gone_forward=True)) is None:
        return
    life.world.follow()
    seen, differed = len(life.world.log.closed_at), differing_days(life, line)
    done = publish_timeline(lake_of(life.watched()), STEPS, line, life.new_id("campaign"))
    life.world.follow()
    judge_left(life, line, done.published.publication)
    if len(life.world.log.closed_at) == seen + 1:
        judge_shown(life, line, differed)
    life.world.tally["timelines published"] += 1


def judge_left(life: PlayedLife, line: NamedTimeline, publication: str) -> None:
    """Published are days that it holds, and those that are computed from them."""
    may_be = {TableDay(table, day) for table, days in line.records.items() for day in days}
    for step in COMPUTED:
        may_be |= {TableDay(step.name, day) for day in _readers(step, may_be)}
    brought = life.world.wishes[publication].tables
    found = {TableDay(table, day) for table, wish in brought.items() for day in wish.rows}
    assert found <= may_be, f"{publication} brings {found - may_be} beside {line.name}"


def differing_days(life: PlayedLife, line: NamedTimeline) -> set[TableDay]:
    """Those that it holds otherwise than main does."""
    differ = differing_from_main(life.storage, line)
    return {TableDay(table, day) for table, days in differ.items() for day in days}


def judge_shown(life: PlayedLife, line: NamedTimeline, differed: set[TableDay]) -> None:
    """Where nobody else published: what ``differed`` is of its versions now, and nothing that reads it is stale."""
    days, version_of = set(differed), life.world.reports.version_of
    for step in COMPUTED:
        days |= {TableDay(step.name, day) for day in _readers(step, days)}
    for key in sorted(days & version_of.keys()):
        is_its_own = key in differed and key.table in line.targets
        version = line.versions.get(key.table, version_of[key]) if is_its_own else version_of[key]
        made = CHAIN.names_of(STEP_OF[key.table], version, key.day, lambda each: _shown(life, *each))
        assert _shown(life, *key) == sorted(made), f"{line.name} is published, and {key} is as it was"


def _shown(life: PlayedLife, table: str, day: date) -> list[str]:
    return sorted(life.world.tables[table].at(life.world.log.map[table], day).rows.elements())


def _readers(step: Step, keys: Iterable[TableDay]) -> set[date]:
    """The days of a step that are computed from any of ``keys``."""
    read = {each.table for version in step.versions for each in version.reads}
    return {step.cadence.start(day) for table, day in keys if table in read}
