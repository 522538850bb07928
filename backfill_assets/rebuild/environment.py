"""What computes days here: commit, packages, Spark and Java, recorded with publications."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from functools import cache, lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import DIRTY, Environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCK = Path(__file__).resolve().parents[2] / "uv.lock"
_HASH = 16
# SQL, because a Connect client has no JVM to ask: the answer is that of the Java which computes rows.
_JAVA = "SELECT java_method('java.lang.System', 'getProperty', 'java.version') AS java"
_NAMES = {"git_commit": "commit", "packages": "packages", "spark": "Spark", "java": "Java"}


@lru_cache(maxsize=1)
def environment_of(spark: SparkSession, declared: Path | None) -> Environment:
    """Runs a Spark job of one row, once a session."""
    java = str(spark.sql(_JAVA).collect()[0]["java"])
    return Environment(git_commit=git_commit(declared), packages=packages(_LOCK), spark=spark.version, java=java)


@cache
def packages(lock: Path) -> str:
    if lock.is_file():
        return f"{lock.name} {_hash(lock.read_bytes())}"
    return f"installed {_hash(chr(10).join(_installed_packages()).encode())}"


def _installed_packages() -> list[str]:
    packages = {f"{re.sub('[-_.]+', '-', each.name).lower()}=={each.version}" for each in distributions()}
    return sorted(packages)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH]


def differences(made: Environment, here: Environment) -> str:
    fields = [name for name in _NAMES if getattr(made, name) and getattr(made, name) != getattr(here, name)]
    if not fields:
        return ""
    return f"made with {_describe(made, fields)}; here {_describe(here, fields)}"


def _describe(environment: Environment, fields: list[str]) -> str:
    return ", ".join(f"{_NAMES[name]} {getattr(environment, name) or 'unknown'}" for name in fields)


UNKNOWN_COMMIT = "unknown"
_PACKAGE = Path(__file__).resolve().parents[1]
_SHORT = 10


@cache
def git_commit(declared: Path | None = None) -> str:
    """The running code's commit, with ``+dirty`` if package files differ. A ``declared`` package of datasets has its
    own, dirty if either is. ``BACKFILL_GIT_COMMIT`` overrides it, for images.
    """
    if given := os.environ.get("BACKFILL_GIT_COMMIT", "").strip():
        return given
    ours = commit_of(_PACKAGE)
    own = UNKNOWN_COMMIT if declared is None or declared.is_relative_to(_PACKAGE) else commit_of(declared)
    if own == UNKNOWN_COMMIT:
        return ours
    return f"{own}{DIRTY}" if ours.endswith(DIRTY) and not own.endswith(DIRTY) else own


def commit_of(package: Path) -> str:
    # Installed below another project's repository, the package is not of that repository's commit.
    if _ask_git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        return UNKNOWN_COMMIT
    commit = _ask_git(package, "rev-parse", "HEAD")
    changes = _ask_git(package, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    if commit is None or changes is None:
        return UNKNOWN_COMMIT
    return f"{commit}{DIRTY}" if changes else commit


def _ask_git(folder: Path, *words: str) -> str | None:
    command = ("git", "--no-optional-locks", *words)
    try:
        asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()


def require_clean_tree(commit: str, *, refuse: bool) -> None:
    """An unknown ``commit`` is not dirty."""
    if refuse and commit.endswith(DIRTY):
        raise PublicationRefused(
            f"The running code is not in the commit {commit[:_SHORT]}: the working tree has changes (git status).",
            hint="Commit or stash them and start again (a Dagster that is running, too), "
            "or set BACKFILL_DIRTY_TREE=allow.",
        )
