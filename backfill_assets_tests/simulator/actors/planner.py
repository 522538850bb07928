"""Plans of days as people make them, kept and carried on by the nine steps until they wait for people."""

from __future__ import annotations

from backfill_assets.campaign import decisions
from backfill_assets.campaign.look import look
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.standing import PlanStanding, standing_of
from backfill_assets.campaign.steps import carry_on
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.campaign_reports import ByPerson
from backfill_assets.lakehouse.plans import keep_plan, planners
from backfill_assets.limits import Limits
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.make import make_plan
from backfill_assets.plan.records import Plan, PlanRequest, PlanTerms, Scope
from backfill_assets.plan.waves import Shares
from backfill_assets.publish.due_notice import DueNotice
from backfill_assets.publish.promote import silent
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import Person, RunInfo
from backfill_assets_tests.simulator.chain_plans import plan_context
from backfill_assets_tests.simulator.priced import DAYS, SUMS, TOTAL
from backfill_assets_tests.simulator.world import PlayedLife

PEOPLE = ("ana", "ben", "cleo")
WAVES = Shares.parse("50%,100%")
LIMITS = Limits.parse("errors=none,gates=none,nulls=none,deviation=none")
EXPECTED = ("", f"{TOTAL} < 40% a day in {SUMS.name}", f"rows unchanged in {SUMS.name}")
_NEWEST = 3


def plan_and_stage(life: PlayedLife) -> None:
    """What is under way goes on, as the daemon does it; what was stopped is run again; or there is a new plan."""
    draw, who = life.draw, life.draw.choice(PEOPLE)
    if under_way := that_are(life, PlanStanding.STAGING, PlanStanding.APPROVED, PlanStanding.PUBLISHED):
        carry_further(life, carried_by(life, draw.choice(under_way), who))
    elif begun := that_are(life, PlanStanding.NOT_STARTED, PlanStanding.STOPPED, PlanStanding.UNDONE):
        run_plan(life, draw.choice(begun) if draw.random() < 0.7 else drawn_plan(life).id, who)
    else:
        run_plan(life, drawn_plan(life).id, who)


def that_are(life: PlayedLife, *standings: PlanStanding) -> list[str]:
    """Of the newest plans those that stand so, as ``backfill status`` shows them; another process may be at them."""
    publisher, plans = life.watched(), life.world.approvals.plans
    newest = list(plans.values())[-_NEWEST:]
    return [each.id for each in newest if standing_of(look(publisher, campaign_of(each.id), each)) in standings]


def drawn_plan(life: PlayedLife) -> Plan:
    """Of some days of the fact, with what is expected, and how many of whom have to approve it."""
    draw, days = life.draw, sorted(life.draw.choices(DAYS, k=2))
    terms = PlanTerms(approvers=draw.choice([(), (), PEOPLE, PEOPLE[:2]]), approvals=draw.choice([1, 1, 2]))
    expected = tuple(Expectation.parse(each) for each in [draw.choice(EXPECTED)] if each)
    scope, version = draw.choice([Scope.WHOLE, Scope.ONWARDS, Scope.ONWARDS]), draw.choice(["v1", "v2", "v2"])
    asked = PlanRequest(
        target=SUMS.name, days=f"{days[0]}..{days[1]}", version=version, scope=scope, expectations=expected, terms=terms
    )
    return make_and_keep(life, asked, draw.choice(PEOPLE))


def make_and_keep(life: PlayedLife, asked: PlanRequest, person: str) -> Plan:
    lake = life.lake()
    made = make_plan(asked, plan_context(lake, life.world.chain.steps))
    planners(life.storage).create(made.id, ByPerson(who=person, known_by="here"))
    keep_plan(life.storage, made.id, made.to_json())
    life.world.approvals.plans[made.id] = made
    life.world.approvals.planned_by.setdefault(made.id, person)
    life.world.tally["planned"] += 1
    return made


def run_plan(life: PlayedLife, plan: str, person: str) -> None:
    """As ``backfill run PLAN`` does it."""
    at = carried_by(life, plan, person)
    decisions.start(at, Options(WAVES, LIMITS))
    carry_further(life, at)


def carried_by(life: PlayedLife, plan: str, person: str) -> CampaignRun:
    """The campaign of a kept plan, in this process."""
    kept, who = life.world.approvals.plans[plan], Person(person, "here")
    info = RunInfo(f"run-{life.id}", launched_by=person, person=who)
    return CampaignRun(Builder(life.lake()), kept, info, silent, approval_by=life.world.approvals.rule)


def carry_further(life: PlayedLife, at: CampaignRun) -> None:
    """Do what needs no person."""
    steps = life.world.chain.steps
    carry_on(at, Post(life), lambda _: plan_context(at.builder.lake, steps), lambda move: _tell(life, move))


def _tell(life: PlayedLife, move: str) -> None:
    life.world.tally[f"campaign {move.partition(': ')[2]}"] += 1


class Post:
    """Who is told is not told again by another process: the world has heard it."""

    def __init__(self, life: PlayedLife) -> None:
        self.life = life

    def send(self, due: DueNotice) -> None:
        self.life.world.send(due)
