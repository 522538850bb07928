"""What a plan says: its steps, its cost, what it reads, what fits, and what follows; of a file also whether it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from backfill_assets.answers.plan import headline, plan_answer, plan_file_answer, plan_files_answer
from backfill_assets.campaign.plan_file import CheckedPlanFile
from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import PartitionPosition
from backfill_assets.plan.basis import MovedTable, PlanDrift
from backfill_assets.plan.code_change import CodeChange
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import (
    Cost,
    Estimate,
    Lookback,
    Pinned,
    Plan,
    PlanFinding,
    PlannedBoundary,
    PlannedStep,
    PlanRequest,
    PlanTerms,
    Recommended,
    Scope,
    SourceFiles,
    Span,
)
from backfill_assets.report.answer import Line, Tone, shown
from backfill_assets.report.markdown import markdown
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.plan.world import D

NOW = datetime(2017, 4, 10, 12, tzinfo=UTC)
ABOUT = Span(median=125.0, low=100.0, high=130.0, samples=3)
FACT = PlannedStep(
    tables=("fact",),
    version="v2",
    rebuild={Cause.CODE_CHANGED: ("2017-03-08",)},
    skipped=("2017-03-09..2017-03-10",),
    estimate=Estimate(rows_read=1_200, bytes_read=2_048, rows_written=1_000, bytes_written=512, time=ABOUT),
)
WEEKLY = PlannedStep(
    tables=("weekly",),
    version="v2",
    cadence=Cadence.WEEKLY,
    rebuild={Cause.INPUT_REBUILT: ("2017-03-06",)},
    estimate=Estimate(rows_read=None, bytes_read=None),
)
FRESH = PlannedStep(tables=("daily",), version="v2", skipped=("2017-03-08",))


def _plan(
    *steps: PlannedStep,
    scope: Scope = Scope.ONWARDS,
    version: str = "",
    asked: Mapping[str, object] | None = None,
    **more: object,
) -> Plan:
    question = PlanRequest(target="fact", days=str(D), version=version, scope=scope).model_copy(update=asked or {})
    return Plan(asked=question, steps=steps, made_at=NOW, **more)  # type: ignore[arg-type]


def _told(plan: Plan, moved: PlanDrift | None = None) -> dict[str, Any]:
    return plan_answer(plan, NOW, moved).as_json()


def _notes(plan: Plan) -> list[str]:
    return [each["text"] for each in _told(plan).get("notes", ())]


def test_a_headline_counts_days_periods_and_steps_that_are_rebuilt() -> None:
    """Skipped days and steps that only skip are not counted."""
    assert headline(_plan(FACT, FRESH)) == "Rebuild fact 2017-03-08, and what is computed from it: 1 day in 1 table."
    assert headline(_plan(FACT, FACT, WEEKLY, FRESH, version="v1", scope=Scope.WHOLE)) == (
        "Rebuild fact 2017-03-08 by v1, all that it is computed from, and all that is computed from it: 1 day and 1"
        " week in 3 tables."
    )
    years = FACT.model_copy(update={"rebuild": {Cause.MISSING: ("2014-01-01..2016-12-31",)}})
    assert headline(_plan(years, scope=Scope.DOWNSTREAM)).endswith(
        "only what is computed from it: 1,096 days in 1 table."
    )
    monthly = WEEKLY.model_copy(update={"cadence": Cadence.MONTHLY, "rebuild": {Cause.MISSING: ("2017-03-01",)}})
    assert headline(_plan(FACT, WEEKLY, monthly)).endswith(": 1 day, 1 week and 1 month in 3 tables.")


CHANGED = CodeChange(table="fact", before="v1", after="v2", diff="--- a\n+++ b\n@@ -1 +1 @@\n-one\n+two")


def test_a_terminal_begins_with_five_lines() -> None:
    """What and how many days, why, at what cost, in which code, at what risk; then what comes next."""
    warns = PlanFinding(kind="x", severity="warns", message="The input is stale.", next_step="Rebuild it.")
    cost = Cost(time=ABOUT, price_per_core_hour=Decimal(1))
    brief = plan_answer(_plan(FACT, cost=cost, code=(CHANGED,), findings=(warns, warns)), NOW).brief
    assert brief is not None
    assert {name: shown(value) for name, value in brief.facts().items()} == {
        "why": "code changed: fact",
        "cost": "0.0347 for about 0:02:05 (100 s to 0:02:10) on 1 core",
        "code": "fact: v1 becomes v2, 1 line added and 1 removed.",
        "risk": "The input is stale. And 1 more warning. You can undo it for 30 days.",
    }
    plan = _plan(FACT)
    assert [part.text for part in brief.parts if isinstance(part, Line)][-1].endswith("--long")
    assert plan_answer(plan, NOW).brief.next == (f"backfill run {plan.id}",)  # type: ignore[union-attr]


def test_what_stops_a_plan_is_said_at_once_with_what_to_do() -> None:
    stops = PlanFinding(kind="x", severity="stops", message="A day is missing.", next_step="Land it.")
    brief = plan_answer(_plan(FACT, findings=(stops,)), NOW).brief
    assert brief is not None and brief.next == () and "risk" not in brief.facts()
    assert Line("stops: A day is missing.", Tone.BAD, "Land it.") in brief.parts


def test_the_code_is_beside_the_numbers_and_no_part_of_the_id() -> None:
    """In JSON, in Markdown; a plan from before has none."""
    plan = _plan(FACT, code=(CHANGED,))
    assert plan.id == _plan(FACT).id and Plan.from_json(plan.to_json(), id=plan.id).code == (CHANGED,)
    assert _told(plan)["code"]["fact_v1_v2"] == CHANGED.diff and "code" not in _told(_plan(FACT))
    assert f"**fact: v1 becomes v2**\n\n```diff\n{CHANGED.diff}\n```" in markdown(plan_answer(plan, NOW))


@pytest.mark.parametrize("steps", [(), (FRESH,)], ids=["no step", "all skipped"])
def test_a_plan_of_nothing_to_do_costs_nothing_and_has_no_next(steps: Sequence[PlannedStep]) -> None:
    """With the version that was asked for."""
    found = _told(_plan(*steps, version="v1", cost=Cost(time=ABOUT)))
    assert found["title"] == "fact 2017-03-08 by v1: nothing to rebuild, every day is fresh."
    assert "computing_the_days" not in found and "next" not in found


def test_a_step_has_its_reasons_and_volumes() -> None:
    """Nothing to go by is not 0, and 0 is not unknown; a step that is skipped has none."""
    none_yet = FACT.model_copy(update={"estimate": Estimate(rows_written=0, bytes_written=0)})
    fact, weekly, fresh, new = _told(_plan(FACT, WEEKLY, FRESH, none_yet))["steps"]
    assert fact == {
        "table": ["fact"],
        "to_rebuild": 1,
        "why": {"code changed": ["2017-03-08"]},
        "skipped": ["2017-03-09..2017-03-10"],
        "rows_read": 1_200,
        "read": 2_048,
        "rows_written": 1_000,
        "written": 512,
        "time": {"median": 125.0, "low": 100.0, "high": 130.0, "samples": 3},
    }
    volumes = ("rows_read", "read", "rows_written", "written", "time")
    assert [weekly[name] for name in volumes] == ["unknown", None, "unknown", None, None]
    assert [fresh[name] for name in volumes] == [None] * 5
    assert [new[name] for name in volumes] == [0, 0, 0, 0, None]


@pytest.mark.parametrize(
    ("version", "may_go", "files"),
    [
        (None, NOW, "never published"),
        (0, None, "all in main"),
        (7, NOW + timedelta(days=2), "may go in 2 days"),
        (7, NOW + timedelta(days=2, seconds=-1), "may go in 1 day"),
        (7, NOW, "may go in 0 days"),
        (7, NOW - timedelta(seconds=1), "may be gone"),
    ],
)
def test_a_pinned_table_says_how_long_its_files_are_kept(
    version: int | None, may_go: datetime | None, files: str
) -> None:
    """In whole days that are left."""
    pinned = Pinned(table="rates", version=version, days=("2017-03-06..2017-03-08",), files_may_go=may_go)
    (row,) = _told(_plan(FACT, pinned=(pinned,)))["reads"]
    assert row == {"table": "rates", "version": version, "days": ["2017-03-06..2017-03-08"], "files": files}


def test_days_of_a_pinned_table_that_were_never_published_are_not_in_main() -> None:
    """Where all of them are, its files do not matter."""
    days = ("2017-03-06..2017-03-08",)
    some = Pinned(table="rates", version=7, days=days, absent=("2017-03-08",))
    going = some.model_copy(update={"files_may_go": NOW + timedelta(days=2)})
    every = Pinned(table="rates", version=7, days=days, absent=days)
    assert [row["files"] for row in _told(_plan(FACT, pinned=(some, going, every)))["reads"]] == [
        "all in main; never published: 2017-03-08",
        "may go in 2 days; never published: 2017-03-08",
        "never published: 2017-03-06..2017-03-08",
    ]


@pytest.mark.parametrize(
    ("first", "last", "days", "absent", "line"),
    [
        (-2, 0, ("2017-03-06..2017-03-08",), (), "up to 2 days back: reads 2017-03-06..2017-03-08"),
        (-3, -1, ("2017-03-05",), (), "3 to 1 days back: reads 2017-03-05"),
        (-2, 0, (), ("2017-03-06..2017-03-08",), "up to 2 days back: reads nothing; not there: 2017-03-06..2017-03-08"),
    ],
)
def test_a_look_back_says_how_far_and_what_it_finds(
    first: int, last: int, days: tuple[str, ...], absent: tuple[str, ...], line: str
) -> None:
    """Up to the day itself, or to a day before it."""
    back = Lookback(step="fact", table="rates", first=first, last=last, days=days, absent=absent)
    assert f"fact looks for rates {line}" in _notes(_plan(FACT, as_of=(back,)))


def test_a_stream_is_named_up_to_where_it_was_read() -> None:
    """A row for each partition; a plan without a stream has no such table."""
    positions = (PartitionPosition(topic="orders", partition=0, next_offset=1_234, live_since=1_000),)
    boundary = PlannedBoundary(
        tables=("raw_sales",), days=(str(D),), raw="raw_sales", versions=(12,), positions=positions
    )
    plan = _plan(FACT, boundaries=(boundary,))
    (row,) = _told(plan)["boundaries"]
    assert (row["table"], row["versions"], row["next_offset"]) == (["raw_sales"], [12], 1_234)
    assert any("stay where they are" in each for each in _notes(plan)) and "boundaries" not in _told(_plan(FACT))


def test_files_that_their_source_has_changed_are_counted_by_arrival_day() -> None:
    raw = PlannedStep(tables=("raw",), version="", source_files={D: SourceFiles(changed=1, gone=2)})
    (row,) = _told(_plan(raw))["source_files"]
    assert row == {"table": "raw", "arrival_day": "2017-03-08", "changed": 1, "gone": 2, "new": 0}


def test_the_cost_has_time_cores_and_price() -> None:
    """A plan without a price says how to set one."""
    price = _plan(FACT, cost=Cost(time=ABOUT, cores=2, price_per_core_hour=Decimal("0.5")))
    assert _told(price)["computing_the_days"] == {
        "takes": ABOUT.model_dump(),
        "cores": 2,
        "core seconds": 250,
        "costs": "0.0347",
    }
    assert "Set BACKFILL_CORE_HOUR_PRICE to have a cost." not in _notes(price)
    assert "Set BACKFILL_CORE_HOUR_PRICE to have a cost." in _notes(_plan(FACT, cost=Cost(time=ABOUT)))


def test_steps_that_were_never_timed_are_named_beside_the_cost_of_the_others() -> None:
    """If none was timed, there is no cost; steps that are skipped need none."""
    some = _plan(FACT, WEEKLY, cost=Cost(time=ABOUT, unknown=("weekly",)))
    assert _told(some)["computing_the_days"]["takes"]["median"] == 125.0
    assert "Its time is unknown: no earlier publication of weekly was timed." in _notes(some)
    none = _plan(FACT, WEEKLY, FRESH, cost=Cost(unknown=("fact", "weekly")))
    assert _told(none)["computing_the_days"] == {"takes": None, "cores": 1}


def test_the_time_of_a_campaign_is_split_by_step() -> None:
    """What is not known is unknown."""
    plan = _plan(FACT, times={"source_verified": ABOUT, "validated": None})
    assert [(row["step"], row["estimated"]) for row in _told(plan)["times"]] == [
        ("source verified", ABOUT.model_dump()),
        ("validated", None),
        ("together", None),
    ]
    assert "times" not in _told(_plan(FACT))


def test_no_change_recommends_no_scope() -> None:
    assert _told(_plan(FACT))["scope_that_fits"].startswith("Nothing has changed")


def test_another_scope_comes_with_its_option_and_that_of_the_plan_without() -> None:
    """The option has the scope's own name."""
    for fits in Scope:
        recommended = Recommended(scope=fits, because="raw is missing on 2017-03-08")
        for asked in Scope:
            answer = plan_answer(_plan(FACT, scope=asked, recommended=recommended), NOW)
            shown = markdown(answer)
            assert (f"`--scope {fits.value}`" in shown) == (fits is not asked)
            assert "raw is missing on 2017-03-08" in shown


def test_what_is_expected_and_how_long_it_can_be_undone_are_of_the_plan() -> None:
    expected = tuple(map(Expectation.parse, ("rows unchanged", "revenue_eur<2% a day")))
    found = _told(_plan(FACT, asked={"expectations": expected}, rollback_window_days=14))
    assert (found["expected"], found["can_be_undone_for"]) == (["rows unchanged", "revenue_eur < 2% a day"], "14 days")


def test_a_plan_is_followed_by_the_command_that_carries_it_out() -> None:
    """One that is stopped has none, and one that has moved is made again."""
    plan = _plan(FACT)
    assert _told(plan)["next"] == _told(plan, PlanDrift())["next"] == [f"backfill run {plan.id}"]
    assert _told(plan)["plan"] == plan.id and "moved" not in _told(plan) and _told(plan, PlanDrift())["moved"] == []
    moved = _told(plan, PlanDrift((MovedTable("rates", "reads", (D,), 4, 5),), ("fact: other code",)))
    assert moved["next"] == ["backfill plan fact --days 2017-03-08"]
    assert moved["moved"] == ["rates: 1 day that the plan reads moved: 2017-03-08 (version 4 -> 5)", "fact: other code"]
    finding = PlanFinding(kind="k", severity="stops", message="A | in a message.", next_step="Look there.")
    stopped = _plan(FACT, findings=(finding,))
    assert _told(stopped)["stopped"] and "next" not in _told(stopped)
    assert {"text": "stops: A | in a message.", "tone": "bad", "do": "Look there."} in _told(stopped)["notes"]


def test_the_command_of_a_plan_asks_for_the_same_again() -> None:
    """Version, scope and expectations are of the request; a plan from a file is asked for by its file."""
    asked = PlanRequest(target="fact", days="2017-03-08", version="v1", scope=Scope.DOWNSTREAM, force=True)
    found = Plan(asked=asked, steps=(FACT,), made_at=NOW)
    options = "--days 2017-03-08 --version v1 --scope downstream --force"
    assert found.command() == f"backfill plan fact {options}"
    assert found.command("rows unchanged") == f"backfill plan fact {options} --expect 'rows unchanged'"
    terms = PlanTerms(reason="the rate")
    from_file = found.model_copy(update={"asked": found.asked.model_copy(update={"terms": terms})})
    assert from_file.command("rows unchanged") == "backfill plan -f FILE"
    of_timeline = Plan(asked=asked.model_copy(update={"leaves": ("2017-03-09",)}), steps=(FACT,), made_at=NOW)
    assert of_timeline.command("rows unchanged") == "backfill timeline publish TIMELINE --expect 'rows unchanged'"


# ------------------------------------------------------------------ a plan file

WRONG = InvalidRequest("There is no key 'taget'.", hint="Did you mean target?")
TERMS = PlanTerms(title="Rates", waves="100%", limits="money=5", approvers=("ana", "bela"), notices=("managers",))


def test_a_file_has_its_verdict_first_and_the_terms_of_its_plan() -> None:
    """For a comment on a pull request."""
    plan = _plan(FACT, asked={"terms": TERMS})
    answer = plan_file_answer(CheckedPlanFile("backfills/2017_fx.yaml", plan, NOW))
    assert markdown(answer).startswith("## backfills/2017_fx.yaml may be carried out.\n")
    found = answer.as_json()
    assert (found["valid"], found["may_be_carried_out"], found["plan"]["plan"]) == (True, True, plan.id)
    told = {name: found["plan"][name] for name in ("title", "waves", "limits", "approvers", "notices_for")}
    assert told == {
        "title": "Rates",
        "waves": "100%",
        "limits": "money=5",
        "approvers": ["ana", "bela"],
        "notices_for": ["managers"],
    }


def test_what_is_wrong_with_a_file_comes_with_what_to_do() -> None:
    """A finding of the plan is said with the plan, once."""
    found = plan_file_answer(CheckedPlanFile("x.yaml", problems=(WRONG,), valid=False))
    assert found.title == "x.yaml is not a valid plan file." and not found.facts()["valid"]
    note = {"text": "x.yaml: There is no key 'taget'.", "tone": "bad", "do": "Did you mean target?"}
    assert found.as_json()["notes"] == [note]
    stops = PlanFinding(kind="k", severity="stops", message="It is late.", next_step="")
    of_plan = CheckedPlanFile("x.yaml", _plan(FACT, findings=(stops,)), NOW, (InvalidRequest("It is late."),))
    assert plan_file_answer(of_plan).title == "x.yaml may not be carried out."
    assert markdown(plan_file_answer(of_plan)).count("It is late.") == 1


def test_a_folder_has_a_line_with_its_plan_and_a_section_for_each_file() -> None:
    good, bad = CheckedPlanFile("a.yaml", _plan(FACT), NOW), CheckedPlanFile("b.yaml", problems=(WRONG,), valid=False)
    found, plan = plan_files_answer([good, bad]).as_json(), _plan(FACT).id
    lines = [tuple(row.values()) for row in found["files"]]
    assert lines == [("a.yaml", True, True, plan), ("b.yaml", False, False, None)]
    assert found["a.yaml"]["plan"]["plan"] == plan and not found["b.yaml"]["valid"]
