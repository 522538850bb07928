"""Checks of what a run needs from this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from backfill_assets import clock
from backfill_assets.answers.maintenance import SEND
from backfill_assets.errors import BackfillError
from backfill_assets.external.observe import require_columns, there_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.token_key import recorded_check, require_no_tokens, require_same_key
from backfill_assets.landing.zone import LandingZone, first_paths, no_file_of
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.current_versions import gone_version, switch_notes
from backfill_assets.model.declaration import Source, Step
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.publish.lineage_outbox import INSTALL_LINEAGE, LINEAGE_MISSING, OPENLINEAGE, sent_up_to
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.publish.places import failing_place, failing_places
from backfill_assets.publish.senders import APPRISE_MISSING, INSTALL_APPRISE
from backfill_assets.report.answer import Answer, Fact, Tone, Toned, Worded
from backfill_assets.settings import CONNECT_PORT, Settings, wants_lineage
from backfill_assets.spark.class_archive import MAKE_IT, archive_file
from backfill_assets.spark.connect_server import LOOPBACK
from backfill_assets.spark.session import driver_memory, listens, profile
from backfill_assets.state.edited_logic import contents_of, edited_logic
from backfill_assets.state.observed import observe_each
from backfill_assets.state.reading import read_switches
from backfill_assets.text import format_count, format_ranges
from backfill_assets.upkeep.automation import SensorBook

CheckVerdict = Literal["ok", "warn", "fail"]
DAGSTER_PORT = 3000
_GIB = 1024**3
_MOST_RANGES = 6
_TONES = {"ok": Tone.PLAIN, "warn": Tone.WARN, "fail": Tone.BAD}
_LEAST_MEMORY, _ENOUGH_MEMORY = 2 * _GIB, 4 * _GIB
_LEAST_DISK, _ENOUGH_DISK = _GIB // 2, 5 * _GIB


@dataclass(frozen=True)
class MachineFinding:
    """A ``fail`` would stop a run."""

    verdict: CheckVerdict
    found: str
    next_step: str = ""

    def __str__(self) -> str:
        do = f"  -> {self.next_step}" if self.next_step else ""
        return f"{self.verdict:4}  {self.found}{do}"


Check = Callable[[], MachineFinding]
Findings = Mapping[str, MachineFinding]


def machine_answer(findings: Findings) -> Answer:
    words = {what: Worded(asdict(each), str(each)) for what, each in findings.items()}
    return Answer(parts=tuple(Fact(what, Toned(words[what], _TONES[each.verdict])) for what, each in findings.items()))


def examine(settings: Settings, declared: Callable[[], Catalog]) -> Findings:
    found = {what: _guarded(check) for what, check in _of_machine(settings).items()}
    try:
        catalog = declared()
    except BackfillError as error:
        return {**found, "datasets": _failed(error)}
    return {**found, **{what: _guarded(check) for what, check in _of_lakehouse(settings, catalog).items()}}


def _of_machine(settings: Settings) -> dict[str, Check]:
    disk = {} if settings.lakehouse_on_s3 else {"disk space": partial(disk_space, settings.lakehouse)}
    return {
        "Java": java,
        "Spark profile": partial(spark_profile, settings),
        "JARs": partial(jars, settings),
        "class archive": partial(class_archive, settings),
        "memory": memory,
        **disk,
        "port of the Dagster UI": dagster_port,
        "Spark Connect": partial(connect_server, settings),
        "workers of Spark": partial(workers, settings),
    }


def _of_lakehouse(settings: Settings, catalog: Catalog) -> dict[str, Check]:
    place = partial(bucket, settings) if settings.lakehouse_on_s3 else partial(writable, settings.lakehouse)
    sources = [step.source for step in catalog.steps if step.source]
    return {
        "datasets": partial(datasets, settings, catalog),
        **{f"landed {source.name}": partial(landed_files, settings.landing, source) for source in sources},
        **{f"table of others {each.name}": partial(table_of_others, each) for each in _others(catalog)},
        "token key": partial(token_key, settings, catalog),
        "lakehouse": place,
        "publications": partial(open_publications, settings),
        "tables": partial(readable_tables, settings, catalog.table_names),
        "sensors": partial(sensors, settings),
        "notices": partial(notices, settings),
        **({"lineage": partial(lineage, settings)} if wants_lineage() else {}),
        "versions": partial(current_versions, settings, catalog.steps),
        "logic": partial(logic_as_published, settings, catalog.steps),
    }


def _others(catalog: Catalog) -> list[ExternalTable]:
    return [step.external for step in catalog.steps if step.external]


def table_of_others(external: ExternalTable) -> MachineFinding:
    there = there_of(external)
    version = there.newest()
    require_columns(external, there.at(version))
    return MachineFinding("ok", f"version {version} in {external.location}")


def _guarded(check: Check) -> MachineFinding:
    try:
        return check()
    except BackfillError as error:
        return _failed(error)


def _failed(error: BackfillError) -> MachineFinding:
    return MachineFinding("fail", error.message, error.hint or "")


def java() -> MachineFinding:
    from backfill_assets.spark.java import java_command, require_java

    version = require_java()
    return MachineFinding("ok", f"Java {version}, {java_command()}")


def spark_profile(settings: Settings) -> MachineFinding:
    options = profile(settings)
    return MachineFinding("ok", f"{settings.spark_profile}, {format_count(len(options), 'setting')}")


def jars(settings: Settings) -> MachineFinding:
    from backfill_assets.spark.jars import locked_jars

    return MachineFinding("ok", f"{len(locked_jars(settings))} JARs as locked, in {settings.jars}")


def class_archive(settings: Settings) -> MachineFinding:
    file = archive_file(settings)
    if file.exists():
        return MachineFinding("ok", f"{file.stat().st_size / 1e6:.0f} MB, {file}")
    hint = f"Spark starts some seconds faster with one. To make it: {MAKE_IT}"
    return MachineFinding("warn", f"none at {file}", hint)


def memory(usable: int | None = None) -> MachineFinding:
    from backfill_assets.judge.engine import usable_memory

    size = usable_memory() if usable is None else usable
    found = f"{size / _GIB:.1f} GiB usable, {driver_memory(size)} of it for Spark"
    if size < _LEAST_MEMORY:
        return MachineFinding("fail", found, "Spark and Dagster need 2 GiB at least.")
    return MachineFinding(*_enough(size, _ENOUGH_MEMORY, found, "4 GiB or more let long ranges run smoothly."))


def disk_space(folder: Path) -> MachineFinding:
    free = shutil.disk_usage(_existing(folder)).free
    found = f"{free / _GIB:.1f} GiB free at {folder}"
    if free < _LEAST_DISK:
        return MachineFinding("fail", found, "Free some space: a publication needs room for its new files.")
    advice = "Replaced files are kept for the rollback window, so history takes more than its size."
    return MachineFinding(*_enough(free, _ENOUGH_DISK, found, advice))


def _enough(size: int, enough: int, found: str, advice: str) -> tuple[CheckVerdict, str, str]:
    return ("ok", found, "") if size >= enough else ("warn", found, advice)


def dagster_port(port: int = DAGSTER_PORT) -> MachineFinding:
    if listens(f"http://{LOOPBACK}:{port}"):
        hint = f"Is it Dagster already? If not: dagster dev --port {port + 1}"
        return MachineFinding("warn", f"something answers on {port}", hint)
    return MachineFinding("ok", f"{port} is free")


def connect_server(settings: Settings, port: int = CONNECT_PORT) -> MachineFinding:
    if settings.spark_remote is None:
        here = f"sc://{LOOPBACK}:{port}"
        if listens(here):
            hint = f"To use it: export SPARK_REMOTE={here}"
            return MachineFinding("ok", f"not used, but something answers on {port}", hint)
        return MachineFinding("ok", "not used: Spark runs inside the process")
    if listens(settings.spark_remote):
        return MachineFinding("ok", f"{settings.spark_remote} answers")
    hint = "Start one (backfill spark start), or unset SPARK_REMOTE for embedded Spark."
    return MachineFinding("fail", f"nothing answers at {settings.spark_remote}", hint)


def workers(settings: Settings) -> MachineFinding:
    """A server's workers are asked by a job; embedded Spark starts this Python or the configured one."""
    from backfill_assets.spark.session import spark_session, worker_python
    from backfill_assets.spark.workers import require_same, require_workers, versions_of

    if settings.spark_remote and listens(settings.spark_remote):
        with spark_session(settings, "backfill doctor") as session:
            found = require_workers(session)
    else:
        found = require_same(versions_of(worker_python()))
    return MachineFinding("ok", ", ".join(f"{name} {version}" for name, version in found.items()))


def datasets(settings: Settings, catalog: Catalog) -> MachineFinding:
    """A dataset with errors stops only its own runs."""
    counts = f"{format_count(len(catalog.datasets), 'dataset')}, {format_count(len(catalog.tables), 'table')}"
    found = f"{counts}, declared in {settings.datasets}"
    if catalog.left_out:
        hints = dict.fromkeys(each.error.hint for each in catalog.left_out if each.error.hint)
        return MachineFinding("fail", ". ".join([found, *map(str, catalog.left_out)]), " ".join(hints))
    return MachineFinding("ok", found)


def landed_files(root: Path, source: Source) -> MachineFinding:
    zone = LandingZone(root)
    days = zone.days(source) if (root / source.name).is_dir() else ()
    if astray := zone.strays(source):
        found = f"{first_paths(astray)}: {no_file_of(source)}, and not read"
        return MachineFinding("warn", found, "Land it again as one, or hide it with a leading '_'.")
    if not days:
        hint = f"Land its files as {zone.example(source)}. For data of the examples: backfill sample --help"
        return MachineFinding("warn", f"nothing in {root / source.name}", hint)
    return MachineFinding(
        "ok",
        f"{format_count(len(days), 'day')} in {root / source.name}: {format_ranges(days, _MOST_RANGES)}",
    )


def token_key(settings: Settings, catalog: Catalog) -> MachineFinding:
    file, storage = settings.token_key_file, Storage(str(settings.lakehouse))
    if not file.is_file():
        require_no_tokens(storage, file, catalog.tables_of_tokens)
        hint = "The first run makes one. Other machines that use this lakehouse need a copy of it."
        return MachineFinding("warn", f"there is no {file}", hint)
    mode = file.stat().st_mode & 0o777
    if mode & 0o077:
        return MachineFinding("fail", f"{file} can be read by others (mode {mode:o})", f"chmod 600 {file}")
    if not os.access(file, os.R_OK):
        return MachineFinding("fail", f"{file} cannot be read", "Run as the user who owns it.")
    require_same_key(storage, file)
    known = "the key of this lakehouse" if recorded_check(storage) else "no row was taken in with it yet"
    return MachineFinding("ok", f"{file}, mode {mode:o}: {known}")


def writable(folder: Path) -> MachineFinding:
    existing = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        hint = "Change its owner or permissions, or point BACKFILL_LAKEHOUSE elsewhere."
        return MachineFinding("fail", f"{existing} cannot be written: {error.strerror}", hint)
    return MachineFinding("ok", f"{folder} can be written" if existing == folder else f"{folder} will be made")


def bucket(settings: Settings) -> MachineFinding:
    """Only reads: the first publication shows whether it can write."""
    try:
        found = Storage(str(settings.lakehouse)).folders("")
    except OSError as error:
        hint = "Look at AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        return MachineFinding("fail", f"{settings.lakehouse} cannot be read: {error}", hint)
    return MachineFinding("ok", f"{settings.lakehouse} answers; {format_count(len(found), 'folder')} in it")


def open_publications(settings: Settings) -> MachineFinding:
    storage = Storage(str(settings.lakehouse))
    if not anything_published(storage):
        return MachineFinding("ok", "none yet")
    head = PublicationLog(storage).head()
    if head.state.open:
        found = f"under way: {', '.join(head.state.open)}"
        return MachineFinding("warn", found, "Is a run at work? If not, the next run or rollback finishes them.")
    return MachineFinding("ok", f"all are closed; {format_count(len(head.state.versions), 'table')} published")


def readable_tables(settings: Settings, tables: Collection[str]) -> MachineFinding:
    storage = Storage(str(settings.lakehouse))
    if not anything_published(storage):
        return MachineFinding("ok", "none is published yet")
    if broken := list(observe_each(storage, tables).unreadable.values()):
        found = "; ".join(f"{each.table} cannot be read: {each.why}" for each in broken)
        return MachineFinding("fail", found, "; ".join(dict.fromkeys(each.next_step for each in broken)))
    return MachineFinding("ok", f"{format_count(len(tables), 'table')}: each Delta log can be read")


def sensors(settings: Settings) -> MachineFinding:
    book, now = SensorBook(Storage(str(settings.lakehouse))), clock.now()
    if not (known := book.all()):
        return MachineFinding("ok", "none has run on this lakehouse yet")
    if troubles := list(book.troubles(now)):
        hint = "backfill dev starts the daemon; each tick under Automation says how it ended."
        return MachineFinding("warn", "; ".join(troubles), hint)
    calls = "; the heartbeat is called" if settings.heartbeat else ""
    return MachineFinding("ok", f"{format_count(len(known), 'sensor')} ran to the end in the last minutes{calls}")


def notices(settings: Settings) -> MachineFinding:
    if failing := failing_places(Storage(str(settings.lakehouse)), settings.notices):
        steps = dict.fromkeys(each.next_step for each in failing if each.next_step)
        return MachineFinding("warn", "; ".join(map(str, failing)), " ".join((*steps, f"To try again: {SEND}")))
    if any(route.kind == "apprise" for route in settings.notices) and find_spec("apprise") is None:
        return MachineFinding("warn", APPRISE_MISSING, INSTALL_APPRISE)
    kinds = dict.fromkeys(route.kind for route in settings.notices)
    return MachineFinding("ok", f"told: {', '.join(kinds)}")


def lineage(settings: Settings) -> MachineFinding:
    if find_spec("openlineage") is None:
        return MachineFinding("warn", LINEAGE_MISSING, INSTALL_LINEAGE)
    storage = Storage(str(settings.lakehouse))
    if failing := failing_place(storage, OPENLINEAGE):
        return MachineFinding("warn", failing.said("events"), f"{failing.next_step} To try again: {SEND}".strip())
    sent = sent_up_to(storage)
    return MachineFinding("ok", "no event was sent yet" if sent < 0 else f"sent up to entry {sent} of the log")


def current_versions(settings: Settings, declared: Sequence[Step]) -> MachineFinding:
    switches = read_switches(Storage(str(settings.lakehouse)))
    notes = switch_notes(declared, switches)
    if not notes:
        return MachineFinding("ok", "the current version of each step is the declared one")
    gone = any(gone_version(step, switches) for step in declared)
    return MachineFinding(
        "warn" if gone else "ok", "; ".join(notes), "backfill status has the current version of each table."
    )


def logic_as_published(settings: Settings, declared: Sequence[Step]) -> MachineFinding:
    storage = Storage(str(settings.lakehouse))
    if not anything_published(storage):
        return MachineFinding("ok", "nothing is published yet")
    log = PublicationLog(storage)
    contents = contents_of(log.day_states(log.head(), [name for step in declared for name in step.table_names]))
    if edited := edited_logic(storage, declared, contents):
        return MachineFinding("fail", "; ".join(map(str, edited)), edited[0].next_step)
    if any(each.logic for each in contents.values()):
        return MachineFinding("ok", "each version is as it was when it published its days")
    return MachineFinding("ok", "the published days do not say with which logic they were made")


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())
