from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake.exceptions import DeltaError

from backfill_assets.errors import LakehouseUnusable

_REFUSALS = (
    (
        re.compile(
            r"No space left on device|Disk quota exceeded|\[errno (?:28|122)\]|os error (?:28|122)", re.IGNORECASE
        ),
        "the disk is full",
        "Free some space (see backfill maintain --dry-run), then run this again: nothing is half done.",
    ),
    (
        re.compile(
            r"Permission denied|Read-only file system|\[errno (?:13|30)\]|os error (?:13|30)|AccessDenied|403 Forb",
            re.IGNORECASE,
        ),
        "access is denied",
        "Check the owner and the permissions of the folder, or the policy of the bucket, for the user of this process.",
    ),
)


@contextmanager
def explain_failure(what: str) -> Iterator[None]:
    """Raises :class:`LakehouseUnusable`, beginning with ``what``."""
    try:
        yield
    except (OSError, DeltaError) as error:
        for pattern, reason, hint in _REFUSALS:
            if pattern.search(str(error)):
                raise LakehouseUnusable(f"{what}: {reason}. {error}", hint=hint) from error
        raise


def full_disk(what: str, error: Exception) -> LakehouseUnusable | None:
    """Returns None unless Spark's error, hundreds of lines long, reports no room or no permission."""
    for line in str(error).splitlines():
        try:
            with explain_failure(what):
                raise OSError(line.strip().removeprefix("Caused by: "))
        except LakehouseUnusable as explained:
            return explained
        except OSError:
            continue
    return None
