"""What a campaign refuses before it begins and when it is approved, and the days that it holds: no Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.answers.status import campaign_table
from backfill_assets.campaign import decisions
from backfill_assets.campaign import look as campaign_days_of_log
from backfill_assets.campaign import staging as module
from backfill_assets.campaign.course import approved_by
from backfill_assets.campaign.ends import plan_again, record_step, record_stop
from backfill_assets.campaign.look import campaign_days, held_back_days
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.staging import judge_wave, require_within_limits, say_news, stage_wave
from backfill_assets.days import TableDay
from backfill_assets.errors import CampaignStopped, InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import (
    ByPerson,
    ComparedReport,
    CutOverReport,
    PinnedReport,
    SourceReport,
    StagedReport,
)
from backfill_assets.lakehouse.plans import planners
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.limits import Limits
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Ahead, Plan, PlannedStep, PlanRequest, PlanTerms, Scope
from backfill_assets.plan.waves import Shares
from backfill_assets.publish.outbox import due_notices
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import FLAGGED, Person, RunInfo, adopted_line
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import HeldBack, StepBuilt
from backfill_assets.report.answer import plain
from backfill_assets.settings import ApprovalRule, Settings
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.played_lake import no_spark

pytestmark = pytest.mark.protocol
MADE = datetime(2017, 6, 1, tzinfo=UTC)
FIRST, BAD, LAST = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
FACT = PlannedStep(
    tables=("fact_daily_revenue",), version="v1", rebuild={Cause.CODE_CHANGED: ("2017-03-01..2017-03-03",)}
)
ANA, BELA = (Person(name, "OS user, uid 1000") for name in ("ana", "bela"))
PLAN = Plan(asked=PlanRequest(target="fact_daily_revenue", days=f"{FIRST}..{LAST}"), steps=(FACT,), made_at=MADE)


@pytest.fixture
def at(tmp_path: Path) -> CampaignRun:
    """A campaign that was never started; a core hour has no price."""
    return run_of(tmp_path, PLAN)


def run_of(home: Path, plan: Plan) -> CampaignRun:
    return CampaignRun(Builder.from_settings(Settings.at(home), CATALOG, no_spark), plan, RunInfo("r"), print)


def test_money_cannot_be_limited_without_a_price(at: CampaignRun) -> None:
    """It would never be exceeded."""
    with pytest.raises(InvalidRequest, match="the price of a core hour is not set"):
        decisions.start(at, Options(limits=Limits.parse("money=5")))
    assert not at.state.started
    at.price_per_core_second = Decimal("0.0001")
    decisions.start(at, Options(limits=Limits.parse("money=5")))
    assert at.state.started


def test_a_plan_of_fresh_days_is_not_begun(tmp_path: Path) -> None:
    """It could never be approved, and would be under way for ever."""
    fresh = PLAN.steps[0].model_copy(update={"rebuild": {}})
    at = run_of(tmp_path, PLAN.model_copy(update={"steps": (fresh,)}))
    with pytest.raises(InvalidRequest, match="has nothing to rebuild: every day of it is fresh"):
        decisions.start(at, Options())
    assert not at.state.started


def test_a_wave_of_newest_days_has_the_rates_that_they_look_back_to(tmp_path: Path) -> None:
    """Only if the plan says so: others keep to the days of the wave."""
    rates, facts = (
        PlannedStep(tables=(name,), version="", rebuild={Cause.ASKED_FOR: (f"{FIRST}..{LAST}",)})
        for name in ("bronze_fx_rates", "fact_sales_transactions")
    )
    ahead = Ahead(step=facts.name, table=rates.name, days=(f"{FIRST}..{BAD}",))
    plain = PLAN.model_copy(update={"steps": (rates, facts)})
    at, newest = run_of(tmp_path, plain), run_of(tmp_path, plain.model_copy(update={"ahead": (ahead,)}))
    assert at.days_of_wave(at.waves[0]) == {rates.name: (LAST,), facts.name: (LAST,)}
    assert newest.days_of_wave(at.waves[0]) == {rates.name: (FIRST, BAD, LAST), facts.name: (LAST,)}


def test_each_entry_of_the_journal_is_read_once(at: CampaignRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked how far the campaign is; what another process writes is seen."""
    decisions.start(at, Options())
    assert at.state.started
    storage, read = at.builder.lake.storage, []

    def counted(self: Storage, path: str) -> bytes:
        read.append(path)
        return whole(self, path)

    whole = type(storage).read_bytes
    monkeypatch.setattr(type(storage), "read_bytes", counted)
    assert not at.next().waits and at.options == Options() and read == []
    journal.write(storage, at.campaign, JournalEntry(kind="stopped", at=MADE))
    assert at.next().reason.startswith("it was stopped") and at.state.stopped
    assert len(read) == 1


def _judged(monkeypatch: pytest.MonkeyPatch, passed: Mapping[str, Mapping[date, bool]]) -> None:
    """What the campaign has staged: did each day pass?"""
    found = {
        TableDay(table, day): GateVerdict(input_fingerprint="i", passed=is_good)
        for table, days in passed.items()
        for day, is_good in days.items()
    }
    monkeypatch.setattr(campaign_days_of_log, "newest_verdicts", lambda *_: found)


def test_tables_that_are_built_together_are_held_back_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate of `bronze_sales` keeps the day of `quarantine_sales` too, before and after the cut-over."""
    tables = ("bronze_sales", "quarantine_sales")
    step = PlannedStep(tables=tables, version="v1", rebuild={Cause.INPUT: (f"{FIRST}..{BAD}",)})
    plan = Plan(asked=PlanRequest(target="bronze_sales", days=f"{FIRST}..{BAD}"), steps=(step,), made_at=MADE)
    at = run_of(tmp_path, plan)
    _judged(monkeypatch, {"bronze_sales": {FIRST: True, BAD: False}, "quarantine_sales": {FIRST: True, BAD: True}})
    decisions.start(at, Options())
    found = campaign_days(at.builder.lake.storage, plan)
    assert [(each.table, each.staged, each.held_back) for each in found] == [
        (name, (FIRST,), (BAD,)) for name in tables
    ]
    record_step(at, CampaignStep.SHADOW, StagedReport(held_back_days={"bronze_sales": (f"{BAD}",)}))
    published = dict.fromkeys(tables, (f"{FIRST}",))
    record_step(at, CampaignStep.CUT_OVER, CutOverReport(publication="p", days=published))
    found = campaign_days(at.builder.lake.storage, plan)
    assert [(each.published, each.held_back, each.unchanged) for each in found] == [((FIRST,), (BAD,), ())] * 2


def test_a_stop_by_too_many_bad_days_names_the_first_and_why(at: CampaignRun) -> None:
    """In the error, in the journal for good, and among the days of the campaign: it says what to fix."""
    gate = RuleOutcome("few_rejected", "validity", passed=False, observed="9 of 10 rows", expected="at most 2")
    waits = HeldBack("fact_daily_revenue", FIRST, because_of="fact_sales_transactions 2017-03-01")
    step = CATALOG.step("fact_daily_revenue")
    build = StepBuild(at.builder.lake, StepRequest(step, ()), RunInfo("r"), print)
    done = [StepBuilt(build, (), (), (), (waits, HeldBack("fact_daily_revenue", BAD, rules=(gate,))))]
    decisions.start(at, Options())
    with pytest.raises(CampaignStopped, match=r"may\. The first: fact_daily_revenue 2017-03-02: few_rejected: 9"):
        require_within_limits(at, CampaignStep.SHADOW, done, "wave 1: ")
    assert at.state.stopped is not None and at.entries()[-1].reported(StagedReport).held_back[-1].endswith(
        "few_rejected: 9 of 10 rows, expected at most 2"
    )
    (found,) = campaign_days(at.builder.lake.storage, PLAN)
    assert found.held_back == (FIRST, BAD)


@pytest.mark.parametrize(("held_back", "stops"), [(0, False), (1, False), (2, True)])
def test_a_wave_is_stopped_within_it_as_soon_as_the_rest_of_it_cannot_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_back: int, stops: bool
) -> None:
    """After its first chunk: of 12 days at most a tenth may be held back, however few are tried by then."""
    days = f"{FIRST}..2017-03-12"
    step = FACT.model_copy(update={"rebuild": {Cause.CODE_CHANGED: (days,)}})
    at = run_of(tmp_path, PLAN.model_copy(update={"steps": (step,)}))
    gate = RuleOutcome("few_rejected", "validity", passed=False, observed="9 of 10 rows", expected="at most 2")
    held = tuple(HeldBack("fact_daily_revenue", date(2017, 3, n + 1), rules=(gate,)) for n in range(held_back))
    build = StepBuild(at.builder.lake, StepRequest(CATALOG.step("fact_daily_revenue"), ()), RunInfo("r"), print)
    built = [StepBuilt(build, (), (), (date(2017, 3, 12),), held)]

    def one_chunk(*given: Any) -> list[StepBuilt]:
        given[-1](built)
        return built

    monkeypatch.setattr(module, "shadow", one_chunk)
    decisions.start(at, Options(Shares.parse("100%")))
    with pytest.raises(CampaignStopped, match="wave 100 percent: 2 of 12 days") if stops else nullcontext():
        stage_wave(at, 0)
    told = due_notices(at.builder.lake.publisher)
    assert [(each.notice.severity, each.notice.dataset) for each in told] == [("critical", "sales")] * stops
    assert at.next().waits is stops


@pytest.mark.parametrize(
    ("terms", "command"),
    [
        (PlanTerms(), "backfill plan bronze_sales --days 2017-03-01 --version v1 --scope whole --expect TEXT."),
        (PlanTerms(title="from a file"), "Change what is expected in the file of the plan, and plan again: "),
    ],
)
def test_the_advice_to_plan_again_is_the_same_request(tmp_path: Path, terms: PlanTerms, command: str) -> None:
    """With the scope of the plan, and without what was not met; a file has its waves, limits and approvers."""
    unmet = (Expectation.parse("amount_eur < 0.001%"),)
    asked = PlanRequest(
        target="bronze_sales", days=f"{FIRST}", version="v1", scope=Scope.WHOLE, terms=terms, expectations=unmet
    )
    plan = Plan(asked=asked, steps=(FACT,), made_at=MADE)
    at = run_of(tmp_path, plan)
    assert command in plan_again(at.plan)


def test_plans_go_by_the_campaigns_that_were_carried_on_last(at: CampaignRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few journals are read, however many there are."""
    storage = at.builder.lake.storage
    for number in range(4):
        journal.write(storage, f"campaign-{number}", JournalEntry(kind="started", at=MADE, by=str(number)))
        os.utime(storage.uri(f"_campaigns/campaign-{number}/000000.json"), (number, number))
    assert [entries[0].by for entries in journal.newest(storage, 2)] == ["3", "2"]
    assert journal.newest(Storage(str(Path(storage.root) / "none")), 2) == []


def _told() -> ComparedReport:
    held = [HeldBack("fact_daily_revenue", BAD, error="a gate")]
    return ComparedReport(held_back=(f"fact_daily_revenue {BAD}: a gate",), held_back_days=held_back_days(held))


def test_who_approves_is_recorded_with_how_that_is_known(at: CampaignRun) -> None:
    """A run without a known person is recorded as before: by what launched it."""
    decisions.start(at, Options())
    record_step(at, CampaignStep.VALIDATE, ComparedReport(fingerprint="f"))
    assert approved_by(at.state) == ""
    at.run = RunInfo("r", launched_by="manual run")
    decisions.approve(at)
    assert approved_by(at.state) == "manual run"
    at.run = RunInfo("r", launched_by="ana: backfill approve", person=ANA)
    decisions.approve(at)
    assert approved_by(at.state) == "manual run, ana (OS user, uid 1000)"
    assert at.entries()[-1].report.as_json() == {"fingerprint": "f", "who": "ana", "known by": "OS user, uid 1000"}


def test_the_rule_of_two_people_holds_for_every_run_of_a_campaign(at: CampaignRun) -> None:
    """Commands and Dagster's runs ask the same; a run without a person approves nothing then."""
    at.approval_by = ApprovalRule.ANOTHER_PERSON
    planners(at.builder.lake.storage).create(PLAN.id, ByPerson(who=ANA.name, known_by=ANA.known_by))
    at.run = RunInfo("r", launched_by="bela", person=BELA)
    decisions.start(at, Options())
    record_step(at, CampaignStep.VALIDATE, ComparedReport(fingerprint="f"))
    for run in (at.run, RunInfo("r", person=ANA), RunInfo("r", launched_by="manual run")):
        at.run = run
        with pytest.raises(InvalidRequest, match=f"{PLAN.id} cannot be approved by"):
            decisions.approve(at)
    assert at.state.approved is None
    at.run = RunInfo("r", person=Person("chen", "tag user of the Dagster run"))
    decisions.approve(at)
    assert approved_by(at.state) == "chen (tag user of the Dagster run)"


def test_a_campaign_is_started_with_the_waves_and_limits_of_its_plan(at: CampaignRun) -> None:
    """Also by code that has its options from elsewhere."""
    terms = PlanTerms(waves="50%,100%", limits="deviation=2%")
    at.plan = PLAN.model_copy(update={"asked": PLAN.asked.model_copy(update={"terms": terms})})
    for options in (Options(), Options(Shares.parse("50%,100%")), Options(limits=Limits.parse("deviation=2%"))):
        with pytest.raises(InvalidRequest, match="of its own"):
            decisions.start(at, options)
    assert not at.state.started
    decisions.start(at, Options.of_plan(at.plan, daemon=True))
    assert (str(at.options.shares), at.options.limits.deviation, at.options.daemon) == (
        "50%,100%",
        Decimal("0.02"),
        True,
    )


def test_the_days_of_a_campaign_are_staged_held_back_published_unchanged_or_left(
    at: CampaignRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None before it is started. A day that passed before it was held back is not staged: each is in one place. Once
    all are staged, what is neither staged nor held back is unchanged. All is forgotten when it begins again."""
    storage, table = at.builder.lake.storage, "fact_daily_revenue"

    def days() -> dict[str, tuple[date, ...]]:
        (found,) = campaign_days(storage, PLAN)
        kinds = ("staged", "held_back", "published", "unchanged", "left")
        return {kind: getattr(found, kind) for kind in kinds if getattr(found, kind)}

    assert campaign_days(storage, PLAN) == []
    decisions.start(at, Options())
    assert days() == {"left": (FIRST, BAD, LAST)}
    at.write(JournalEntry(kind="wave", wave=0, report=_told(), at=MADE))
    assert days() == {"held_back": (BAD,), "left": (FIRST, LAST)}
    with monkeypatch.context() as patch:
        _judged(patch, {table: {FIRST: True, BAD: True, LAST: False}})
        assert days() == {"staged": (FIRST,), "held_back": (BAD, LAST)}
    record_step(at, CampaignStep.SHADOW, _told())
    assert days() == {"unchanged": (FIRST, LAST), "held_back": (BAD,)}
    record_step(at, CampaignStep.VALIDATE, _told())
    with pytest.raises(InvalidRequest, match=f"held back: {table} {BAD}: a gate") as refused:
        decisions.approve(at)
    assert "--without-held-back" in str(refused.value.hint) and at.state.approved is None
    decisions.approve(at, without_held_back=True)
    assert at.options.without_held_back
    record_step(at, CampaignStep.CUT_OVER, CutOverReport(publication="p", days={table: (f"{FIRST}",)}))
    assert days() == {"published": (FIRST,), "unchanged": (LAST,), "held_back": (BAD,)}
    assert plain(campaign_table(campaign_days(storage, PLAN)).rows)[0][5] == [f"{LAST}"]
    at.write(JournalEntry(kind="rolled back", at=MADE))
    assert days()["left"] == (FIRST, LAST)
    decisions.start(at, Options())
    assert days() == {"left": (FIRST, BAD, LAST)}


@pytest.mark.usefixtures("time")
def test_each_step_records_what_it_took_in_its_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By a clock that only goes forward, with the start of Spark apart, of which the first who needs it waits; a try
    that was stopped counts as well, and waves are reported once, with the step that goes through all days."""

    def slow() -> Any:
        clock.sleep(4)

    builder = Builder.from_settings(Settings.at(tmp_path), CATALOG, slow)
    at = CampaignRun(builder, PLAN, RunInfo("r"), print)
    decisions.start(at, Options())
    at.timer.begin()
    clock.sleep(3)
    with pytest.raises(CampaignStopped):
        raise record_stop(at, CampaignStep.VERIFY_SOURCE, "an input is damaged")
    decisions.start(at, Options())
    at.timer.begin()
    at.builder.lake.spark()
    clock.sleep(8)
    record_step(at, CampaignStep.VERIFY_SOURCE, SourceReport())
    record_step(at, CampaignStep.PIN, PinnedReport())
    assert [each.spent and (each.spent.seconds, each.spent.spark_start) for each in at.entries()] == [
        None,
        (3, 0),
        None,
        (12, 4),
        None,
    ], "the last one did not begin in this process"
    output = capsys.readouterr().out
    assert "source verified: spent 11 s\n" in output and "watermarks" not in output
    for number in (0, 1):
        at.timer.begin()
        clock.sleep(4)
        judge_wave(at, number, [])
    assert "spent" not in capsys.readouterr().out
    at.timer.begin()
    clock.sleep(1)
    record_step(at, CampaignStep.SHADOW, StagedReport())
    assert capsys.readouterr().out.splitlines() == ["shadow backfilled: spent 9.0 s"]


def test_what_a_campaign_has_staged_itself_is_no_news(at: CampaignRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Each wave stages those before it once more; what another process has staged is said, and a cut month once."""
    adopted = adopted_line("fact_daily_revenue", 3)
    cut = f"report_monthly_close is cut: 14 of 31 days. {FLAGGED}"
    for line in (adopted, cut):
        say_news(at, line)
    build = StepBuild(at.builder.lake, StepRequest(CATALOG.step("fact_daily_revenue"), ()), RunInfo("r"), print)
    at.staged.steps = [StepBuilt(build, (), (), (), ())]
    for line in (adopted, cut, "fact_daily_revenue: 1/1 days staged", "fact_daily_revenue: 1/1 days staged"):
        say_news(at, line)
    assert capsys.readouterr().out.splitlines() == [adopted, cut, *["fact_daily_revenue: 1/1 days staged"] * 2]
