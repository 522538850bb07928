"""An answer as one HTML page, without scripts or network. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

from backfill_assets.report.answer import Answer, Part, lines_of, shown, tone_of

if TYPE_CHECKING:
    from jinja2 import Template


def html(answer: Answer) -> str:
    """Escapes every value."""
    return _template().render(answer=answer, text=shown, tone=tone_of).lstrip()


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("backfill_assets.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(groups=_groups, lines=lines_of)
    return environment.get_template("answer.html")


def _groups(parts: Sequence[Part]) -> Iterator[tuple[str, list[Part]]]:
    for kind, group in groupby(parts, lambda part: type(part).__name__):
        yield kind, list(group)
