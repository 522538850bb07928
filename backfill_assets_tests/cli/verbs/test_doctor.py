"""``backfill doctor``: one finding a thing, each with what to do, and exit code 1 when a run could not work."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from backfill_assets.answers import machine
from backfill_assets.errors import LakehouseUnusable, NotDelivered
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.token_key import require_token_key
from backfill_assets.notice_routes import parse_routes
from backfill_assets.publish.places import note_failure
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import free_port
from backfill_assets.spark.workers import versions
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal

GIB = 1024**3
HINT = "Land its files as sales/YYYY-MM-DD/NAME.jsonl.gz. For data of the examples: backfill sample --help"


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings.at(tmp_path)


@pytest.fixture
def sound_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java and JARs as they should be, independent of this machine."""
    monkeypatch.setattr("backfill_assets.spark.java.require_java", lambda: 17)
    monkeypatch.setattr("backfill_assets.spark.jars.locked_jars", lambda settings: [Path("delta.jar")])


@pytest.fixture
def workers_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is not about them: each question starts a process."""
    monkeypatch.setattr(machine, "workers", lambda settings: machine.MachineFinding("ok", "not asked"))


@pytest.mark.usefixtures("sound_machine")
def test_a_new_machine_can_work(backfill: Backfill) -> None:
    """Nothing landed and no key yet are warnings: the first commands bring them. Nothing is created by looking."""
    found, here = backfill.json("doctor"), ", ".join(f"{name} {each}" for name, each in versions().items())
    assert found["Java"]["found"].startswith("Java 17") and found["JARs"]["verdict"] == "ok"
    assert found["workers_of_Spark"] == {"verdict": "ok", "found": here, "next_step": ""}
    assert found["landed_sales"]["verdict"] == "warn" and found["landed_sales"]["next_step"] == HINT
    assert found["landed_sales"]["found"] == f"nothing in {backfill.home / 'landing' / 'sales'}"
    assert found["token_key"]["verdict"] == "warn" and found["lakehouse"]["verdict"] == "ok"
    assert not backfill.home.exists()
    with terminal(60):
        shown = backfill("doctor").output
    sales = str(backfill.home / "landing" / "sales")
    assert f"warn nothing in {sales} -> Land its files as sales/YYYY-MM-DD/NAME.jsonl.gz" in " ".join(shown.split())
    assert sales in map(str.strip, shown.splitlines()), "no path is cut"
    assert found["datasets"]["found"] == "4 datasets, 18 tables, declared in backfill_assets.examples.datasets"


def test_workers_that_lack_what_they_need_are_told(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    with pytest.raises(LakehouseUnusable, match="Spark's workers would run /no/such/python"):
        machine.workers(home)
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr("backfill_assets.spark.workers.versions", lambda: {"duckdb": "0.1"})
    with pytest.raises(LakehouseUnusable, match=r"Spark's workers have duckdb .* \(0\.1 here\)"):
        machine.workers(home)


@pytest.mark.usefixtures("sound_machine")
def test_a_machine_without_datasets_is_told_how_to_name_them(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is said of what is not known then."""
    monkeypatch.setattr("backfill_assets.settings.of_project", lambda *_: "")
    monkeypatch.delenv("BACKFILL_DATASETS", raising=False)
    found = backfill.json("doctor", exit_code=1)
    assert found["datasets"]["verdict"] == "fail" and "BACKFILL_DATASETS" in found["datasets"]["next_step"]
    assert "landed_sales" not in found


def test_what_is_missing_fails_and_says_what_to_do(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java is the first thing that goes wrong on a new machine."""

    def none() -> int:
        raise LakehouseUnusable("Spark needs Java, and none was found.", hint="Install Java 17 or 21.")

    monkeypatch.setattr("backfill_assets.spark.java.require_java", none)
    monkeypatch.setenv("BACKFILL_JARS", str(backfill.home / "jars"))
    found = backfill.json("doctor", exit_code=1)
    assert found["Java"]["verdict"] == "fail" and found["Java"]["next_step"] == "Install Java 17 or 21."
    assert found["JARs"]["verdict"] == "fail" and found["JARs"]["next_step"].endswith("backfill doctor --fix")


def test_fix_fetches_and_makes_what_is_missing_and_says_it(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Then the machine is examined as it is now; where nothing is missing, nothing is done."""
    there: list[str] = []
    monkeypatch.setenv("BACKFILL_JARS", str(tmp_path / "cache" / "jars"))
    archive = tmp_path / "cache" / "class-archive" / "spark.jsa"

    def locked(settings: Settings) -> list[Path]:
        if not there:
            raise LakehouseUnusable("delta.jar is missing.")
        return [settings.jars / "delta.jar"]

    def fetch(settings: Settings) -> list[str]:
        there.append("delta.jar")
        return there

    def make(settings: Settings) -> Path:
        archive.parent.mkdir(parents=True)
        archive.write_bytes(bytes(2_000_000))
        return archive

    monkeypatch.setattr("backfill_assets.spark.java.require_java", lambda: 17)
    monkeypatch.setattr("backfill_assets.spark.jars.locked_jars", locked)
    monkeypatch.setattr("backfill_assets.spark.jars.fetch_jars", fetch)
    monkeypatch.setattr("backfill_assets.spark.archive_classes.archive_classes", make)
    found = backfill.json("doctor", "--fix")
    assert found["fixed"] == [
        {"what": "JARs", "done": f"1 JAR fetched into {tmp_path / 'cache' / 'jars'}"},
        {"what": "class archive", "done": f"2 MB made in {archive}"},
    ]
    assert found["JARs"]["verdict"] == found["class_archive"]["verdict"] == "ok"
    again = backfill("doctor", "--fix").output
    assert "nothing" in again and "was missing" in again
    assert there == ["delta.jar"]


def test_what_cannot_be_fixed_is_said_and_is_still_a_finding(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(settings: Settings) -> list[Path]:
        raise LakehouseUnusable("No network.", hint="Connect it.")

    monkeypatch.setenv("BACKFILL_JARS", str(tmp_path / "jars"))
    for name in ("locked_jars", "fetch_jars"):
        monkeypatch.setattr(f"backfill_assets.spark.jars.{name}", refuse)
    found = backfill.json("doctor", "--fix", exit_code=1)
    failed = {"done": "No network.\n  -> Connect it."}
    assert found["fixed"] == [{"what": "JARs", **failed}, {"what": "class archive", **failed}]
    assert found["JARs"]["verdict"] == "fail"


def test_memory_and_disk_are_judged_by_what_a_run_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark beside Dagster needs two GiB to start; disk is measured where the lakehouse will be, before it is there."""
    for size, memory, disk in (
        (GIB // 4, "fail", "fail"),
        (GIB, "fail", "warn"),
        (3 * GIB, "warn", "warn"),
        (8 * GIB, "ok", "ok"),
    ):
        monkeypatch.setattr("shutil.disk_usage", lambda folder, size=size: SimpleNamespace(free=size))
        found = machine.memory(size).verdict, machine.disk_space(tmp_path / "not" / "there").verdict
        assert found == (memory, disk), size


def test_ports(home: Settings, port: int) -> None:
    """Dagster's should be free, Connect's should answer if it is to be used."""
    free = free_port()
    assert machine.dagster_port(port).verdict == "warn" and machine.dagster_port(free).verdict == "ok"
    assert "something answers" in machine.connect_server(home, port).found
    assert machine.connect_server(home, free).found == "not used: Spark runs inside the process"
    assert machine.connect_server(replace(home, spark_remote=f"sc://127.0.0.1:{port}")).verdict == "ok"
    assert machine.connect_server(replace(home, spark_remote=f"sc://127.0.0.1:{free}")).verdict == "fail"


@pytest.mark.usefixtures("workers_not_asked")
def test_landing_zone(home: Settings) -> None:
    """Which days have landed; what is out of place fails by name."""
    day = home.landing / "sales" / "2017-03-01"
    day.mkdir(parents=True)
    (day / "a.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    sales = CATALOG.step("raw_sales").source
    assert sales and machine.landed_files(home.landing, sales).found == f"1 day in {home.landing / 'sales'}: 2017-03-01"
    (home.landing / "sales" / "march").mkdir()
    found = machine.examine(home, lambda: CATALOG)
    assert found["landed sales"].verdict == "warn" and "sales/march" in found["landed sales"].found
    assert found["landed fx_rates"].verdict == "warn"


def test_token_key(home: Settings) -> None:
    """A key that others can read is no key."""
    assert machine.token_key(home, CATALOG).verdict == "warn"
    home.token_key_file.write_text("secret of sixteen")
    home.token_key_file.chmod(0o644)
    found = machine.token_key(home, CATALOG)
    assert found.verdict == "fail" and found.next_step == f"chmod 600 {home.token_key_file}"
    home.token_key_file.chmod(0o600)
    found = machine.token_key(home, CATALOG)
    assert found.verdict == "ok" and "secret" not in found.found


@pytest.mark.usefixtures("workers_not_asked")
def test_a_second_machine_is_asked_to_bring_the_key_of_the_lakehouse(home: Settings) -> None:
    """Before a run: with a key of its own, the same household would get another token for good."""
    require_token_key(Storage(str(home.lakehouse)), home.token_key_file, [])
    assert machine.token_key(home, CATALOG).found.endswith("the key of this lakehouse")
    home.token_key_file.write_text("the key of another machine")
    named = machine.examine(home, lambda: CATALOG)["token key"]
    assert named.verdict == "fail" and "another token key" in named.found
    assert str(home.token_key_file) in named.found and "backfill docs operations" in named.next_step
    home.token_key_file.unlink()
    named = machine.examine(home, lambda: CATALOG)["token key"]
    assert named.verdict == "fail" and "There is no token key" in named.found


def test_lakehouse(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried by writing, because permissions alone do not show it (read-only mounts, quotas)."""
    assert "will be made" in machine.writable(home.lakehouse).found
    home.lakehouse.mkdir()
    assert machine.writable(home.lakehouse).found == f"{home.lakehouse} can be written"
    assert list(home.lakehouse.iterdir()) == []

    def refuse(**_: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    found = machine.writable(home.lakehouse)
    assert found.verdict == "fail" and "Read-only file system" in found.found


def test_places_that_are_told(home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails is named without its address, with the command that tries it; so is a package that is missing."""
    assert machine.notices(home).found == "told: log"
    routes = parse_routes("slack:https://hooks.example/T/secret; apprise:json://secret")
    told, storage = replace(home, notices=routes), Storage(str(home.lakehouse))
    assert machine.notices(told).verdict == "ok"
    with monkeypatch.context() as patched:
        patched.setattr(machine, "find_spec", lambda name: None)
        assert machine.notices(told).next_step == "pip install 'backfill-assets[apprise]'"
    why = NotDelivered("hooks.example answered 403", hint="Make a new one.")
    note_failure(storage, routes[0].name, why, datetime(2017, 3, 1, tzinfo=UTC))
    found = machine.notices(told)
    assert found.verdict == "warn" and found.found.startswith(f"{routes[0].name} takes no notices since 2017-03-01")
    assert found.next_step == "Make a new one. To try again: backfill maintain --send-notices"
    assert "secret" not in str(found)


def test_publications_under_way(backfill: Backfill) -> None:
    """A process that died leaves one; a person should know that nothing is lost."""
    settings = Settings.at(backfill.home)
    assert machine.open_publications(settings).found == "none yet"
    backfill.lakehouse.publish("first", {"raw_sales": {date(2017, 3, 1): [1]}})
    assert machine.open_publications(settings).found == "all are closed; 1 table published"
    backfill.lakehouse.crash("dead", {"raw_sales": {date(2017, 3, 1): [2]}}, at=CrashPoint.PREPARED)
    found = machine.open_publications(settings)
    assert found.verdict == "warn" and found.found == "under way: dead"
