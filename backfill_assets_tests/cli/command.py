"""Runs ``backfill`` as a person would, on a small lakehouse."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.workshop import Workshop

_COMPUTING = ("foreground", "campaigns", "verbs.diff", "verbs.raw", "verbs.run", "verbs.stream")
"""The modules of commands that ask for a builder."""


def work_with(monkeypatch: pytest.MonkeyPatch, workshop: Workshop) -> None:
    """Commands of this process compute as ``workshop`` does now, and so with the Spark session of the tests.

    Every module is imported before the first is changed:
    one that were imported later would take the changed name for its own, and keep it after the test.
    """
    for module in [importlib.import_module(f"backfill_assets.cli.{name}") for name in _COMPUTING]:
        monkeypatch.setattr(module, "foreground_builder", lambda *_: nullcontext(workshop.builder))


@contextmanager
def built_once(home: Path) -> Iterator[Backfill]:
    """The command for a fixture of a module: what it makes, tests take copies of by :meth:`Backfill.begin_as`."""
    with pytest.MonkeyPatch.context() as patch:
        yield Backfill(home, patch)


class Backfill:
    """The command, with a home of its own; ``lakehouse`` is what it works on."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in (
            "LAKEHOUSE",
            "LANDING",
            "TOKEN_KEY_FILE",
            "POLICY",
            "ROLLBACK_WINDOW_DAYS",
            "SPARK_PROFILE",
            "DIRTY_TREE",
            "APPROVAL_BY",
        ):
            monkeypatch.delenv(f"BACKFILL_{variable}", raising=False)
        monkeypatch.delenv("SPARK_REMOTE", raising=False)
        monkeypatch.setenv("BACKFILL_HOME", str(home))
        self.home = home
        self.lakehouse = SmallLakehouse(home / "lakehouse")

    def begin_as(self, built: Backfill) -> Backfill:
        """With a copy of what is in another's home, and the clock of its log."""
        shutil.copytree(built.home, self.home, dirs_exist_ok=True)
        self.lakehouse.minutes = built.lakehouse.minutes
        return self

    def __call__(self, *arguments: object, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exit_code == exit_code, (result.output, result.exception)
        return result

    def json(self, *arguments: object, exit_code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", exit_code=exit_code).stdout)

    def status_by_day(self, table: str, *arguments: object) -> dict[str, str]:
        """What ``status`` says of each day of one table."""
        return {row["day"]: row["status"] for row in self.json("status", table, *arguments)[table]["days"]}

    def statuses(self, *arguments: object) -> dict[str, dict[str, list[str]]]:
        """What ``status`` says: the ranges of days of each table, by status."""
        found: dict[str, dict[str, list[str]]] = {}
        for row in self.json("status", *arguments)["tables"]:
            found.setdefault(row["table"], {})[row["status"]] = row["which_days"]
        return found
