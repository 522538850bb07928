"""The short form of the tally, of one minute: a stream, backfills, Dagster's daemon and a campaign, each killed once.

``make tally`` plays five minutes at 2,000 events a second, with five kills of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets_tests.stream import tally

SECONDS, RATE, KILLS, DAYS = 60, 100, 1, 4


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_event_is_once_in_raw_and_every_winner_once_in_the_facts(tmp_path: Path) -> None:
    """By the generator's own tally, after a campaign was cut over and undone beside the stream."""
    options = {"seconds": SECONDS, "events-per-second": RATE, "kills": KILLS, "days": DAYS, "seed": 9}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
    played = subprocess.run(
        [sys.executable, "-m", tally.__name__, *arguments, "--json", "--home", str(tmp_path / "tally")],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.stdout, played.stderr
    found = json.loads(played.stdout)
    assert found["wrong"] == [], played.stderr
    assert played.returncode == 0
    assert found["events"] >= SECONDS * RATE
    assert found["kills"] == {"stream": KILLS, "backfills": KILLS, "campaign": KILLS, "daemon": KILLS}
    assert found["campaigns"] >= 1 and found["backfills"] >= 3
