"""Table selections that commands take."""

from __future__ import annotations

from collections.abc import Sequence

import click

from backfill_assets.cli.wiring import current_catalog, open_storage
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.selection import is_selection, select
from backfill_assets.plan.records import Scope


def tables_meant(words: Sequence[str]) -> tuple[str, ...]:
    """Raises :class:`InvalidRequest` if a selection means no table."""
    found = tuple(select(words, current_catalog(), _stale_tables))
    if words and not found:
        raise InvalidRequest(f"{' '.join(words)} means no table: none has a stale day.", hint="backfill status")
    return found


def tables_to_run(words: Sequence[str]) -> tuple[tuple[str, ...], bool, bool]:
    """The tables, and whether their upstream and downstream come along.

    Raises :class:`click.UsageError` if the ``+`` marks differ.
    """
    marks = {(word.startswith("+"), word.endswith("+")) for word in words}
    if len(marks) > 1:
        raise click.UsageError("A + is for each table of a run, or for none: type it at each, or run them one by one.")
    ((upstream, downstream),) = marks
    return tables_meant([word.removeprefix("+").removesuffix("+") for word in words]), upstream, downstream


def target_meant(word: str, scope: Scope, *, scope_is_typed: bool) -> tuple[str, Scope]:
    """The table that a plan begins at, and its scope: ``+TABLE`` is ``whole``, ``TABLE+`` is ``onwards``."""
    if not is_selection(word):
        return word, scope
    bare = word.removeprefix("+").removesuffix("+")
    if not is_selection(bare) and word != bare and ":" not in bare:
        if scope_is_typed:
            raise click.UsageError(f"{word} says the scope: leave out --scope, or type {bare}.")
        return bare, Scope.WHOLE if word.startswith("+") else Scope.ONWARDS
    found = tables_meant([word])
    if len(found) > 1:
        raise InvalidRequest(
            f"{word} means {len(found)} tables, and a plan begins at one: {', '.join(found)}.",
            hint=f"What is computed from a table comes along: backfill plan {found[0]} --days A..B",
        )
    return found[0], scope


def one_table(word: str) -> str:
    """Raises :class:`InvalidRequest` for a selection of several tables."""
    if is_selection(word):
        raise InvalidRequest(
            f"{word} may mean several tables, and this is about one.",
            hint="Type its name. backfill status, plan and run take +TABLE, TABLE+, tag:NAME and stale:",
        )
    return current_catalog().table(word).name


def _stale_tables() -> set[str]:
    from backfill_assets.state.diagnosis import STALE
    from backfill_assets.state.observed import observe_each
    from backfill_assets.state.status import day_statuses

    observed = observe_each(open_storage(), current_catalog().table_names)
    statuses = day_statuses(observed.readable(observed.with_current(current_catalog().steps)), observed)
    return {name for name, days in statuses.items() if not STALE.isdisjoint(days.values())}
