"""The judge of reports, on a day that is not what its inputs make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from backfill_assets.rebuild import stage
from backfill_assets.rebuild.builder import Builder
from backfill_assets_tests.simulator.actors.builder import first_build
from backfill_assets_tests.simulator.chain import DAYS, RUN, SUMS, NamedRows, lake_of
from backfill_assets_tests.simulator.world import Life, World

pytestmark = pytest.mark.protocol


def test_a_day_that_its_inputs_do_not_make_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a build that had read something else would bring it."""
    world = World(0, {})
    with world.begun():
        first_build(life := Life(world, "begin", 1))
        honest: Callable[..., Any] = vars(stage)["stage"]

        def with_a_row_of_nobody(rows: Any, *others: Any, **named: Any) -> Any:
            return honest(NamedRows({day: [*names, "9=999"] for day, names in rows.days.items()}), *others, **named)

        with monkeypatch.context() as patch:
            patch.setattr(stage, "stage", with_a_row_of_nobody)
            with pytest.raises(AssertionError, match="'9=999': 1}, its inputs make"):
                Builder(lake_of(life.watched())).build(SUMS, DAYS[:1], run=RUN, version="v2")
