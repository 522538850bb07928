"""The checks that an engineer would write beside ``tables.py``: each is a query that finds what is wrong.

They ask what this project's rules ask of the same tables: counts, sums, keys, contracts, exchange rates, and whether
the content of each row is still what was hashed when it was received. ``{raw}``, ``{bronze}``, ``{quarantine}``,
``{fact}`` and ``{revenue}`` stand for the tables, ``{days}`` for a condition on ``day``.
"""

from __future__ import annotations

from collections.abc import Mapping


def _by_day(table: str, sums: str) -> str:
    return f"SELECT day, {sums} FROM {table} WHERE {{days}} GROUP BY day"  # noqa: S608 our own words


def _unequal(one: str, other: str, *names: str) -> str:
    """Days on which two queries by day differ in one of ``names``."""
    equal = " AND ".join(f"one.{name} <=> other.{name}" for name in names)
    both = f"({one}) AS one FULL OUTER JOIN ({other}) AS other ON one.day = other.day"
    return f"SELECT one.day FROM {both} WHERE NOT ({equal})"  # noqa: S608 our own words


def _doubled(table: str, *key: str) -> str:
    columns = ", ".join(("day", *key))
    return f"SELECT {columns} FROM {table} WHERE {{days}} GROUP BY {columns} HAVING count(*) > 1"  # noqa: S608


def _wrong(table: str, *conditions: str) -> str:
    """Rows that do not fulfil one of ``conditions``; null fulfils none."""
    sound = " AND ".join(f"coalesce({condition}, false)" for condition in conditions)
    return f"SELECT day FROM {table} WHERE {{days}} AND NOT ({sound})"  # noqa: S608


_LINE = (
    "length(transaction_id) > 0",
    "household_token RLIKE '^[0-9a-f]{{64}}$'",
    *(f"length({name}) > 0" for name in ("store_id", "basket_id", "product_id")),
    "quantity >= 0",
    "sales_value BETWEEN 0 AND 100000000",
    *(f"{name} >= 0" for name in ("retail_disc", "coupon_disc", "coupon_match_disc")),
    "transaction_timestamp IS NOT NULL",
    "currency RLIKE '^[A-Z]{{3}}$'",
    "updated_at IS NOT NULL",
)
_RECEIVED = "count(*) AS lines, sum(CAST(content_hash AS decimal(20, 0))) AS hashes"
_RAW = f"SELECT day, {_RECEIVED} FROM {{raw}} WHERE {{days}} AND arrival_day IS NOT NULL GROUP BY day"  # noqa: S608
_ACCOUNTED = """
SELECT day, sum(lines) AS lines, sum(hashes) AS hashes FROM (
  SELECT day, 1 + deduplicated_rows AS lines, CAST(content_hash AS decimal(38, 0)) + deduplicated_hash AS hashes
  FROM {bronze} WHERE {days}
  UNION ALL SELECT day, 1 AS lines, CAST(content_hash AS decimal(38, 0)) AS hashes FROM {quarantine} WHERE {days}
) AS parts GROUP BY day
"""
_TEXTS = {
    **{name: name for name in ("household_token", "store_id", "basket_id", "product_id")},
    **{name: f"CAST({name} AS string)" for name in ("quantity", "sales_value", "retail_disc", "coupon_disc")},
    "coupon_match_disc": "CAST(coupon_match_disc AS string)",
    "transaction_timestamp": "CAST(unix_micros(transaction_timestamp) AS string)",
    "currency": "currency",
    "updated_at": "CAST(unix_micros(updated_at) AS string)",
}
_NAMED = ", ".join(f"concat('{name}=', {text})" for name, text in _TEXTS.items())
_CONTENT = f"xxhash64({_NAMED})"
_LATE = "sum(CASE WHEN datediff(arrival_day, day) > 7 THEN 1 ELSE 0 END)"
_OF_LINES = "count(*) AS lines, sum(quantity) AS quantity, sum(sales_value) AS sales_value"
_OF_FACT = "count(*) AS lines, sum(quantity) AS quantity, sum(amount_eur) AS revenue_eur"
_OF_REVENUE = "sum(lines) AS lines, sum(quantity) AS quantity, sum(revenue_eur) AS revenue_eur"

CHECKS: Mapping[str, Mapping[str, str]] = {
    "bronze_sales": {
        "keys": _doubled("{bronze}", "transaction_id"),
        "contract": _wrong("{bronze}", *_LINE),
        "content": _wrong("{bronze}", f"content_hash = {_CONTENT}"),
        "late": f"{_by_day('{bronze}', 'count(*) AS lines')} HAVING {_LATE} > greatest(20, count(*) * 0.05)",
    },
    "quarantine_sales": {
        "counts": _unequal(_RAW, _ACCOUNTED, "lines"),
        "sums": _unequal(_RAW, _ACCOUNTED, "hashes"),
        "share": f"""
            SELECT received.day FROM ({_RAW}) AS received
            JOIN ({_by_day("{quarantine}", "count(*) AS lines")}) AS rejected ON received.day = rejected.day
            WHERE rejected.lines > greatest(20, received.lines * 0.01)
        """,  # noqa: S608 our own words
        "keys": _doubled("{quarantine}", "source_file", "source_line"),
    },
    "fact_sales_transactions": {
        "counts": _unequal(_by_day("{fact}", _OF_LINES), _by_day("{bronze}", _OF_LINES), "lines"),
        "sums": _unequal(_by_day("{fact}", _OF_LINES), _by_day("{bronze}", _OF_LINES), "quantity", "sales_value"),
        "content": _unequal(
            _by_day("{fact}", f"sum(CAST({_CONTENT} AS decimal(20, 0))) AS hashes"),
            _by_day("{bronze}", "sum(CAST(content_hash AS decimal(20, 0))) AS hashes"),
            "hashes",
        ),
        "keys": _doubled("{fact}", "transaction_id"),
        "contract": _wrong("{fact}", *_LINE, "rate > 0", "amount_eur >= 0"),
        "rates": _wrong("{fact}", "datediff(day, rate_day) <= 5"),
        "conversion": _wrong("{fact}", "abs(amount_eur * rate - sales_value) <= rate * 0.00005 + 0.000001"),
    },
    "fact_daily_revenue": {
        "counts": _unequal(_by_day("{revenue}", _OF_REVENUE), _by_day("{fact}", _OF_FACT), "lines"),
        "sums": _unequal(_by_day("{revenue}", _OF_REVENUE), _by_day("{fact}", _OF_FACT), "quantity", "revenue_eur"),
        "keys": _doubled("{revenue}", "store_id"),
        "contract": _wrong("{revenue}", "length(store_id) > 0", "revenue_eur >= 0", "lines >= 1", "baskets >= 1"),
    },
}
"""By table: what is looked for once it is written. Every query finds nothing where all is well."""
