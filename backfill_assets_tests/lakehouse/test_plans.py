"""The page of a kept difference is whole at every moment: people approve what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.lakehouse.plans import keep_page, kept_page
from backfill_assets.lakehouse.storage import Storage

PLAN = "plan-0123456789abcdef"


def test_a_disk_that_is_full_leaves_the_page_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written in place, half of it would be left, and each reader would get a traceback."""
    storage = Storage(str(tmp_path))
    keep_page(storage, PLAN, "the first")
    write = Storage.write_bytes

    def full(self: Storage, path: str, data: bytes) -> None:
        write(self, path, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Storage, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        keep_page(storage, PLAN, "the second")
    assert kept_page(storage, PLAN) == b"the first"
    assert len(list((tmp_path / "_plans").iterdir())) == 1
