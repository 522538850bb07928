"""Where a number comes from: one key from its landed line to every report that counts it, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.rejected_sales import DAYS, FIRST, REPORTS, SECOND, on, periods
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop


@pytest.fixture
def backfill(rejected: Workshop, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    return Backfill(rejected.settings.home, monkeypatch)


def sound_row(rejected: Workshop) -> dict[str, Any]:
    facts = rejected.read("fact_sales_transactions")
    row = facts[facts["day"] == FIRST].sort_values("transaction_id").iloc[0].to_dict()
    return {str(name): value for name, value in row.items()}


def trail(backfill: Backfill, key: str, *options: object) -> dict[str, Any]:
    found = backfill.json("trace", key, *options)
    assert isinstance(found, dict)
    return found


def test_a_sound_row_is_followed_to_every_report(backfill: Backfill, rejected: Workshop) -> None:
    """By the declaration: the week and the month it is in, and the department that is looked up for it."""
    row = sound_row(rejected)
    found = trail(backfill, row["transaction_id"])
    by_table = {each["table"]: each for each in found["rows"]}
    assert list(by_table) == ["raw_sales", "bronze_sales", "fact_sales_transactions", *REPORTS]
    assert by_table["report_store_ranking"]["period"] == "2017-02-27..2017-03-05"
    assert by_table["report_monthly_close"]["period"] == "2017-03-01..2017-03-31"
    assert by_table["report_store_ranking"]["row"]["store_id"] == row["store_id"]
    assert by_table["report_monthly_close"]["row"]["currency"] == row["currency"]
    products = rejected.read("bronze_products")
    expected = products[products["product_id"] == row["product_id"]]["department"].tolist()
    assert [by_table["report_department_revenue"]["row"]["department"]] == (expected or ["UNKNOWN"])
    for table, each in by_table.items():
        state = rejected.states(table)[periods(table)[0]]
        assert (each["publication"], each["run"]) == (state.publication, "test-run")
        assert each["code"] == (state.content.code_version if state.content else None)
    assert rejected.sessions == 0


def test_the_landed_line_is_shown_without_what_is_personal(backfill: Backfill, rejected: Workshop) -> None:
    """The token stands where the household was; raw has nothing else either."""
    row = sound_row(rejected)
    (landed,) = trail(backfill, row["transaction_id"])["landed"]
    assert landed["outcome"] == "published"
    assert row["household_token"] in landed["text"] and f'"basket_id": "{row["basket_id"]}"' in landed["text"]
    output = backfill("trace", row["transaction_id"]).output
    at = landed["at"]
    assert f"{at['file']}:{at['line']}\t{FIRST}\tpublished" in output and row["household_token"] in output
    (rejected.settings.landing / at["file"]).unlink()
    assert "no longer in the landing zone" in backfill("trace", row["transaction_id"]).output


def test_a_rejected_row_ends_in_quarantine(backfill: Backfill) -> None:
    """With every reason, and no row downstream."""
    found = trail(backfill, "2-1095275")
    assert {each["table"] for each in found["rows"]} == {"raw_sales", "quarantine_sales"}
    (landed,) = found["landed"]
    assert (landed["outcome"], landed["at"]["line"]) == ("quarantined", 2)
    assert "quantity: 'many' is not a bigint; retail_disc" in landed["why"]
    assert '"900"' not in landed["text"]


def test_versions_are_deduplicated_superseded_or_not_built_yet(backfill: Backfill, rejected: Workshop) -> None:
    """Every line of a key has one fate; what supersedes it is on the day that it names."""
    landing = rejected.settings.landing
    like = {name: sound_row(rejected)[name] for name in ("store_id", "currency")}
    first = sale(basket_id="9", updated_at="2017-03-01T12:00:00Z", **like)
    land(landing, "sales", str(FIRST), "nine", [first, {**first, "updated_at": "2017-03-01T11:00:00Z"}])
    land(landing, "sales", str(SECOND), "nine-moved", [on(SECOND, basket_id="9", **like)])
    rejected.build("raw_sales", DAYS)
    assert {each["outcome"] for each in trail(backfill, "9-1095275")["landed"]} == {"not built yet"}
    for table in ("bronze_sales", "fact_sales_transactions"):
        rejected.build(table, DAYS)
    found = trail(backfill, "9-1095275")
    assert [(each["day"], each["outcome"]) for each in found["landed"]] == [
        (str(FIRST), "superseded"),
        (str(FIRST), "deduplicated"),
        (str(SECOND), "published"),
    ]
    assert [each["why"] for each in found["landed"]][:2] == [
        "a newer version belongs to 2017-03-02",
        "sales/2017-03-01/nine.jsonl.gz:1 stands for it",
    ]
    status = {each["table"]: each["status"] for each in found["rows"]}
    assert status["fact_sales_transactions"] == "fresh"
    assert status["report_monthly_close"] == "stale: input changed", "it does not count the row yet"
    facts = [each["day"] for each in found["rows"] if each["table"] == "fact_sales_transactions"]
    assert facts == [str(SECOND)]
    only = trail(backfill, "9-1095275", FIRST)
    assert {each["day"] for each in only["rows"] if each["layer"] != "report"} == {str(FIRST)}


def test_keys_of_other_datasets(backfill: Backfill) -> None:
    """A rate is known by its currency and a day; a product by its number."""
    found = trail(backfill, "USD", "bronze_fx_rates", FIRST)
    assert [each["table"] for each in found["rows"]] == ["raw_fx_rates", "bronze_fx_rates"]
    found = trail(backfill, "25671", "bronze_products")
    assert {each["table"] for each in found["rows"]} == {"raw_products", "bronze_products"}


def test_what_cannot_be_traced_says_why(backfill: Backfill) -> None:
    """An unknown key, a table whose rows are sums, a typo, a lakehouse with nothing in it."""
    unknown = backfill("trace", "no-such-key", exit_code=1).stderr
    assert "No row has the key 'no-such-key'" in unknown and "transaction_id of bronze_sales" in unknown
    assert "made of many rows" in backfill("trace", "330", "fact_daily_revenue", exit_code=1).stderr
    assert "Did you mean bronze_sales?" in backfill("trace", "1", "bronze_sale", exit_code=1).stderr
    elsewhere = backfill.home / "nowhere"
    assert "No row has the key" in backfill("--lakehouse", elsewhere, "trace", "1-2", exit_code=1).stderr
    assert not elsewhere.exists()
