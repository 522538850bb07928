"""What is on in Dagster: read, and turned on once for a new dataset; a person's decision counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorStatus

from backfill_assets.defs.dagster_internals import is_on, turn_on_once

pytestmark = pytest.mark.story

_REPOSITORY = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("small"), "__repository__")
RUN = dg.DagsterRun(job_name="job", remote_job_origin=RemoteJobOrigin(_REPOSITORY, "job"))


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def test_a_sensor_and_a_schedule_are_turned_on_once(instance: dg.DagsterInstance) -> None:
    """As their switches in the UI do it: for the code location of the run."""
    assert not is_on(instance, "streams")
    assert turn_on_once(instance, RUN, "streams")
    assert turn_on_once(instance, RUN, "every_day_small", "0 2 * * *")
    assert is_on(instance, "streams") and is_on(instance, "every_day_small")
    states = {state.instigator_name: state for state in instance.all_instigator_state()}
    assert {name: state.instigator_type for name, state in states.items()} == {
        "streams": InstigatorType.SENSOR,
        "every_day_small": InstigatorType.SCHEDULE,
    }
    found = instance.get_instigator_state(states["streams"].instigator_origin_id, states["streams"].selector_id)
    assert found == states["streams"]
    assert not turn_on_once(instance, RUN, "streams")


def test_what_a_person_has_turned_off_stays_off(instance: dg.DagsterInstance) -> None:
    turn_on_once(instance, RUN, "streams")
    (state,) = instance.all_instigator_state()
    instance.update_instigator_state(state.with_status(InstigatorStatus.STOPPED))
    assert not turn_on_once(instance, RUN, "streams")
    assert not is_on(instance, "streams")


def test_a_run_outside_a_code_location_turns_nothing_on(instance: dg.DagsterInstance) -> None:
    assert not turn_on_once(instance, dg.DagsterRun(job_name="job"), "streams")


def test_an_instance_that_keeps_nothing_has_nothing_on() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert not is_on(instance, "streams")
        assert not turn_on_once(instance, RUN, "streams")
