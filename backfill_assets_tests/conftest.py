"""Shared Spark sessions, and the tier of every test: read from the fixtures it uses and the folder it is in."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Set
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hypothesis
import pytest

from backfill_assets import clock
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import ConnectServer, connect_server
from backfill_assets.spark.service import start_standalone_cluster
from backfill_assets.spark.session import open_session, spark_session
from backfill_assets_tests.clock import FakeClock
from backfill_assets_tests.cpu_budget import BUDGETS, LIMITS, CpuBudget
from backfill_assets_tests.strategies.how_many import TIMES, drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.scheduler import LoadFileScheduling

    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets_tests.protocol.lake import Lake
    from backfill_assets_tests.stream.broker import Broker

SMALL_SPARK = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    # Tests end before the second compiler has paid for itself: half the time of a cold start. Without it the room for
    # compiled code would be so small that it is thrown away and compiled again all the time. Room for new objects and
    # for classes from the start: a heap that grows collects garbage a hundred times in a story.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    " -Xms1g -Xmn640m -XX:MetaspaceSize=512m",
}
CHILDREN_OF_TESTS = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
"""The same for the JVMs of commands and runs that tests start as processes of their own."""
INTERPRETED = {
    # Code for every query is generated for millions of rows; a test has tens. The Connect server of the tests
    # generates it, so that both ways are tried.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_TIMEOUT_SECONDS = {"fast": 20, "data": 120, "protocol": 600, "spark": 180, "story": 1200}
_TIER_OF_PLACE = {
    **dict.fromkeys(("stories", "defs", "demo"), "story"),
    "protocol": "protocol",
    # They land thousands of lines, compile queries, or start processes of their own.
    **dict.fromkeys(("datasets", "sample", "lab", "commands", "dev", "benchmarks", "wheel"), "data"),
    **dict.fromkeys(("test_approve.py", "test_group.py", "test_connect_server.py"), "data"),
}
"""By the name of a folder or a file."""
_HEAVY_IMPORT = re.compile(
    r"^(?:import|from) (?:pandas|pandera|pyarrow\.dataset|backfill_assets_tests\.(?:oracle|workshop))\b",
    re.MULTILINE,
)
_TIER_OF_MODULE = re.compile(r"^pytestmark = pytest\.mark\.(data|protocol|spark|story)\b", re.MULTILINE)
_EMBEDDED_FIXTURES = {"spark", "each_spark"}
_LAKEHOUSE_FIXTURES = {"lake", "lakehouse", "backfill"}
"""They stage and publish with delta-rs, some 50 ms a publication: the protocol tier."""
_CONNECT_FIXTURES = {"connect_spark", "connect_server_for_tests", "cluster_spark", "each_spark"}

hypothesis.settings.register_profile(
    "backfill", deadline=None, print_blob=True, derandomize=False, max_examples=drawn(100)
)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("backfill"), max_examples=drawn(20))
"""For ``-m fast``, which is run many times a day: ``make test`` draws more."""
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "backfill"))


def pytest_configure(config: pytest.Config) -> None:
    """Before anything starts a process."""
    for name, value in CHILDREN_OF_TESTS.items():
        os.environ.setdefault(name, value)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what it leaves in the background so, and all that it starts: tests interrupt their processes.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _is_fast(config) and "HYPOTHESIS_PROFILE" not in os.environ:
        hypothesis.settings.load_profile("quick")
    budgets, limits = ({tier: seconds * TIMES for tier, seconds in each.items()} for each in (BUDGETS, LIMITS))
    config.pluginmanager.register(CpuBudget(config, _budget_of, budgets, limits))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``-m fast`` imports only what the fast tests need: Dagster alone takes two seconds, pandas one."""
    if not _is_fast(config):
        return None
    return True if collection_path.name in _TIER_OF_PLACE or tier_of_module(collection_path) else None


def _is_fast(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "fast")


@cache
def tier_of_module(path: Path) -> str:
    """The tier that a whole test module declares, ``data`` if it imports pandas or the like at its top; else empty."""
    source = path.read_text() if path.suffix == ".py" else ""
    declared = _TIER_OF_MODULE.search(source)
    return declared[1] if declared else "data" if _HEAVY_IMPORT.search(source) else ""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """Files are dealt out from both ends; any other way to deal tests out stays what it is."""
    from backfill_assets_tests.from_both_ends import FromBothEnds

    return FromBothEnds(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its one tier, and give it that tier's timeout unless it has its own.

    The files are put into the order in which processes are to take them, the longest before all.
    """
    of_file: dict[Path, list[pytest.Item]] = {}
    for item in items:
        of_file.setdefault(item.path, []).append(item)
    places = {
        path: place_of_file({tier_of(item) for item in tests}, on_spark=any(map(_uses_spark, tests)))
        for path, tests in of_file.items()
    }
    items.sort(key=lambda item: (item.path.name != "test_story_fx.py", places[item.path]))
    for item in items:
        tier = tier_of(item)
        if item.get_closest_marker(tier) is None:
            item.add_marker(tier)
        own = item.get_closest_marker("timeout")
        seconds = own.args[0] if own else _TIMEOUT_SECONDS[tier]
        if own is None or TIMES > 1:
            item.add_marker(pytest.mark.timeout(seconds * TIMES), append=False)


def place_of_file(tiers: Set[str], *, on_spark: bool) -> int:
    """Stories on Spark at the front, those that wait for other processes at the end, and small tests in between.

    What is on Spark and no story comes after the small ones, for the process that began at the end. Pure.
    """
    if on_spark:
        return 0 if "story" in tiers else 2
    return 4 if "story" in tiers else 3 if "protocol" in tiers else 1


def tier_of(item: pytest.Item) -> str:
    """Spark by the fixtures it uses (a story stays one); else by its own marker, or its folder, or fast."""
    by_folder = _tier_of_file(item.path)
    if by_folder != "story" and _uses_spark(item):
        return "spark"
    if by_folder == "fast" and _LAKEHOUSE_FIXTURES & set(_fixtures_of(item)):
        return "protocol"
    return next((tier for tier in _TIMEOUT_SECONDS if item.get_closest_marker(tier)), by_folder)


@cache
def _tier_of_file(path: Path) -> str:
    by_folder = next((tier for folder, tier in _TIER_OF_PLACE.items() if folder in _folders(path)), "")
    return by_folder or tier_of_module(path) or "fast"


def _budget_of(item: pytest.Item) -> str:
    """What is in full size has no budget: it is not played with each change."""
    if item.get_closest_marker("long"):
        return "long"
    tier = tier_of(item)
    return ("dagster" if "defs" in _folders(item.path) else "stories") if tier == "story" else tier


@cache
def _folders(path: Path) -> tuple[str, ...]:
    """Within the tests: the checkout may be in a folder of any name."""
    return path.relative_to(Path(__file__).parent).parts


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """PySpark's functions build for Connect or for the JVM by one global switch: set it to what this test uses."""
    if _uses_connect(item):
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    else:
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def _fixtures_of(item: pytest.Item) -> list[str]:
    return cast("list[str]", getattr(item, "fixturenames", []))


def _uses_spark(item: pytest.Item) -> bool:
    """One of the sessions or servers that a process of the tests starts once."""
    return bool((_EMBEDDED_FIXTURES | _CONNECT_FIXTURES | {"kafka_broker"}) & set(_fixtures_of(item)))


def _uses_connect(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    chosen = callspec.params.get("each_spark") if callspec else None
    return chosen == "connect" or bool({"connect_spark", "cluster_spark"} & set(_fixtures_of(item)))


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The defaults over an empty home, independent of the developer's environment."""
    return Settings.at(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def spark(settings: Settings) -> Iterator[SparkSession]:
    """Embedded Spark, one for the whole run. A test uses this one or ``connect_spark``, never both."""
    session = open_session(settings, "tests", options=SMALL_SPARK | INTERPRETED)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_server_for_tests(settings: Settings) -> Iterator[ConnectServer]:
    """A Spark Connect server on a free port of the loopback interface, started when the first test needs it."""
    with connect_server(settings, options=SMALL_SPARK) as server:
        yield server


@pytest.fixture(scope="session")
def connect_settings(settings: Settings, connect_server_for_tests: ConnectServer) -> Settings:
    return replace(settings, spark_profile="connect", spark_remote=connect_server_for_tests.url)


@pytest.fixture(scope="session")
def connect_spark(connect_settings: Settings) -> Iterator[SparkSession]:
    """A session of that server."""
    with spark_session(connect_settings, "tests") as session:
        yield session


@pytest.fixture
def cluster_spark(settings: Settings) -> Iterator[SparkSession]:
    """A session whose work is done by a master and two workers; they are stopped after the test."""
    cluster = start_standalone_cluster(settings)
    options = SMALL_SPARK | {"spark.master": cluster.url}
    try:
        with connect_server(settings, options=options, profile="standalone") as server:
            remote = replace(settings, spark_profile="standalone", spark_remote=server.url)
            with spark_session(remote, "tests") as session:
                yield session
    finally:
        cluster.stop()


@pytest.fixture(params=["embedded", "connect"])
def each_spark(request: pytest.FixtureRequest) -> SparkSession:
    """The test runs twice: on embedded Spark and through Spark Connect."""
    name = "spark" if request.param == "embedded" else "connect_spark"
    return cast("SparkSession", request.getfixturevalue(name))


@pytest.fixture(scope="session")
def kafka_broker(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker, started when the first test needs it; a test may kill it, and asks it for a topic of its own."""
    from backfill_assets_tests.stream.broker import running_broker

    with running_broker(settings, tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """Of an empty folder."""
    from backfill_assets.lakehouse.storage import Storage

    return Storage(str(tmp_path))


@pytest.fixture
def time() -> Iterator[FakeClock]:
    """The clock of the test: time passes while somebody sleeps, and when it is told to."""
    with clock.use(found := FakeClock()):
        yield found


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lakehouse, without a JVM, whose clock shows the time."""
    from backfill_assets_tests.protocol.lake import Lake

    found = Lake(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found
