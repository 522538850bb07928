"""Campaigns as people use them: what arrives, who plans, who approves, and who thinks better of it."""

from __future__ import annotations

from backfill_assets.errors import BackfillError
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import NO_TERMS, PlanRequest, PlanTerms
from backfill_assets_tests.simulator.actors.approver import approve, approve_plan
from backfill_assets_tests.simulator.actors.arrivals import arrive, bring, build, first_prices
from backfill_assets_tests.simulator.actors.planner import EXPECTED, make_and_keep, plan_and_stage, run_plan
from backfill_assets_tests.simulator.actors.second_thoughts import give_up_a_plan, roll_back
from backfill_assets_tests.simulator.priced import CLEAN, DAYS
from backfill_assets_tests.simulator.world import Deed, PlayedLife


def _patiently(deed: Deed) -> Deed:
    """Who is refused does not ask again in the same turn."""

    def done(life: PlayedLife) -> object:
        try:
            return deed(life)
        except BackfillError:
            life.process.rest()
            raise

    return done


_BEGUN = (
    (DAYS, "v2", "", NO_TERMS),
    (DAYS[1:], "v1", EXPECTED[1], NO_TERMS),
    (DAYS[:2], "v1", "", PlanTerms(approvals=2)),
)


def under_way(life: PlayedLife) -> None:
    """What those begin with whom seeds play: a campaign that is published, and two that wait for their approval."""
    first_prices(life)
    for days, version, expected, terms in _BEGUN:
        expectations = tuple(map(Expectation.parse, filter(None, [expected])))
        asked = PlanRequest(
            target="sums", days=f"{days[0]}..{days[-1]}", version=version, expectations=expectations, terms=terms
        )
        plan = make_and_keep(life, asked, "ana")
        run_plan(life, plan.id, "ana")
        if days == DAYS:
            approve_plan(life, plan.id, "ben")
            bring(life, "late row", DAYS[0])
            build(life.lake(), [CLEAN])


CAMPAIGNERS: dict[str, Deed] = {
    "arrivals": arrive,
    "planner": _patiently(plan_and_stage),
    "approver": _patiently(approve),
    "rollback": _patiently(roll_back),
    "quitter": _patiently(give_up_a_plan),
}
"""They play on the chain of prices, and whoever plays with them."""
