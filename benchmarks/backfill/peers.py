"""The environment of the peers: SQLMesh, DuckDB and their own Spark, apart from the project's dependencies."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.settings import Settings
from backfill_assets.spark.driver_memory import driver_memory
from backfill_assets.spark.jars import locked_jars
from benchmarks.backfill.contest import Contender
from benchmarks.backfill.data import CACHE, Data
from benchmarks.backfill.timed import Timed, timed
from benchmarks.backfill.totals import delta, parquet_tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.dataset as ds

PYTHON = CACHE / "venv" / "bin" / "python"
_REPOSITORY = Path(__file__).resolve().parents[2]
_TABLES = ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue")


def duckdb(data: Data) -> Contender:
    """Reads the raw Delta tables' files, writes Parquet without a transaction log."""
    target = data.home / "duckdb"
    script = str(Path(__file__).with_name("contenders") / "duckdb_rebuild.py")
    command = [str(PYTHON), script, str(data.lakehouse), str(target), str(data.days.first), str(data.days.last)]
    return Contender(
        "DuckDB",
        run=lambda: timed(command, {}, CACHE / "logs" / "duckdb.log"),
        tables=lambda: parquet_tables(target),
        prepare=_require_peers,
    )


def sqlmesh(data: Data, *, audited: bool = False) -> Contender:
    """``sqlmesh plan --restate-model`` over the range in one batch, on the same Spark and Delta."""
    project = data.home / ("sqlmesh-audited" if audited else "sqlmesh")

    def prepare() -> None:
        _require_peers()
        shutil.rmtree(project, ignore_errors=True)
        _sqlmesh("prepare-audited" if audited else "prepare", data, project)

    return Contender(
        "SQLMesh with audits" if audited else "SQLMesh",
        run=lambda: _sqlmesh("restate", data, project),
        tables=lambda: _physical(project),
        prepare=prepare,
    )


def _require_peers() -> None:
    if not PYTHON.exists():
        raise RuntimeError("The peers' environment is not there: make bench sets it up.")


def _sqlmesh(what: str, data: Data, project: Path) -> Timed:
    settings = Settings.from_environment()
    profile = settings.spark_conf / "local"
    jars = ",".join(str(jar) for jar in locked_jars(settings))
    environment = {
        "PYTHONPATH": str(_REPOSITORY),
        "SPARK_CONF_DIR": str(profile),
        "BENCH_DRIVER_MEMORY": driver_memory(),
        "PATH": f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}",
    }
    words = [str(project), str(data.lakehouse), str(profile / "spark-defaults.conf"), jars]
    module = "benchmarks.backfill.contenders.sqlmesh_rebuild"
    command = [str(PYTHON), "-m", module, what, *words, str(data.days.first), str(data.days.last)]
    return timed(command, environment, CACHE / "logs" / f"{project.name}-{what}.log")


def _physical(project: Path) -> Mapping[str, ds.Dataset]:
    """SQLMesh's views stand on tables that carry the model's fingerprint in their names."""
    return {name: delta(_newest(project / "warehouse", name)) for name in _TABLES}


def _newest(warehouse: Path, name: str) -> Path:
    found = sorted(
        warehouse.glob(f"sqlmesh__bench.db/bench__{name}__*/_delta_log"), key=lambda log: log.stat().st_mtime
    )
    return found[-1].parent
