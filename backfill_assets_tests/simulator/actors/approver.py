"""People who read the difference of a campaign that waits for them, say yes to just that, and bring it into main."""

from __future__ import annotations

from backfill_assets.campaign import decisions
from backfill_assets.campaign.standing import PlanStanding, PlanWord
from backfill_assets.difference.find import last_difference
from backfill_assets_tests.simulator.actors.planner import PEOPLE, carried_by, carry_further, that_are
from backfill_assets_tests.simulator.world import PlayedLife


def approve(life: PlayedLife) -> None:
    """One of those that wait for it."""
    if waiting := that_are(life, PlanStanding.WAITING):
        approve_plan(life, life.draw.choice(waiting), life.draw.choice(PEOPLE), reads=life.draw.random() < 0.7)
    else:
        life.process.rest()


def approve_plan(life: PlayedLife, plan: str, person: str, *, reads: bool = True) -> None:
    """As ``backfill approve PLAN`` does it; as the UI does where nobody ``reads`` what was compared since."""
    at = carried_by(life, plan, person)
    at.settle_and_require(PlanWord.APPROVE)
    seen = last_difference(life.storage, plan) if reads else None
    life.reached("read")
    decisions.require_approvable(at, seen=seen)
    life.world.approvals.gives(plan, person, seen.fingerprint if seen else at.state.validation.fingerprint)
    decisions.approve(at, seen=seen)
    life.world.tally["approved"] += 1
    if at.state.approved is not None:
        carry_further(life, at)
