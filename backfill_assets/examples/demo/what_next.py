"""The last lines of the demo: pages of the UI, and the command that opens it where none runs. Pure."""

from __future__ import annotations

from backfill_assets.days import DayRange
from backfill_assets.ui_addresses import DEFAULT_UI, asset_page, backfill_page, lineage_page

FACT = "fact_sales_transactions"
SELECTION = f'key:"{FACT}"+'
"""The fact and all that is made of it: the first range that a person launches."""


def what_next(days: DayRange, backfill_id: str, ui: str = "", *, with_the_bug: bool = False) -> list[str]:
    """Each line stands by itself, so that a link or a command can be copied. ``ui`` is the address of one that runs."""
    pages = [
        ("where to begin", asset_page("start_here")),
        *([("this backfill", backfill_page(backfill_id))] if backfill_id else []),
        ("a range of your own", lineage_page(SELECTION)),
    ]
    links = [f"  {ui or DEFAULT_UI}{path}  {what}" for what, path in pages]
    before = ["Next, in the UI that runs:"] if ui else ["Next: make dev", "It opens the UI:"]
    return [*(_with_the_bug(days) if with_the_bug else []), *before, *links]


def _with_the_bug(days: DayRange) -> list[str]:
    return [
        f"{FACT} of {days} has v1 now: it takes the currency rate of the day before.",
        "It is wrong on each day with a rate of its own; weekends and holidays have none, and stay the same.",
        "See it, and what the right version would change:",
        f"  backfill status {FACT} --days {days}",
        f'  backfill plan {FACT} --days {days} --version v2 --expect "weekends unchanged"',
    ]
