"""The command ``backfill``."""

from backfill_assets.cli.group import main

__all__ = ["main"]
