"""The tables as one would write them in Spark SQL: the same rows and columns as this project's.

What a source may send is not looked at as closely: all that Spark can cast is a number or a moment, and no row moves
to another day. ``{lines}`` stands for the landed lines, ``{inner}`` and ``{outer}`` for the pads of the key that
household ids are hashed with; ``{raw}``, ``{rates}``, ``{bronze}`` and ``{fact}`` for the tables that are read, and
``{days}`` for a condition on ``day``. One shuffle by day for the deduplication; everything after it keeps a file a day
without another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

FIELDS = {
    "household_id": "string",
    "store_id": "string",
    "basket_id": "string",
    "product_id": "string",
    "quantity": "bigint",
    "sales_value": "decimal(18, 2)",
    "retail_disc": "decimal(18, 2)",
    "coupon_disc": "decimal(18, 2)",
    "coupon_match_disc": "decimal(18, 2)",
    "transaction_timestamp": "timestamp",
    "currency": "string",
    "updated_at": "timestamp",
}
"""What is landed, as text, and the type of it."""


def key_pads(key_file: Path) -> dict[str, str]:
    """The pads of HMAC-SHA-256 in hexadecimal: no engine here has a function for it."""
    key = key_file.read_bytes().strip()
    block = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    return {name: bytes(byte ^ pad for byte in block).hex() for name, pad in (("inner", 0x36), ("outer", 0x5C))}


def _token(of: str) -> str:
    inner = f"sha2(concat(X'{{inner}}', CAST({of} AS binary)), 256)"
    return f"sha2(concat(X'{{outer}}', unhex({inner})), 256)"


def _hashed(name: str) -> str:
    """``name=value`` with the one text of a value; text that is no value as it stands."""
    kind = FIELDS.get(name, "string")
    if kind == "string":
        return f"concat('{name}=', {name})"
    value = f"try_cast({name} AS {kind})"
    text = f"unix_micros({value})" if kind == "timestamp" else value
    return f"concat('{name}=', coalesce(CAST({text} AS string), {name}))"


_LANDED = ", ".join(f"object['{name}'] AS {name}" for name in list(FIELDS)[1:])
_DECLARED = f"array({', '.join(repr(name) for name in FIELDS)})"
_HASH = f"xxhash64({', '.join(_hashed(name) for name in ['household_token', *list(FIELDS)[1:]])})"

RAW = f"""
SELECT * FROM (SELECT
  household_token, {", ".join(list(FIELDS)[1:])}, rescued, unparsed_line, source_file, source_line, arrival_day,
  event_day IS NULL AS day_is_arrival,
  CASE WHEN unparsed_line IS NULL THEN {_HASH} ELSE xxhash64(unparsed_line) END AS content_hash,
  coalesce(event_day, arrival_day) AS day
FROM (
  SELECT
    {_token("object['household_id']")} AS household_token, {_LANDED},
    CASE WHEN size(array_except(map_keys(object), {_DECLARED})) > 0
      THEN to_json(map_filter(object, (name, value) -> NOT array_contains({_DECLARED}, name))) END AS rescued,
    CASE WHEN object IS NULL
      THEN concat('withheld: ', CAST(length(value) AS string), ' characters, HMAC-SHA-256 ', {_token("value")})
    END AS unparsed_line,
    source_file, source_line, CAST(split(source_file, '/')[1] AS date) AS arrival_day,
    CAST(try_cast(object['transaction_timestamp'] AS timestamp) AS date) AS event_day
  FROM (
    SELECT value, source_file, from_json(value, 'map<string,string>') AS object,
      CAST(row_number() OVER (PARTITION BY source_file ORDER BY place) AS bigint) AS source_line
    FROM (
      SELECT value, substring_index(_metadata.file_path, '/', -3) AS source_file,
        monotonically_increasing_id() AS place
      FROM {{lines}}
    ) AS placed
  ) AS numbered
) AS landed) AS dated
WHERE {{days}}
"""  # noqa: S608 our own words

_TYPED = """
    SELECT
      concat(basket_id, '-', product_id) AS transaction_id,
      household_token, store_id, basket_id, product_id,
      try_cast(quantity AS bigint) AS quantity,
      try_cast(sales_value AS decimal(18, 2)) AS sales_value,
      try_cast(retail_disc AS decimal(18, 2)) AS retail_disc,
      try_cast(coupon_disc AS decimal(18, 2)) AS coupon_disc,
      try_cast(coupon_match_disc AS decimal(18, 2)) AS coupon_match_disc,
      try_cast(transaction_timestamp AS timestamp) AS transaction_timestamp,
      currency,
      try_cast(updated_at AS timestamp) AS updated_at,
      content_hash, source_file, source_line, arrival_day, day
    FROM {raw} WHERE {days} AND unparsed_line IS NULL AND NOT day_is_arrival
"""

_SOUND = """
      length(basket_id) > 0 AND length(product_id) > 0 AND length(store_id) > 0
      AND household_token IS NOT NULL AND quantity >= 0 AND sales_value >= 0 AND retail_disc >= 0
      AND coupon_disc >= 0 AND coupon_match_disc >= 0 AND transaction_timestamp IS NOT NULL
      AND currency IS NOT NULL AND updated_at IS NOT NULL
"""

_COLUMNS = """
  transaction_id, household_token, store_id, basket_id, product_id, quantity, sales_value, retail_disc, coupon_disc,
  coupon_match_disc, transaction_timestamp, currency, updated_at
"""


def bronze_of(typed: str, sound: str, columns: str, key: str, version: str) -> str:
    """Of each key and day the newest of the ``sound`` rows of ``typed``, with an account of those that it won over."""
    newest = f"PARTITION BY day, {key} ORDER BY {version} DESC, content_hash DESC"
    return f"""
SELECT {columns}, content_hash, source_file, source_line, arrival_day, versions - 1 AS deduplicated_rows,
  CAST(CASE WHEN versions > 1 THEN hashes - content_hash ELSE 0 END AS decimal(38, 0)) AS deduplicated_hash,
  CAST(NULL AS date) AS superseded_by_day, day
FROM (
  SELECT *, row_number() OVER newest AS place, count(*) OVER whole AS versions,
    sum(CAST(content_hash AS decimal(20, 0))) OVER whole AS hashes
  FROM (SELECT /*+ REPARTITION(day) */ * FROM ({typed}) AS typed WHERE {sound}) AS sound
  WINDOW newest AS ({newest}), whole AS ({newest} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
) AS ranked
WHERE place = 1
"""  # noqa: S608 our own words


def quarantine_of(columns: str, wrong: Mapping[str, str]) -> str:
    """The raw rows that something is ``wrong`` with, by reason, and why."""
    reasons = ", ".join(f"CASE WHEN {condition} THEN '{reason}' END" for reason, condition in wrong.items())
    return f"""
SELECT /*+ REPARTITION(day) */
  {columns}, rescued, unparsed_line, source_file, source_line, arrival_day, content_hash,
  array_compact(array({reasons})) AS reasons, day
FROM {{raw}}
WHERE {{days}} AND ({" OR ".join(wrong.values())})
"""  # noqa: S608 our own words


BRONZE = bronze_of(_TYPED, _SOUND, _COLUMNS, "transaction_id", "updated_at")

_WRONG = {
    "line: is not one JSON object": "unparsed_line IS NOT NULL",
    "transaction_timestamp: is no plausible day": "day_is_arrival",
    "basket_id: is missing or empty": "NOT coalesce(length(basket_id) > 0, false)",
    "product_id: is missing or empty": "NOT coalesce(length(product_id) > 0, false)",
    "store_id: is missing or empty": "NOT coalesce(length(store_id) > 0, false)",
    "household_token: is missing": "household_token IS NULL",
    "currency: is missing": "currency IS NULL",
    "quantity: is no number": "NOT coalesce(try_cast(quantity AS bigint) >= 0, false)",
    "sales_value: is no amount": "NOT coalesce(try_cast(sales_value AS decimal(18, 2)) >= 0, false)",
    "retail_disc: is no amount": "NOT coalesce(try_cast(retail_disc AS decimal(18, 2)) >= 0, false)",
    "coupon_disc: is no amount": "NOT coalesce(try_cast(coupon_disc AS decimal(18, 2)) >= 0, false)",
    "coupon_match_disc: is no amount": "NOT coalesce(try_cast(coupon_match_disc AS decimal(18, 2)) >= 0, false)",
    "transaction_timestamp: is no moment": "try_cast(transaction_timestamp AS timestamp) IS NULL",
    "updated_at: is no moment": "try_cast(updated_at AS timestamp) IS NULL",
}
QUARANTINE = quarantine_of(", ".join(["household_token", *list(FIELDS)[1:]]), _WRONG)

FACT = f"""
SELECT /*+ BROADCAST(rates) */
  {_COLUMNS},
  CASE WHEN sales.currency = 'EUR' THEN CAST(1 AS decimal(18, 6)) ELSE rates.rate END AS rate,
  CASE WHEN sales.currency = 'EUR' THEN sales.day ELSE rates.rate_day END AS rate_day,
  CAST(round(
    sales.sales_value / CASE WHEN sales.currency = 'EUR' THEN CAST(1 AS decimal(18, 6)) ELSE rates.rate END, 4
  ) AS decimal(18, 4)) AS amount_eur,
  sales.day
FROM (SELECT * FROM {{bronze}} WHERE {{days}}) AS sales
LEFT JOIN (
  SELECT currency AS rate_currency, serves, max_by(rate, rate_day) AS rate, max(rate_day) AS rate_day
  FROM (
    SELECT currency, rate, rate_day, explode(sequence(rate_day, date_add(rate_day, 7))) AS serves FROM {{rates}}
  ) AS dated
  GROUP BY currency, serves
) AS rates
ON sales.currency = rates.rate_currency AND sales.day = rates.serves
"""  # noqa: S608 our own words

REVENUE = """
SELECT /*+ REPARTITION(day) */ store_id, revenue_eur, lines, baskets, quantity, day
FROM (
  SELECT
    store_id, CAST(sum(amount_eur) AS decimal(18, 4)) AS revenue_eur, count(*) AS lines,
    count(DISTINCT basket_id) AS baskets, sum(quantity) AS quantity, day
  FROM {fact} WHERE {days} GROUP BY day, store_id
) AS revenue
"""

TABLES = {
    "bronze_sales": BRONZE,
    "quarantine_sales": QUARANTINE,
    "fact_sales_transactions": FACT,
    "fact_daily_revenue": REVENUE,
}
"""By name, each after what it reads."""
