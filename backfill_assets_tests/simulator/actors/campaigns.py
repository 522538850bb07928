"""Campaigns as people use them: what arrives, who plans, who approves, and who thinks better of it."""

from __future__ import annotations

from backfill_assets_tests.simulator.actors.approver import approve
from backfill_assets_tests.simulator.actors.arrivals import arrive
from backfill_assets_tests.simulator.actors.planner import plan_and_stage
from backfill_assets_tests.simulator.actors.second_thoughts import give_up_a_plan, roll_back
from backfill_assets_tests.simulator.world import Deed

CAMPAIGNERS: dict[str, Deed] = {
    "arrivals": arrive,
    "planner": plan_and_stage,
    "approver": approve,
    "rollback": roll_back,
    "quitter": give_up_a_plan,
}
"""They play on the chain of prices, and whoever plays with them."""
