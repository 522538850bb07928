"""The environment of the peers: SQLMesh, DuckDB and their own Spark, apart from the project's dependencies."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from backfill_assets.settings import Settings
from backfill_assets.spark.class_archive import start_folder, start_options
from backfill_assets.spark.jars import base_jars
from backfill_assets.spark.java import without_incubator
from backfill_assets.spark.session import driver_options, profile
from benchmarks.backfill.contenders import wide
from benchmarks.backfill.contest import Contender
from benchmarks.backfill.data import CACHE, Data
from benchmarks.backfill.timed import Timed, timed
from benchmarks.backfill.totals import FROM_LANDED, REBUILT, delta, parquet_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.dataset as ds

PYTHON = CACHE / "venv" / "bin" / "python"
_REPOSITORY = Path(__file__).resolve().parents[2]


def duckdb(data: Data, *, landed: bool = False, is_wide: bool = False) -> Contender:
    """Reads the raw Delta tables' files, or those that have landed; writes Parquet without a transaction log."""
    target = data.home / "duckdb"
    module = "benchmarks.backfill.contenders.duckdb_rebuild"
    command = [str(PYTHON), "-m", module, str(data.lakehouse), str(target), str(data.days.first), str(data.days.last)]
    command += _more(data, landed=landed, is_wide=is_wide)
    return Contender(
        "DuckDB",
        run=lambda: timed(command, {"PYTHONPATH": str(_REPOSITORY)}, CACHE / "logs" / "duckdb.log"),
        tables=lambda: parquet_tables(target, _tables(landed=landed, is_wide=is_wide)),
        prepare=_require_peers,
        own_hashes=landed,
    )


def sqlmesh(data: Data, *, audited: bool = False, landed: bool = False, is_wide: bool = False) -> Contender:
    """``sqlmesh plan --restate-model`` over the range in one batch, on the same Spark and Delta.

    From what has ``landed`` it is the first plan of a new project: all tables are empty, as those of the others are.
    """
    project = data.home / ("sqlmesh-audited" if audited else "sqlmesh")

    def first_plan() -> Timed:
        shutil.rmtree(project, ignore_errors=True)
        project.mkdir()
        return _sqlmesh(
            "prepare-audited" if audited else "prepare", data, project, _more(data, landed=landed, is_wide=is_wide)
        )

    def prepare() -> None:
        _require_peers()
        if not landed:
            first_plan()

    return Contender(
        "SQLMesh with audits" if audited else "SQLMesh",
        run=first_plan if landed else lambda: _sqlmesh("restate", data, project, _more(data, is_wide=is_wide)),
        tables=lambda: _physical(project, _tables(landed=landed, is_wide=is_wide)),
        prepare=prepare,
    )


def _more(data: Data, *, landed: bool = False, is_wide: bool = False) -> list[str]:
    return ["--wide"] if is_wide else [str(data.home)] if landed else []


def _tables(*, landed: bool, is_wide: bool) -> Sequence[str]:
    return tuple(wide.TABLES) if is_wide else FROM_LANDED if landed else REBUILT


def _require_peers() -> None:
    if not PYTHON.exists():
        raise RuntimeError("The peers' environment is not there: make bench sets it up.")


def spark_options(settings: Settings) -> dict[str, str]:
    """All that an embedded Spark of this project is started with: its JARs, JVM options and archive of classes."""
    return start_options(settings, profile(settings) | driver_options(settings, {}), base_jars(settings))


def _sqlmesh(what: str, data: Data, project: Path, more: Sequence[str]) -> Timed:
    settings = replace(Settings.from_environment(), spark_profile="local", spark_remote=None)
    environment = {
        "PYTHONPATH": str(_REPOSITORY),
        "SPARK_CONF_DIR": str(start_folder(settings)),
        # Java takes an archive only for the very JARs that it was made of, and those of the peers are copies.
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # Nor with a module of its own at work, which Spark's scripts add.
        **without_incubator(),
        "PATH": f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}",
    }
    options = project / "spark-options.json"
    options.write_text(json.dumps(spark_options(settings)))
    words = [str(project), str(data.lakehouse), str(options), str(data.days.first), str(data.days.last)]
    module = "benchmarks.backfill.contenders.sqlmesh_rebuild"
    command = [str(PYTHON), "-m", module, what, *words, *more]
    return timed(command, environment, CACHE / "logs" / f"{project.name}-{what}.log")


def _physical(project: Path, names: Sequence[str]) -> Mapping[str, ds.Dataset]:
    """SQLMesh's views stand on tables that carry the model's fingerprint in their names."""
    return {name: delta(_newest(project / "warehouse", name)) for name in names}


def _newest(warehouse: Path, name: str) -> Path:
    found = sorted(
        warehouse.glob(f"sqlmesh__bench.db/bench__{name}__*/_delta_log"), key=lambda log: log.stat().st_mtime
    )
    return found[-1].parent
