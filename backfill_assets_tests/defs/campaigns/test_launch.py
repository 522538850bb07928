"""The launchpad of a plan: it opens filled in, without an error, and has the tables to choose from."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest
import yaml
from dagster._core.snap.snap_to_yaml import default_values_yaml_from_type_snap

from backfill_assets.defs.campaigns import launch
from backfill_assets.defs.campaigns.example import plan_example
from backfill_assets.defs.campaigns.jobs import PLAN_JOB, PLANNED
from backfill_assets.defs.campaigns.launch import PlanConfig, plan_schema
from backfill_assets.defs.campaigns.pages import op_name
from backfill_assets.defs.resources import Backfill
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.plan.records import Scope
from backfill_assets.rebuild.person import Person
from backfill_assets_tests.defs.small_dataset import SMALL
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FACT = "fact_sales_transactions"


def shown(location: dg.Definitions) -> dict[str, Any]:
    """What the launchpad opens with."""
    job = location.resolve_job_def(PLAN_JOB)
    schema = job.get_job_snapshot().config_schema_snapshot
    root = schema.get_config_snap(str(job.run_config_schema.config_type.key))
    return dict(yaml.safe_load(default_values_yaml_from_type_snap(schema, root)))


def test_it_opens_filled_in_and_without_an_error(location: dg.Definitions) -> None:
    """Dagster opens it because something is required, and everything that is required is there."""
    found = shown(location)
    config = found["ops"][op_name(PLANNED)]["config"]
    assert (
        config["target"] == "bronze_sales" and config["days"] == "2016-12-24..2016-12-30" and config["start"] is False
    )
    assert dg.validate_run_config(location.resolve_job_def(PLAN_JOB), found)
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(location.resolve_job_def(PLAN_JOB), {})


def test_a_table_is_chosen_from_those_that_there_are(location: dg.Definitions) -> None:
    """One that is written wrongly is an error in the launchpad."""
    config = {"ops": {op_name(PLANNED): {"config": {"target": "fact_typo"}}}}
    chosen = {"ops": {op_name(PLANNED): {"config": {"target": FACT}}}}
    assert dg.validate_run_config(location.resolve_job_def(PLAN_JOB), chosen)
    with pytest.raises(dg.DagsterInvalidConfigError, match="not in enum type RebuiltTable"):
        dg.validate_run_config(location.resolve_job_def(PLAN_JOB), config)


def test_what_a_person_leaves_out_is_as_in_the_class() -> None:
    """Every option of the class is in the launchpad."""
    example = plan_example([SMALL])
    schema = plan_schema(dict.fromkeys(example.tables), example)
    assert set(schema.config_type.fields) == set(PlanConfig.to_fields_dict())  # type: ignore[attr-defined]
    assert PlanConfig(target="t", scope=Scope.WHOLE).scope is Scope.WHOLE


def test_the_example_is_of_days_that_are_published(tmp_path: Path) -> None:
    """Seven of them, or as many as there can be; an empty lakehouse has the first days of the table."""
    lakehouse = SmallLakehouse(tmp_path)
    assert plan_example([SMALL], lakehouse.storage) == plan_example([SMALL])
    lakehouse.publish("p1", {plan_example([SMALL]).target: {date(2017, 3, 10): [1]}})
    assert plan_example([SMALL], lakehouse.storage).days == "2017-03-04..2017-03-10"


def test_the_example_of_the_sample_has_a_table_with_two_versions() -> None:
    assert plan_example(CATALOG.datasets, Storage("nowhere")).target == FACT


def test_a_kept_plan_is_found_beside_the_example_and_refuses_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launchpad always sends its example: only what differs from it was written."""
    example = plan_example([SMALL])
    monkeypatch.setattr(launch, "look_again", lambda _, __, id: (id, None, None))
    backfill = cast("Backfill", type("_Backfill", (), {"settings": None}))
    sent: dict[str, Any] = {"target": example.target, "days": example.days, "plan": "plan-0123456789abcdef"}
    found: Any = launch._plan(PlanConfig(**sent), example, backfill, Person())[0]
    assert found == sent["plan"]
    others: list[dict[str, Any]] = [
        {"version": "v1"},
        {"days": "2017-01-01..2017-01-02"},
        {"expect": ["rows unchanged"]},
    ]
    for written in others:
        with pytest.raises(InvalidRequest, match="is kept and does not change"):
            launch._plan(PlanConfig(**{**sent, **written}), example, backfill, Person())


def test_a_kept_plan_is_found_beside_the_example_of_an_earlier_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code server has the example of its start; a run loads it anew, and a day was published in between."""
    lakehouse = SmallLakehouse(tmp_path)
    target = plan_example([SMALL]).target
    lakehouse.publish("p1", {target: {date(2017, 3, 10): [1]}})
    opened = plan_example([SMALL], lakehouse.storage)
    lakehouse.publish("p2", {target: {date(2017, 3, 11): [1]}})
    example = plan_example([SMALL], lakehouse.storage)
    assert opened.days != example.days
    monkeypatch.setattr(launch, "look_again", lambda _, __, id: (id, None, None))
    backfill = cast("Backfill", type("_Backfill", (), {"settings": None}))
    sent: dict[str, Any] = {"target": opened.target, "days": opened.days, "plan": "plan-0123456789abcdef"}
    found: Any = launch._plan(PlanConfig(**sent), example, backfill, Person())[0]
    assert found == sent["plan"]
    for written in ({"days": "2017-03-12..2017-03-18"}, {"days": "2017-03-04..2017-03-09"}, {"target": "fact_other"}):
        with pytest.raises(InvalidRequest, match="is kept and does not change"):
            launch._plan(PlanConfig(**{**sent, **written}), example, backfill, Person())
