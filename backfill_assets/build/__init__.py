"""Builds a step for given days: stage into a timeline, judge, publish. The same call for daily runs and for shadows."""

from backfill_assets.build.builder import Builder
from backfill_assets.build.outcome import BuildResult, BuiltDay, DaysFailed, RunInfo

__all__ = ["BuildResult", "Builder", "BuiltDay", "DaysFailed", "RunInfo"]
