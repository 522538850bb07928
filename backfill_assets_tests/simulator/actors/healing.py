"""What runs by itself on the chain of tables: looks that repair, their backfills, watchdogs; and who breaks tables.

The decisions are the package's own, and so is what a watchdog reads; Dagster's part is :mod:`orchestrator`.
"""

from __future__ import annotations

from datetime import date

from deltalake.exceptions import DeltaError

from backfill_assets.days import TableDay, by_table
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.upkeep.heal import heal
from backfill_assets.upkeep.watch import Watch
from backfill_assets_tests.simulator.actors.foreign import write_to
from backfill_assets_tests.simulator.chain import CHAIN, COMPUTED, STEPS, lake_of
from backfill_assets_tests.simulator.orchestrator import SimulatedHands
from backfill_assets_tests.simulator.world import Deed, PlayedLife

_TABLES = [table for step in STEPS for table in step.tables]
_OFTEN = 0.3
_HARM = ("lose", "lose", "add", "delete", "optimise")


def look(life: PlayedLife) -> None:
    """One tick of the sensor; Dagster begins none while another one goes on."""
    orchestrator = life.world.orchestrator
    if orchestrator.ticking():
        return
    ticks = True
    orchestrator.ticking = lambda: ticks and not life.process.finished
    try:
        _look(life)
    finally:
        ticks = False


def _look(life: PlayedLife) -> None:
    world, now = life.world, life.world.clock.now()
    world.follow()
    world.healing.looks(now)
    hands = SimulatedHands(life.storage, world.orchestrator, life.reached, world.healing.launched, world.clock.now)
    healed = heal(life.storage, hands, now)
    world.tally["looks at what is wrong"] += 1
    world.tally["repairs"] += len(healed.decision.launch)
    for each in healed.closed:
        world.tally[f"healed: {each.cause}"] += 1
    for attempt, days in healed.proofs.items():
        life.reached("ask for a proof")
        world.orchestrator.ask(attempt, days)


def run_backfill(life: PlayedLife) -> None:
    """The oldest backfill that waits: its steps one after the other, each in a publication of its own."""
    world, orchestrator = life.world, life.world.orchestrator
    if (backfill := orchestrator.waiting()) is None:
        return
    backfill.runs = lambda: not life.process.finished
    attempt, left = backfill.attempt, dict(backfill.attempt.days)
    try:
        for step in (each for each in COMPUTED if each.name in attempt.days):
            life.reached("a run begins")
            run = RunInfo(attempt.id)
            Builder(lake_of(life.watched())).build(
                step, attempt.days[step.name], run=run, version=AS_PUBLISHED, force=attempt.force, repairs=True
            )
            orchestrator.built(TableDay(step.name, day) for day in left.pop(step.name))
    except (BackfillError, DeltaError, OSError):
        orchestrator.end(backfill, "failed", left)
        world.tally["backfills failed"] += 1
        raise
    orchestrator.end(backfill, "completed success", {})
    world.tally["backfills done"] += 1


def watch(life: PlayedLife) -> None:
    """Days that a repair has built, if it asks; else all that is new, and what has lost a file.

    A table that cannot be read hides no other, and is looked at again.
    """
    orchestrator, seen = life.world.orchestrator, _watch_of(life)
    asked = orchestrator.next_proof()
    newest, unreadable = seen.log.head().version, False
    for table, days in (asked or _tonight(life, seen)).items():
        try:
            found = seen.look([CHAIN.catalog.table(table)], days)
        except LakehouseUnusable:
            unreadable = True
            continue
        for each in found:
            orchestrator.verdicts[TableDay(table, each.day)] = each
            life.world.tally["watchdogs failed" if not each.passed else "watchdogs passed"] += 1
    if asked is None and not unreadable:
        orchestrator.looked_until = newest


def _watch_of(life: PlayedLife) -> Watch:
    return Watch(CHAIN.catalog, life.storage, PublicationLog(life.storage), lambda: None)  # type: ignore[arg-type, return-value]


def _tonight(life: PlayedLife, seen: Watch) -> dict[str, list[date]]:
    names = [table.name for table in _TABLES]
    states = seen.log.day_states(seen.log.head(), names).values()
    until = life.world.orchestrator.looked_until
    new = (TableDay(each.table, each.day) for each in states if each.content and each.sequence > until)
    altered = (TableDay(table, day) for table, days in seen.altered(names).items() for day in days)
    return {table: sorted(days) for table, days in by_table((*new, *altered)).items()}


def break_a_table(life: PlayedLife) -> None:
    """A file of a published day is lost; or somebody writes to the day, and knows nothing of publications."""
    published, how = sorted(key for key, made in life.world.healing.made.items() if made.there), life.draw.choice(_HARM)
    if published and life.draw.random() < _OFTEN:
        key = life.draw.choice(published)
        if how == "lose":
            _lose(life, key)
        else:
            write_to(life, key.table, key.day, how, f"{life.new_id('foreign')}={life.draw.randint(1, 6)}")
    life.process.rest()


def _lose(life: PlayedLife, key: TableDay) -> None:
    """One file of a day is gone, whatever who took it was answered."""
    world, version = life.world, newest_version(life.storage, key.table)
    if version is None:
        return
    for file in read_log(life.storage, key.table, version).of_days([key.day])[key.day][:1]:
        path = f"{key.table}/{file.path}"

        def lose(path: str = path) -> None:
            world.files.drop(path)
            world.tables[key.table].lost.add(path)
            world.healing.moved()
            world.tally["files lost"] += 1

        world.files.call("lose", path, lose)


HEALERS: dict[str, Deed] = {
    "healer": look,
    "daemon": run_backfill,
    "watchdog": watch,
    "vandal": break_a_table,
}
