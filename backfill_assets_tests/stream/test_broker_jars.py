"""The broker is for tests alone: nothing that a user installs or starts needs it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark.jars import read_lock
from backfill_assets_tests.stream.broker_jars import LOCK, class_path

ROOT = Path(__file__).parents[2]


def test_only_tests_and_benchmarks_fetch_it() -> None:
    """In particular not ``make demo`` and ``make dev``."""
    rules = re.findall(r"^([a-z-]+):([^#=\n]*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    needing = {target for target, needs in rules if {"setup-broker", "$(BROKER)"} & set(needs.split())}
    assert needing == {"setup-broker", "tally", "test", "test-long", "test-stories", "bench", "bench-quick"}


def test_the_package_does_without_its_client() -> None:
    """Spark reads Kafka with its own. The extra for schema registries alone brings one: it has their deserialisers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: asked for name, asked in project["optional-dependencies"].items() if name != "registry"}
    declared = [*project["dependencies"], *chain.from_iterable(extras.values())]
    assert not [name for name in declared if "kafka" in name]
    modules = (ROOT / "backfill_assets").rglob("*.py")
    assert {path.name for path in modules if "confluent_kafka" in path.read_text()} == {"registry_events.py"}


def test_its_jars_are_not_those_of_spark() -> None:
    """Spark's connector has an older client: on one class path, the first one would win."""
    own = {jar.coordinate for jar in read_lock(LOCK)}
    assert "org.apache.kafka:kafka_2.13:4.2.0" in own
    assert not own & {jar.coordinate for jar in read_lock(ROOT / "spark_conf" / "jars.lock")}


def test_without_them_the_target_is_named(tmp_path: Path) -> None:
    settings = replace(Settings.at(tmp_path), jars=tmp_path / "jars")
    with pytest.raises(LakehouseUnusable, match=r"kafka_2\.13-4\.2\.0\.jar[\s\S]*make setup-broker"):
        class_path(settings)
