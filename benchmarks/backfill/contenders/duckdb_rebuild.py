"""DuckDB, in one process without a JVM: how far one machine could go. Runs in the environment of ``peers.txt``.

Run as ``python -m benchmarks.backfill.contenders.duckdb_rebuild LAKEHOUSE TARGET FIRST LAST [HOME|--wide]``. Reads the
files of the raw Delta table, or those that have landed in HOME, and writes Parquet in ``day=...`` folders: no
transaction log, no commit. Its engine has no Delta writer of its own, and not the function that content is hashed with.
"""

import shutil
import sys
from pathlib import Path

import duckdb
from deltalake import DeltaTable

from benchmarks.backfill.contenders import wide
from benchmarks.backfill.contenders.tables import FIELDS, key_pads


def token(of: str) -> str:
    return f"sha256(unhex('{{outer}}') || unhex(sha256(unhex('{{inner}}') || encode({of}))))"


_NAMES = list(FIELDS)
_PATHS = ", ".join(f"'$.{name}'" for name in _NAMES)
_DECLARED = ", ".join(f"'{name}'" for name in _NAMES)
_TEXTS = ", ".join(f"fields[{place}] AS {name}" for place, name in enumerate(_NAMES, 1))
_HASHED = {"bigint": "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR)", "string": "{0}"}
_HASHED |= {"timestamp": "CAST(epoch_us(TRY_CAST({0} AS TIMESTAMPTZ)) AS VARCHAR)"}
_HASHED |= {"decimal(18, 2)": "CAST(TRY_CAST({0} AS DECIMAL(18, 2)) AS VARCHAR)"}
_CONTENT = ", ".join(f"'{name}=' || coalesce({_HASHED[FIELDS[name]].format(name)}, {name})" for name in _NAMES[1:])

RAW = f"""
SELECT household_token, {", ".join(_NAMES[1:])}, rescued, unparsed_line, source_file, source_line, arrival_day,
  event_day IS NULL AS day_is_arrival,
  CASE WHEN unparsed_line IS NULL THEN hash(household_token, {_CONTENT}) ELSE hash(unparsed_line) END AS content_hash,
  coalesce(event_day, arrival_day) AS day
FROM (
  SELECT {token("household_id")} AS household_token, * EXCLUDE (household_id),
    CASE WHEN unknown <> []
      THEN to_json(map(unknown, list_transform(unknown, lambda name: line ->> name))) END AS rescued,
    CASE WHEN fields IS NULL
      THEN 'withheld: ' || length(line) || ' characters, HMAC-SHA-256 ' || {token("line")} END AS unparsed_line,
    CAST(split_part(source_file, '/', 2) AS DATE) AS arrival_day,
    CAST(TRY_CAST(transaction_timestamp AS TIMESTAMPTZ) AS DATE) AS event_day
  FROM (
    SELECT line, fields, {_TEXTS}, source_file,
      number + 1 - min(number) OVER (PARTITION BY source_file) AS source_line,
      CASE WHEN fields IS NOT NULL
        THEN list_filter(json_keys(line), lambda name: NOT list_contains([{_DECLARED}], name)) END AS unknown
    FROM (
      SELECT line, row_number() OVER () AS number, array_to_string(split(filename, '/')[-3:], '/') AS source_file,
        CASE WHEN json_valid(line) AND line[1] = '{{{{' THEN json_extract_string(line, [{_PATHS}]) END AS fields
      FROM read_csv('{{lines}}', columns = {{{{'line': 'VARCHAR'}}}}, auto_detect = false, header = false,
        delim = chr(31), quote = '', escape = '', filename = true)
    )
  )
)
"""  # noqa: S608 our own words

BRONZE = """
SELECT * EXCLUDE (place, versions, hashes), versions - 1 AS deduplicated_rows,
  CAST(CASE WHEN versions > 1 THEN hashes - content_hash ELSE 0 END AS DECIMAL(38, 0)) AS deduplicated_hash,
  CAST(NULL AS DATE) AS superseded_by_day
FROM (
  SELECT *, row_number() OVER (PARTITION BY day, {key} ORDER BY {version} DESC, content_hash DESC) AS place,
    count(*) OVER (PARTITION BY day, {key}) AS versions,
    sum(CAST(content_hash AS HUGEINT)) OVER (PARTITION BY day, {key}) AS hashes
  FROM typed WHERE sound
) WHERE place = 1
"""

TYPED = """
CREATE VIEW typed AS
SELECT *,
  length(basket_id) > 0 AND length(product_id) > 0 AND length(store_id) > 0 AND household_token IS NOT NULL
    AND quantity >= 0 AND sales_value >= 0 AND retail_disc >= 0 AND coupon_disc >= 0 AND coupon_match_disc >= 0
    AND transaction_timestamp IS NOT NULL AND currency IS NOT NULL AND updated_at IS NOT NULL AS sound
FROM (
  SELECT
    basket_id || '-' || product_id AS transaction_id, household_token, store_id, basket_id, product_id,
    TRY_CAST(quantity AS BIGINT) AS quantity, TRY_CAST(sales_value AS DECIMAL(18, 2)) AS sales_value,
    TRY_CAST(retail_disc AS DECIMAL(18, 2)) AS retail_disc, TRY_CAST(coupon_disc AS DECIMAL(18, 2)) AS coupon_disc,
    TRY_CAST(coupon_match_disc AS DECIMAL(18, 2)) AS coupon_match_disc,
    TRY_CAST(transaction_timestamp AS TIMESTAMPTZ) AS transaction_timestamp, currency,
    TRY_CAST(updated_at AS TIMESTAMPTZ) AS updated_at, content_hash, source_file, source_line, arrival_day, day
  FROM raw WHERE unparsed_line IS NULL AND NOT day_is_arrival
)
"""

QUARANTINE = """
SELECT raw.* FROM raw
LEFT JOIN (SELECT source_file, source_line FROM typed WHERE sound) AS sound USING (source_file, source_line)
WHERE sound.source_file IS NULL
"""

# Whole numbers, so that nothing is rounded twice: cents and millionths in, ten-thousandths of a euro out.
FACT = """
SELECT sales.* EXCLUDE (
    content_hash, source_file, source_line, arrival_day, deduplicated_rows, deduplicated_hash, superseded_by_day, day
  ), rate,
  CASE WHEN sales.currency = 'EUR' THEN sales.day ELSE rate_day END AS rate_day,
  CAST(((2 * CAST(sales_value * 100 AS HUGEINT) * 100000000 + CAST(rate * 1000000 AS HUGEINT))
    // (2 * CAST(rate * 1000000 AS HUGEINT))) / 10000 AS DECIMAL(18, 4)) AS amount_eur, sales.day
FROM (
  SELECT bronze.*, CASE WHEN bronze.currency = 'EUR' THEN CAST(1 AS DECIMAL(18, 6)) ELSE rates.rate END AS rate,
    rates.rate_day
  FROM bronze LEFT JOIN (
    SELECT currency, serves, max_by(rate, rate_day) AS rate, max(rate_day) AS rate_day
    FROM (SELECT currency, rate, rate_day, CAST(rate_day + CAST(age AS INTEGER) AS DATE) AS serves
          FROM rates_read, range(8) AS ages(age))
    GROUP BY currency, serves
  ) AS rates ON bronze.currency = rates.currency AND bronze.day = rates.serves
) AS sales
"""

REVENUE = """
SELECT store_id, CAST(sum(amount_eur) AS DECIMAL(18, 4)) AS revenue_eur, count(*) AS lines,
  count(DISTINCT basket_id) AS baskets, CAST(sum(quantity) AS BIGINT) AS quantity, day
FROM fact GROUP BY day, store_id
"""


def files(table: str) -> str:
    return "[" + ", ".join(f"'{uri}'" for uri in DeltaTable(table).file_uris()) + "]"


def main() -> None:
    lakehouse, target, first, last, *more = sys.argv[1:]
    is_wide = more == ["--wide"]
    shutil.rmtree(target, ignore_errors=True)
    Path(target).mkdir(parents=True)
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    read = "read_parquet({files}, hive_partitioning = true, hive_types = {{'day': DATE}})"
    within = f"day BETWEEN DATE '{first}' AND DATE '{last}'"
    if more and not is_wide:
        home = Path(more[0])
        raw = RAW.format(lines=f"{home}/landing/sales/*/*", **key_pads(home / "token.key"))
        write(db, target, "raw", "raw_sales", f"SELECT * FROM ({raw}) WHERE {within}")  # noqa: S608
    else:
        raw = read.format(files=files(f"{lakehouse}/{wide.RAW if is_wide else 'raw_sales'}"))
        db.execute(f"CREATE VIEW raw AS SELECT * FROM {raw} WHERE {within}")  # noqa: S608
    if is_wide:
        typed = wide.typed("TIMESTAMPTZ").format(raw="raw", days=within)
        db.execute(f"CREATE VIEW typed AS SELECT *, true AS sound FROM ({typed})")  # noqa: S608
        write(db, target, "bronze", wide.BRONZE_TABLE, BRONZE.format(key=wide.KEY, version=wide.VERSION))
        write(db, target, "quarantine", wide.QUARANTINE_TABLE, QUARANTINE)
        return
    db.execute(TYPED)
    rates = read.format(files=files(f"{lakehouse}/bronze_fx_rates"))
    db.execute(f"CREATE VIEW rates_read AS SELECT * FROM {rates}")  # noqa: S608
    for view, table, query in (
        ("bronze", "bronze_sales", BRONZE.format(key="transaction_id", version="updated_at")),
        ("quarantine", "quarantine_sales", QUARANTINE),
        ("fact", "fact_sales_transactions", FACT),
        ("revenue", "fact_daily_revenue", REVENUE),
    ):
        write(db, target, view, table, query)


def write(db: duckdb.DuckDBPyConnection, target: str, view: str, table: str, query: str) -> None:
    db.execute(f"CREATE TABLE {view} AS {query}")
    db.execute(f"COPY {view} TO '{target}/{table}' (FORMAT parquet, PARTITION_BY (day), COMPRESSION zstd)")


if __name__ == "__main__":
    main()
