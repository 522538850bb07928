"""Rebuilds history safely. From bottom to top: each knows only what is above it here.

- ``errors``: what is raised on purpose.
- ``clock``: time, waiting, chance; tests replace it.
- ``limits``: what stops campaigns and backfills.
- ``notice_routes``: which notices go where.
- ``days``: days, ranges, cadences.
- ``settings``: a machine's environment, rollback window included.
- ``text``: days, counts and amounts as text.
- ``ui_addresses``: paths of Dagster's pages.
- ``model``: what a dataset declares.
- ``report``: answers, and how they are shown.
- ``lakehouse``: files, Delta logs, documents.
- ``quality``: verdicts on days, from metrics.
- ``judge``: queries over rows, by DuckDB.
- ``publish``: the publication protocol; notices.
- ``state``: what is published, now or then.
- ``spark``: sessions, servers, workers.
- ``landing``: from landed files to raw rows.
- ``external``: tables that others write.
- ``rebuild``: stages, judges and publishes days.
- ``proposal``: declarations proposed from samples.
- ``plan``: what would be rebuilt, why, its cost.
- ``stream``: live ingestion.
- ``timeline``: rewound and recomputed days beside main.
- ``difference``: what approval would change.
- ``sql``: ``SELECT`` at one publication.
- ``upkeep``: watchdogs, incidents, repairs, maintenance.
- ``campaign``: a plan carried out, approved, undone.
- ``answers``: what people ask.
- ``cli``: the command line.
- ``defs``: all that Dagster has.
- ``examples``: a project with datasets, demo, lab.
- ``testing``: a fixture for projects' tests.
- ``definitions``: Dagster's code location of the examples.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame, SparkSession

_COMPONENTS = {"BackfillAssets": "backfill_assets.defs.component"}


def __getattr__(name: str) -> Any:
    """Commands without Dagster do not import it."""
    if name not in _COMPONENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_COMPONENTS[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_COMPONENTS]


def read(
    spark: SparkSession, *, as_of: str = "", on: str = "", tables: Collection[str] = (), lakehouse: str = ""
) -> dict[str, DataFrame]:
    """All tables, or ``tables``, at one closed publication: as temporary views of Spark SQL, and rows by table.

    ``as_of`` is a publication or a UTC time, ``on`` a timeline; by default now. The lakehouse is the settings'.
    """
    from backfill_assets.sql.spark_views import read_tables

    return read_tables(spark, as_of=as_of, on=on, tables=tables, lakehouse=lakehouse)
