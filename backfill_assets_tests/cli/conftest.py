"""The command under test, and what it meets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backfill_assets_tests.cli.command import Backfill


@pytest.fixture
def backfill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    return Backfill(tmp_path / "home", monkeypatch)


@pytest.fixture
def port() -> Iterator[int]:
    """Something answers there."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening.getsockname()[1]
