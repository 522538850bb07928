"""Published tables against what pandas makes of the packages' files: every line, every sum, to the cent."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pandas as pd

from backfill_assets.days import DayRange
from backfill_assets_tests import oracle
from backfill_assets_tests.workshop import Workshop

_LINE = ["transaction_id", "day", "store_id", "quantity", "cents", "amount"]


def assert_published(workshop: Workshop, lines: pd.DataFrame, days: DayRange | None = None) -> None:
    """Fact, daily revenue and the three reports are those of ``lines``, and of no others.

    Of ``days`` only, if they are given: a range that begins with a week and with a month.
    """
    if days is not None:
        assert days.first.day == days.first.isoweekday() == 1
        lines = lines[lines["day"].isin(set(days))]

    def read(table: str) -> pd.DataFrame:
        return workshop.read(table, days)

    pd.testing.assert_frame_equal(_facts(read("fact_sales_transactions")), _expected_facts(lines))
    assert _sums_by(read("fact_daily_revenue"), "store_id", int) == oracle.daily_revenue(lines)
    assert _sums_by(read("report_department_revenue"), "department", str) == oracle.department_revenue(lines)
    assert _ranking(read("report_store_ranking")) == oracle.store_ranking(lines)
    assert _close(read("report_monthly_close")) == oracle.monthly_close(lines)


def _facts(found: pd.DataFrame) -> pd.DataFrame:
    whole = {
        "store_id": [int(store) for store in found["store_id"].tolist()],
        "cents": [int(value.scaleb(2)) for value in found["sales_value"].tolist()],
        "amount": [int(value.scaleb(4)) for value in found["amount_eur"].tolist()],
    }
    plain = {name: found[name].tolist() for name in ("transaction_id", "day", "quantity")}
    return _in_order(pd.DataFrame(plain | whole))


def _expected_facts(lines: pd.DataFrame) -> pd.DataFrame:
    return _in_order(pd.DataFrame({name: lines[name].tolist() for name in _LINE}))


def _in_order(lines: pd.DataFrame) -> pd.DataFrame:
    return lines[_LINE].sort_values(["transaction_id", "day"], ignore_index=True)


def _sums_by(rows: pd.DataFrame, column: str, kind: type) -> dict[tuple[date, Any], oracle.Sums]:
    keys = zip(rows["day"].tolist(), map(kind, rows[column].tolist()), strict=True)
    return dict(zip(keys, _sums(rows), strict=True))


def _sums(rows: pd.DataFrame) -> list[oracle.Sums]:
    columns = (rows[name].tolist() for name in ("revenue_eur", "lines", "baskets", "quantity"))
    return [oracle.Sums(*found) for found in zip(*columns, strict=True)]


def _ranking(rows: pd.DataFrame) -> dict[tuple[date, int], tuple[int, oracle.Sums]]:
    found = _sums_by(rows, "store_id", int)
    return {key: (rank, sums) for (key, sums), rank in zip(found.items(), rows["rank"].tolist(), strict=True)}


def _close(rows: pd.DataFrame) -> dict[date, tuple[Decimal, int, oracle.Sums]]:
    columns = zip(rows["revenue"].tolist(), rows["stores"].tolist(), _sums(rows), strict=True)
    return dict(zip(rows["day"].tolist(), columns, strict=True))
