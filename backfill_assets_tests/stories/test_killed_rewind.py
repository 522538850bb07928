"""Each command of a rewind is killed at every place it reaches, and typed again until it has ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.settings import Settings
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.stories import killed_command
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_RUNS = 80
"""A command that has not ended after so many kills makes no headway."""
ENDED_BEFORE = ("There is a timeline", "is undone already", "was approved already", "is published already")
"""What a command says whose work the process before it had done when it was killed."""


@dataclass
class Typist:
    """Types commands into processes of their own, all of them on one home and one Spark."""

    home: Path
    url: str
    kills: Counter[str] = field(default_factory=Counter)

    def run(self, number: int, *words: str) -> subprocess.CompletedProcess[str]:
        variables = {"BACKFILL_HOME": str(self.home), "SPARK_REMOTE": self.url, "BACKFILL_SPARK_PROFILE": "connect"}
        command = [sys.executable, "-m", killed_command.__name__, str(number), *words, "--json"]
        return subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=600, check=False
        )

    def until_it_ends(self, *words: str) -> Any:
        """Kill it at its first place, then at its second, and so on, until it reaches no further one."""
        for number in range(1, MOST_RUNS):
            ended = self.run(number, *words)
            if ended.returncode != -signal.SIGKILL:
                if ended.returncode == 0:
                    return json.loads(ended.stdout)
                assert any(each in ended.stderr for each in ENDED_BEFORE), ended.stderr
                return None
            place = ended.stderr.rsplit(killed_command.PLACE, 1)[1].strip()
            self.kills[f"{' '.join(words[:2])}: {place}"] += 1
        raise AssertionError(f"{words} was killed {MOST_RUNS} times, and has not ended")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_command_is_killed_everywhere_and_ends_as_if_it_had_not_been(
    wrong_home: Path, tmp_path: Path, spark: SparkSession, connect_server_for_tests: Any
) -> None:
    """Main is old or new, never a mixture; the original timeline holds what it held; and the undo undoes."""
    homes = {name: Path(shutil.copytree(wrong_home, tmp_path / name)) for name in ("killed", "spared")}
    killed, spared = (Typist(home, connect_server_for_tests.url) for home in homes.values())
    for name, home in homes.items():
        assert Settings.at(home).lakehouse.exists(), name
    before = contents(homes["killed"], spark)
    publication = json.loads(spared.run(0, "history", FACT).stdout)["publications"][0]["publication"]
    words: tuple[str, ...] = ("timeline", "rewind", FACT, "--to", publication, "--days", str(DAYS), "--as", "back")
    killed.until_it_ends(*words)
    assert spared.run(0, *words).returncode == 0
    words = ("timeline", "forward", "back", "right", "--version", "v2")
    killed.until_it_ends(*words)
    assert spared.run(0, *words).returncode == 0
    assert held(killed, "right") == held(spared, "right") and held(killed, "back") == held(spared, "back")
    assert contents(homes["killed"], spark) == before

    killed.until_it_ends("timeline", "publish", "right")
    plan = open_plan(homes["killed"])
    killed.until_it_ends("approve", plan, "--yes")
    other = json.loads(spared.run(0, "timeline", "publish", "right").stdout)["plan"]
    assert spared.run(0, "approve", other, "--yes").returncode == 0
    assert contents(homes["killed"], spark) == contents(homes["spared"], spark) != before

    killed.until_it_ends("rollback", plan, "--yes")
    assert contents(homes["killed"], spark) == before
    print(f"\nkilled {sum(killed.kills.values())} times: {dict(killed.kills)}")
    typed = {each.partition(":")[0] for each in killed.kills}
    assert typed >= {f"timeline {verb}" for verb in ("rewind", "forward", "publish")}
    assert typed >= {f"{verb} {plan}" for verb in ("approve", "rollback")}


def contents(home: Path, spark: SparkSession) -> object:
    return Workshop(home, lambda: spark).contents()


def held(typist: Typist, name: str) -> Any:
    """What the days of a timeline hold, by table."""
    found = json.loads(typist.run(0, "timeline", "show", name).stdout)
    return {key: value for key, value in found.items() if key in ("days", "tables", "moment", "versions")}


def open_plan(home: Path) -> str:
    """The one plan that was kept and staged."""
    from backfill_assets.lakehouse.storage import Storage

    (plan,) = going(Storage(str(Settings.at(home).lakehouse)))
    return plan
