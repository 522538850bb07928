"""People who take a campaign back by the id of its plan, bring it back by undoing that, or give one up."""

from __future__ import annotations

from backfill_assets.campaign import decisions, rollback
from backfill_assets.campaign.look import carry_out_undo, look, settle
from backfill_assets.campaign.standing import PlanStanding, PlanWord, require_allowed
from backfill_assets.campaign.undo import plan_undo
from backfill_assets.campaign.undoable import require_in_force, undoable
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.simulator.actors.planner import PEOPLE, carried_by, that_are
from backfill_assets_tests.simulator.world import PlayedLife

_NEWEST = 3
_PUBLISHED = (PlanStanding.PUBLISHED, PlanStanding.LIVE, PlanStanding.LIVE_AGAIN, PlanStanding.PUT_BACK)


def roll_back(life: PlayedLife) -> None:
    """One of the plans that are published, or the newest undo."""
    undos = [id for id, seen in life.world.agreement.seen.items() if seen.made.provenance.undoes and seen.is_whole]
    if undos and life.draw.random() < 0.4:
        roll_back_publication(life, undos[-1], life.draw.choice(PEOPLE))
    elif published := that_are(life, *_PUBLISHED):
        roll_back_plan(life, life.draw.choice(published), life.draw.choice(PEOPLE))
    else:
        life.process.rest()


def roll_back_plan(life: PlayedLife, plan: str, person: str) -> None:
    """As ``backfill rollback PLAN`` does it."""
    publisher, campaign = life.watched(), campaign_of(plan)
    settle(publisher, campaign)
    facts = look(publisher, campaign)
    require_allowed(PlanWord.ROLLBACK, facts)
    _undo(life, facts.publication, person)


def roll_back_publication(life: PlayedLife, publication: str, person: str) -> None:
    """As ``backfill rollback PUBLICATION`` does it."""
    publisher = life.watched()
    publisher.recover()
    prepared = undoable(publisher, publication)
    require_in_force(publisher, prepared)
    if prepared.publication.provenance.campaign:
        _undo(life, publication, person)
    else:
        rollback.roll_back(publisher, publication, id=life.new_id("rollback"), steps=life.world.chain.steps)


def _undo(life: PlayedLife, publication: str, person: str) -> None:
    """After a look at what becomes of each day."""
    lake = life.lake()
    plan = plan_undo(lake, publication)
    life.reached("read")
    carry_out_undo(lake, plan, RunInfo(f"run-{life.id}", launched_by=person), silent)
    life.world.tally["brought back" if plan.restores else "rolled back"] += 1


def give_up_a_plan(life: PlayedLife) -> None:
    """One of the newest, before its cut-over."""
    newest = list(life.world.approvals.plans)[-_NEWEST:]
    if not newest or life.draw.random() < 0.8:
        life.process.rest()
        return
    give_up_the_plan(life, life.draw.choice(newest), life.draw.choice(PEOPLE))


def give_up_the_plan(life: PlayedLife, plan: str, person: str) -> None:
    """As ``backfill timeline delete PLAN`` does it."""
    decisions.give_up(carried_by(life, plan, person))
    life.world.tally["plans given up"] += 1
