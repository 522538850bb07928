"""Who plays in a storm: the actors of the simulator, and those that only real processes have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_type_hints

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from backfill_assets.lakehouse.delta_log import newest_version
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets.publish.fold import gather
from backfill_assets_tests.simulator.actors import ACTORS
from backfill_assets_tests.simulator.actors.builder import BUILDERS
from backfill_assets_tests.simulator.actors.foreign import change_past_the_protocol
from backfill_assets_tests.simulator.actors.reader import look_at_the_end
from backfill_assets_tests.simulator.judges.tables import FOREIGN
from backfill_assets_tests.simulator.world import TABLES, Deed, Life
from backfill_assets_tests.storm.leases import stream_with_a_lease
from backfill_assets_tests.storm.names import name_timelines
from backfill_assets_tests.storm.settled import begin, settle


def maintain_as_a_platform(life: Life) -> None:
    """OPTIMIZE and VACUUM with the engine's own defaults, of any table and of the log."""
    table, name = life.draw.choice((*TABLES, LOG_TABLE)), life.new_id("platform")
    if newest_version(life.storage, table) is None:
        return
    handle = DeltaTable(life.storage.uri(table), storage_options=dict(life.storage.options))
    properties = CommitProperties(custom_metadata={FOREIGN: name})
    optimises = life.draw.random() < 0.7
    life.world.record.asks(life.id, "publish", pinned=False, writes={(table, ""): name})
    try:
        if optimises:
            handle.optimize.compact(commit_properties=properties)
        else:
            handle.vacuum(dry_run=False, commit_properties=properties)
    except DeltaError:  # it has lost to a publication
        life.world.record.told(life.id, "refused")
    else:
        life.world.record.told(life.id, "ok")
        life.world.tally["optimised" if optimises else "vacuumed"] += 1


def put_the_log_together(life: Life) -> None:
    """As a stream does after a batch."""
    life.world.tally["entries gathered"] += gather(life.publisher().log)


_OF_PROCESSES: Mapping[str, Deed] = {
    "foreign": change_past_the_protocol,
    "platform": maintain_as_a_platform,
    "gatherer": put_the_log_together,
    "lease": stream_with_a_lease,
    "names": name_timelines,
}
_ANYWHERE = {name: deed for name, deed in ACTORS.items() if get_type_hints(deed)["life"] is Life}
"""The others need what only the simulated world has, as their type says."""
CHOICE: Mapping[str, Deed] = {**_ANYWHERE, **_OF_PROCESSES}
"""Those that can be asked for."""
DEEDS: Mapping[str, Deed] = {**CHOICE, "begin": begin, "settle": settle, "end": look_at_the_end}
_PAIRS = ("publisher", "appender", "lease", "names", "reader")
DEFAULT: Sequence[str] = (
    *_PAIRS,
    *_PAIRS,
    *("undo", "foreign", "platform", "looker", "switcher", "stream", "compactor"),
    *("folder", "gatherer", "reclaimer", "deliverer", "repeater"),
)
PAUSES: Mapping[str, float] = {
    "undo": 0.1,
    **dict.fromkeys(("looker", "reader", "source", "rewinder", "traveller", "foreign"), 0.5),
    **dict.fromkeys(("folder", "gatherer", "reclaimer", "compactor", "names", "lease", "recoverer"), 1.0),
    **dict.fromkeys(("deliverer", "repeater", "platform", "person"), 1.5),
}
"""Seconds after a deed, of those who would starve the others."""
SPARED = "reader"
"""Who reads is not killed: it would not see more."""
BUILDS = frozenset(BUILDERS.keys() & CHOICE.keys())
