"""What people do with a lakehouse, each as one deed that may be typed again: what the storage goes wrong in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.undo import undo
from backfill_assets.campaign.undoable import require_in_force, undoable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import create_timeline, find_timeline, kept_timelines
from backfill_assets.lakehouse.records import Position, Publication, TableChange
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import PlanRequest, Scope
from backfill_assets.publish.delivery import deliver
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.publish.fold import FOLD_FROM_FILES, SETTLED, fold, trim
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import Conflict
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.walk import shadow
from backfill_assets.state.stream_positions import offset_id
from backfill_assets.state.view import moment_before
from backfill_assets.stream.sources import new_ranges, planned_ranges
from backfill_assets.timeline.build import forward
from backfill_assets.timeline.rewind import RewindRequest, rewound_timeline
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.simulator.actors.builder import publish_raw
from backfill_assets_tests.simulator.actors.publisher import ATTEMPTS, publish_days
from backfill_assets_tests.simulator.chain import COMPUTED, DAYS, RUN, STEPS, lake_of
from backfill_assets_tests.simulator.chain_plans import plan_context, shadow_steps
from backfill_assets_tests.simulator.judges.sources import SALES, TOPIC, merged, rows_of_offset
from backfill_assets_tests.simulator.judges.tables import SHARED
from backfill_assets_tests.simulator.staging import DAYS as PLAIN_DAYS
from backfill_assets_tests.simulator.staging import Names, change, stage
from backfill_assets_tests.simulator.world import CHAIN, RAW, RETENTION_DAYS, PlayedLife, World

Ready = Mapping[str, Any]
"""What was found out before: a plan, a publication."""
CAMPAIGN, LINE = "campaign-one", "line"
_LANDED, _LANDED_UP_TO = "landed:x", 2
_READ_UP_TO = {0: 2, 1: 1}
"""The offsets of each partition that the batch reads."""


def _nothing(life: PlayedLife) -> Ready:
    return {}


@dataclass(frozen=True)
class Operation:
    """``deed`` is typed on what ``before`` leaves; ``also`` is what ends as without a fault, beside rows of tables."""

    deed: Callable[[PlayedLife, Ready], object]
    before: Callable[[PlayedLife], Ready] = _nothing
    also: Callable[[World], object] = field(default=lambda world: None)
    built: bool = False
    """Does it begin with the tables of the chain?"""


def _lake(life: PlayedLife) -> Lake:
    return lake_of(life.watched())


# ------------------------------------------------------------------ a run, a campaign, and its undo


def _row_landed(life: PlayedLife) -> Ready:
    publish_raw(life, _lake(life), {DAYS[0]: ("late.1=3",)})
    return {}


def _publish(life: PlayedLife, _: Ready) -> None:
    """A run of each step, one after the other."""
    lake = _lake(life)
    for step in COMPUTED:
        Builder(lake).build(step, step.cadence.starts(DAYS), run=RUN, version=AS_PUBLISHED)


def _staged(life: PlayedLife) -> Ready:
    lake = _lake(life)
    asked = PlanRequest(target="sums", days=f"{DAYS[0]}..{DAYS[1]}", version="v2", scope=Scope.ONWARDS)
    planned = shadow_steps(STEPS, make_plan(asked, plan_context(lake, STEPS)))
    shadow(lake, CAMPAIGN, planned, RUN, silent)
    return {"planned": planned}


def _approve(life: PlayedLife, ready: Ready) -> None:
    cut_over(_lake(life), CAMPAIGN, ready["planned"], RUN, silent)


def _approved(life: PlayedLife) -> Ready:
    _approve(life, _staged(life))
    return {"publication": life.world.published_so_far(CHAIN)[-1]}


def _built_again(life: PlayedLife) -> Ready:
    _row_landed(life)
    Builder(_lake(life)).build(COMPUTED[0], DAYS, run=RUN, version=AS_PUBLISHED)
    return {"publication": life.world.published_so_far(CHAIN)[-1]}


def _undo(life: PlayedLife, ready: Ready) -> None:
    """As the command does it: a campaign together with what arrived since, a run by its files."""
    lake, publication = _lake(life), ready["publication"]
    lake.publisher.recover()
    prepared = undoable(lake.publisher, publication)
    require_in_force(lake.publisher, prepared)
    if prepared.publication.provenance.campaign:
        undo(lake, publication, RUN, silent)
    else:
        roll_back(lake.publisher, publication, id=lake.new_id("rollback"), steps=STEPS)


# ------------------------------------------------------------------ timelines


def _rewind(life: PlayedLife, ready: Ready) -> None:
    moment = moment_before(life.storage, ready["publication"])
    asked = RewindRequest(LINE, ["sums"], None)
    create_timeline(life.storage, rewound_timeline(life.storage, STEPS, asked, moment, life.world.clock.now()))


def _rewound(life: PlayedLife) -> Ready:
    ready = _approved(life)
    _rewind(life, ready)
    return ready


def _forward(life: PlayedLife, _: Ready) -> None:
    lake = _lake(life)
    forward(lake, find_timeline(life.storage, LINE, life.world.clock.now()), "v2", RUN, silent)


def _timelines(world: World) -> object:
    """The days of each, by what they hold."""
    return {
        each.name: {
            (table, record.day): record.content and record.content.logical
            for table, records in each.days.items()
            for record in records
        }
        for each in kept_timelines(world.storage, world.clock.now())
    }


# ------------------------------------------------------------------ what arrives


def _take_in(life: PlayedLife, _: Ready) -> None:
    """A landed file: the rows of two tables, and how far it was read."""
    tables = [(table, _LANDED, range(_LANDED_UP_TO)) for table in RAW]
    _append(life, lambda known: [each for each in tables if not known(each[0], _LANDED)])


def _batch(life: PlayedLife, _: Ready) -> None:
    """What a stream has read of each partition of a topic; offsets that raw has are left out."""
    planned = planned_ranges(dict.fromkeys(_READ_UP_TO, 0), _READ_UP_TO)
    ids = {partition: offset_id(SALES, TOPIC, partition) for partition in _READ_UP_TO}

    def unread(known: Callable[[str, str], int]) -> list[_Range]:
        ranges = new_ranges(planned, {partition: known(RAW[0], id) for partition, id in ids.items()})
        return [(RAW[0], ids[each.partition], range(each.first, each.end)) for each in ranges]

    _append(life, unread)


_Range = tuple[str, str, range]
"""A table, a source, and the offsets that it is to take from it."""


def _append(life: PlayedLife, unread: Callable[[Callable[[str, str], int]], list[_Range]]) -> None:
    """Until there is nothing that is unread by the positions which the tables have."""
    publisher = life.watched()
    for _ in range(ATTEMPTS):
        mains = {table: MainTable.open(life.storage, table) for table in RAW}

        def known(table: str, source: str, mains: Mapping[str, MainTable | None] = mains) -> int:
            main = mains[table]
            return (main.transaction(source) if main else None) or 0

        ranges, id = unread(known), life.new_id("a")
        if not ranges:
            return
        tables = sorted({table for table, _, _ in ranges})
        changes = tuple(_appended(life, id, table, [each for each in ranges if each[0] == table]) for table in tables)
        wanted = Publication(id=id, kind="append", tables=changes, transaction=SHARED)
        if not isinstance(publisher.publish(wanted), Conflict):
            return


def _appended(life: PlayedLife, id: str, table: str, ranges: list[_Range]) -> TableChange:
    rows: dict[date, Names] = merged(rows_of_offset(s, table, offset) for _, s, offsets in ranges for offset in offsets)
    positions = tuple(Position(id=s, before=offsets.start or None, after=offsets.stop) for _, s, offsets in ranges)
    return change(stage(life.storage, table, id, rows), rows, mode="append", positions=positions)


# ------------------------------------------------------------------ upkeep


def _many_published(life: PlayedLife) -> Ready:
    for number in range(FOLD_FROM_FILES):
        publish_days(life, {"fact": [PLAIN_DAYS[number % len(PLAIN_DAYS)]]})
    deliver(life.publisher(), life.world)
    life.world.clock.pass_on(SETTLED + timedelta(hours=1))
    return {}


def _fold(life: PlayedLife, _: Ready) -> None:
    log = life.publisher().log
    fold(log, life.world.clock.now())
    trim(log, life.world.clock.now())


def _folded(life: PlayedLife) -> Ready:
    ready = _many_published(life)
    fold(life.publisher().log, life.world.clock.now())
    life.world.clock.pass_on(SETTLED + timedelta(days=RETENTION_DAYS))
    return ready


def _replaced(life: PlayedLife) -> Ready:
    """A day has had four files, and the window of three of them is over."""
    for _ in range(4):
        publish_days(life, {"fact": [PLAIN_DAYS[0]]})
    life.world.clock.pass_on(timedelta(days=RETENTION_DAYS, hours=1))
    publish_days(life, {"fact": [PLAIN_DAYS[1]]})
    return {}


def _reclaim(life: PlayedLife, _: Ready) -> None:
    reclaim(life.publisher(), "fact", clock_checked=True)


def _reclaim_log(life: PlayedLife, _: Ready) -> None:
    reclaim(life.publisher(), LOG_TABLE, clock_checked=True)


def _files_of_fact(world: World) -> object:
    return sorted(path for path in world.files.contents if path.startswith("fact/") and "/_delta_log/" not in path)


OPERATIONS: dict[str, Operation] = {
    "publish": Operation(_publish, _row_landed, built=True),
    "approve": Operation(_approve, _staged, built=True),
    "rollback": Operation(_undo, _built_again, built=True),
    "undo": Operation(_undo, _approved, built=True),
    "rewind": Operation(_rewind, _approved, _timelines, built=True),
    "forward": Operation(_forward, _rewound, _timelines, built=True),
    "take-in": Operation(_take_in),
    "batch": Operation(_batch),
    "fold": Operation(_fold, _many_published),
    "reclaim": Operation(_reclaim, _replaced, _files_of_fact),
    "reclaim-log": Operation(_reclaim_log, _folded),
}
"""By the name that a schedule has. A rollback takes a run back by its files, an undo a campaign."""
