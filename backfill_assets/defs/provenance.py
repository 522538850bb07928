"""Who launched a run and from which code: recorded with each publication."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import dagster as dg
from dagster._core.storage.tags import BACKFILL_ID_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, USER_TAG

from backfill_assets.build import RunInfo

UNKNOWN_COMMIT = "unknown"
_ASK_GIT = ("git", "rev-parse", "HEAD")


def run_info(run: dg.DagsterRun) -> RunInfo:
    return RunInfo(run_id=run.run_id, git_commit=git_commit(), launched_by=launched_by(run.tags))


def launched_by(tags: Mapping[str, str]) -> str:
    """The backfill, schedule, sensor or person behind a run, from its tags."""
    for tag, kind in ((BACKFILL_ID_TAG, "backfill"), (SCHEDULE_NAME_TAG, "schedule"), (SENSOR_NAME_TAG, "sensor")):
        if tag in tags:
            return f"{kind} {tags[tag]}"
    return tags.get(USER_TAG, "manual run")


@cache
def git_commit() -> str:
    """The commit of the running code: ``BACKFILL_GIT_COMMIT`` where there is no repository, as in an image."""
    given = os.environ.get("BACKFILL_GIT_COMMIT", "").strip()
    if given:
        return given
    here = Path(__file__).resolve().parent
    try:
        asked = subprocess.run(_ASK_GIT, cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN_COMMIT
    return asked.stdout.strip()
