"""What a plan file may say becomes a request and terms; all that it may not is found at once, with its line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from backfill_assets.campaign.breaker import Limits
from backfill_assets.errors import InvalidRequest
from backfill_assets.plan.records import NO_TERMS, PlanRequest, PlanTerms, Scope
from backfill_assets.plan_file.declared import PlanFile, PlanFileLimits
from backfill_assets.plan_file.read import InvalidPlanFile, read_plan_file

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
"""


def read(tmp_path: Path, text: str) -> PlanFile:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return read_plan_file(path, "plan.yaml")


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InvalidPlanFile) as refused:
        read(tmp_path, text)
    assert isinstance(refused.value, InvalidRequest)
    return str(refused.value).splitlines()


def test_a_file_is_a_request_and_its_terms(tmp_path: Path) -> None:
    """Every key there is."""
    found = read(tmp_path, WHOLE)
    assert found.request == PlanRequest(
        target=FACT, days="2017-03-01..2017-05-29", version="v2", scope=Scope.DOWNSTREAM, force=True
    )
    assert found.expectations == ("amount_eur < 2% a day", "weekends unchanged")
    assert found.terms == PlanTerms(
        title="Rates",
        reason="v1 took the rate of the day before.",
        waves="5%,100%",
        limits="errors=5%,gates=none,nulls=1%,deviation=2%,seconds=3600,money=none",
        approvers=("ana@example.com", "bela"),
        approvals=2,
        notices=("store-managers",),
    )
    assert {line.partition(":")[0] for line in WHOLE.splitlines() if not line.startswith(" ")} == (
        PlanFile.model_fields.keys() - {"versions"}
    )


def test_the_least_that_a_file_says_is_what_the_command_line_says(tmp_path: Path) -> None:
    """Everything else has the defaults of `backfill plan` and `backfill run`."""
    found = read(tmp_path, f"target: {FACT}\ndays: 2017-03-04\n")
    assert found.request == PlanRequest(target=FACT, days="2017-03-04") and found.terms == NO_TERMS
    assert read(tmp_path, f"target: {FACT}\ndays: 2017-03-04\nlimits: {{deviation: 10%}}").terms.limits == str(Limits())


def test_every_limit_can_be_given() -> None:
    assert list(PlanFileLimits.model_fields) == [field.name for field in fields(Limits)]


def test_versions_are_those_of_the_target(tmp_path: Path) -> None:
    text = f"target: {FACT}\ndays: 2017-03-04\n"
    assert read(tmp_path, f"{text}versions: {{{FACT}: v1}}").request.version == "v1"
    assert problems(tmp_path, f"{text}versions:\n  {FACT}: v1\n  fact_daily_revenue: v1\n") == [
        "plan.yaml:3: versions: A plan chooses the version of its target, not of fact_daily_revenue.",
        "  -> Leave it out: other tables are built by their current version.",
    ]
    assert problems(tmp_path, f"{text}version: v1\nversions: {{{FACT}: v1}}")[0] == (
        "plan.yaml:4: versions: The version is there twice."
    )


def test_all_problems_are_found_at_once(tmp_path: Path) -> None:
    """In the order of the file, each with its line, what it is, and what to do."""
    text = WHOLE.replace(f"target: {FACT}", "taget: facts").replace("days: 2017-03-01..", "days: 2017-06-01..")
    text = text.replace("  gates: none", "  gate: none").replace("approvals: 2", "approvals: none")
    assert problems(tmp_path, text) == [
        "plan.yaml: The key target is missing.",
        "  -> Add a line `target: ...`.",
        "plan.yaml:5: There is no key 'taget'.",
        "  -> Did you mean target?",
        "plan.yaml:6: days: The day range 2017-06-01..2017-05-29 ends before it starts.",
        "  -> Did you mean 2017-05-29..2017-06-01?",
        "plan.yaml:15: There is no key 'gate'.",
        "  -> Did you mean gates?",
        "plan.yaml:17: approvals: 'none' is no number of approvals.",
        "  -> Write a whole number from 1 to 9.",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("scope: everything", "scope: 'everything' is no scope."),
        ("force: yes", "force: 'yes' is neither true nor false."),
        ("expectations: weekends unchanged", "expectations takes a list."),
        ("expectations: [weekends unchanged, all good]", "expectations 2: 'all good' is no expectation."),
        ("waves: 5%,100%", "waves takes a list."),
        ("waves: [5%, 50%]", "waves: The waves '5%,50%' do not ascend to 100%."),
        ("waves: [5]", "waves: The wave '5' is no share of the days."),
        ("limits: {deviation: 2}", "limits deviation: The limit deviation is '2'."),
        ("limits: {errors: '5%,gates=100%'}", "limits errors: '5%,gates=100%' is more than one limit."),
        ("limits: {seconds: 5%}", "limits seconds: The limit seconds is '5%'."),
        ("limits: 2%", "limits takes lines of `name: value`."),
        ("limits: {deviation: [2%]}", "limits deviation takes one value."),
        ("approvers: ana", "approvers takes a list."),
        ("approvers: [ana, ana]", "approvers: 'ana' is there twice."),
        ("approvers: [ana and bela]", "approvers 1: 'ana and bela' is no name of a user."),
        ("approvers: [ana]\napprovals: 2", "approvals: 2 approvals cannot come from 1 approver."),
        ("approvals: 0", "approvals: '0' is no number of approvals."),
        ("approvals: [1]", "approvals takes one value."),
        ("force: {a: b}", "force takes one value."),
        ("scope: [a]", "scope takes one value."),
        ("versions: v2", "versions takes lines of `name: value`."),
        ("title: [a]", "title takes one value."),
        ("notices: ['https://chat.example.com/hooks/secret']", "notices 1: An address is no recipient:"),
    ],
)
def test_what_a_value_may_not_be(tmp_path: Path, line: str, message: str) -> None:
    """A URL is not repeated: it may hold a secret."""
    found = problems(tmp_path, f"target: {FACT}\ndays: 2017-03-04\n{line}\n")
    number = 3 + line.count("\n")
    assert found[0].startswith(f"plan.yaml:{number}: {message}") and "secret." not in found[0].replace("a secret.", "")


def test_a_table_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    assert problems(tmp_path, "days: 2017-03-04\ntarget: fact_sale_transactions\n") == [
        "plan.yaml:2: There is no table 'fact_sale_transactions'.",
        f"  -> Did you mean {FACT}?",
    ]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert problems(tmp_path, "a: [")[0].startswith("plan.yaml:1: It is not YAML")
    (tmp_path / "latin.yaml").write_bytes(b"title: \xe9\n")
    with pytest.raises(InvalidPlanFile, match=r"latin\.yaml: The file cannot be read: it is no text in UTF-8\."):
        read_plan_file(tmp_path / "latin.yaml")
    with pytest.raises(InvalidPlanFile, match=r"gone\.yaml: The file cannot be read: No such file"):
        read_plan_file(tmp_path / "gone.yaml")
