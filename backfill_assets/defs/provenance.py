"""Who launched a run and from which code: recorded with each publication."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from backfill_assets.defs.private_dagster import BACKFILL_ID_TAG, SCHEDULE_NAME_TAG, SENSOR_NAME_TAG, USER_TAG
from backfill_assets.rebuild.environment import git_commit
from backfill_assets.rebuild.outcome import RunInfo


def run_info(run: dg.DagsterRun) -> RunInfo:
    return RunInfo(run_id=run.run_id, git_commit=git_commit(), launched_by=launched_by(run.tags))


def launched_by(tags: Mapping[str, str]) -> str:
    """The backfill, schedule, sensor or person behind a run, from its tags."""
    for tag, kind in ((BACKFILL_ID_TAG, "backfill"), (SCHEDULE_NAME_TAG, "schedule"), (SENSOR_NAME_TAG, "sensor")):
        if tag in tags:
            return f"{kind} {tags[tag]}"
    return tags.get(USER_TAG, "manual run")
