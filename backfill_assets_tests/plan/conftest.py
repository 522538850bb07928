from __future__ import annotations

import pytest

from backfill_assets_tests.plan.world import World, world_of


@pytest.fixture
def world() -> World:
    """Every table of the chain is published and fresh."""
    return world_of()
