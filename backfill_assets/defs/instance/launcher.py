"""``python -m backfill_assets.defs.instance.launcher``: launches a native backfill, prints its progress as JSON lines.

A process of its own, so that the command line can start and follow backfills without importing Dagster. The daemon
does the work; it must run, or be started, on the same ``DAGSTER_HOME``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from backfill_assets.days import DayRange
from backfill_assets.defs.campaigns.shadow import SHADOW
from backfill_assets.defs.instance.launch import BackfillProgress, cancel_backfill, launch_backfill, watch
from backfill_assets.defs.private_dagster import BaseAssetGraph
from backfill_assets.defs.specs import CADENCE_TAG
from backfill_assets.errors import BackfillError, InvalidRequest


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: every day was published. 1: some were not. 2: the request is invalid."""
    asked = _parser().parse_args(arguments)
    try:
        return _cancel(asked.cancel) if asked.cancel else _launch_and_follow(asked)
    except BackfillError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2


def _launch_and_follow(asked: argparse.Namespace) -> int:
    if not asked.days or not asked.title:
        raise InvalidRequest("A backfill needs --days and --title.")
    days, tags = DayRange.parse(asked.days), _tags(asked.tag)
    graph = importlib.import_module(asked.module).defs.resolve_asset_graph()
    tables = asked.tables or _published_tables(graph)
    with dg.DagsterInstance.get() as instance:
        backfill_id = launch_backfill(instance, graph, dict.fromkeys(tables, days), title=asked.title, tags=tags)
        if asked.no_watch:
            _print_json({"backfill_id": backfill_id})
            return 0
        return _follow(instance, backfill_id)


def _published_tables(graph: BaseAssetGraph[Any]) -> list[str]:
    """Not their shadow copies, nor assets that have no days."""
    keys = [key for key in graph.toposorted_asset_keys if key.path[0] != SHADOW]
    return [key.to_user_string() for key in keys if CADENCE_TAG in graph.get(key).tags]


def _cancel(backfill_id: str) -> int:
    with dg.DagsterInstance.get() as instance:
        cancel_backfill(instance, backfill_id)
    return 0


def _follow(instance: dg.DagsterInstance, backfill_id: str) -> int:
    last: BackfillProgress | None = None
    for last in watch(instance, backfill_id):
        _print_json(asdict(last))
    return 0 if last and last.succeeded else 1


def _print_json(fact: Mapping[str, object]) -> None:
    print(json.dumps(fact), flush=True)  # noqa: T201


def _tags(pairs: Sequence[str]) -> dict[str, str]:
    tags = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(tags) != len(pairs):
        raise InvalidRequest(f"Tags are written KEY=VALUE, each key once: {' '.join(pairs)}.")
    return tags


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m backfill_assets.defs.instance.launcher", description=__doc__)
    parser.add_argument("--module", default="backfill_assets.definitions", help="the code location to build with")
    parser.add_argument("--days", help="for example 2017-03-01..2017-05-29")
    parser.add_argument("--title")
    parser.add_argument("--tag", action="append", default=[], help="KEY=VALUE; reaches every run")
    parser.add_argument("--no-watch", action="store_true", help="print the backfill's id and return")
    parser.add_argument("--cancel", metavar="ID", help="end a backfill whose daemon and runs are dead, and return")
    parser.add_argument("tables", nargs="*", help="all daily tables, unless named")
    return parser


if __name__ == "__main__":
    sys.exit(main())
