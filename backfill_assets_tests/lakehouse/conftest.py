"""A small lakehouse for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets_tests.protocol.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lakehouse."""
    return Lake(tmp_path / "lakehouse")
