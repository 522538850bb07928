"""Which commit of the code is running, and whether the code is in it: recorded with each publication."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.publication import DIRTY

UNKNOWN_COMMIT = "unknown"
_PACKAGE = Path(__file__).resolve().parents[1]
_SHORT = 10


@cache
def git_commit() -> str:
    """The commit of the running code, with ``+dirty`` if files of the package differ from it; asked once a process.

    ``BACKFILL_GIT_COMMIT`` says it where there is no repository, as in an image.
    """
    return os.environ.get("BACKFILL_GIT_COMMIT", "").strip() or commit_of(_PACKAGE)


def commit_of(package: Path) -> str:
    """The commit that is checked out where ``package`` is tracked, or ``unknown``.

    ``+dirty`` is appended if a file of ``package`` was changed, added or deleted since.
    """
    # Installed below another project's repository, the package is not of that repository's commit.
    if _ask_git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return UNKNOWN_COMMIT
    commit = _ask_git(package, "rev-parse", "HEAD")
    changes = _ask_git(package, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    if commit is None or changes is None:
        return UNKNOWN_COMMIT
    return f"{commit}{DIRTY}" if changes else commit


def _ask_git(folder: Path, *words: str) -> str | None:
    """What git answers; None where there is no git or it has no answer."""
    command = ("git", "--no-optional-locks", *words)
    try:
        asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()


def require_clean_tree(commit: str, *, refuse: bool) -> None:
    """Raise :class:`PublicationRefused` if ``commit`` is dirty and such code is to ``refuse``. Unknown is not dirty."""
    if refuse and commit.endswith(DIRTY):
        raise PublicationRefused(
            f"The running code is not in the commit {commit[:_SHORT]}: the working tree has changes (git status).",
            hint="Commit or stash them and start again (a Dagster that is running, too), "
            "or set BACKFILL_DIRTY_TREE=allow.",
        )
