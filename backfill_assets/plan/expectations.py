"""Expectations of a difference, in a small strict language that is kept in the plan. Pure.

::

    revenue_eur < 2% a day                      on each day
    revenue_eur < 1000                          all days together
    rows unchanged                              their number, on each day
    weekends unchanged                          every row of Saturdays and Sundays
    everything unchanged on 2017-03-01..2017-03-05
    currency=EUR unchanged                      every row with this value
    quantity unchanged on weekdays in fact_sales_transactions
    only quantity changes                       no row is added or removed, and no other column differs

Without ``in TABLE`` it is about every table that has the measure or column. Weekends and weekdays are about daily
tables; for others ``a day`` is a period.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import Record
from backfill_assets.model.contract import declared_types
from backfill_assets.text import suggest_or_list

if TYPE_CHECKING:
    from backfill_assets.model.declaration import Table

EVERYTHING, ROWS = "everything", "rows"
_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_WEEKENDS, _WEEKDAYS = "weekends", "weekdays"
_SATURDAY = 5
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SHAPE = re.compile(
    rf"(?:only (?P<only>{_NAME}) changes|(?P<subject>{_NAME})(?:=(?P<value>\S+))?"
    r"(?: unchanged| ?< ?(?P<limit>\d+(?:\.\d+)?) ?(?P<unit>%?)(?P<each> a day)?))"
    rf"(?: on (?P<on>\S+))?(?: in (?P<table>{_NAME}))?"
)
_HINT = (
    'Write for example "revenue_eur < 2% a day", "rows unchanged", "weekends unchanged", "only quantity changes", '
    '"currency=EUR unchanged", "quantity unchanged on 2017-03-01..2017-03-05 in TABLE".'
)


class Expectation(Record):
    """``subject`` changes by less than ``limit``, or not at all without one; or ``only`` it changes."""

    subject: str
    """A measure, ``rows``, ``everything``, or a column (with ``value`` or ``only``)."""
    only: bool = False
    value: str | None = None
    limit: Decimal | None = None
    unit: Literal["", "%"] = ""
    each_day: bool = False
    on: str = ""
    """``weekends``, ``weekdays`` or a day range; empty for all."""
    table: str = ""

    @classmethod
    def parse(cls, text: str) -> Expectation:
        """Raises :class:`InvalidRequest`."""
        found = _SHAPE.fullmatch(" ".join(text.split()))
        if found is None:
            raise InvalidRequest(f"{text!r} is no expectation.", hint=_HINT)
        subject, on, limit = found["only"] or found["subject"], found["on"] or "", found["limit"]
        if subject in (_WEEKENDS, _WEEKDAYS) and not on:
            subject, on = EVERYTHING, subject
        expectation = cls(
            subject=subject,
            only=found["only"] is not None,
            value=found["value"],
            limit=None if limit is None else Decimal(limit),
            unit="%" if found["unit"] else "",
            each_day=found["each"] is not None,
            on=_days(on),
            table=found["table"] or "",
        )
        _refuse_contradictions(text, expectation)
        return expectation

    def __str__(self) -> str:
        shorthand = self.subject == EVERYTHING and self.on in (_WEEKENDS, _WEEKDAYS)
        subject = self.on if shorthand else self.subject
        value = "" if self.value is None else f"={self.value}"
        each = " a day" if self.each_day else ""
        condition = "unchanged" if self.limit is None else f"< {self.limit:f}{self.unit}{each}"
        on = f" on {self.on}" if self.on and not shorthand else ""
        said = f"only {subject} changes" if self.only else f"{subject}{value} {condition}"
        return f"{said}{on}{f' in {self.table}' if self.table else ''}"

    def is_about(self, day: date, cadence: Cadence) -> bool:
        """``day``: the first day of a period."""
        if self.on in (_WEEKENDS, _WEEKDAYS):
            return cadence is Cadence.DAILY and (day.weekday() >= _SATURDAY) == (self.on == _WEEKENDS)
        return not self.on or day in DayRange.parse(self.on)


def require_known(expectations: Iterable[Expectation], tables: Collection[Table]) -> None:
    """Raise :class:`InvalidRequest` for an expectation about nothing in ``tables``."""
    names = [table.name for table in tables]
    for each in expectations:
        if each.table and each.table not in names:
            raise _unknown(each, "table that the plan rebuilds", each.table, names)
        about = [table for table in tables if each.table in ("", table.name)]
        if each.only:
            known = {column for table in about for column in table.contract.fields()}
            kind = "column"
        elif each.value is not None:
            known = {column for table in about for column in table.groups}
            kind = "column that differences are grouped by"
        else:
            known = {measure for table in about for measure in table.totals} | {ROWS, EVERYTHING}
            kind = "measure"
        if each.subject not in known:
            raise _unknown(each, kind, each.subject, known)
        for table in about:
            if each.value is not None and each.subject in table.groups:
                _require_as_written(each, each.value, declared_types(table.contract)[each.subject])


def _require_as_written(expectation: Expectation, value: str, kind: str) -> None:
    """Groups are matched by text: ``1.5`` would never match ``1.50``."""
    written = _written(value, kind)
    if written is None:
        raise InvalidRequest(f'"{expectation}": {value!r} is no {kind}.', hint="Write it as `backfill show` does.")
    if written != value:
        right = expectation.model_copy(update={"value": written})
        raise InvalidRequest(f'"{expectation}": the {kind} is written {written}.', hint=f'Write "{right}".')


def _written(value: str, kind: str) -> str | None:
    """The text of a value as Spark writes it; None if it is no ``kind``."""
    try:
        if kind == "boolean":
            return value.lower() if value.lower() in ("true", "false") else None
        if kind in _WHOLE_NUMBERS:
            return str(int(value))
        if kind == "date":
            return date.fromisoformat(value).isoformat()
        if kind.startswith("decimal"):
            number, places = Decimal(value), Decimal(1).scaleb(-int(kind.rstrip(")").rpartition(",")[2]))
            return f"{number.quantize(places):f}" if number == number.quantize(places) else None
    except (ValueError, ArithmeticError):
        return None
    return value


def _unknown(expectation: Expectation, kind: str, name: str, known: Collection[str]) -> InvalidRequest:
    hint = suggest_or_list(name, sorted(known), "There are")
    return InvalidRequest(f'"{expectation}": {name!r} is no {kind}.', hint=hint)


def _days(on: str) -> str:
    return on if on in ("", _WEEKENDS, _WEEKDAYS) else str(DayRange.parse(on))


def _refuse_contradictions(text: str, found: Expectation) -> None:
    if found.limit is not None and (found.subject == EVERYTHING or found.value is not None):
        raise InvalidRequest(f"{text!r}: only a measure, or rows, can change by less than something.", hint=_HINT)
    if found.limit is not None and not found.limit:
        raise InvalidRequest(f"{text!r}: nothing changes by less than 0.", hint=f'Write "{found.subject} unchanged".')
    if found.value is not None and found.on:
        raise InvalidRequest(f"{text!r}: groups are compared over all days together.", hint='Leave "on" out.')
