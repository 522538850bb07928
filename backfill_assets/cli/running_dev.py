"""The note by which commands of a home find the Spark and the UI of its ``backfill dev``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import Settings

_PROBE_SECONDS = 0.15
_STARTED_TOLERANCE_SECONDS = 1.0


@dataclass(frozen=True)
class RunningDev:
    pid: int
    started: float
    """Distinguishes a later process with its number."""
    ui: str
    spark: str
    lakehouse: str
    landing: str
    token_key_file: str
    home: str
    """Distinguishes the note of a copied home."""


def dev_file(settings: Settings) -> Path:
    return settings.home / "dev.json"


@contextmanager
def noted_dev(settings: Settings, ui: str, spark: str) -> Iterator[None]:
    """Write the note during the block; a dead process's note is ignored."""
    import psutil

    pid = os.getpid()  # noqa: TID251 - others ask whether the process is still there
    created = psutil.Process(pid).create_time()
    places = (settings.lakehouse, settings.landing, settings.token_key_file, settings.home.resolve())
    dev = RunningDev(pid, created, ui, spark, *map(str, places))
    file = dev_file(settings)
    unfinished = file.with_suffix(f".{pid}.tmp")
    unfinished.write_text(json.dumps(asdict(dev), indent=2))
    unfinished.replace(file)
    try:
        yield
    finally:
        if _read(file) == dev:
            file.unlink(missing_ok=True)


def running_dev(settings: Settings) -> RunningDev | None:
    noted = _read(dev_file(settings))
    if noted is None or noted.home != str(settings.home.resolve()):
        return None
    import psutil

    try:
        created = psutil.Process(noted.pid).create_time()
    except psutil.Error:
        return None
    return noted if abs(created - noted.started) < _STARTED_TOLERANCE_SECONDS else None


def running_ui(settings: Settings) -> str:
    dev = None if settings.ui else running_dev(settings)
    address = settings.ui or (dev.ui if dev else "")
    return address if address and _answers(address) else ""


def shared_spark(settings: Settings) -> tuple[Settings, str]:
    """Settings for this home's shared Spark, and the command that keeps it; without one, unchanged and ""."""
    if settings.spark_remote or not settings.share_spark or settings.spark_profile != "local":
        return settings, ""
    url, keeper = _shared_url(settings)
    if not url or not _answers(url):
        return settings, ""
    return replace(settings, spark_remote=url, spark_profile="connect"), keeper


def _shared_url(settings: Settings) -> tuple[str, str]:
    dev = running_dev(settings)
    if dev is not None:
        # A server has the object store credentials of its own environment.
        reaches = not settings.lakehouse_on_s3 or dev.lakehouse == str(settings.lakehouse)
        return (dev.spark, "backfill dev") if reaches else ("", "")
    from backfill_assets.spark.service import record_file, running_service

    if settings.lakehouse_on_s3 or not record_file(settings).exists():
        return "", ""
    service = running_service(settings)
    return (service.url, "backfill spark start") if service else ("", "")


def no_ui() -> LakehouseUnusable:
    return LakehouseUnusable(
        "No UI of this home is running.", hint="Start it: backfill dev. One that runs elsewhere: export BACKFILL_UI=URL"
    )


def _answers(address: str) -> bool:
    from backfill_assets.spark.session import listens

    return listens(address, _PROBE_SECONDS)


def _read(file: Path) -> RunningDev | None:
    try:
        return RunningDev(**json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return None
