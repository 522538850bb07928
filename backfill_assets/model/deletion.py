"""A deletion: the row of raw by which a source takes back one that it had delivered; how it is written and measured."""

from __future__ import annotations

from collections.abc import Mapping

DELETION = "deletion"
"""The kind of a raw row that cancels one other row: in all its columns but these, it is equal to that one."""
DELETED = "deleted"
"""The metric of raw that counts received rows that the source took back."""
DELETED_HASHES = "deleted_hash_sum"
"""The metric of raw with the sum of their content hashes."""
DELETED_MARKERS = "deleted_markers"
"""The metric of raw that counts markers of newer versions that the source took back: they supersede nothing."""
OF_DELETIONS = (DELETED, DELETED_HASHES, DELETED_MARKERS)
"""Only days with deletions have these metrics: a day without them is recorded as it was before there were any."""
REFRESH = "source-side refresh"
"""How the reason of a publication that brings deletions begins, in the publication log."""


def count_standing(metrics: Mapping[str, object], of: str = "") -> int:
    """The rows that stand, of metrics whose names begin with ``of``: a deletion is a row, and so is what it cancels."""
    taken = sum(int(str(metrics.get(f"{of}{each}") or 0)) for each in (DELETED, DELETED_MARKERS))
    return int(str(metrics.get(f"{of}rows") or 0)) - 2 * taken
