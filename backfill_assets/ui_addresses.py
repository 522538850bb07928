"""Addresses of pages in Dagster's UI, without host: they work wherever the UI is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

DEFAULT_UI = "http://127.0.0.1:3000"
"""Where `backfill dev` serves it, unless another port is asked for."""
BACKFILLS = "/runs?view=backfills"
FIRST_PAGE = "/assets/start_here"
"""How the lakehouse is, and what needs a person now."""


def asset_page(key: str, partition: str = "") -> str:
    """The page of an asset, such as ``campaign``: of a partition, or what the UI shows first."""
    return f"/assets/{quote(key)}" + (f"?{_query({'view': 'partitions', 'partition': partition})}" if partition else "")


def backfill_page(backfill_id: str) -> str:
    return f"/runs/b/{quote(backfill_id)}"


def run_page(run: str) -> str:
    return f"/runs/{quote(run)}"


def runs_page(tag: str, value: str) -> str:
    """The runs that have a tag."""
    return f"/runs?{_query({'q[0]': f'tag:{tag}={value}'})}"


def lineage_page(selection: str) -> str:
    """The graph of the assets that a selection names, such as ``key:"fact"+``."""
    return f"/asset-groups~{quote(selection, safe='')}/"


def launchpad_page(location: str, job: str, filled: Mapping[str, str]) -> str:
    """The launchpad of a job, which opens with everything filled in."""
    return f"/locations/{quote(location)}/jobs/{quote(job)}/playground/setup?{_query(filled)}"


def schedule_page(location: str, name: str) -> str:
    """The page of a schedule, which has the switch that turns it on."""
    return f"/locations/{quote(location)}/schedules/{quote(name)}"


def sensor_page(location: str, name: str) -> str:
    """The page of a sensor, with what it did at each tick and why."""
    return f"/locations/{quote(location)}/sensors/{quote(name)}"


def _query(values: Mapping[str, str]) -> str:
    return urlencode(values, quote_via=quote)
