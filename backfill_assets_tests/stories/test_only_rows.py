"""Only rows of some shops are rebuilt: all others are carried over, and the day says what it is made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.days import DayRange
from backfill_assets.rebuild.only_rows import OnlyRows
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.death import Died
from backfill_assets_tests.stories.staged_campaign import (
    DAYS,
    FACT,
    PERIODS,
    changed,
    checksums,
    files,
    land_late,
)
from backfill_assets_tests.stories.staged_campaign import LATE_DAY as DAY
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

REVISED = Decimal("3.000000")
DAY_BEFORE = date(2017, 3, 6)


def amounts(workshop: Workshop) -> dict[tuple[str, str, str], Decimal]:
    rows = workshop.read(FACT, DayRange.of(DAY))
    key = zip(rows["store_id"], rows["currency"], rows["transaction_id"], strict=True)
    return dict(zip(key, rows["amount_eur"], strict=True))


def made_of(workshop: Workshop) -> str:
    """What the day says that its rows were computed from."""
    content = workshop.states(FACT)[DAY].content
    assert content is not None
    return content.inputs


def revise_rate(workshop: Workshop, currency: str) -> None:
    """The rate that the old logic takes for the day is corrected at the end."""
    row = {
        "currency": currency,
        "rate_day": str(DAY_BEFORE),
        "rate": str(REVISED),
        "updated_at": f"{DAYS.last}T15:00:00Z",
    }
    land(workshop.settings.landing, "fx_rates", str(DAYS.last), "revised", [row])
    for table in ("raw_fx_rates", "bronze_fx_rates"):
        workshop.build(table, DAYS)


def of_two_stores(before: Mapping[tuple[str, str, str], Decimal]) -> tuple[str, str]:
    """A shop and a currency of which other shops have lines, too."""
    for store, currency, _ in before:
        if currency != "EUR" and any(other != store and each == currency for other, each, _ in before):
            return store, currency
    raise AssertionError("No currency is used in two shops.")


def test_rows_of_one_shop_are_rebuilt_after_a_kill_undone_and_built_whole(
    wrong: Workshop, backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, sums, old, made = amounts(wrong), checksums(wrong), files(wrong, FACT), made_of(wrong)
    store, currency = of_two_stores(before)
    revise_rate(wrong, currency)

    plan = backfill.json("plan", FACT, "--days", DAY, "--where", f"store_id in ({store})")

    assert f"Only rows with store_id = '{store}'" in str(plan) and "Whole, since" in str(plan)
    again = backfill.json("plan", FACT, "--days", DAY, "--where", f"store_id = '{store}'", "--version", "v1")
    assert again["plan"] == plan["plan"]

    with monkeypatch.context() as dying:
        dying.setattr(OnlyRows, "require_others_equal", _die)
        with pytest.raises(Died):
            backfill("run", plan["plan"], "--limits", "deviation=none")
    assert checksums(wrong) == sums
    backfill("run", plan["plan"], "--limits", "deviation=none")
    approved = backfill.json("approve", plan["plan"], "--yes")

    after = amounts(wrong)
    own = {key for key in before if key[:2] == (store, currency)}
    assert own and {key for key in before if before[key] != after[key]} == own
    assert after.keys() == before.keys()
    assert changed(sums, checksums(wrong)) == {table: {day} for table, day in PERIODS.items()}
    state = wrong.states(FACT)[DAY]
    assert (state.publication, state.origin.only_where) == (approved["publication"], f"store_id = '{store}'")
    assert made_of(wrong) == made, "the other rows are of the old rate"
    assert f"store_id = '{store}'" in backfill("show", FACT, DAY).output
    assert f"store_id = '{store}'" in backfill("history", FACT, "--days", DAY).output
    differs = backfill("diff", approved["publication"], "recomputed", exit_code=4)
    assert "carried over" in differs.output

    sessions = wrong.sessions
    undone = backfill.json("rollback", plan["plan"], "--yes")
    assert (amounts(wrong), checksums(wrong), wrong.sessions) == (before, sums, sessions)
    backfill("rollback", undone["publication"], "--yes")
    assert (amounts(wrong), wrong.sessions) == (after, sessions)
    assert wrong.states(FACT)[DAY].origin.only_where
    assert set(old) <= set(files(wrong, FACT)), "files are only added"

    land_late(wrong, built=("raw_sales", "bronze_sales"))
    backfill("run", FACT, "--days", DAY, "--version", "v1")
    whole = amounts(wrong)
    assert len(whole) == len(before) + 1 and wrong.states(FACT)[DAY].origin.only_where == ""
    assert made_of(wrong) != made
    backfill("rollback", plan["plan"], "--yes")
    assert amounts(wrong) == whole, "the late row stays, and all rows are of the rate that there is"


def _die(*_: object) -> None:
    raise Died
