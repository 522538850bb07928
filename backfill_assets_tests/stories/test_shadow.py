"""A campaign's days: staged where no reader sees them, cut over together, staged again where main moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any, ClassVar

import pytest
from pyspark.sql import types as T

from backfill_assets.campaign.cutover import CutOver, cut_over
from backfill_assets.errors import GateFailed, InvalidRequest, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import FactSalesTransactions
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.model.contract import Field
from backfill_assets.model.declaration import Aggregates, DayFacts, DayRule, Dimension, GateFinding
from backfill_assets.rebuild.outcome import ADOPTED
from backfill_assets.rebuild.walk import StepBuilt, shadow
from backfill_assets.state.reading import published_versions
from backfill_assets_tests.stories.staged_campaign import (
    CAMPAIGN,
    DAYS,
    FACT,
    PERIODS,
    RUN,
    TABLES,
    WEEKEND,
    checksums,
    land_late,
    steps,
)
from backfill_assets_tests.workshop import Workshop


def stage(workshop: Workshop, campaign: str = CAMPAIGN) -> list[StepBuilt]:
    return shadow(workshop.builder.lake, campaign, steps(), RUN, workshop.messages.append)


def cut(workshop: Workshop, campaign: str = CAMPAIGN) -> CutOver:
    return cut_over(workshop.builder.lake, campaign, steps(), RUN, workshop.messages.append)


def versions(workshop: Workshop) -> dict[str, int]:
    return dict(published_versions(workshop.builder.lake.storage))


def test_all_tables_are_old_until_the_cut_over_and_new_after_it(wrong: Workshop) -> None:
    """One publication for fact and four reports; what is in the shadow is what a plain rebuild would have given.

    A campaign that was killed goes on from what it has staged, and a plain run does not take that for its own.
    """
    old, before = checksums(wrong), versions(wrong)
    found = stage(wrong)
    assert found[0].staged == tuple(DAYS)
    assert [sorted((*each.staged, *each.kept)) for each in found] == [list(each.days) for each in steps()]
    assert found[1].kept == WEEKEND, "no rates are published then: the old logic and the new one agree"
    assert not any(each.held_back for each in found)
    assert (checksums(wrong), versions(wrong)) == (old, before)
    sessions = wrong.sessions
    assert not any(each.build.computed for each in stage(wrong)) and wrong.sessions == sessions

    done = cut(wrong)

    assert set(done.published.versions) == set(TABLES)
    assert done.staged_again == {}
    new = checksums(wrong)
    assert all(new[table] != old[table] for table in TABLES)
    weeks = {state.publication for state in wrong.states("report_store_ranking").values()}
    assert weeks == {done.published.publication}
    stage(wrong, "campaign-forgotten")
    wrong.messages.clear()
    wrong.build(FACT, DAYS, "v1")
    wrong.build_all(DAYS, "v2")
    wrong.build_reports(DAYS)
    assert checksums(wrong) == new
    assert not any(ADOPTED in message for message in wrong.messages)


def test_only_what_moved_is_staged_again(staged: Workshop) -> None:
    """A late row reaches bronze between staging and cut-over: its day, week and month; others are used as staged."""
    land_late(staged, built=("raw_sales", "bronze_sales"))

    done = cut(staged)

    assert done.staged_again == {table: (day,) for table, day in PERIODS.items()}
    assert len(staged.read(FACT)) == len(staged.read("bronze_sales"))
    staged.build_all(DAYS, "v2")
    assert {state.publication for state in staged.states(FACT).values()} == {done.published.publication}


@dataclass(frozen=True)
class NoLargeAmount(DayRule):
    """No line costs more than a limit."""

    at_most: int
    name_format: ClassVar[str] = "no_large_amount"
    dimension: ClassVar[Dimension] = "validity"

    def measure(self) -> Aggregates:
        return {"large_amounts": lambda rows: rows.count(where=rows.amount_eur > self.at_most)}

    def judge(self, facts: DayFacts) -> GateFinding:
        large = facts.count("large_amounts")
        return GateFinding(large == 0, f"{large} lines cost more than {self.at_most} euros", "no such line", "Look.")


class OfCredits(FactSalesTransactions):
    """No line is sold."""

    amount_eur: Annotated[T.DecimalType, 18, 4] = Field(nullable=True, lt=0)


def test_a_rule_that_was_declared_after_the_staging_judges_what_is_cut_over(staged: Workshop) -> None:
    """From the staged files and without Spark: a day that breaks it is refused in words, and nothing is published."""
    before, sessions = checksums(staged), staged.sessions

    def cut_over_with(*rules: DayRule, **changes: Any) -> CutOver:
        first, *others = steps()
        fact = first.step.tables[0]
        table = replace(fact, rules=(*fact.rules, *rules), **changes)
        again = [replace(first, step=replace(first.step, tables=(table,))), *others]
        return cut_over(staged.builder.lake, CAMPAIGN, again, RUN, staged.messages.append)

    limit = int(staged.read(FACT)["amount_eur"].max()) // 2
    with pytest.raises(GateFailed, match=rf"{FACT} \S+: no_large_amount: \d+ lines cost more than {limit} euros"):
        cut_over_with(NoLargeAmount(limit))
    assert (checksums(staged), staged.sessions) == (before, sessions)
    with pytest.raises(GateFailed, match=r"contract_holds: .*amount_eur: less_than\(0\), for example \d"):
        cut_over_with(contract=OfCredits)
    assert checksums(staged) == before
    done = cut_over_with(NoLargeAmount(10**9))
    assert done.days[FACT] == tuple(DAYS)
    assert all(state.content.metrics["large_amounts"] == 0 for state in staged.states(FACT).values() if state.content)


def test_of_two_campaigns_over_the_same_days_the_second_has_nothing_to_do_or_names_the_first(staged: Workshop) -> None:
    """Of the same logic one publication is enough; with other logic the later one does not undo the first unseen."""
    fact = CATALOG.step(FACT)
    third = replace(fact.version("v1"), name="v3")
    other = replace(steps()[0], step=replace(fact, versions=(*fact.versions, third)), version="v3")
    stage(staged, "campaign-same")
    shadow(staged.builder.lake, "campaign-other", [other], RUN, staged.messages.append)
    first = cut(staged)
    after: dict[str, dict[date, str]] = checksums(staged)
    with pytest.raises(InvalidRequest, match="has staged nothing that main does not have already"):
        cut(staged, "campaign-same")
    with pytest.raises(
        PublicationRefused, match=rf"was brought by {plan_of(CAMPAIGN)} \({first.published.publication}\)"
    ):
        cut_over(staged.builder.lake, "campaign-other", [other], RUN, staged.messages.append)
    assert checksums(staged) == after
