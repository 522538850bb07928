"""The command under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets_tests.cli.command import Backfill


@pytest.fixture
def backfill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    return Backfill(tmp_path / "home", monkeypatch)
