"""One clock shows everybody the same time, and the lint finds who asks another one."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets_tests.clock import NOON, FakeClock

TREE = Path(__file__).parent.parent


def test_a_clock_in_use_answers_in_all_threads_and_days_pass_at_once() -> None:
    """A simulated week may not take a week; after the block the machine's own clock answers."""
    seen: list[datetime] = []
    with clock.use(FakeClock()):
        began = clock.seconds()
        clock.sleep(7 * 86_400)
        thread = threading.Thread(target=lambda: seen.append(clock.now()))
        thread.start()
        thread.join()
        assert (clock.seconds() - began, clock.today()) == (7 * 86_400, NOON.date() + timedelta(days=7))
    assert seen == [NOON + timedelta(days=7)]
    assert abs(datetime.now(UTC) - clock.now()) < timedelta(minutes=1)


def test_one_within_another_ends_first_however_it_ends() -> None:
    with clock.use(FakeClock()):
        with pytest.raises(ValueError, match="boom"), clock.use(FakeClock(NOON + timedelta(days=1))):
            raise ValueError("boom")
        assert clock.now() == NOON


def test_the_machine_draws_names_of_the_length_that_is_asked_for_and_none_twice() -> None:
    drawn = [clock.token(6) for _ in range(100)]
    assert {len(each) for each in drawn} == {12} and len(set(drawn)) == 100
    assert all(1 <= clock.between(1, 2) <= 2 for _ in range(100))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from time import sleep\nsleep(1)", "clock.sleep() waits"),
        ("import time\ntime.sleep(1)", "clock.seconds() measures"),
        ("import time\ndef work(sleep=time.sleep): sleep(1)", "clock.sleep() waits"),
        ("import time\nfrom dataclasses import field\nbegun = field(default_factory=time.monotonic)", "clock.now()"),
        ("from datetime import UTC, datetime\nnow = datetime.now(UTC)", "clock.now() is the moment"),
        ("import datetime as dt\ntoday = dt.date.today()", "clock.today() is the day"),
        ("from uuid import uuid4\nname = uuid4().hex", "clock.token(length) draws a name"),
        ("import secrets\nkey = secrets.token_hex(32)", "clock.token(length) draws"),
        ("from random import uniform", "clock.between(least, most)"),
        ("import os\nname = os.getpid()", "clock.token(length)"),
        ("from backfill_assets import clock\nclock.sleep(1)", ""),
    ],
)
def test_the_lint_names_what_to_ask_instead(text: str, named: str) -> None:
    """Also where it is only the default of an argument or of a field."""
    command = [sys.executable, "-m", "ruff", "check", "--select=TID251", "--stdin-filename=backfill_assets/new.py", "-"]
    found = subprocess.run(command, input=text, cwd=TREE, capture_output=True, text=True, check=False)
    assert found.returncode == bool(named), found.stderr
    assert ("TID251" in found.stdout) == bool(named) and named in found.stdout
