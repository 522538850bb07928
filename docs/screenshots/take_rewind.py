"""Takes the pictures of docs/rewind.md again: the page's commands, typed one after the other, and what they print.

Five real days are built by v2, and the last three of them then by v1, which is wrong. Run it with the project's Python;
it takes some minutes. ``--kept`` draws the pictures again from what was printed last.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import demo_place
from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).parents[1] / "rewind"
HOME = Path("/tmp/backfill-rewind")  # noqa: S108  the pictures show it, so it is no folder of anybody's
SAID = HOME / "said"
DAYS, WRONG = "2017-03-06..2017-03-10", "2017-03-08..2017-03-10"
FACT = "fact_sales_transactions"
REPORTS = ("fact_daily_revenue", "report_department_revenue", "report_store_ranking", "report_monthly_close")
WIDTH = 132
_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)


def take_all() -> None:
    if "--kept" not in sys.argv:
        demo_place.HOME = HOME
        play(demo_place.empty_home())
    picture("1-list", "backfill timeline rewind", [said("list")])
    picture("2-rewind", "backfill timeline rewind --to", [said("rewind"), said("forward")])
    picture("3-diff", "backfill diff", [beginning("diff", 26)])
    picture("4-publish", "backfill timeline publish", [beginning("publish", 14), *ending("publish", 1)])
    picture("5-approve", "backfill approve", [beginning("approve", 7), *ending("approve", 1), *ending("undo", 3)])


def play(environment: dict[str, str]) -> None:
    """What a new user types, from an empty lakehouse on."""
    SAID.mkdir()
    types(environment, "sample", "--days", DAYS)
    types(environment, "run", *REPORTS, "--upstream", "--days", DAYS)
    types(environment, "run", FACT, "--downstream", "--version", "v1", "--days", WRONG)
    listed = types(environment, "timeline", "rewind", FACT, name="list")
    newest, *_ = re.findall(r"^│ ([0-9a-f]{7,}) ", listed, re.MULTILINE)
    types(environment, "timeline", "rewind", FACT, "--to", f"{newest}^", "--as", "before-v1", name="rewind")
    types(environment, "timeline", "forward", "before-v1", "--version", "v2", "--as", "with-v2", name="forward")
    types(environment, "timeline", "show", "with-v2", name="show")
    types(environment, "diff", "main", "with-v2", "--table", FACT, name="diff")
    types(environment, "timeline", "open", "with-v2", "fact_daily_revenue", name="open")
    published = types(environment, "timeline", "publish", "with-v2", "--expect", "rows unchanged", name="publish")
    (plan, *_) = re.findall(r"plan-[0-9a-f]{7,16}", published)
    approved = types(environment, "approve", plan, "--yes", name="approve")
    found = re.findall(r"backfill rollback (\S+)", approved)
    types(environment, "rollback", found[0] if found else plan, "--yes", name="undo")


def types(environment: dict[str, str], *words: str, name: str = "") -> str:
    """Type a command on a terminal; returns what it prints there, and keeps it under ``name``."""
    print("$ backfill", *words, flush=True)
    master, slave = pty.openpty()
    command = [str(Path(sys.executable).with_name("backfill")), *words]
    within = {**environment, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.DEVNULL, env=within) as process:
        os.close(slave)
        printed = _read_all(master)
    if process.returncode:
        raise SystemExit(f"backfill {' '.join(words)}: {printed}")
    print(printed, flush=True)
    if name:
        (SAID / f"{name}.txt").write_text(f"$ {shlex.join(['backfill', *words])}\n{printed}")
    return re.sub(r"\x1b\[[0-9;]*m", "", printed)


def _read_all(master: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(master, 65_536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(master)
    return b"".join(parts).decode().replace("\r\n", "\n")


def said(name: str) -> str:
    """What a command printed, below what was typed."""
    return (SAID / f"{name}.txt").read_text().rstrip()


def beginning(name: str, lines: int) -> str:
    """Its first lines, and that there are more."""
    return "\n".join([*said(name).split("\n")[:lines], "..."])


def ending(name: str, lines: int) -> list[str]:
    """What was typed unless its beginning is shown, and the last lines."""
    found = said(name).split("\n")
    typed = found[:1] if name == "undo" else []
    return [*typed, *found[-lines:]]


def picture(name: str, title: str, parts: list[str]) -> None:
    """Draw what commands printed as it looks on a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("\n".join(parts)))
    drawn = _FONT_FACES.sub("", console.export_svg(title=title, unique_id=f"terminal-{name}"))
    (PICTURES / f"{name}.svg").write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n")
    print(f"{name}.svg", flush=True)


if __name__ == "__main__":
    take_all()
