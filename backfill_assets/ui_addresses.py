"""Pages of Dagster's UI as paths without host. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

DEFAULT_UI = "http://127.0.0.1:3000"
BACKFILLS = "/runs?view=backfills"
FIRST_PAGE = "/assets/start_here"


def asset_page(key: str, partition: str = "") -> str:
    return f"/assets/{quote(key)}" + (f"?{_query({'view': 'partitions', 'partition': partition})}" if partition else "")


def backfill_page(backfill_id: str) -> str:
    return f"/runs/b/{quote(backfill_id)}"


def run_page(run: str) -> str:
    return f"/runs/{quote(run)}"


def runs_page(tag: str, value: str) -> str:
    return f"/runs?{_query({'q[0]': f'tag:{tag}={value}'})}"


def lineage_page(selection: str) -> str:
    return f"/asset-groups~{quote(selection, safe='')}/"


def launchpad_page(location: str, job: str, filled: Mapping[str, str]) -> str:
    return f"/locations/{quote(location)}/jobs/{quote(job)}/playground/setup?{_query(filled)}"


def schedule_page(location: str, name: str) -> str:
    return f"/locations/{quote(location)}/schedules/{quote(name)}"


def sensor_page(location: str, name: str) -> str:
    return f"/locations/{quote(location)}/sensors/{quote(name)}"


def _query(values: Mapping[str, str]) -> str:
    return urlencode(values, quote_via=quote)
