from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.catalog import chains, discover


def test_a_chain_has_all_that_its_datasets_read() -> None:
    """A range of sales needs rates and products of the same days; the sea has nothing to do with them."""
    names = {tuple(dataset.name for dataset in chain) for chain in chains(CATALOG.datasets)}
    assert {("fx_rates", "products", "sales"), ("sea_temperatures",)} <= names
    sales = {step.name for step in CATALOG.steps_with("sales")}
    assert sales == {step.name for step in CATALOG.steps_with("fx_rates")} >= {"raw_products", "bronze_fx_rates"}
    sea = [step.name for step in CATALOG.steps_with("sea_temperatures")]
    assert sea == ["raw_sea_temperatures", "bronze_sea_temperatures", "report_sea_temperature"]


@pytest.mark.parametrize(
    ("find", "typo", "hint"),
    [
        (CATALOG.table, "fact_daily_revenu", "Did you mean fact_daily_revenue"),
        (CATALOG.step, "fact_daily_revenu", "Did you mean fact_daily_revenue"),
        (CATALOG.step, "x", "Tables: .*raw_fx_rates"),
        (CATALOG.steps_with, "sale", "Did you mean sales"),
        (CATALOG.steps_with, "x", "Datasets: .*fx_rates, .*products"),
    ],
)
def test_a_typo_gets_the_nearest_name(find: Callable[[str], object], typo: str, hint: str) -> None:
    """Names are typed at the command line; a dataset may not have been registered."""
    with pytest.raises(InvalidRequest, match=hint):
        find(typo)


def test_a_step_is_found_by_any_of_its_tables() -> None:
    """Quarantine is built with bronze; a person who asks for one gets both."""
    assert CATALOG.step("quarantine_sales") is CATALOG.step("bronze_sales")
    assert CATALOG.table("quarantine_sales").layer == "quarantine"


def test_another_beginning_in_a_chain_is_refused() -> None:
    """Dagster would put each dataset into runs of its own, and a range into many."""
    fx, *others = (each for each in CATALOG.datasets if each.name in ("fx_rates", "products", "sales"))
    with pytest.raises(InvalidRequest, match="fx_rates on 2000-01-01, products on 2016-12-24"):
        chains([replace(fx, first_day=date(2000, 1, 1)), *others])


MODULE = """
from datetime import date
from pyspark.sql import types as T
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.landed_dataset import LandedDataset

THINGS = LandedDataset(
    name="{name}", description="Things.", owners=("team:a",), first_day=date(2020, 1, 1),
    rows="things", most_rows=10, tolerated_rejects=0,
)

@THINGS.row("v1", "Newest of each thing.")
class Thing(Contract):
    thing: T.StringType = Field(key=True, description="Which.")
    made_on: T.DateType = Field(event_day=True, description="When.")
    sent_at: T.TimestampType = Field(version=True, description="When it was sent.")
"""
READER = """
from pyspark.sql import types as T
from backfill_assets.model.contract import Contract, Field
from things_declared.zebras import THINGS as ZEBRAS
from things_declared.ants import THINGS as ANTS

@ANTS.table("report_ants", totals=())
class Report(Contract):
    thing: T.StringType = Field(key=True, description="Which.")
    day: T.DateType = Field(description="When.")

@ANTS.version(Report, "v1", "Each with its zebra.", ZEBRAS.bronze)
def report(zebras):
    return zebras
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An empty folder of datasets."""
    folder = tmp_path / "things_declared"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("things_declared")
    for name in [name for name in sys.modules if name.split(".")[0] == "things_declared"]:
        del sys.modules[name]


def declare(package: ModuleType, *names: str, **modules: str) -> None:
    """Write ``modules`` into the package, and one for each dataset of these ``names``."""
    for name, text in {**{name: MODULE.format(name=name) for name in names}, **modules}.items():
        (Path(package.__path__[0]) / f"{name}.py").write_text(text)
    importlib.invalidate_caches()


def test_a_dataset_is_registered_by_being_there(package: ModuleType) -> None:
    """By name, not by the name of its file; a module that imports it does not declare it again."""
    declare(package, "ants", first=MODULE.format(name="zebras"), third="from .first import THINGS")
    assert [dataset.name for dataset in discover(package).datasets] == ["ants", "zebras"]


def test_a_dataset_comes_after_what_it_reads(package: ModuleType) -> None:
    """A chain is named for its last one: the dataset that reads the others. Its tables may be in another module."""
    declare(package, "ants", "bees", "zebras", reports=READER)
    found = discover(package).datasets
    assert [dataset.name for dataset in found] == ["zebras", "ants", "bees"]
    assert [table.name for table in found[1].tables][-1] == "report_ants"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing", r"things_declared.broken cannot be imported: ModuleNotFoundError: .*\(.*broken.py, line 1"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def", r"SyntaxError: .*\(broken.py, line 1\)\.\n"),
    ],
)
def test_a_module_that_fails_is_named(package: ModuleType, text: str, words: str) -> None:
    """A command says which file it is, and what is wrong in it."""
    declare(package, "ants", broken=text)
    with pytest.raises(InvalidRequest, match=words):
        discover(package)


def test_a_copy_with_the_old_name_is_refused(package: ModuleType) -> None:
    """The first thing that happens to a copied file: its tables would be written into those of the original."""
    declare(package, "ants", copied=MODULE.format(name="ants"))
    with pytest.raises(InvalidRequest, match="ants, bronze_ants, quarantine_ants, raw_ants"):
        discover(package)
