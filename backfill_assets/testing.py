"""For the tests of a project: the fixture ``workshop``, an empty lakehouse in a folder of its own.

What a test types is what people type::

    def test_a_day(workshop):
        workshop.land("orders", "2026-01-05", [{"entry_id": "1", "amount": "12.50", ...}])
        workshop.backfill("run", "+report_orders", "--days", "2026-01-05")
        assert workshop.rows("report_orders") == [{"entries": 1, "amount": Decimal("12.50"), "day": date(2026, 1, 5)}]

Tests share one Spark in pytest's process, which the first ``workshop`` starts, fetching JARs if needed.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from backfill_assets.settings import Settings

_OF_MACHINE = ("BACKFILL_JARS", "BACKFILL_SPARK_CONF")
"""Tests keep them: where Spark's files are."""
_SMALL_SPARK = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    # Tests end before the C2 compiler pays off.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}


class Workshop:
    """An empty lakehouse and landing zone below ``home``, for the package ``datasets``."""

    def __init__(self, home: Path, datasets: str = "") -> None:
        from backfill_assets.settings import Settings

        self.home = home
        self._environment = _of_machine() | {"BACKFILL_HOME": str(home), "BACKFILL_SHARED_SPARK": "never"}
        self._environment |= {"BACKFILL_DATASETS": datasets} if datasets else {}
        self.settings: Settings = Settings.from_environment(self._environment)

    def land(self, source: str, day: str, rows: Iterable[Mapping[str, object]], name: str = "") -> Path:
        """Land ``rows`` in a file that arrived on ``day``, by default named by the next number.

        Values become the source's text, moments with their zone; None is absent.
        """
        folder = self.settings.landing / source / day
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{name or len(list(folder.iterdir())) + 1}.jsonl.gz"
        lines = (json.dumps({key: _as_text(value) for key, value in row.items() if value is not None}) for row in rows)
        with gzip.open(file, "xt", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines)
        return file

    def backfill(self, *words: object, exit_code: int = 0) -> str:
        """Run a command, such as ``"run", "+report_orders", "--days", "2026-01-05"``, and return its output.

        Another ``exit_code`` fails the test with all output.
        """
        from click.testing import CliRunner

        from backfill_assets.cli import main

        ours = [name for name in os.environ if name.startswith("BACKFILL_") or name == "SPARK_REMOTE"]
        elsewhere: dict[str, str | None] = dict.fromkeys(ours)
        typed = [str(word) for word in words]
        at_ctrl_c = signal.getsignal(signal.SIGINT)
        try:
            done = CliRunner().invoke(main, typed, env={**elsewhere, **self._environment})
        finally:
            signal.signal(signal.SIGINT, at_ctrl_c)
        if done.exit_code != exit_code:
            raise AssertionError(f"backfill {' '.join(typed)}: exit code {done.exit_code}\n{done.output}")
        return done.stdout

    def json(self, *words: object, exit_code: int = 0) -> Any:
        return json.loads(self.backfill(*words, "--json", exit_code=exit_code))

    def rows(self, table: str, days: str = "") -> list[dict[str, Any]]:
        """Published rows, on ``days`` (``A..B``) if given, sorted by day and key, without Spark."""
        import pyarrow.dataset as ds

        from backfill_assets.days import DayRange
        from backfill_assets.lakehouse.storage import Storage
        from backfill_assets.model.catalog import load
        from backfill_assets.state.reading import read_published

        wanted = None
        if days:
            chosen = DayRange.parse(days)
            wanted = (ds.field("day") >= chosen.first) & (ds.field("day") <= chosen.last)
        found = read_published(Storage(str(self.settings.lakehouse)), table).dataset().to_table(filter=wanted)
        key = [name for name in load(self.settings.datasets).table(table).key if name != "day"]
        sorted_rows: list[dict[str, Any]] = found.sort_by([(name, "ascending") for name in ("day", *key)]).to_pylist()
        return sorted_rows


@pytest.fixture(scope="session")
def backfill_spark() -> Iterator[None]:
    """The Spark that commands of :class:`Workshop` compute with, for the whole run of pytest."""
    from backfill_assets.settings import Settings
    from backfill_assets.spark.jars import fetch_jars
    from backfill_assets.spark.session import open_session

    settings = Settings.from_environment(_of_machine())
    fetch_jars(settings)
    session = open_session(settings, "tests", options=_SMALL_SPARK)
    yield
    session.stop()


@pytest.fixture
def workshop(tmp_path: Path, request: pytest.FixtureRequest, backfill_spark: None) -> Workshop:
    """An empty lakehouse for the datasets that ``BACKFILL_DATASETS`` or the ``pyproject.toml`` of the project names."""
    from backfill_assets.settings import of_project

    named = os.environ.get("BACKFILL_DATASETS", "").strip()
    return Workshop(tmp_path / "workshop", named or of_project(request.config.rootpath, "backfill", "datasets"))


def _of_machine() -> dict[str, str]:
    return {name: os.environ[name] for name in _OF_MACHINE if name in os.environ}


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value if isinstance(value, Mapping | list) else str(value)
