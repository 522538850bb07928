"""A checked file for a terminal, a pull request and programs."""

from __future__ import annotations

from datetime import UTC, datetime

from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlanRequest, PlanTerms
from backfill_assets.plan_file.read import FileProblem
from backfill_assets.plan_file.text import file_json, file_markdown, problem_lines, verdict

NOW = datetime(2017, 6, 1, tzinfo=UTC)
PLAN = Plan(
    asked=PlanRequest(target="fact", days="2017-03-01"),
    steps=(),
    expectations=(Expectation.parse("rows unchanged"),),
    terms=PlanTerms(title="Rates", waves="100%", limits="money=5", approvers=("ana", "bela"), notices=("managers",)),
    made_at=NOW,
)
WRONG = FileProblem("There is no key 'taget'.", "Did you mean target?", 4)


def test_the_verdict_is_one_of_three() -> None:
    assert verdict(valid=True, problems=()) == "may be carried out"
    assert verdict(valid=True, problems=[WRONG]) == "may not be carried out"
    assert verdict(valid=False, problems=[WRONG]) == "is no valid plan file"


def test_a_comment_on_a_pull_request_has_the_verdict_first_and_the_terms_of_the_plan() -> None:
    page = file_markdown("backfills/2017_fx.yaml", PLAN, NOW, (), valid=True)
    assert page.startswith("# backfills/2017_fx.yaml\n\n**It may be carried out.**\n\n## plan-")
    for line in (
        "Expected: rows unchanged",
        "Rates",
        "Staged in waves: 100%",
        "Stops beyond: money=5",
        "To be approved by 1 of ana, bela",
        "Notices are for: managers",
    ):
        assert f"- {line}\n" in page
    refused = file_markdown("x.yaml", None, None, [WRONG], valid=False)
    assert refused == (
        "# x.yaml\n\n**It is no valid plan file.**\n\n- line 4: There is no key 'taget'. Did you mean target?\n"
    )


def test_programs_get_the_verdict_the_problems_and_the_plan() -> None:
    found = file_json("x.yaml", PLAN, (), valid=True)
    assert (found["valid"], found["may_be_carried_out"], found["problems"]) == (True, True, [])
    assert (found["plan"]["id"], found["plan"]["terms"]["approvers"]) == (PLAN.id, ["ana", "bela"])
    refused = file_json("x.yaml", None, [WRONG], valid=False)
    assert (refused["may_be_carried_out"], refused["plan"]) == (False, None)
    assert refused["problems"] == [
        {"line": 4, "message": "There is no key 'taget'.", "next_step": "Did you mean target?"}
    ]


def test_a_problem_without_a_line_is_the_sentence_alone() -> None:
    assert problem_lines([FileProblem("It is late.")]) == ["It is late."]
