"""A lakehouse in memory for what needs storage and no rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backfill_assets_tests.simulator.delta import lake_in_memory
from backfill_assets_tests.simulator.store import SimulatedStorage


@pytest.fixture
def memory() -> Iterator[SimulatedStorage]:
    with lake_in_memory() as storage:
        yield storage
