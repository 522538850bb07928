"""The JARs of the tests' Kafka broker: ``python -m backfill_assets_tests.stream.broker_jars`` fetches them."""

from __future__ import annotations

import sys
from pathlib import Path

from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark.jars import fetch_lock, read_lock

LOCK = Path(__file__).with_name("broker.lock")


def broker_folder(settings: Settings) -> Path:
    """Beside Spark's JARs, and never on its class path."""
    return settings.jars.parent / "broker"


def class_path(settings: Settings) -> str:
    """The broker's JARs and pyspark's library of Scala; a JAR that is not as locked raises ``LakehouseUnusable``."""
    from pyspark.find_spark_home import _find_spark_home

    folder, locked = broker_folder(settings), read_lock(LOCK)
    wrong = [jar.file_name for jar in locked if not jar.stands_in(folder)]
    if wrong:
        raise LakehouseUnusable(f"Missing or damaged in {folder}: {', '.join(wrong)}.", hint="Run: make setup-broker")
    scala = sorted((Path(_find_spark_home()) / "jars").glob("scala-library-*.jar"))
    return ":".join(map(str, [*(folder / jar.file_name for jar in locked), *scala]))


if __name__ == "__main__":
    settings = Settings.from_environment()
    try:
        fetched = fetch_lock(LOCK, broker_folder(settings))
    except BackfillError as failure:
        sys.exit(str(failure))
    print(f"{len(fetched)} JARs fetched" if fetched else "JARs are complete")
