"""The files of the packages that carry real data, which the extra ``examples`` installs."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from backfill_assets.errors import InvalidRequest


def packaged_file(package: str, *path: str) -> Traversable:
    """A file of ``package``; raises :class:`InvalidRequest` if that is not installed."""
    try:
        return files(package).joinpath(*path)
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"The package {package}, which has the real data, is not installed.",
            hint="Run: pip install 'backfill-assets[examples]'",
        ) from error
