"""The difference of a campaign as it is kept with its plan, judged against what the plan expects of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import not_

from pydantic import Field

from backfill_assets.difference.records import Sides, TableCompared, fingerprint_of, sides_compared
from backfill_assets.difference.verdicts import ExpectationVerdict, judge, table_sentence
from backfill_assets.lakehouse.records import Record
from backfill_assets.plan.records import Plan
from backfill_assets.text import format_changing, format_count


class Difference(Record):
    """What publishing a campaign would change, or how two states differ; as of one entry of the publication log."""

    plan: str = Field(default="", exclude_if=not_)
    """Empty for two states, which are ``left`` and ``right``: main, a timeline, or a moment."""
    left: str = Field(default="", exclude_if=not_)
    right: str = Field(default="", exclude_if=not_)
    target: str
    days: str
    log_entry: int
    made_at: datetime
    tables: tuple[TableCompared, ...]
    """In build order."""
    verdicts: tuple[ExpectationVerdict, ...] = ()
    """One for each expectation of the plan."""
    stale: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """Of a timeline: which of its days were computed from others than it shows, a line each."""

    @property
    def name(self) -> str:
        return self.plan or f"{self.left} and {self.right}"

    @property
    def unmet(self) -> tuple[ExpectationVerdict, ...]:
        return tuple(each for each in self.verdicts if not each.met)

    @property
    def sides(self) -> Sides:
        """The days that it shows, before and after, as fingerprints."""
        return sides_compared(self.tables)

    @property
    def fingerprint(self) -> str:
        """The fingerprint by which an approval names this difference."""
        return fingerprint_of(self.sides)

    @property
    def headline(self) -> TableCompared | None:
        """The table that was asked for; if it does not change, the first one that does. None without tables."""
        asked = next((table for table in self.tables if table.table == self.target), None)
        changed = next((table for table in self.tables if table.differing), None)
        if asked is None or (changed and not asked.differing):
            return changed or next(iter(self.tables), None)
        return asked

    @property
    def sentence(self) -> str:
        """The whole campaign in one sentence: the table that was asked for, then the others."""
        headline, changed = self.headline, [table for table in self.tables if table.differing]
        if headline is None:
            return "Nothing is rebuilt." if self.plan else "Nothing differs."
        parts = [f"{headline.table}, {table_sentence(headline)}"]
        if len(self.tables) > 1:
            parts.append(f"{format_changing(len(changed), len(self.tables), 'table')}.")
        if self.verdicts:
            parts.append(_expectations(len(self.unmet), len(self.verdicts)))
        return " ".join(parts)


def difference_of(plan: Plan, tables: Sequence[TableCompared], *, log_entry: int, made_at: datetime) -> Difference:
    """``tables`` as they were compared, with a verdict for each expectation of ``plan``."""
    return Difference(
        plan=plan.id,
        target=plan.asked.target,
        days=plan.asked.days,
        log_entry=log_entry,
        made_at=made_at,
        tables=tuple(tables),
        verdicts=judge(plan.expectations, tables),
    )


def _expectations(unmet: int, all_of_them: int) -> str:
    if not unmet:
        return "It is as expected."
    return f"{unmet} of {format_count(all_of_them, 'expectation')} {'is' if unmet == 1 else 'are'} not met."
