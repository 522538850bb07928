"""Spark's JARs for Delta and Kafka, fetched at set-up and checked against a lock."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark.java import require_java, spark_script

_FETCH = "backfill doctor --fix"
# What Ivy leaves out of the dependencies of a lock's JARs; the patterns also match JARs asked for by name. For Delta
# and Kafka, pyspark has everything else; for S3, the bundle of the whole SDK is 686 MB.
LEFT_OUT = {
    "jars.lock": "com.*:*,javax.*:*,commons-*:*,io.airlift:*,io.unitycatalog:*,at.yawk.lz4:*,org.antlr:*,"
    "org.scala-lang*:*,org.slf4j:*,org.xerial.snappy:*,org.apache.hadoop:*,org.apache.parquet:*,"
    "org.apache.spark:spark-tags_2.13,org.locationtech.jts:*,org.roaringbitmap:*",
    "jars-s3.lock": "software.amazon.awssdk:bundle,software.amazon.awssdk:netty-nio-client,io.netty:*,"
    "org.wildfly.openssl:*,org.slf4j:*,commons-codec:*,org.apache.httpcomponents:*",
}


@dataclass(frozen=True)
class LockedJar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def is_content_of(self, file: Path) -> bool:
        return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == self.sha256

    def stands_in(self, folder: Path) -> bool:
        return self.is_content_of(folder / self.file_name)


def read_lock(lock: Path) -> tuple[LockedJar, ...]:
    """Raises ``LakehouseUnusable`` if missing or damaged."""
    try:
        lines = [line.split() for line in lock.read_text().splitlines() if line.strip() and not line.startswith("#")]
        return tuple(LockedJar(*coordinate.split(":"), sha256) for coordinate, sha256 in lines)  # type: ignore[call-arg]
    except (OSError, ValueError, TypeError) as error:
        raise LakehouseUnusable(
            f"{lock} cannot be read as a list of JARs: {error}", hint="Restore it from git."
        ) from error


def _locks(settings: Settings) -> dict[str, tuple[LockedJar, ...]]:
    names = ["jars.lock", *(["jars-s3.lock"] if settings.lakehouse_on_s3 else [])]
    return {name: read_lock(settings.spark_conf / name) for name in names}


def locked_jars(settings: Settings) -> list[Path]:
    """Checks each. Raises ``LakehouseUnusable``."""
    lock = [jar for jars in _locks(settings).values() for jar in jars]
    wrong = [jar.file_name for jar in lock if not jar.stands_in(settings.jars)]
    if wrong:
        raise LakehouseUnusable(f"Missing or damaged in {settings.jars}: {', '.join(wrong)}.", hint=f"Run: {_FETCH}")
    return [settings.jars / jar.file_name for jar in lock]


def base_jars(settings: Settings) -> list[Path]:
    return [settings.jars / jar.file_name for jar in read_lock(settings.spark_conf / "jars.lock")]


def fetch_jars(settings: Settings) -> list[LockedJar]:
    fetched = []
    for name in _locks(settings):
        fetched += fetch_lock(settings.spark_conf / name, settings.jars, LEFT_OUT[name])
    return fetched


def fetch_lock(lock: Path, folder: Path, left_out: str = "") -> list[LockedJar]:
    """By Spark's resolver; ``left_out``: patterns ``group:artifact``."""
    wanted = [jar for jar in read_lock(lock) if not jar.stands_in(folder)]
    if wanted:
        require_java()
        ivy = folder.parent / "ivy"
        _resolve(wanted, left_out, ivy)
        for jar in wanted:
            _take_over(ivy / "jars" / f"{jar.group}_{jar.file_name}", jar, folder)
    return wanted


def _resolve(jars: Sequence[LockedJar], left_out: str, ivy: Path) -> None:
    with tempfile.NamedTemporaryFile(suffix=".py") as nothing_to_run:
        command = [
            spark_script("spark-submit"),
            *("--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf", f"spark.jars.ivy={ivy}"),
            *("--packages", ",".join(jar.coordinate for jar in jars)),
            *(("--exclude-packages", left_out) if left_out else ()),
            nothing_to_run.name,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        last_words = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise LakehouseUnusable(
            f"Spark could not fetch its JARs:\n{last_words}", hint=f"Check the network, then: {_FETCH}"
        )


def _take_over(fetched: Path, jar: LockedJar, folder: Path) -> None:
    if not jar.is_content_of(fetched):
        raise LakehouseUnusable(
            f"{fetched} is not the JAR that was locked.", hint=f"Remove {fetched.parents[1]}, then: {_FETCH}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    half_written = folder / f".{jar.file_name}"
    shutil.copyfile(fetched, half_written)
    half_written.replace(folder / jar.file_name)


if __name__ == "__main__":
    try:
        fetched = fetch_jars(Settings.from_environment())
    except BackfillError as failure:
        sys.exit(str(failure))
    print(f"{len(fetched)} JARs fetched" if fetched else "JARs are complete")
