"""A rule is one class: what it must say, and that its metrics are known without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import get_args

import pytest

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import DayFacts, DayRule, Dimension
from backfill_assets.model.rules import FewNulls, RatesFound, VolumeWithin
from backfill_assets.quality.gates import gates_of
from backfill_assets.quality.measures import zero_metrics

RULES = {type(rule): rule for table in CATALOG.tables for rule in gates_of(table)}


@dataclass(frozen=True)
class Unjudged(DayRule):
    """It measures and does not judge."""

    name_format = "unjudged"
    dimension = "validity"


def test_a_rule_without_a_judgement_is_refused_when_it_is_declared() -> None:
    """It would fail the first build instead."""
    with pytest.raises(TypeError, match="judge"):
        Unjudged()  # type: ignore[abstract]


@pytest.mark.parametrize("rule", RULES.values(), ids=[rule.__name__ for rule in RULES])
def test_every_rule_has_a_name_a_dimension_and_a_sentence_and_measures_what_is_steady(rule: DayRule) -> None:
    """The UI shows the three; by what is steady a day is compared with the past."""
    assert rule.name and "{" not in rule.name
    assert rule.dimension in get_args(Dimension)
    assert rule.description.endswith(".")
    assert set(rule.steady) <= rule.measure().keys()


def test_the_other_tables_of_a_rule_are_those_it_needs() -> None:
    """A table of which only the rows are read is one, too."""
    assert VolumeWithin(10, made_of="fact").tables == ("fact",)
    assert VolumeWithin(10).tables == ()


def test_what_a_rule_measures_is_known_without_spark() -> None:
    """Declarations are checked, and days without rows are judged, before there is a session."""
    assert list(RatesFound("rate", "currency", within_days=7).measure()) == ["without_rate", "without_rate_example"]
    nulls = FewNulls("amount", at_most=Decimal(0))
    assert list(nulls.measure()) == list(nulls.compared) == ["nulls_amount"]
    assert zero_metrics(CATALOG.table("fact_sales_transactions"))["without_rate_example"] == ""


def test_a_count_with_digits_after_the_point_is_refused() -> None:
    """It would be cut off, and a day just above a limit would pass."""
    facts = DayFacts(own={"rows": 3, "sum_of_hashes": "123456789012345678901234567890123456", "total_eur": "8000.99"})
    assert (facts.count("rows"), facts.count("sum_of_hashes")) == (3, 123456789012345678901234567890123456)
    assert facts.number("total_eur") == Decimal("8000.99")
    with pytest.raises(ValueError, match=r"total_eur is 8000\.99, no count: read it with facts\.number"):
        facts.count("total_eur")
