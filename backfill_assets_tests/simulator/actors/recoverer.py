"""A new process that finishes what it finds, as every command does first."""

from __future__ import annotations

from backfill_assets_tests.simulator.world import Life


def recover(life: Life) -> None:
    life.publisher().recover()
