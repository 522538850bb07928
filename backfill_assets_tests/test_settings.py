from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import ApprovalRule, Settings, shipped


def test_everything_that_is_written_is_below_home() -> None:
    """One variable moves a whole installation; nothing must stay behind in the old place."""
    settings = Settings.from_environment({"BACKFILL_HOME": "/somewhere"})
    written = (settings.lakehouse, settings.landing, settings.token_key_file)
    assert all(path.is_relative_to("/somewhere") for path in written)


def test_paths_are_absolute_from_the_folder_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark and delta-rs may run in other processes, where a relative path would mean another place."""
    monkeypatch.chdir(tmp_path)
    assert Settings.from_environment({}).lakehouse == tmp_path / ".data" / "lakehouse"
    assert Settings.from_environment({"BACKFILL_LANDING": "in"}).landing == tmp_path / "in"


def test_defaults_are_embedded_spark_and_one_run_for_a_range() -> None:
    """`--partition-range` in CI works with the single-run policy only, so it has to be the default."""
    settings = Settings.from_environment({"SPARK_REMOTE": " "})
    assert (settings.spark_profile, settings.spark_remote) == ("local", None)
    assert (settings.days_per_run, settings.rollback_window_days) == (None, 30)


def test_a_remote_brings_its_own_profile() -> None:
    """With SPARK_REMOTE alone set, the client must take its settings from the profile of the server."""
    assert Settings.from_environment({"SPARK_REMOTE": "sc://127.0.0.1:15002"}).spark_profile == "connect"


def test_multi_run_says_how_many_days_a_run_carries() -> None:
    """The number has to reach Dagster's policy unchanged."""
    assert Settings.from_environment({"BACKFILL_POLICY": "multi_run:7"}).days_per_run == 7


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("BACKFILL_POLICY", "multi_run"),
        ("BACKFILL_POLICY", "multi_run:0"),
        ("BACKFILL_POLICY", "single"),
        ("BACKFILL_ROLLBACK_WINDOW_DAYS", "-1"),
        ("BACKFILL_ROLLBACK_WINDOW_DAYS", "²"),
        ("BACKFILL_SPARK_PROFILE", "../elsewhere"),
        ("SPARK_REMOTE", "http://127.0.0.1"),
        ("BACKFILL_NOTICES", "mail"),
        ("BACKFILL_TIMELINE_DAYS", "0"),
        ("BACKFILL_STREAM_SOURCE", "sales"),
        ("BACKFILL_STREAM_SOURCE", "kafka://localhost:9092"),
        ("BACKFILL_DIRTY_TREE", "no"),
        ("BACKFILL_WRITERS", "yes"),
        ("BACKFILL_STREAM_LOOPS", "2"),
        ("BACKFILL_LETTERS", "file:///pages"),
        ("BACKFILL_APPROVAL_BY", "another"),
        ("BACKFILL_APPROVAL_BY", "Listed"),
    ],
)
def test_an_invalid_value_is_refused_by_name(variable: str, text: str) -> None:
    """The person who set it must learn which variable to change, before any work is done."""
    with pytest.raises(InvalidRequest, match=variable):
        Settings.from_environment({variable: text})


def test_settings_cannot_change_under_a_run() -> None:
    """A run must not publish to another lakehouse than the one it staged in."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings.from_environment({}).home = Path("/other")  # type: ignore[misc]


def test_the_price_of_a_core_hour_is_a_number_or_unknown() -> None:
    """Plans multiply by it: an invalid price must not become a cost of nothing."""
    assert Settings.from_environment({}).core_hour_price is None
    assert Settings.from_environment({"BACKFILL_CORE_HOUR_PRICE": "0.048"}).core_hour_price == Decimal("0.048")
    for text in ("cheap", "-1", "NaN"):
        with pytest.raises(InvalidRequest, match="BACKFILL_CORE_HOUR_PRICE"):
            Settings.from_environment({"BACKFILL_CORE_HOUR_PRICE": text})


def test_who_may_approve_is_one_of_three_rules() -> None:
    """By default anyone: that is how it was."""
    assert Settings.from_environment({}).approval_by is ApprovalRule.ANYONE
    found = [Settings.from_environment({"BACKFILL_APPROVAL_BY": rule}).approval_by for rule in ApprovalRule]
    assert found == list(ApprovalRule)


def test_datasets_are_named_by_the_environment_or_by_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project says it once; one command can say otherwise. Without either it is said when they are needed."""
    monkeypatch.chdir(tmp_path)
    assert Settings.from_environment({}).datasets == ""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    Path("pyproject.toml").write_text('[tool.backfill]\ndatasets = "shop.datasets"\n')
    assert Settings.from_environment({}).datasets == "shop.datasets"
    assert Settings.from_environment({"BACKFILL_DATASETS": "other"}).datasets == "other"
    (tmp_path / "damaged").mkdir()
    monkeypatch.chdir(tmp_path / "damaged")
    Path("pyproject.toml").write_text("[tool")
    with pytest.raises(InvalidRequest, match=r"pyproject\.toml cannot be read"):
        Settings.from_environment({})


def test_what_comes_with_the_package_is_found_within_it_or_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel has the profiles within the package; what is fetched then is kept below the user's home."""
    assert shipped("spark_conf").parent == shipped("dagster.yaml").parent == Path(__file__).parents[1]
    package = tmp_path / "site-packages" / "backfill_assets"
    (package / "spark_conf").mkdir(parents=True)
    monkeypatch.setattr("backfill_assets.settings._PACKAGE", package)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    settings = Settings.from_environment({})
    assert settings.spark_conf == package / "spark_conf"
    assert settings.jars == tmp_path / "home" / ".cache" / "backfill-assets" / "jars"
