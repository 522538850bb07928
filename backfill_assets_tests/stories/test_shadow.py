"""A campaign's days: staged where no reader sees them, cut over together, staged again where main moved, put back."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any, ClassVar

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import types as T

from backfill_assets.campaign.cutover import CutOver, cut_over
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.cli import main
from backfill_assets.days import Cadence
from backfill_assets.errors import GateFailed, InvalidRequest, PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import FactSalesTransactions
from backfill_assets.model.contract import Field
from backfill_assets.model.declaration import Aggregates, DayFacts, DayRule, Dimension, GateFinding
from backfill_assets.plan.records import days_of
from backfill_assets.rebuild.outcome import ADOPTED
from backfill_assets.rebuild.walk import StepBuilt, shadow
from backfill_assets.state.reading import published_versions
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, RUN, TABLES, steps
from backfill_assets_tests.workshop import Workshop

WEEKEND = (date(2017, 3, 4), date(2017, 3, 5))
LATE_DAY = date(2017, 3, 7)


def staged(workshop: Workshop, campaign: str = "campaign-fx") -> list[StepBuilt]:
    return shadow(workshop.builder.lake, campaign, steps(), RUN, workshop.messages.append)


def cut(workshop: Workshop, campaign: str = "campaign-fx") -> CutOver:
    return cut_over(workshop.builder.lake, campaign, steps(), RUN, workshop.messages.append)


def checksums(workshop: Workshop) -> dict[str, dict[date, str]]:
    return {
        table: {day: state.content.checksum for day, state in workshop.states(table).items() if state.content}
        for table in TABLES
    }


def versions(workshop: Workshop) -> dict[str, int]:
    return dict(published_versions(workshop.builder.lake.storage))


def test_all_tables_are_old_until_the_cut_over_and_new_after_it_and_old_again_after_the_rollback(
    wrong: Workshop,
) -> None:
    """One publication for fact and four reports; what is in the shadow is what a plain rebuild would have given."""
    old, before = checksums(wrong), versions(wrong)
    found = staged(wrong)
    assert found[0].staged == tuple(DAYS)
    assert [sorted((*each.staged, *each.kept)) for each in found] == [list(each.days) for each in steps()]
    assert found[1].kept == WEEKEND, "no rates are published then: the old logic and the new one agree"
    assert not any(each.held_back for each in found)
    assert (checksums(wrong), versions(wrong)) == (old, before)

    done = cut(wrong)

    assert set(done.published.versions) == set(TABLES)
    assert done.staged_again == {}
    new = checksums(wrong)
    assert all(new[table] != old[table] for table in TABLES)
    wrong.build_all(DAYS, "v2")
    wrong.build_reports(DAYS)
    assert checksums(wrong) == new
    weeks = {state.publication for state in wrong.states("report_store_ranking").values()}
    assert weeks == {done.published.publication}

    roll_back(wrong.builder.lake.publisher, done.published.publication, id="undo", steps=CATALOG.steps)
    assert checksums(wrong) == old


def test_only_what_moved_is_staged_again(wrong: Workshop) -> None:
    """A late row reaches bronze between staging and cut-over: its day, week and month; others are used as staged."""
    staged(wrong)
    land_lines(wrong.settings.landing, DAYS.last, "late", 1, {"transaction_timestamp": f"{LATE_DAY}T10:00:00Z"})
    for table in ("raw_sales", "bronze_sales"):
        wrong.build(table, DAYS)

    done = cut(wrong)

    week, month = Cadence.WEEKLY.period(LATE_DAY).first, Cadence.MONTHLY.period(LATE_DAY).first
    assert done.staged_again == {
        FACT: (LATE_DAY,),
        "fact_daily_revenue": (LATE_DAY,),
        "report_department_revenue": (LATE_DAY,),
        "report_store_ranking": (week,),
        "report_monthly_close": (month,),
    }
    assert len(wrong.read(FACT)) == len(wrong.read("bronze_sales"))
    wrong.build_all(DAYS, "v2")
    assert {state.publication for state in wrong.states(FACT).values()} == {done.published.publication}


def test_a_killed_campaign_goes_on_from_what_it_has_staged(wrong: Workshop) -> None:
    """Staging again computes nothing, and a plain run does not take a campaign's days for its own."""
    staged(wrong)
    sessions = wrong.sessions
    again = staged(wrong)
    assert wrong.sessions == sessions
    assert not any(each.build.computed for each in again)
    wrong.messages.clear()
    wrong.build(FACT, DAYS, "v2")
    assert not any(ADOPTED in message for message in wrong.messages)


def test_a_bad_day_is_held_back_with_all_that_reads_it(wrong: Workshop) -> None:
    """Rates of one day are withdrawn past the protocol's knowledge of them: that day fails, the good days stand."""
    land_lines(wrong.settings.landing, LATE_DAY, "unknown-currency", 1, {"currency": "XTS"})
    for table in ("raw_sales", "bronze_sales"):
        wrong.build(table, DAYS)

    found = {each.build.step.name: each for each in staged(wrong)}

    (bad,) = found[FACT].held_back
    assert (bad.table, bad.day, bad.rules[0].rule) == (FACT, LATE_DAY, "rates_found")
    assert found[FACT].staged == tuple(day for day in DAYS if day != LATE_DAY)
    (week,) = found["report_store_ranking"].held_back
    assert (week.day, week.because_of) == (Cadence.WEEKLY.period(LATE_DAY).first, f"{FACT} {LATE_DAY}")
    assert found["report_monthly_close"].staged == ()

    before = checksums(wrong)
    with pytest.raises(GateFailed, match=f"held back: {FACT} {LATE_DAY}"):
        cut(wrong)
    assert checksums(wrong) == before
    done = cut_over(wrong.builder.lake, "campaign-fx", steps(), RUN, wrong.messages.append, without_held_back=True)
    after = wrong.states(FACT)
    assert {day for day, state in after.items() if state.publication != done.published.publication} == {LATE_DAY}
    assert checksums(wrong)["report_monthly_close"] == before["report_monthly_close"]


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


def test_a_rule_that_was_declared_after_the_staging_judges_what_is_cut_over(wrong: Workshop) -> None:
    """From the staged files and without Spark: a day that breaks it is refused in words, and nothing is published."""
    staged(wrong)
    before, sessions = checksums(wrong), wrong.sessions

    def cut_over_with(*rules: DayRule, **changes: Any) -> CutOver:
        first, *others = steps()
        fact = first.step.tables[0]
        table = replace(fact, rules=(*fact.rules, *rules), **changes)
        again = [replace(first, step=replace(first.step, tables=(table,))), *others]
        return cut_over(wrong.builder.lake, "campaign-fx", again, RUN, wrong.messages.append)

    limit = int(wrong.read(FACT)["amount_eur"].max()) // 2
    with pytest.raises(GateFailed, match=rf"{FACT} \S+: no_large_amount: \d+ lines cost more than {limit} euros"):
        cut_over_with(NoLargeAmount(limit))
    assert (checksums(wrong), wrong.sessions) == (before, sessions)
    with pytest.raises(GateFailed, match=r"contract_holds: .*amount_eur: less_than\(0\), for example \d"):
        cut_over_with(contract=OfCredits)
    assert checksums(wrong) == before
    done = cut_over_with(NoLargeAmount(10**9))
    assert done.days[FACT] == tuple(DAYS)
    assert all(state.content.metrics["large_amounts"] == 0 for state in wrong.states(FACT).values() if state.content)


def test_a_second_campaign_for_the_same_finds_nothing_left_to_do(wrong: Workshop) -> None:
    """Both wanted the same logic over the same days: one publication is enough."""
    staged(wrong, "campaign-one")
    staged(wrong, "campaign-two")
    cut(wrong, "campaign-one")
    with pytest.raises(InvalidRequest, match="has staged nothing that main does not have already"):
        cut(wrong, "campaign-two")


def test_of_two_campaigns_over_the_same_days_the_second_names_the_first(
    wrong: Workshop,
) -> None:
    """They bring different logic; the later one does not undo the earlier one unseen."""
    fact = CATALOG.step(FACT)
    third = replace(fact.version("v1"), name="v3")
    other = replace(steps()[0], step=replace(fact, versions=(*fact.versions, third)), version="v3")
    staged(wrong, "campaign-one")
    shadow(wrong.builder.lake, "campaign-two", [other], RUN, wrong.messages.append)
    first = cut(wrong, "campaign-one")
    after = checksums(wrong)
    with pytest.raises(PublicationRefused, match=rf"was brought by campaign-one \({first.published.publication}\)"):
        cut_over(wrong.builder.lake, "campaign-two", [other], RUN, wrong.messages.append)
    assert checksums(wrong) == after


def test_a_person_plans_stages_looks_approves_and_undoes(wrong: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four commands. Between them readers see the old tables, then the new ones, then the old ones again."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    old = checksums(wrong)
    plan = told("plan", FACT, "--days", str(DAYS), "--version", "v2")["plan"]

    shown = told("run", plan)

    assert checksums(wrong) == old
    assert shown["held_back"] == []
    (fact,) = [row for row in shown["difference"]["tables"] if row["table"] == FACT]
    (rows,) = [row for row in shown["difference"]["rows"] if row["table"] == FACT]
    assert {*days_of(fact["which_days"])} == {*DAYS} - {*WEEKEND}
    assert rows["added"] == rows["removed"] == 0
    assert fact["measure"] == "amount_eur" and fact["before"] != fact["after"]

    approved = told("approve", plan, "--yes")

    assert {row["table"] for row in approved["days"] if row["published"]} == set(TABLES)
    assert all(checksums(wrong)[table] != old[table] for table in TABLES)
    assert backfill("approve", plan, "--yes").exit_code == 1
    assert backfill("rollback", approved["publication"], "--yes").exit_code == 0
    assert checksums(wrong) == old


def told(*words: str) -> dict[str, Any]:
    result = backfill(*words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def backfill(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))
