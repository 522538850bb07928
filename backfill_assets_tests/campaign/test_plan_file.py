"""What a plan file may say becomes a request and terms; all that it may not is found at once, with its line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from backfill_assets.campaign.plan_file import InvalidPlanFile, PlanFile, PlanFileLimits, read_plan_file
from backfill_assets.errors import InvalidRequest
from backfill_assets.limits import Limits
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import PlanRequest, PlanTerms, Scope

FACT = "fact_sales_transactions"
WHOLE = f"""\
title: Rates
reason: >
  v1 took the rate
  of the day before.
target: {FACT}
days: 2017-03-01..2017-05-29
version: v2
scope: downstream
force: true
expectations: ["amount_eur  <  2 % a day", weekends unchanged]
waves: [5%, 100%]
limits:
  deviation: 2.0%
  seconds: 3600
  gates: none
approvers: [bela, ana@example.com]
approvals: 2
notices:
  - store-managers
newest_first: true
where: store_id in (3, 7)
"""


def read(tmp_path: Path, text: str) -> PlanFile:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return read_plan_file(path)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InvalidPlanFile) as refused:
        read(tmp_path, text)
    assert isinstance(refused.value, InvalidRequest)
    return str(refused.value).replace(f"{tmp_path}/", "").splitlines()


def test_a_file_is_a_request_and_its_terms(tmp_path: Path) -> None:
    """Every key there is."""
    found = read(tmp_path, WHOLE)
    assert found.request == PlanRequest(
        target=FACT,
        days="2017-03-01..2017-05-29",
        version="v2",
        scope=Scope.DOWNSTREAM,
        force=True,
        where="store_id in (3, 7)",
        newest_first=True,
        expectations=tuple(map(Expectation.parse, ("amount_eur < 2% a day", "weekends unchanged"))),
        terms=PlanTerms(
            title="Rates",
            reason="v1 took the rate of the day before.",
            waves="5%,100%",
            limits="errors=5%,gates=none,nulls=1%,deviation=2%,seconds=3600,money=none",
            approvers=("ana@example.com", "bela"),
            approvals=2,
            notices=("store-managers",),
        ),
    )
    assert {line.partition(":")[0] for line in WHOLE.splitlines() if not line.startswith(" ")} == (
        PlanFile.model_fields.keys()
    )


def test_the_least_that_a_file_says_is_what_the_command_line_says(tmp_path: Path) -> None:
    """Everything else has the defaults of `backfill plan` and `backfill run`."""
    found = read(tmp_path, f"target: {FACT}\ndays: 2017-03-04\n")
    assert found.request == PlanRequest(target=FACT, days="2017-03-04")
    limited = read(tmp_path, f"target: {FACT}\ndays: 2017-03-04\nlimits: {{deviation: 10%}}").request
    assert limited.terms.limits == str(Limits())


def test_every_limit_can_be_given() -> None:
    assert list(PlanFileLimits.model_fields) == [field.name for field in fields(Limits)]


def test_all_problems_are_found_at_once(tmp_path: Path) -> None:
    """In the order of the file, each with its place and line in it, and what to do."""
    text = WHOLE.replace(f"target: {FACT}", "taget: facts").replace("days: 2017-03-01..", "days: 2017-06-01..")
    text = text.replace("  gates: none", "  gate: none").replace("approvals: 2", "approvals: none")
    assert problems(tmp_path, text) == [
        "plan.yaml: target: Field required",
        "plan.yaml: taget (line 5): There is no such key",
        "  -> Did you mean target?",
        "plan.yaml: days (line 6): The day range 2017-06-01..2017-05-29 ends before it starts.",
        "  -> Did you mean 2017-05-29..2017-06-01?",
        "plan.yaml: limits.gate (line 15): There is no such key",
        "  -> Did you mean gates?",
        "plan.yaml: approvals (line 17): Input should be a valid integer, unable to parse string as an integer",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("scope: everything", ": scope (line 3): Input should be 'source"),
        ("force: maybe", ": force (line 3): Input should be a valid boolean"),
        ("expectations: weekends unchanged", ": expectations (line 3): Input should be a valid tuple"),
        (
            "expectations:\n  - weekends unchanged\n  - all good",
            ": expectations.1 (line 5): 'all good' is no expectation.",
        ),
        ("waves: 5%,100%", ": waves (line 3): Input should be a valid tuple"),
        ("waves: [5%, 50%]", ": waves (line 3): The waves '5%,50%' do not ascend to 100%."),
        ("waves: [5]", ": waves.0 (line 3): String should match pattern"),
        ("limits: {deviation: 2}", ": limits.deviation (line 3): String should match pattern"),
        ("limits: {errors: '5%,gates=100%'}", ": limits.errors (line 3): String should match pattern"),
        ("limits: {seconds: 5%}", ": limits.seconds (line 3): String should match pattern"),
        ("limits: 2%", ": limits (line 3): Input should be"),
        ("approvers: ana", ": approvers (line 3): Input should be a valid tuple"),
        ("approvers: [ana and bela]", ": approvers.0 (line 3): String should match pattern"),
        ("approvers: [ana, ana]\napprovals: 2", ": approvals: 2 approvals cannot come from 1 approver."),
        ("approvals: 0", ": approvals (line 3): Input should be greater than or equal to 1"),
        ("title: [a]", ": title (line 3): Input should be a valid string"),
        ("notices: ['https://chat.example.com/hooks/secret']", ": notices.0 (line 3): An address is no recipient:"),
        ("days: 2017-03-05", ": It is not YAML: 'days' is there twice (line 3)."),
        ("limits: {gates: 1%, gates: 2%}", ": It is not YAML: 'gates' is there twice (line 3)."),
    ],
)
def test_what_a_value_may_not_be(tmp_path: Path, line: str, message: str) -> None:
    """A URL is not repeated: it may hold a secret."""
    found = problems(tmp_path, f"target: {FACT}\ndays: 2017-03-04\n{line}\n")
    assert found[0].startswith(f"plan.yaml{message}") and "secret." not in found[0].replace("a secret.", "")


def test_every_value_is_text_until_its_key_takes_something_else(tmp_path: Path) -> None:
    """YAML would make a truth value, a number and a null of these."""
    text = f"target: {FACT}\ndays: 2017-03-04\ntitle: no\nversion: 010\nreason: null\nnotices: [1.50]\n"
    found = read(tmp_path, text)
    assert (found.title, found.version, found.reason, found.notices) == ("no", "010", "null", ("1.50",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", ": Input should be a valid dictionary"),
        ("", ": target: Field required"),
        ("? [a, b]\n: c\n", ": It is not YAML: found unhashable key (line 1)."),
        ("a: 1\nb: [1, 2\n", ": It is not YAML: expected ',' or ']', but got '<stream end>' (line 3)."),
        ("a: 1\n---\nb: 2\n", ": It is not YAML: but found another document (line 2)."),
        ("a: \x07\n", ": It is not YAML: "),
        ("b: " + "[" * 400 + "]" * 400, ": It is not YAML: maximum recursion depth exceeded"),
    ],
)
def test_what_is_no_plan_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert problems(tmp_path, text)[0].startswith(f"plan.yaml{message}")


def test_no_object_is_made_of_a_tag(tmp_path: Path) -> None:
    assert read(tmp_path, f"target: {FACT}\ndays: 2017-03-04\ntitle: !!python/name:os.system x\n").title == "x"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"title: \xe9\n")
    with pytest.raises(InvalidPlanFile, match=r"latin\.yaml: The file cannot be read: it is no text in UTF-8\."):
        read_plan_file(tmp_path / "latin.yaml")
    with pytest.raises(InvalidPlanFile, match=r"gone\.yaml: The file cannot be read: No such file"):
        read_plan_file(tmp_path / "gone.yaml")
