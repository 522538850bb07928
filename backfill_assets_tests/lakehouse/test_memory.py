from __future__ import annotations

from backfill_assets.judge.engine import usable_memory


def test_usable_memory_is_that_of_a_machine() -> None:
    """A container without a limit says "max" or an absurd number, which must not be taken for memory."""
    assert 256 * 1024**2 < usable_memory() < 1024**5
