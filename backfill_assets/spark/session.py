from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backfill_assets import clock
from backfill_assets.errors import LakehouseUnusable, SparkLost
from backfill_assets.judge.engine import usable_memory
from backfill_assets.lakehouse.object_store import ObjectStore
from backfill_assets.settings import CONNECT_PORT, Settings
from backfill_assets.spark.class_archive import start_folder, start_options
from backfill_assets.spark.jars import base_jars, locked_jars
from backfill_assets.spark.java import require_java, without_incubator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rows and files depend on these, so each session sets them; a server's other settings are its own.
_SET_BY_CLIENTS = ("spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType", "spark.databricks.delta.")
_PORTS = {"https": 443, "http": 80}
# The client would wait ten minutes for a server that does not answer; with these, half a minute.
_RETRIES, _LONGEST_WAIT_MS = 8, 5_000
# Java's properties: a key ends at the first blank, equals sign or colon.
_PROPERTY = re.compile(r"(?P<key>[^\s=:]+)\s*[=:]?\s*(?P<value>.*)")
RESTART_SECONDS = 120.0
KEPT_BY = "BACKFILL_SPARK_KEPT_BY"
"""The command that restarts the Spark server."""
_ANOTHER_SERVER = ("[NO_ACTIVE_SESSION]", "[INVALID_HANDLE.SESSION_")
"""A new server does not know the session."""
_SERVER_GONE = ("SparkConnectGrpcException", "RetriesExceeded")


@contextmanager
def spark_session(
    settings: Settings, app_name: str, session_id: str | None = None, options: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Closed on a Connect server; embedded Spark lives on."""
    session = open_session(settings, app_name, session_id, options)
    try:
        yield session
    finally:
        if settings.spark_remote:
            session.stop()


def open_session(
    settings: Settings, app_name: str, session_id: str | None = None, options: Mapping[str, str] | None = None
) -> SparkSession:
    """With Delta, UTC and the profile's settings, which ``options`` override. ``session_id``, a UUID, is for
    :func:`end_session`. Raises ``LakehouseUnusable``.
    """
    if settings.spark_remote:
        return _connect(settings, settings.spark_remote, session_id, options or {})
    return _embedded_session(settings, app_name, options or {})


def run_a_job(settings: Settings) -> None:
    """Raises ``LakehouseUnusable`` if it fails."""
    from pyspark.errors import PySparkException

    try:
        with spark_session(settings, "backfill spark") as session:
            session.range(10).count()
    except PySparkException as error:
        raise LakehouseUnusable(f"{settings.spark_remote} answers, but runs no job: {error}") from error


@contextmanager
def explain_lost_server(what: str) -> Iterator[None]:
    """Raises :class:`SparkLost`."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if not is_lost_server(error):
            raise
        raise SparkLost(
            f"The Spark server went away while {what}: nothing of it was published.",
            hint=f"{how_to_start()}, then run the same days again: what was staged is used.",
        ) from error


def is_lost_server(error: Exception) -> bool:
    return type(error).__name__ in _SERVER_GONE or any(each in str(error) for each in _ANOTHER_SERVER)


def keeper() -> str:
    return os.environ.get(KEPT_BY, "").strip()


def worker_python() -> str:
    """Spark would take the first ``python3``, without our packages."""
    return os.environ.get("PYSPARK_PYTHON") or sys.executable


def how_to_start() -> str:
    restarted_by = keeper()
    if restarted_by:
        return f"{restarted_by} starts it again by itself: wait until it says so"
    return "Start one (backfill spark start)"


def answers_within(url: str, seconds: float) -> bool:
    until = clock.seconds() + seconds
    while not listens(url):
        if clock.seconds() > until:
            return False
        clock.sleep(0.5)
    return True


def end_session(settings: Settings, session_id: str) -> None:
    """After a client's death its Connect session would go on writing."""
    from pyspark.errors import PySparkException

    if not settings.spark_remote:
        return
    require_answer(settings.spark_remote)
    try:
        session = _remote_session(settings.spark_remote, session_id)
        session.interruptAll()
        session.stop()
    except PySparkException as error:
        if "SESSION_CLOSED" not in str(error):
            raise


def driver_options(settings: Settings, options: Mapping[str, str]) -> dict[str, str]:
    """Beyond the profile: JARs, memory, S3, ``options``."""
    computed = {"spark.jars": ",".join(str(jar) for jar in locked_jars(settings))}
    if "spark.driver.memory" not in profile(settings):
        computed["spark.driver.memory"] = driver_memory()
    if settings.lakehouse_on_s3:
        computed |= ObjectStore.from_environment().spark_options()
    return computed | dict(options)


def driver_memory(usable: int | None = None) -> str:
    """A quarter, 1 to 8 GiB."""
    return f"{min(8, max(1, (usable_memory() if usable is None else usable) // 4 // 1024**3))}g"


def profile(settings: Settings) -> dict[str, str]:
    """Raises ``LakehouseUnusable`` for a missing profile."""
    file = settings.spark_conf / settings.spark_profile / "spark-defaults.conf"
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except OSError as error:
        hint = "Set BACKFILL_SPARK_PROFILE to a folder of spark_conf, and BACKFILL_SPARK_CONF to where those are."
        raise LakehouseUnusable(f"There is no Spark profile {file}.", hint=hint) from error
    pairs = [_PROPERTY.fullmatch(line) for line in lines if not line.startswith(("#", "!"))]
    return {pair["key"]: pair["value"] for pair in pairs if pair}


def _embedded_session(settings: Settings, app_name: str, options: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    require_java()
    builder = SparkSession.builder.appName(app_name)
    wanted = profile(settings) | driver_options(settings, options)
    for key, value in start_options(settings, wanted, base_jars(settings)).items():
        builder = builder.config(key, value)
    conf_dir = str(start_folder(settings))
    # With either of these set, PySpark would connect to a server instead of starting a JVM.
    elsewhere = {"SPARK_REMOTE": None, "SPARK_CONNECT_MODE_ENABLED": None}
    with _environment(SPARK_CONF_DIR=conf_dir, PYSPARK_PYTHON=worker_python(), **elsewhere, **without_incubator()):
        session: SparkSession = builder.getOrCreate()
    remember_lookups(session)
    return session


def _connect(settings: Settings, url: str, session_id: str | None, options: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException

    require_answer(url)
    try:
        session = _remote_session(url, session_id)
        wanted = {key: value for key, value in profile(settings).items() if key.startswith(_SET_BY_CLIENTS)}
        for key, value in (wanted | dict(options)).items():
            session.conf.set(key, value)
    except PySparkException as error:
        raise LakehouseUnusable(f"{url} gave no Spark session: {error}") from error
    return session


def require_answer(url: str) -> None:
    """Raises ``LakehouseUnusable`` if nothing listens at ``sc://host:port``, unless a command restarts the server: the
    client would try for minutes.
    """
    if not answers_within(url, RESTART_SECONDS if keeper() else 0):
        hint = f"{how_to_start()}, or unset SPARK_REMOTE: then Spark runs inside the process."
        raise LakehouseUnusable(f"Nothing answers at {url}.", hint=hint)


def listens(url: str, patience_seconds: float = 5) -> bool:
    """False for an unknown host."""
    address = urlsplit(url)
    with closing(socket.socket()) as probe:
        probe.settimeout(patience_seconds)
        try:
            port = address.port or _PORTS.get(address.scheme, CONNECT_PORT)
            return probe.connect_ex((address.hostname or "localhost", port)) == 0
        except OSError:
            return False


def _remote_session(url: str, session_id: str | None) -> SparkSession:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    named = f"{url.rstrip('/')}/;session_id={session_id}" if session_id else url
    session: SparkSession = SparkSession.builder.remote(named).create()
    patience = DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_WAIT_MS)
    session.client.set_retry_policies([patience])
    return session


@contextmanager
def _environment(**changes: str | None) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# ------------------------------------------------------------------ what embedded Spark looks up in its JVM


# PySpark's names for them. It looks for a name without a package in each imported package, in all JARs.
_CLASSES = (
    "functions",
    "org.apache.spark.sql.functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
    "SerDeUtil",
)


class _KnownClass:
    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaMember

        member = getattr(self._java_class, name)
        if isinstance(member, JavaMember):
            setattr(self, name, member)
        return member


def remember_lookups(session: SparkSession) -> None:
    """Cache PySpark's look-ups of Java classes and methods, within this process.

    Each ``F.col`` asks what ``org.apache.spark.sql.functions`` has.
    """
    jvm: Any = session.sparkContext._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            setattr(jvm, name, _KnownClass(getattr(jvm, name)))
