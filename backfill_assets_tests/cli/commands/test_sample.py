"""``backfill sample`` says what it landed, and refuses in one clear message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli.commands.sample import parse_defects, sample
from backfill_assets.errors import InvalidRequest


def invoke(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(sample, [str(argument) for argument in arguments])


def test_synthetic_prints_its_seed_and_every_count_as_json(tmp_path: Path) -> None:
    """Scripts read the counts; a chosen seed must come back, a random one must be shown."""
    result = invoke(
        "--synthetic", "--days", 2, "--rows-per-day", 30, "--defects", "late_row=3,broken_line=2",
        "--landing", tmp_path, "--json", "--seed", 9,
    )  # fmt: skip
    told = json.loads(result.output)
    assert told["seed"] == 9 and told["days"] == "2017-03-01..2017-03-02"
    assert {name: count for name, count in told["defects"].items() if count} == {"late_row": 3, "broken_line": 2}
    assert sum(day["quarantined"] for day in told["by_event_day"].values()) == 2
    random = invoke("--synthetic", "--days", "2017-03-01", "--rows-per-day", 1, "--landing", tmp_path / "b", "--json")
    assert json.loads(random.output)["seed"] >= 0


def test_the_table_names_every_defect_and_the_seed(tmp_path: Path) -> None:
    """People read the table."""
    result = invoke("--synthetic", "--days", 3, "--rows-per-day", 100, "--seed", 77, "--landing", tmp_path)
    assert result.exit_code == 0
    for expected in ("seed 77", "overtaken_version", "lines superseded", "20 files written, 0 already there"):
        assert expected in result.output


@pytest.mark.data
def test_real_days_land_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same variable that the pipeline reads decides where sample data goes."""
    monkeypatch.setenv("BACKFILL_LANDING", str(tmp_path / "zone"))
    result = invoke("--days", "2017-03-01", "--json")
    assert json.loads(result.output)["lines"] == {"sales": 3881, "products": 92331, "fx_rates": 248}
    assert (tmp_path / "zone" / "sales" / "2017-03-01").is_dir()


def test_the_other_dataset_lands_by_itself(tmp_path: Path) -> None:
    """A person who tries it does not need a year of groceries."""
    result = invoke("--dataset", "sea_temperatures", "--days", "2017-03-21", "--json", "--landing", tmp_path)
    assert json.loads(result.output)["lines"] == {"sea_temperatures": 49}
    assert [folder.name for folder in tmp_path.iterdir()] == ["sea_temperatures"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--days", "2017-03-02..2017-03-01"], "Did you mean 2017-03-01..2017-03-02?"),
        (["--days", "soon"], "'soon' is not a day"),
        (["--days", "2030-01-01"], "Choose days in 2017-01-01..2018-01-01"),
        (["--seed", "3"], "Add --synthetic"),
        (["--dataset", "sea_temperatures", "--days", "2018-01-01"], "Choose days in 2016-02-15..2017-03-22"),
        (["--dataset", "sea_temperatures", "--synthetic"], "Only sales can be made up"),
        (["--synthetic", "--days", "0"], "not between 1 and 3650"),
        (["--synthetic", "--defects", "late_row"], "not one defect and its count"),
        (["--synthetic", "--defects", "late=1"], "There is no defect 'late'"),
    ],
)
def test_an_invalid_request_is_refused_with_what_to_do(tmp_path: Path, arguments: list[str], message: str) -> None:
    """No traceback, a non-zero exit, and nothing landed."""
    result = invoke(*arguments, "--landing", tmp_path / "zone")
    assert result.exit_code == 1 and message in result.output
    assert not (tmp_path / "zone").exists()


def test_defects_are_parsed_strictly() -> None:
    """A count that is dropped in silence would make exact tests lie."""
    assert parse_defects(None) is None
    assert parse_defects("none") == {}
    assert parse_defects("late_row=5, broken_line=0") == {"late_row": 5, "broken_line": 0}
    with pytest.raises(InvalidRequest):
        parse_defects("late_row=5,late_row=6")
