"""Selections of tables. Pure.

``+TABLE`` and ``TABLE+`` add upstream and downstream; ``tag:NAME`` is a dataset, layer or cadence; ``stale:`` are
tables with a stale day, ``stale:NAME`` those of a tag.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.graph import expand_tables
from backfill_assets.text import suggest_or_list

if TYPE_CHECKING:
    from backfill_assets.model.catalog import Catalog

_TAG, _STALE = "tag:", "stale:"


def is_selection(word: str) -> bool:
    return word.startswith(("+", _TAG, _STALE)) or word.endswith("+")


def tables_by_tag(catalog: Catalog) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for step in catalog.steps:
        dataset = catalog.dataset_of(step.name).name
        for table in step.tables:
            for tag in (dataset, table.layer, step.cadence.value):
                found.setdefault(tag, []).append(table.name)
    return found


def select(words: Iterable[str], catalog: Catalog, stale: Callable[[], Collection[str]]) -> list[str]:
    """Keeps the order. Raises :class:`InvalidRequest` for an unknown table or tag."""
    found: dict[str, None] = {}
    for word in words:
        named = _named(word.removeprefix("+").removesuffix("+"), catalog, stale)
        upstream, downstream = word.startswith("+"), word.endswith("+")
        expanded = expand_tables(catalog.steps, named, upstream=upstream, downstream=downstream)
        found |= dict.fromkeys(expanded if upstream or downstream else named)
    return [*found]


def _named(word: str, catalog: Catalog, stale: Callable[[], Collection[str]]) -> Sequence[str]:
    if word.startswith(_TAG):
        return _tagged(word.removeprefix(_TAG), catalog)
    if word.startswith(_STALE):
        tag = word.removeprefix(_STALE)
        among, known = (_tagged(tag, catalog) if tag else catalog.table_names), stale()
        return [name for name in among if name in known]
    return [catalog.table(word).name]


def _tagged(tag: str, catalog: Catalog) -> Sequence[str]:
    known = tables_by_tag(catalog)
    if tag not in known:
        catalog.refuse_left_out(tag)
        raise InvalidRequest(f"No table has the tag {tag!r}.", hint=suggest_or_list(tag, known, "Tags"))
    return known[tag]
