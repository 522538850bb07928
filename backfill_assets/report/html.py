"""An answer as one HTML page: for browsers, mail and paper. It has no scripts and needs no network. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from backfill_assets.report.answer import Answer, Part, lines_of, shown, tone_of


def html(answer: Answer) -> str:
    """Every value is escaped. It grows with the rows that the answer has."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("backfill_assets.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(groups=_groups, lines=lines_of)
    return environment.get_template("answer.html").render(answer=answer, text=shown, tone=tone_of).lstrip()


def _groups(parts: Sequence[Part]) -> Iterator[tuple[str, list[Part]]]:
    """Facts that follow each other are one list, and charts stand beside each other."""
    for kind, group in groupby(parts, lambda part: type(part).__name__):
        yield kind, list(group)
