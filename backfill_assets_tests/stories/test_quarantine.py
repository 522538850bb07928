"""Dead letters: rejected rows are listed by reason, judged again once the contract is fixed, and none is lost."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.rejected_sales import (
    AMOUNT,
    CHAIN,
    DAYS,
    DISCOUNT,
    FIRST,
    QUANTITY,
    SECOND,
    mend_contract,
)
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop


@pytest.fixture
def backfill(rejected: Workshop, type_on: TypeOn) -> Backfill:
    return type_on(rejected)


def publications(rejected: Workshop) -> dict[tuple[str, object], str]:
    return {(table, day): state.publication for table in CHAIN for day, state in rejected.states(table).items()}


def test_reasons_are_listed_by_their_general_form(backfill: Backfill, rejected: Workshop) -> None:
    """The value is not in the reason, or every line would be a reason of its own; an example has it. No Spark."""
    told = backfill.json("raw", "quarantine", "quarantine_sales")["reasons"]
    assert {group["reason"]: group["rows"] for group in told} == {QUANTITY: 2, DISCOUNT: 2, AMOUNT: 1}
    quantity = next(group for group in told if group["reason"] == QUANTITY)
    assert quantity["days"] == ["2017-03-01..2017-03-02"]
    assert quantity["first_example"] == "quantity: 'many' is not a bigint"
    assert quantity["at"] == {"file": "sales/2017-03-01/bad.jsonl.gz", "line": 2}
    output = backfill("raw", "quarantine").output
    assert "sales/2017-03-01/bad.jsonl.gz:1" in output and AMOUNT in output
    rows = backfill.json("raw", "quarantine", "quarantine_sales", FIRST)["rows"]
    (row,) = (each for each in rows if each["at"] == quantity["at"])
    assert row["reasons"] == [
        "quantity: 'many' is not a bigint",
        "retail_disc: not greater than or equal to 0 (was -2.00)",
    ]
    assert row["landed"]["basket_id"] == "2" and "household_id" not in row["landed"]
    assert "bad.jsonl.gz:1" in backfill("raw", "quarantine", "bronze_sales", FIRST).output
    assert rejected.sessions == 0


def test_a_line_is_resolved_once_a_corrected_version_is_accepted(backfill: Backfill, rejected: Workshop) -> None:
    """The old line stays where it is; no one has to look at it again."""
    assert {group["resolved"] for group in backfill.json("raw", "quarantine")["reasons"]} == {0}
    corrected = sale(basket_id="3", sales_value="9.99", updated_at="2017-03-02T08:00:00Z")
    land(rejected.settings.landing, "sales", str(SECOND), "corrected", [corrected])
    rejected.build("raw_sales", [SECOND])
    rejected.build("bronze_sales", DAYS)
    told = backfill.json("raw", "quarantine")["reasons"]
    assert {group["reason"]: group["resolved"] for group in told} == {QUANTITY: 0, DISCOUNT: 0, AMOUNT: 1}


def test_rows_that_are_still_bad_are_left_alone(backfill: Backfill, rejected: Workshop) -> None:
    """Nothing is built; the message says what is wrong with them and what a person does."""
    before = publications(rejected)
    result = backfill("raw", "quarantine", "--replay", exit_code=1)
    assert "None of 4 quarantined rows would be accepted; nothing was built." in result.stderr
    assert all(reason in result.stderr for reason in (QUANTITY, DISCOUNT, AMOUNT))
    assert "new version" in result.stderr and "new file" in result.stderr
    told = backfill.json("raw", "quarantine", "--replay", exit_code=1)
    assert (told["freed"], told["still_bad"], told["built"]) == (0, 4, [])
    dry = backfill.json("raw", "quarantine", "--replay", "--dry-run")
    assert (dry["freed"], dry["still_bad"], dry["built"]) == (0, 4, [])
    assert publications(rejected) == before


def test_a_replay_rebuilds_exactly_the_days_that_it_frees_rows_of(
    backfill: Backfill, rejected: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The freed row is published down the chain; the other day is not touched, and everything adds up."""
    mend_contract(monkeypatch)
    before = publications(rejected)
    dry = backfill.json("raw", "quarantine", "quarantine_sales", "--replay", "--dry-run")
    assert (dry["freed"], dry["still_bad"], dry["built"]) == (1, 3, [])
    assert {
        (each["day"], reason["reason"]): (reason["freed"], reason["still_bad"])
        for each in dry["judged"]
        for reason in each["of_which"]
    } == {
        (str(FIRST), DISCOUNT): (1, 0),
        (str(FIRST), QUANTITY): (0, 1),
        (str(FIRST), AMOUNT): (0, 1),
        (str(SECOND), QUANTITY): (0, 1),
    }, "a row with a second fault stays, for the fault that it still has"
    assert publications(rejected) == before
    told = backfill.json("raw", "quarantine", "--replay")
    week = {"report_store_ranking": "2017-02-27"}
    expected = {table: [week.get(table, str(FIRST))] for table in CHAIN[1:]}
    assert {built["step"]: built["days"] for built in told["built"]} == expected
    after = publications(rejected)
    assert {key for key in after if after[key] != before[key]} == {
        (table, date.fromisoformat(day)) for table, (day,) in expected.items()
    }
    facts = rejected.read("fact_sales_transactions")
    assert "1-1095275" in facts["transaction_id"].tolist() and len(facts) == 17
    assert sorted(rejected.read("quarantine_sales")["basket_id"].tolist()) == ["2", "3", "4"]
    assert len(rejected.read("raw_sales")) == 17 + 3
    again = backfill("raw", "quarantine", "--replay", exit_code=1)
    assert "None of 3 quarantined rows" in again.stderr


def test_gates_decide_about_freed_rows_as_about_any(
    backfill: Backfill, rejected: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contract that was fixed in one place only: the next table holds its day back, and says why."""
    mend_contract(monkeypatch, facts=False)
    before = publications(rejected)
    result = backfill("raw", "quarantine", "--replay", exit_code=1)
    assert "fact_sales_transactions 2017-03-01 contract_holds" in result.stderr
    after = publications(rejected)
    assert {key for key in after if after[key] != before[key]} == {("bronze_sales", FIRST)}


def test_a_range_without_rejected_rows_has_nothing_to_replay(backfill: Backfill, rejected: Workshop) -> None:
    """No Spark for nothing, and a wrong name gets the right one."""
    assert (
        "Nothing is quarantined on"
        in backfill("raw", "quarantine", "quarantine_sales", "2017-03-09", "--replay").output
    )
    assert backfill.json("raw", "quarantine", "quarantine_fx_rates", "--replay")["judged"] == []
    assert "Nothing is quarantined" in backfill("raw", "quarantine", "quarantine_fx_rates").output
    assert rejected.sessions == 0
    for words in ((), (FIRST,), ("--replay",)):
        mistyped = backfill("raw", "quarantine", "quarantine_sale", *words, exit_code=1)
        assert "Did you mean quarantine_sales?" in mistyped.stderr
    refused = backfill("raw", "quarantine", "fact_daily_revenue", "--replay", exit_code=1)
    assert "fact_daily_revenue has no quarantine" in refused.stderr and "quarantine_sales" in refused.stderr
