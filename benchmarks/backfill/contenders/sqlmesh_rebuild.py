"""SQLMesh on the same Spark and Delta: the same queries as models. Runs in the environment of ``peers.txt``.

Run as ``python -m benchmarks.backfill.contenders.sqlmesh_rebuild prepare|prepare-audited|restate PROJECT LAKEHOUSE
OPTIONS FIRST LAST [HOME|--wide]``. ``prepare`` writes the project and plans it for the first time; ``restate`` is what
is timed from raw: one call of ``sqlmesh plan`` that restates the whole range in one batch. With HOME, raw is a model
too, of the files that have landed there, and the first plan is timed. SQLMesh is given no checks, or, by
``prepare-audited``, those of ``checks.py`` as blocking audits. OPTIONS is a file with Spark's settings as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.backfill.contenders import wide
from benchmarks.backfill.contenders.checks import CHECKS
from benchmarks.backfill.contenders.tables import FIELDS, RAW, TABLES, key_pads

WIDE = ["--wide"]
"""Instead of a home: the tables of ``wide.py``."""
_MODEL = """MODEL (
  name bench.{name},
  kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 4000),
  partitioned_by (day),
  start '{first}',
  end '{last}',
  cron '@daily',
  table_format delta,
  optimize_query false,
  depends_on ({parents}),
  audits ({audits}),
  columns ({columns})
);

{query}
"""
_AUDIT = """AUDIT (
  name {name}
);

{query}
"""
_PLACES = {
    "raw": "landed.raw_sales",
    "rates": "landed.bronze_fx_rates",
    "bronze": "bench.bronze_sales",
    "quarantine": "bench.quarantine_sales",
    "fact": "bench.fact_sales_transactions",
    "revenue": "bench.fact_daily_revenue",
    "lines": "landed.lines",
    "days": "day BETWEEN @start_date AND @end_date",
}
_TEXTS = ("household_token", *list(FIELDS)[1:], "rescued", "unparsed_line")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MONEY = "DECIMAL(18, 2)"
_SALES = f"""transaction_id STRING, household_token STRING, store_id STRING, basket_id STRING, product_id STRING,
    quantity BIGINT, sales_value {_MONEY}, retail_disc {_MONEY}, coupon_disc {_MONEY}, coupon_match_disc {_MONEY},
    transaction_timestamp TIMESTAMP, currency STRING, updated_at TIMESTAMP"""
_PLACE = "source_file STRING, source_line BIGINT, arrival_day DATE"
_COLUMNS = {
    "raw_sales": ", ".join(
        [*(f"{name} STRING" for name in _TEXTS), _PLACE, "day_is_arrival BOOLEAN, content_hash BIGINT, day DATE"]
    ),
    "bronze_sales": (
        f"{_SALES}, content_hash BIGINT, {_PLACE}, deduplicated_rows BIGINT, deduplicated_hash DECIMAL(38, 0), "
        "superseded_by_day DATE, day DATE"
    ),
    "quarantine_sales": ", ".join(
        [*(f"{name} STRING" for name in _TEXTS), _PLACE, "content_hash BIGINT, reasons ARRAY<STRING>, day DATE"]
    ),
    wide.BRONZE_TABLE: (
        ", ".join(f"{name} {kind}" for name, kind in wide.FIELDS.items())
        + f", content_hash BIGINT, {_PLACE}, deduplicated_rows BIGINT, deduplicated_hash DECIMAL(38, 0), "
        "superseded_by_day DATE, day DATE"
    ),
    wide.QUARANTINE_TABLE: ", ".join(
        [
            *(f"{name} STRING" for name in (*wide.FIELDS, "rescued", "unparsed_line")),
            *(_PLACE, "content_hash BIGINT, reasons ARRAY<STRING>, day DATE"),
        ]
    ),
    "fact_sales_transactions": f"{_SALES}, rate DECIMAL(18, 6), rate_day DATE, amount_eur DECIMAL(18, 4), day DATE",
    "fact_daily_revenue": (
        "store_id STRING, revenue_eur DECIMAL(18, 4), lines BIGINT, baskets BIGINT, quantity BIGINT, day DATE"
    ),
}


def write_project(
    project: Path, lakehouse: str, options: Path, first: str, last: str, more: Sequence[str], *, audited: bool
) -> None:
    for folder in ("models", "audits"):
        (project / folder).mkdir(parents=True, exist_ok=True)
    connection = {
        "type": "spark",
        "catalog": "spark_catalog",
        "config": spark_config(project, json.loads(options.read_text())),
    }
    state = {"type": "duckdb", "database": str(project / "state.db")}
    config: dict[str, Any] = {
        "gateways": {"spark": {"connection": connection, "state_connection": state}},
        "default_gateway": "spark",
        "model_defaults": {"dialect": "spark", "start": first},
        "disable_anonymized_analytics": True,
        "before_all": [
            "CREATE SCHEMA IF NOT EXISTS landed",
            *(
                f"CREATE TABLE IF NOT EXISTS landed.{name} USING DELTA LOCATION '{lakehouse}/{name}'"
                for name in _landed(more)
            ),
        ],
    }
    models, places = TABLES, _PLACES
    if more == WIDE:
        models, places = wide.TABLES, {**_PLACES, "raw": f"landed.{wide.RAW}"}
    elif more:
        home = Path(more[0])
        config["before_all"].append(
            "CREATE TABLE IF NOT EXISTS landed.lines USING text OPTIONS (recursiveFileLookup='true') "
            f"LOCATION '{home}/landing/sales'"
        )
        pads = key_pads(home / "token.key")
        models, places = {"raw_sales": RAW, **TABLES}, {**_PLACES, "raw": "bench.raw_sales", **pads}
    (project / "config.yaml").write_text(json.dumps(config, indent=2))
    for name, query in models.items():
        checks = CHECKS[name] if audited else {}
        for check, wrong in checks.items():
            own = {place: "@this_model" if at == f"bench.{name}" else at for place, at in places.items()}
            audit = _AUDIT.format(name=f"{name}_{check}", query=wrong.format(**own))
            (project / "audits" / f"{name}_{check}.sql").write_text(audit)
        model = _MODEL.format(
            name=name,
            first=first,
            last=last,
            query=query.format(**places),
            columns=_COLUMNS[name],
            audits=", ".join(f"{name}_{check}" for check in checks),
            parents=", ".join(sorted(_read("".join([query, *checks.values()]), places) - {f"bench.{name}"})),
        )
        (project / "models" / f"{name}.sql").write_text(model)


def _landed(more: Sequence[str]) -> list[str]:
    """The tables that are there before."""
    if more == WIDE:
        return [wide.RAW]
    return ["bronze_fx_rates", *([] if more else ["raw_sales"])]


def _read(query: str, places: Mapping[str, str]) -> set[str]:
    """The tables that ``query`` reads."""
    return {at for place, at in places.items() if "." in at and f"{{{place}}}" in query}


def spark_config(project: Path, given: Mapping[str, str]) -> dict[str, str]:
    """What this project starts Spark with, and a catalogue on disk: SQLMesh keeps its tables in one."""
    return {
        **given,
        "spark.sql.warehouse.dir": str(project / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={project}/metastore;create=true",
        _JAVA_OPTIONS: f"{given[_JAVA_OPTIONS]} -Dderby.system.home={project}",
    }


def plan(project: Path, *words: str) -> None:
    environment = {**os.environ, "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true"}
    command = [
        str(Path(sys.executable).with_name("sqlmesh")),
        "-p",
        str(project),
        "plan",
        "--auto-apply",
        "--no-prompts",
    ]
    subprocess.run([*command, "--skip-tests", "--no-diff", *words], env=environment, cwd=project, check=True)


def main() -> None:
    what, project, lakehouse, options, first, last, *more = sys.argv[1:]
    if what != "restate":
        audited = what == "prepare-audited"
        write_project(Path(project), lakehouse, Path(options), first, last, more, audited=audited)
        plan(Path(project))
        return
    tables = list(wide.TABLES if more == WIDE else TABLES)
    roots = [word for name in tables[:2] for word in ("--restate-model", f"bench.{name}")]
    plan(Path(project), *roots, "--start", first, "--end", last)


if __name__ == "__main__":
    main()
