"""A person who gives up an entry that is under way; and one who types again what has no answer."""

from __future__ import annotations

from backfill_assets_tests.simulator.world import Life


def give_up(life: Life) -> None:
    """In any state of its tables."""
    if under_way := life.world.under_way():
        life.publisher().abort(life.draw.choice(under_way), by="ana")
        life.world.tally["given up"] += 1


def try_again(life: Life) -> None:
    """The same publication under the same id, by a process that does not know what became of it."""
    if requests := life.world.unanswered():
        wanted = life.draw.choice(requests)
        life.world.told_again(wanted, life.publisher().publish(wanted))
