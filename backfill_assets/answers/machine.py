"""What this machine needs for a run: each check gives one finding, and none changes anything."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from backfill_assets.errors import BackfillError
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step
from backfill_assets.report.answer import Answer, Fact, Tone, Toned, Worded
from backfill_assets.settings import Settings
from backfill_assets.text import format_count, format_ranges

CheckVerdict = Literal["ok", "warn", "fail"]
DAGSTER_PORT = 3000
CONNECT_PORT = 15002
_GIB = 1024**3
_MOST_RANGES = 6
_TONES = {"ok": Tone.PLAIN, "warn": Tone.WARN, "fail": Tone.BAD}
_LEAST_MEMORY, _ENOUGH_MEMORY = 2 * _GIB, 4 * _GIB
_LEAST_DISK, _ENOUGH_DISK = _GIB // 2, 5 * _GIB


@dataclass(frozen=True)
class MachineFinding:
    """The result of one check; a ``fail`` would stop a run."""

    what: str
    verdict: CheckVerdict
    found: str
    next_step: str = ""


def machine_answer(findings: Sequence[MachineFinding]) -> Answer:
    """A fact for each: its verdict, what was found, and what to do about it."""
    return Answer(parts=tuple(Fact(each.what, Toned(_worded(each), _TONES[each.verdict])) for each in findings))


def _worded(finding: MachineFinding) -> Worded:
    values = {"verdict": finding.verdict, "found": finding.found, "next_step": finding.next_step}
    do = f"  -> {finding.next_step}" if finding.next_step else ""
    return Worded(values, f"{finding.verdict:4}  {finding.found}{do}")


def examine(settings: Settings, declared: Callable[[], Catalog]) -> list[MachineFinding]:
    """All findings, in the order in which a new machine is set up. ``declared`` may raise: that is a finding."""
    found = _machine(settings)
    try:
        catalog = declared()
    except BackfillError as error:
        return [*found, MachineFinding("datasets", "fail", error.message, error.hint or "")]
    return [*found, datasets(settings, catalog), *_lakehouse(settings, catalog)]


def _machine(settings: Settings) -> list[MachineFinding]:
    return [
        _guard("Java", java),
        _guard("Spark profile", lambda: spark_profile(settings)),
        _guard("JARs", lambda: jars(settings)),
        class_archive(settings),
        _guard("memory", memory),
        *([] if settings.lakehouse_on_s3 else [_guard("disk space", lambda: disk_space(settings.lakehouse))]),
        dagster_port(),
        connect_server(settings),
    ]


def _lakehouse(settings: Settings, catalog: Catalog) -> list[MachineFinding]:
    return [
        *landing_zone(settings, catalog.steps),
        _guard("token key", lambda: token_key(settings, catalog)),
        bucket(settings) if settings.lakehouse_on_s3 else writable(settings.lakehouse),
        _guard("publications", lambda: open_publications(settings)),
        _guard("versions", lambda: current_versions(settings, catalog.steps)),
    ]


def _guard(what: str, check: Callable[[], MachineFinding]) -> MachineFinding:
    """Errors of this project say what to do: they become a failed finding."""
    try:
        return check()
    except BackfillError as error:
        return MachineFinding(what, "fail", error.message, error.hint or "")


def java() -> MachineFinding:
    from backfill_assets.spark.java import java_command, require_java

    version = require_java()
    return MachineFinding("Java", "ok", f"Java {version}, {java_command()}")


def spark_profile(settings: Settings) -> MachineFinding:
    from backfill_assets.spark.session import profile

    options = profile(settings)
    return MachineFinding("Spark profile", "ok", f"{settings.spark_profile}, {format_count(len(options), 'setting')}")


def jars(settings: Settings) -> MachineFinding:
    from backfill_assets.spark.jars import locked_jars

    return MachineFinding("JARs", "ok", f"{len(locked_jars(settings))} JARs as locked, in {settings.jars}")


def class_archive(settings: Settings) -> MachineFinding:
    from backfill_assets.spark.class_archive import MAKE_IT, archive_file

    file = archive_file(settings)
    if file.exists():
        return MachineFinding("class archive", "ok", f"{file.stat().st_size / 1e6:.0f} MB, {file}")
    hint = f"Spark starts some seconds faster with one. To make it: {MAKE_IT}"
    return MachineFinding("class archive", "warn", f"none at {file}", hint)


def memory(usable: int | None = None) -> MachineFinding:
    from backfill_assets.judge.engine import usable_memory
    from backfill_assets.spark.driver_memory import driver_memory

    size = usable_memory() if usable is None else usable
    found = f"{size / _GIB:.1f} GiB usable, {driver_memory(size)} of it for Spark"
    if size < _LEAST_MEMORY:
        return MachineFinding("memory", "fail", found, "Spark and Dagster need 2 GiB at least.")
    return MachineFinding(
        "memory", *_enough(size, _ENOUGH_MEMORY, found, "4 GiB or more let long ranges run smoothly.")
    )


def disk_space(folder: Path) -> MachineFinding:
    free = shutil.disk_usage(_existing(folder)).free
    found = f"{free / _GIB:.1f} GiB free at {folder}"
    if free < _LEAST_DISK:
        return MachineFinding(
            "disk space", "fail", found, "Free some space: a publication needs room for its new files."
        )
    advice = "Replaced files are kept for the rollback window, so history takes more than its size."
    return MachineFinding("disk space", *_enough(free, _ENOUGH_DISK, found, advice))


def _enough(size: int, enough: int, found: str, advice: str) -> tuple[CheckVerdict, str, str]:
    return ("ok", found, "") if size >= enough else ("warn", found, advice)


def dagster_port(port: int = DAGSTER_PORT) -> MachineFinding:
    what = "port of the Dagster UI"
    if _answers("127.0.0.1", port):
        hint = f"Is it Dagster already? If not: dagster dev --port {port + 1}"
        return MachineFinding(what, "warn", f"something answers on {port}", hint)
    return MachineFinding(what, "ok", f"{port} is free")


def connect_server(settings: Settings, port: int = CONNECT_PORT) -> MachineFinding:
    what = "Spark Connect"
    if settings.spark_remote is None:
        if _answers("127.0.0.1", port):
            hint = f"To use it: export SPARK_REMOTE=sc://127.0.0.1:{port}"
            return MachineFinding(what, "ok", f"not used, but something answers on {port}", hint)
        return MachineFinding(what, "ok", "not used: Spark runs inside the process")
    url = urlsplit(settings.spark_remote)
    if _answers(url.hostname or "", url.port or CONNECT_PORT):
        return MachineFinding(what, "ok", f"{settings.spark_remote} answers")
    hint = "Start one (backfill spark start), or unset SPARK_REMOTE for embedded Spark."
    return MachineFinding(what, "fail", f"nothing answers at {settings.spark_remote}", hint)


def datasets(settings: Settings, catalog: Catalog) -> MachineFinding:
    counts = f"{format_count(len(catalog.datasets), 'dataset')}, {format_count(len(catalog.tables), 'table')}"
    return MachineFinding("datasets", "ok", f"{counts}, declared in {settings.datasets}")


def landing_zone(settings: Settings, declared: Sequence[Step]) -> list[MachineFinding]:
    names = [step.source.name for step in declared if step.source]
    return [_guard(f"landed {name}", lambda name=name: landed_files(settings.landing, name)) for name in names]  # type: ignore[misc]


def landed_files(root: Path, source: str) -> MachineFinding:
    from backfill_assets.landing.zone import SUFFIX, LandingZone, first_paths

    zone = LandingZone(root)
    days = zone.days(source) if (root / source).is_dir() else ()
    if astray := zone.strays(source):
        found = f"{first_paths(astray)}: no {SUFFIX} file in the folder of a day, and not read"
        return MachineFinding(f"landed {source}", "warn", found, "Land it again as one, or hide it with a leading '_'.")
    if not days:
        hint = "Land its files there, in a folder for each day. For data of the examples: backfill sample --help"
        return MachineFinding(f"landed {source}", "warn", f"nothing in {root / source}", hint)
    return MachineFinding(
        f"landed {source}",
        "ok",
        f"{format_count(len(days), 'day')} in {root / source}: {format_ranges(days, _MOST_RANGES)}",
    )


def token_key(settings: Settings, catalog: Catalog) -> MachineFinding:
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.landing.token_key import recorded_check, require_no_tokens, require_same_key

    what, file, storage = "token key", settings.token_key_file, Storage(str(settings.lakehouse))
    if not file.is_file():
        require_no_tokens(storage, file, _tables_of_tokens(catalog))
        hint = "The first run makes one. Other machines that use this lakehouse need a copy of it."
        return MachineFinding(what, "warn", f"there is no {file}", hint)
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        return MachineFinding(what, "fail", f"{file} can be read by others (mode {mode:o})", f"chmod 600 {file}")
    if not os.access(file, os.R_OK):
        return MachineFinding(what, "fail", f"{file} cannot be read", "Run as the user who owns it.")
    require_same_key(storage, file)
    known = "the key of this lakehouse" if recorded_check(storage) else "no row was taken in with it yet"
    return MachineFinding(what, "ok", f"{file}, mode {mode:o}: {known}")


def _tables_of_tokens(catalog: Catalog) -> list[str]:
    from backfill_assets.rebuild.raw_change import tables_of_tokens

    return tables_of_tokens(catalog)


def writable(folder: Path) -> MachineFinding:
    what = "lakehouse"
    existing = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        hint = "Change its owner or permissions, or point BACKFILL_LAKEHOUSE elsewhere."
        return MachineFinding(what, "fail", f"{existing} cannot be written: {error.strerror}", hint)
    return MachineFinding(what, "ok", f"{folder} can be written" if existing == folder else f"{folder} will be made")


def bucket(settings: Settings) -> MachineFinding:
    """Looks into the bucket; whether it may write there only the first publication shows."""
    from backfill_assets.lakehouse.storage import Storage

    try:
        found = Storage(str(settings.lakehouse)).folders("")
    except OSError as error:
        hint = "Look at AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        return MachineFinding("lakehouse", "fail", f"{settings.lakehouse} cannot be read: {error}", hint)
    return MachineFinding(
        "lakehouse", "ok", f"{settings.lakehouse} answers; {format_count(len(found), 'folder')} in it"
    )


def open_publications(settings: Settings) -> MachineFinding:
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.publish.log import PublicationLog, anything_published

    what, storage = "publications", Storage(str(settings.lakehouse))
    if not anything_published(storage):
        return MachineFinding(what, "ok", "none yet")
    head = PublicationLog(storage).head()
    if head.state.open:
        found = f"under way: {', '.join(head.state.open)}"
        return MachineFinding(what, "warn", found, "Is a run at work? If not, the next run or rollback finishes them.")
    return MachineFinding(what, "ok", f"all are closed; {_count_text(head.state.versions)}")


def current_versions(settings: Settings, declared: Sequence[Step]) -> MachineFinding:
    """Steps that a publication switched to another version than the code calls current."""
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.model.current_versions import gone_version, switch_notes
    from backfill_assets.state.reading import read_switches

    what, switches = "versions", read_switches(Storage(str(settings.lakehouse)))
    notes = switch_notes(declared, switches)
    if not notes:
        return MachineFinding(what, "ok", "the current version of each step is the declared one")
    gone = any(gone_version(step, switches) for step in declared)
    return MachineFinding(
        what, "warn" if gone else "ok", "; ".join(notes), "backfill status has the current version of each table."
    )


def _count_text(tables: Iterable[str]) -> str:
    count = len(list(tables))
    return f"{format_count(count, 'table')} published"


def _existing(folder: Path) -> Path:
    """``folder``, or the nearest folder above it that is there."""
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _answers(host: str, port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.settimeout(1)
        try:
            return probe.connect_ex((host, port)) == 0
        except OSError:  # no such host
            return False
