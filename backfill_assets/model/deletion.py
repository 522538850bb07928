"""Raw rows by which a source takes rows back, and their metrics."""

from __future__ import annotations

from collections.abc import Mapping

DELETION = "deletion"
"""Kind of raw row: it cancels an equal one."""
DELETED = "deleted"
DELETED_HASHES = "deleted_hash_sum"
"""Metric: the sum of their content hashes."""
DELETED_MARKERS = "deleted_markers"
"""Metric: markers whose newer version was taken back."""
OF_DELETIONS = (DELETED, DELETED_HASHES, DELETED_MARKERS)
"""Only days with deletions have these."""
REFRESH = "source-side refresh"
"""Prefix of such a publication's reason."""


def count_standing(metrics: Mapping[str, object], of: str = "") -> int:
    """Rows less deletions and what they cancel; ``of`` begins metric names."""
    rows = int(str(metrics.get(f"{of}rows") or 0))
    for each in (DELETED, DELETED_MARKERS):
        if cancelled := metrics.get(f"{of}{each}"):
            rows -= 2 * int(str(cancelled))
    return rows
