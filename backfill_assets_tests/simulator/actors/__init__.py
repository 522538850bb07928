"""Who works on a lakehouse, each in a module of its own: a deed that is done again and again, under a name."""

from __future__ import annotations

from backfill_assets_tests.simulator.actors.books import keep_books
from backfill_assets_tests.simulator.actors.builder import BUILDERS
from backfill_assets_tests.simulator.actors.campaigns import CAMPAIGNERS
from backfill_assets_tests.simulator.actors.claimer import claim_names
from backfill_assets_tests.simulator.actors.engine import alter, maintain_the_log, overwrite, widen
from backfill_assets_tests.simulator.actors.foreign import write_past_the_protocol
from backfill_assets_tests.simulator.actors.healing import HEALERS
from backfill_assets_tests.simulator.actors.leaser import hold_lease
from backfill_assets_tests.simulator.actors.maintenance import MAINTAINERS
from backfill_assets_tests.simulator.actors.person import give_up, try_again
from backfill_assets_tests.simulator.actors.publisher import publish, switch
from backfill_assets_tests.simulator.actors.reader import look_at_newest, read_pinned
from backfill_assets_tests.simulator.actors.recoverer import recover
from backfill_assets_tests.simulator.actors.stream import append, follow, read_on, stream
from backfill_assets_tests.simulator.actors.time import let_time_pass
from backfill_assets_tests.simulator.actors.undo import undo
from backfill_assets_tests.simulator.actors.upkeep import delete_what_nothing_needs, fold_the_log, put_together, tell
from backfill_assets_tests.simulator.world import Deed

ACTORS: dict[str, Deed] = {
    "publisher": publish,
    "undo": undo,
    "reader": read_pinned,
    "looker": look_at_newest,
    "foreign": write_past_the_protocol,
    "recoverer": recover,
    "time": let_time_pass,
    "switcher": switch,
    "appender": append,
    "stream": stream,
    "raw": read_on,
    "facts": follow,
    "compactor": put_together,
    "reclaimer": delete_what_nothing_needs,
    "folder": fold_the_log,
    "deliverer": tell,
    "person": give_up,
    "repeater": try_again,
    "alterer": alter,
    "widener": widen,
    "optimiser": maintain_the_log,
    "overwriter": overwrite,
    "leaser": hold_lease,
    "claimer": claim_names,
    "bookkeeper": keep_books,
    **BUILDERS,
    **CAMPAIGNERS,
    **HEALERS,
    **MAINTAINERS,
}
