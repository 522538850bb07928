"""A machine's settings, by environment variables."""

from __future__ import annotations

import enum
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path, PosixPath
from typing import Any
from urllib.parse import urlsplit

from backfill_assets.errors import InvalidRequest
from backfill_assets.limits import BackfillLimits
from backfill_assets.notice_routes import Route, parse_routes

CONNECT_PORT = 15002
LOG_FORMAT = "BACKFILL_LOG_FORMAT"
_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """In the package, or beside it in the repository."""
    return within if (within := _PACKAGE / name).exists() else _PACKAGE.parent / name


def cache_folder() -> Path:
    in_repository = shipped("spark_conf").parent == _PACKAGE.parent
    return _PACKAGE.parent / ".cache" if in_repository else Path.home() / ".cache" / "backfill-assets"


class ApprovalRule(enum.StrEnum):
    """Who may approve a campaign, unless its plan lists approvers."""

    ANYONE = "anyone"
    ANOTHER_PERSON = "another-person"
    """Neither planner nor last starter."""
    LISTED = "listed"
    """Only approvers that the plan lists."""


class BucketPath(PosixPath):
    """``s3://bucket/prefix``, no file."""

    def __str__(self) -> str:
        return "s3://" + "/".join(self.parts[1:])

    def absolute(self) -> BucketPath:
        return self


def lakehouse_path(text: str) -> Path:
    scheme, _, rest = text.partition("://")
    if "://" not in text:
        return Path(text).expanduser().absolute()
    if scheme != "s3" or not rest or rest.startswith("/"):
        raise InvalidRequest(f"The lakehouse is {text!r}.", hint="Name a folder, or write s3://bucket/prefix.")
    return BucketPath(text)


@dataclass(frozen=True)
class Settings:
    """Paths are absolute. Without ``days_per_run`` one run takes a whole range."""

    home: Path
    lakehouse: Path
    landing: Path
    token_key_file: Path
    spark_conf: Path
    """Profiles (``local/spark-defaults.conf``), and ``jars.lock``."""
    jars: Path
    datasets: str = ""
    spark_profile: str = "local"
    spark_remote: str | None = None
    """``sc://host:port``; None: within this process."""
    rollback_window_days: int = 30
    days_per_run: int | None = None
    core_hour_price: Decimal | None = None
    notices: tuple[Route, ...] = (Route(),)
    breaker: BackfillLimits = field(default_factory=BackfillLimits)
    """Native backfills' limits; campaigns have their own."""
    timeline_days: int = 14
    """Unwanted timelines are closed then."""
    stream_source: str = "landing"
    """For Dagster's streams: ``landing``, or ``kafka://host:port/topic``."""
    approval_by: ApprovalRule = ApprovalRule.ANYONE
    letters: str = ""
    """Where letters are served; if empty, links name files."""
    refuse_dirty_tree: bool = False
    """Uncommitted code neither computes nor publishes."""
    share_spark: bool = True
    """Commands use this home's running Spark server."""
    automation: bool = True
    """If false, schedules and sensors launch nothing, and say so."""
    ui: str | None = None
    """Dagster's URL, unless this home's ``backfill dev`` started it."""
    heartbeat: str = field(default="", repr=False)
    """Called every minute while all sensors work; may be secret."""
    repairs: str = ""
    """``days=100,money=5``, for ``RepairBounds``."""
    clock_checked: bool = False
    """Maintenance counts long pauses too: a person has checked this machine's clock."""
    two_loops: bool = False
    """Facts of a stream follow in a loop of their own."""
    writers_stopped: bool = False
    """A table is adopted in spite of recent commits: a person has stopped who made them."""
    metrics_port: int | None = None
    """Serves ``backfill dev``'s figures to Prometheus."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Reads ``BACKFILL_*`` and ``SPARK_REMOTE``; raises :class:`InvalidRequest`."""
        env = {name: text for name, text in (os.environ if environ is None else environ).items() if text.strip()}
        home = _path(env, "BACKFILL_HOME", Path(".data"))
        remote = _remote(env)
        return cls(
            home=home,
            lakehouse=lakehouse_path(env.get("BACKFILL_LAKEHOUSE", str(home / "lakehouse"))),
            landing=_path(env, "BACKFILL_LANDING", home / "landing"),
            token_key_file=_path(env, "BACKFILL_TOKEN_KEY_FILE", home / "token.key"),
            spark_conf=_path(env, "BACKFILL_SPARK_CONF", shipped("spark_conf")),
            jars=_path(env, "BACKFILL_JARS", cache_folder() / "jars"),
            datasets=env.get("BACKFILL_DATASETS", "").strip() or of_project(Path.cwd(), "backfill", "datasets"),
            spark_profile=_profile(env, default="connect" if remote else "local"),
            spark_remote=remote,
            rollback_window_days=_days(env, "BACKFILL_ROLLBACK_WINDOW_DAYS", "30"),
            days_per_run=_days_per_run(env.get("BACKFILL_POLICY", "single_run")),
            core_hour_price=_price(env, "BACKFILL_CORE_HOUR_PRICE"),
            notices=parse_routes(env.get("BACKFILL_NOTICES", "log")),
            breaker=_breaker(env),
            timeline_days=_days(env, "BACKFILL_TIMELINE_DAYS", "14"),
            stream_source=_stream_source(env.get("BACKFILL_STREAM_SOURCE", "landing").strip()),
            approval_by=ApprovalRule(_one_of(env, "BACKFILL_APPROVAL_BY", *ApprovalRule)),
            letters=_web_address(env, "BACKFILL_LETTERS") or "",
            refuse_dirty_tree=_one_of(env, "BACKFILL_DIRTY_TREE", "allow", "refuse") == "refuse",
            share_spark=_one_of(env, "BACKFILL_SHARED_SPARK", "use", "never") == "use",
            automation=_one_of(env, "BACKFILL_AUTOMATION", "on", "off") == "on",
            ui=_web_address(env, "BACKFILL_UI"),
            heartbeat=env["BACKFILL_HEARTBEAT"].strip() if _web_address(env, "BACKFILL_HEARTBEAT") else "",
            repairs=env.get("BACKFILL_REPAIRS", "").strip(),
            clock_checked=_one_of(env, "BACKFILL_CLOCK", "guarded", "checked") == "checked",
            two_loops=_one_of(env, "BACKFILL_STREAM_LOOPS", "one", "two") == "two",
            writers_stopped=_one_of(env, "BACKFILL_WRITERS", "running", "stopped") == "stopped",
            metrics_port=_port(env, "BACKFILL_METRICS_PORT"),
        )

    @property
    def lakehouse_on_s3(self) -> bool:
        return isinstance(self.lakehouse, BucketPath)

    @classmethod
    def at(cls, home: Path) -> Settings:
        return cls.from_environment({"BACKFILL_HOME": str(home)})


def logs_as_json() -> bool:
    return os.environ.get(LOG_FORMAT) == "json"


def wants_lineage(environ: Mapping[str, str] | None = None) -> bool:
    """Whether settings of the OpenLineage client name a receiver: the environment, or its file, here or at home."""
    env = os.environ if environ is None else environ
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if env.get("OPENLINEAGE_URL") or any(name.startswith("OPENLINEAGE__TRANSPORT") for name in env):
        return True
    file = "openlineage.yml"
    places = (env.get("OPENLINEAGE_CONFIG", ""), file, Path("~/.openlineage", file).expanduser())
    return any(place and Path(place).is_file() for place in places)


def of_project(folder: Path, tool: str, key: str) -> str:
    return str(tools_of_project(folder).get(tool, {}).get(key, ""))


@cache
def tools_of_project(folder: Path) -> Mapping[str, Any]:
    """Raises :class:`InvalidRequest` for an unreadable ``pyproject.toml``."""
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}.") from error
    tools: Mapping[str, Any] = project.get("tool", {})
    return tools


def _path(env: Mapping[str, str], variable: str, default: Path) -> Path:
    return Path(env.get(variable, default)).expanduser().absolute()


def _remote(env: Mapping[str, str]) -> str | None:
    url = env.get("SPARK_REMOTE")
    if url is not None and not url.startswith("sc://"):
        raise InvalidRequest(f"SPARK_REMOTE is {url!r}.", hint="Write sc://host:port, or unset it for embedded Spark.")
    return url


def _profile(env: Mapping[str, str], *, default: str) -> str:
    name = env.get("BACKFILL_SPARK_PROFILE", default)
    if not name.replace("-", "").replace("_", "").isalnum():
        raise InvalidRequest(f"BACKFILL_SPARK_PROFILE is {name!r}.", hint="Name a folder of spark_conf, such as local.")
    return name


def _days(env: Mapping[str, str], variable: str, default: str) -> int:
    return _positive(env.get(variable, default), variable)


def _positive(text: str, variable: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InvalidRequest(f"{variable} is {text!r}.", hint="It takes a whole number of days, at least 1.")
    return int(text)


def _port(env: Mapping[str, str], variable: str) -> int | None:
    text = env.get(variable, "").strip()
    if text and not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
        raise InvalidRequest(f"{variable} is {text!r}.", hint="It takes the number of a free port, such as 9464.")
    return int(text) if text else None


def _one_of(env: Mapping[str, str], variable: str, *choices: str) -> str:
    text = env.get(variable, choices[0]).strip()
    if text not in choices:
        hint = f"It takes {', '.join(choices[:-1])} or {choices[-1]}."
        raise InvalidRequest(f"{variable} is {text!r}.", hint=hint)
    return text


def _web_address(env: Mapping[str, str], variable: str) -> str | None:
    text = env.get(variable, "").strip()
    if text and urlsplit(text).scheme not in ("http", "https"):
        raise InvalidRequest(f"{variable} is {text!r}.", hint="Write http://host:port, or unset it.")
    return text.rstrip("/") or None


def _price(env: Mapping[str, str], variable: str) -> Decimal | None:
    text = env.get(variable)
    try:
        price = Decimal(text) if text is not None else None
    except InvalidOperation:
        price = Decimal("NaN")
    if price is not None and not (price.is_finite() and price >= 0):
        raise InvalidRequest(f"{variable} is {text!r}.", hint="It takes a number that is not negative, such as 0.048.")
    return price


def _breaker(env: Mapping[str, str]) -> BackfillLimits:
    try:
        found = BackfillLimits.parse(env.get("BACKFILL_BREAKER", ""))
    except InvalidRequest as error:
        raise InvalidRequest(f"BACKFILL_BREAKER cannot be read: {error.message}", hint=error.hint) from None
    if found.money is not None and "BACKFILL_CORE_HOUR_PRICE" not in env:
        hint = "Set BACKFILL_CORE_HOUR_PRICE, or limit core_seconds instead."
        raise InvalidRequest("BACKFILL_BREAKER limits money, and the price of a core hour is not set.", hint=hint)
    return found


def _stream_source(text: str) -> str:
    url = urlsplit(text)
    if text == "landing" or (url.scheme == "kafka" and url.netloc and url.path.strip("/")):
        return text
    raise InvalidRequest(f"BACKFILL_STREAM_SOURCE is {text!r}.", hint="It takes landing, or kafka://HOST:PORT/TOPIC.")


def _days_per_run(policy: str) -> int | None:
    name, _, days = policy.partition(":")
    if policy == "single_run":
        return None
    if name == "multi_run":
        return _positive(days, "The N of multi_run:N in BACKFILL_POLICY")
    raise InvalidRequest(f"BACKFILL_POLICY is {policy!r}.", hint="It takes single_run, or multi_run:N (N days a run).")
