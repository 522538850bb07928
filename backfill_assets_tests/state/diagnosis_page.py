"""``docs/reference/diagnosis.md``: the cases of the diagnosis. ``make pins`` writes it, a test compares it."""

from __future__ import annotations

from pathlib import Path

from backfill_assets.state.diagnosis import CASES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "diagnosis.md"
_HEAD = """# What is wrong with a day, and what follows

The first case that fits counts. `rebuild` launches a backfill, `restore` reads landed files once more, `wait` waits for
the source; where the confidence is below `BACKFILL_REPAIRS=confidence=0.5`, a person decides.

| known by | cause | what follows | confidence | told as |
|---|---|---|---|---|
"""


def page() -> str:
    rows = (f"| {c.known_by} | {c.cause} | {c.helps} | {c.confidence} | {c.severity} |" for c in CASES)
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
