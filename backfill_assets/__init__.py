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
- ``upkeep``: watchdogs, incidents, repairs, maintenance.
- ``campaign``: a plan carried out, approved, undone.
- ``answers``: what people ask.
- ``cli``: the command line.
- ``defs``: all that Dagster has; ``BackfillAssets`` is its component.
- ``examples``: a project with datasets, demo, lab.
- ``testing``: a fixture for projects' tests.
- ``definitions``: Dagster's code location of the examples.
"""

from importlib import import_module
from typing import Any

_COMPONENTS = {"BackfillAssets": "backfill_assets.defs.component"}


def __getattr__(name: str) -> Any:
    """A command that needs no Dagster does not import it."""
    if name not in _COMPONENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_COMPONENTS[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_COMPONENTS]
