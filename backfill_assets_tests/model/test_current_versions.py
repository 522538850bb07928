"""Current versions: by a publication if there is one, and otherwise as declared."""

from __future__ import annotations

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.current_versions import gone_version, require_current, with_current

FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"


def _current(switches: dict[str, str]) -> dict[str, str]:
    return {step.name: step.current for step in with_current(CATALOG.steps, switches)}


def test_a_switched_step_has_its_version_and_all_others_the_declared_one() -> None:
    declared = _current({})
    assert declared == {step.name: step.current for step in CATALOG.steps}
    assert _current({FACT: "v1"}) == {**declared, FACT: "v1"}


def test_a_step_reads_what_its_current_version_reads() -> None:
    (step,) = with_current([CATALOG.step(FACT)], {FACT: "v1"})
    assert step.version().name == "v1"
    assert step.reads == CATALOG.step(FACT).version("v1").reads


def test_a_version_that_is_not_declared_any_more_is_named_and_refused() -> None:
    step = CATALOG.step(FACT)
    assert _current({FACT: "v0"})[FACT] == step.current
    assert gone_version(step, {FACT: "v0"}) == "v0"
    with pytest.raises(InvalidRequest, match="switched to v0, which is not declared any more") as refused:
        require_current(step, {FACT: "v0"})
    for words in (f"--version {FACT}={step.current}", "publish NAME --as-current --new-days-only"):
        assert words in str(refused.value.hint)


def test_raw_and_steps_that_nothing_switched_are_never_refused() -> None:
    for step in CATALOG.steps:
        require_current(step, {FACT: "v1"})
