from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.catalog import chains, discover
from backfill_assets.model.declaration import Reads
from backfill_assets.model.left_out import sound_datasets
from backfill_assets.model.selection import select


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
WITHOUT_FIELD = """
from backfill_assets.model.contract import Contract
class Thing(Contract):
    thing: str = "no field"
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
        (
            "import nothing",
            r"broken.py, line 1: things_declared.broken cannot be imported: ModuleNotFoundError: No module",
        ),
        ("1 / 0", "broken.py, line 1: .*ZeroDivisionError: division by zero"),
        ("def", r"SyntaxError: .*\(broken.py, line 1\)\.\n"),
        ("Decimal(1)", r"NameError: name 'Decimal' is not defined\.\n  -> Add: from decimal import Decimal"),
        ("from datetime import dates", r"ImportError: .*\n  -> Did you mean date\?"),
        (WITHOUT_FIELD, r"broken.py, line 3: The contract Thing declares thing without Field"),
    ],
)
def test_a_module_that_fails_is_left_out_by_name(package: ModuleType, text: str, words: str) -> None:
    """A person is told which file it is, and what is wrong in it; the others are worked with."""
    declare(package, "ants", broken=text)
    found = discover(package)
    (gone,) = found.left_out
    assert gone.what == "things_declared.broken" and re.search(words, str(gone.error))
    assert [each.name for each in found.datasets] == ["ants"]


def test_an_error_that_no_check_foresees_leaves_its_dataset_out(package: ModuleType) -> None:
    """Of a declaration that could be imported, and cannot be read: no traceback reaches a person."""
    declare(package, "ants", bees=MODULE.format(name="bees").replace("key=True", "key=True, joined=3"))
    found = discover(package)
    assert [each.name for each in found.datasets] == ["ants"]
    with pytest.raises(InvalidRequest, match="The dataset bees is declared wrong: TypeError: 'int' object is not iter"):
        found.table("raw_bees")


def test_where_nothing_is_sound_it_is_an_error(package: ModuleType) -> None:
    declare(package, broken="1 / 0")
    with pytest.raises(InvalidRequest, match="ZeroDivisionError"):
        discover(package)
    declare(package, worse="import nothing")
    with pytest.raises(InvalidRequest, match=r"(?s)Nothing is declared soundly:.*ZeroDivisionError.*No module"):
        discover(package)


@pytest.mark.parametrize("broken", ["T.StrinType", "StringType"])
def test_its_names_lead_to_what_is_wrong(package: ModuleType, broken: str) -> None:
    """Also where its module could not even be imported: they are read from its text."""
    declare(package, "bees", ants=MODULE.format(name="ants").replace("T.StringType", broken))
    found = discover(package)
    asked: list[Callable[[], object]] = [partial(found.dataset, "ants"), partial(select, ["tag:ants"], found, list)]
    asked += [partial(found.table, f"{layer}_ants") for layer in ("raw", "bronze", "quarantine")]
    for ask in asked:
        with pytest.raises(InvalidRequest, match=r"ants.py, line 14"):
            ask()
    with pytest.raises(InvalidRequest, match=r"no table 'raw_aunts'.*\n.*is left out: .*ants.py, line 14"):
        found.table("raw_aunts")


POSTPONED = "from __future__ import annotations\n"


def test_what_reads_it_is_left_out_and_the_rest_of_its_dataset_is_not(package: ModuleType) -> None:
    """Its declaration is wrong where it is read, not where it is imported: so the reader can be."""
    wrong = POSTPONED + MODULE.format(name="zebras").replace("T.StringType", "T.StrinType")
    declare(package, "ants", "bees", zebras=wrong, reports=READER)
    found = discover(package)
    assert {each.what: each.names for each in found.left_out} == {
        "the dataset zebras": {"zebras", "raw_zebras", "bronze_zebras", "quarantine_zebras"},
        "report_ants": {"report_ants"},
    }
    landed = {f"{layer}_{name}" for layer in ("raw", "bronze", "quarantine") for name in ("ants", "bees")}
    assert {*found.table_names} == landed
    with pytest.raises(
        InvalidRequest, match=r"report_ants reads bronze_zebras, which is left out: .*zebras.py, line 1"
    ):
        found.step("report_ants")


def test_a_module_that_imports_one_that_fails_says_so(package: ModuleType) -> None:
    declare(package, "ants", zebras="1 / 0", reports=READER)
    left = {each.what: str(each.error) for each in discover(package).left_out}
    assert re.search(
        r"reports cannot be imported: it imports things_declared.zebras, which .*by zero",
        left["things_declared.reports"],
    )


def test_a_dataset_that_begins_on_another_day_than_what_it_reads_is_left_out(package: ModuleType) -> None:
    later = MODULE.format(name="ants").replace("date(2020", "date(2021")
    declare(package, "bees", "zebras", ants=later, reports=READER)
    found = discover(package)
    assert [each.name for each in found.datasets] == ["bees", "zebras"] and len(chains(found.datasets)) == 2
    with pytest.raises(InvalidRequest, match="zebras on 2020-01-01, ants on 2021-01-01"):
        found.dataset("ants")


def test_tables_that_are_made_of_each_other_are_left_out() -> None:
    """Neither can be built first; all else is."""
    sea, rates = CATALOG.dataset("sea_temperatures"), CATALOG.dataset("fx_rates")
    bronze = rates.steps[-1]
    read_back = replace(bronze.versions[-1], reads=(*bronze.versions[-1].reads, Reads("report_sea_temperature")))
    report = sea.steps[-1]
    reads = (*report.versions[-1].reads, Reads("bronze_fx_rates"))
    circle = [
        replace(rates, steps=(*rates.steps[:-1], replace(bronze, versions=(read_back,), current=read_back.name))),
        replace(sea, steps=(*sea.steps[:-1], replace(report, versions=(replace(report.versions[-1], reads=reads),)))),
    ]
    found, gone = sound_datasets([*circle, CATALOG.dataset("products")])
    assert [each.name for each in found] == ["products"]
    assert {each.what for each in gone} == {"the dataset fx_rates", "the dataset sea_temperatures"}
    assert "made of each other" in str(gone[0])


def test_a_copy_with_the_old_name_is_refused(package: ModuleType) -> None:
    """The first thing that happens to a copied file: its tables would be written into those of the original."""
    declare(package, "ants", copied=MODULE.format(name="ants"))
    with pytest.raises(InvalidRequest, match="ants, bronze_ants, quarantine_ants, raw_ants"):
        discover(package)
