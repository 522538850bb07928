"""Shell completion (``eval "$(_BACKFILL_COMPLETE=bash_source backfill)"``); it swallows errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date
from functools import wraps
from typing import Any

import click
from click.shell_completion import CompletionItem

from backfill_assets.cli import ids
from backfill_assets.cli.output import typed_words
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.limits import limit_examples
from backfill_assets.model.graph import expand_tables, steps_of

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_RANGE = ".."


def _quiet(offer: Offer) -> Offer:
    @wraps(offer)
    def offered(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(Exception), ctx.scope(cleanup=False):
            return offer(ctx, param, incomplete)
        return []

    return offered


@_quiet
def complete_table(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    given, tables = _given(ctx), current_catalog().tables
    # ``+TABLE`` includes its upstream.
    plus = "+" if incomplete.startswith("+") else ""
    found = (CompletionItem(f"{plus}{table.name}", help=table.layer) for table in tables if table.name not in given)
    return [item for item in found if item.value.startswith(incomplete)]


@_quiet
def complete_dataset(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _starting(incomplete, [each.name for each in current_catalog().datasets])


@_quiet
def complete_version(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    catalog = current_catalog()
    named = [catalog.step(word) for word in _given(ctx) if word in catalog.table_names]
    return _starting(incomplete, {version.name for step in named or catalog.steps for version in step.versions})


@_quiet
def complete_step_version(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    steps = [step for step in current_catalog().steps if len(step.versions) > 1]
    return _starting(incomplete, [f"{step.name}={version.name}" for step in steps for version in step.versions])


@_quiet
def complete_days(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    before, dots, last = incomplete.rpartition(_RANGE)
    known = _published_days(ctx) | _landed_days(ctx)
    found = [day for day in sorted(known) if not dots or str(day) > before]
    return _starting(incomplete, [f"{before}{dots}{day}" for day in found if str(day).startswith(last)])


@_quiet
def complete_limits(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    before, comma, last = incomplete.rpartition(",")
    typed = {part.partition("=")[0] for part in before.split(",")}
    found = [f"{before}{comma}{limit}" for limit in limit_examples() if limit.partition("=")[0] not in typed]
    return [CompletionItem(text) for text in found if text.startswith(f"{before}{comma}{last}")]


@_quiet
def complete_expectation(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    catalog, given = current_catalog(), _given(ctx)
    tables = [table for table in catalog.tables if table.totals and (not given or table.name in given)]
    measures = dict.fromkeys(measure for table in tables for measure in table.totals)
    groups = dict.fromkeys(f"{group}=VALUE" for table in tables for group in table.groups)
    found = [
        *(f"{measure} {how}" for measure in measures for how in ("< 1%", "< 2% a day", "unchanged")),
        *(f"{subject} unchanged" for subject in ("rows", "everything", *groups)),
    ]
    return [CompletionItem(text) for text in found if text.startswith(incomplete)]


@_quiet
def complete_plan(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _ids(incomplete, ids.plans(open_storage()))


@_quiet
def complete_publication(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _ids(incomplete, ids.publications(open_storage()))


@_quiet
def complete_timeline(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    found = ids.timelines(open_storage())
    return [CompletionItem(each.name, help=each.change) for each in found if each.name.startswith(incomplete)]


def complete_incident(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from backfill_assets.upkeep.incidents import IncidentBook

    found = IncidentBook(open_storage()).open()
    return [CompletionItem(each.id, help=each.words) for each in found if each.id.startswith(incomplete)]


def _any_of(*offers: Offer) -> Offer:
    return lambda ctx, param, incomplete: [item for offer in offers for item in offer(ctx, param, incomplete)]


def _main(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _starting(incomplete, [ids.MAIN])


def _first_plan(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [] if _given(ctx) else complete_plan(ctx, param, incomplete)


complete_table_or_plan = _any_of(complete_table, _first_plan)
complete_undoable = _any_of(complete_publication, complete_plan)
complete_timeline_or_plan = _any_of(complete_timeline, complete_plan)
complete_state = _any_of(_main, complete_timeline, complete_publication)
complete_plan_or_state = _any_of(complete_state, complete_plan)
complete_anything = _any_of(complete_table, complete_plan, complete_timeline)


def _ids(incomplete: str, known: list[str]) -> list[CompletionItem]:
    short = ids.ShortIds(frozenset(known))
    items = [CompletionItem(short(id), help=id) for id in known if short(id).startswith(incomplete)]
    return items or [CompletionItem(id) for id in known if id.startswith(incomplete)]


def _starting(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(word) for word in sorted(set(words)) if word.startswith(incomplete)]


def _given(ctx: click.Context) -> list[str]:
    values: list[Any] = []
    for name in ("tables", "table", "target", "step", "about"):
        value = ctx.params.get(name)
        values += value if isinstance(value, tuple) else [value]
    # Click has parsed no argument if an option lacks its value.
    typed = map(_bare, typed_words(ctx))
    given = [_bare(value) for value in values if isinstance(value, str)]
    return [*given, *(word for word in typed if word in current_catalog().table_names and word not in given)]


def _bare(word: str) -> str:
    return word.removeprefix("+").removesuffix("+")


def _landed_days(ctx: click.Context) -> set[date]:
    from backfill_assets.landing.zone import LandingZone

    catalog, zone = current_catalog(), LandingZone(current_settings().landing)
    names = [word for word in _given(ctx) if word in catalog.table_names]
    steps = steps_of(catalog.steps, expand_tables(catalog.steps, names, upstream=True)) if names else ()
    return {day for step in steps if step.source for day in zone.paths(step.source)}


def _published_days(ctx: click.Context) -> set[date]:
    from backfill_assets.lakehouse.delta_log import read_log
    from backfill_assets.state.reading import pinned_version

    storage = open_storage()
    days: set[date] = set()
    known = set(current_catalog().table_names)
    for table in [word for word in _given(ctx) if word in known] or sorted(known):
        if (version := pinned_version(storage, table)) is not None:
            days |= read_log(storage, table, version).by_day().keys()
    return days
