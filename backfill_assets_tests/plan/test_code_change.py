"""What changed in the logic, beside the numbers."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.plan.code_change import code_changes

FACT = "fact_sales_transactions"
CHANGE = (FACT, "v1", "v2")


def test_the_code_of_two_versions_is_compared() -> None:
    """Functions that both call are left out; a step is named once, whatever its days."""
    (found,) = code_changes(CATALOG.steps, [CHANGE, CHANGE, (FACT, "v2", "v2"), ("raw_sales", "1", "2")])
    lines = found.diff.splitlines()
    assert lines[:2] == [f"--- {FACT} v1", f"+++ {FACT} v2"]
    assert "-    return in_eur(sales, rates_as_of(rates, days_before=1))" in lines
    assert "+    return in_eur(sales, rates_as_of(rates, days_before=0))" in lines
    assert "def in_eur" not in found.diff
    assert found.sentence == f"{FACT}: v1 becomes v2, 6 lines added and 6 removed."


def _calls_one(sales: int) -> int:
    return _only_here(sales)


def _calls_none(sales: int) -> int:
    return sales


def _only_here(sales: int) -> int:
    return sales + 1


def test_a_function_that_one_version_alone_calls_is_part_of_its_code() -> None:
    step = CATALOG.step(FACT)
    old, new = (replace(step.version(name), transform=made) for name, made in (("v1", _calls_one), ("v2", _calls_none)))  # type: ignore[arg-type]
    (found,) = code_changes([replace(step, versions=(old, new))], [CHANGE])
    assert "-def _only_here(sales: int) -> int:" in found.diff.splitlines()


def test_a_version_that_is_no_longer_declared_is_named() -> None:
    """Also one whose code is in no file."""
    (gone,) = code_changes(CATALOG.steps, [(FACT, "v0", "v2")])
    assert (gone.diff, gone.sentence) == ("", f"{FACT}: v0 becomes v2, whose code cannot be compared.")
    step = CATALOG.step(FACT)
    made = replace(step.version("v1"), transform=len)  # type: ignore[arg-type]
    (built,) = code_changes([replace(step, versions=(made, step.version("v2")))], [CHANGE])
    assert not any(line.startswith("-") for line in built.diff.splitlines()[2:])
