"""For anything that a source does to a line, the personal value in it is in no file below the lakehouse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets_tests.stories.personal_key import FIRST, declare_visits
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLANTED = "7391845206"
FIELD = "patient_id"
ROW = {
    FIELD: PLANTED,
    "visit": "1",
    "measured_at": f"{FIRST}T08:00:00Z",
    "glucose": "100",
    "sent_at": f"{FIRST}T09:00:00Z",
}
OTHERS = {name: value for name, value in ROW.items() if name != FIELD}
SPELLED = st.sampled_from(["Patient_ID", "PATIENT_ID", "patient-id", "patientId", "patient id", "their_patient_id"])


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def cut(line: str) -> st.SearchStrategy[str]:
    """The line, or its beginning up to somewhere behind the value."""
    at = line.find(PLANTED)
    return st.integers(at + len(PLANTED), len(line)).map(lambda end: line[:end]) if at >= 0 else st.just(line)


_ESCAPED = re.compile(r"\\+u([0-9a-f]{4})")
FORMS: tuple[Callable[[str], str], ...] = (
    lambda name: str({name: PLANTED, **OTHERS}),
    lambda name: json.dumps(json.dumps({name: PLANTED, **OTHERS})),
    lambda name: json.dumps([{name: PLANTED, **OTHERS}]),
    lambda name: json.dumps([name, PLANTED, *OTHERS.values()]),
    lambda name: json.dumps({"row": {name: PLANTED, **OTHERS}}),
    lambda name: json.dumps({"visit": {name: PLANTED}, **{k: v for k, v in OTHERS.items() if k != "visit"}}),
    lambda name: json.dumps({"payload": json.dumps({name: int(PLANTED)}), **OTHERS}),
    lambda name: json.dumps({**OTHERS, name: PLANTED}),
    lambda name: json.dumps({**OTHERS, name: int(PLANTED)}),
    lambda name: json.dumps({**OTHERS, "note": f"{name}={PLANTED}"}),
    lambda name: f'{{"{escaped(name)}": "{escaped(PLANTED)}", "visit": "1"',
    lambda name: f'{{"{escaped(name)}": "{PLANTED}", "visit": {{"{escaped(name)}": "{escaped(PLANTED)}"}}}}',
    lambda name: ",".join([PLANTED, *OTHERS.values()]),
    lambda name: ";".join(f"{key}={value}" for key, value in {name: PLANTED, **OTHERS}.items()),
    lambda name: f"{{{name}: {PLANTED}, visit: 1}}",
    lambda name: f"<row><{name}>{PLANTED}</{name}></row>",
    lambda name: json.dumps({name: PLANTED, **OTHERS}) * 2,
    lambda name: json.dumps({name: PLANTED})[:-1] + f', "{name}": "{PLANTED}"}}',
)
LINES = st.sampled_from(FORMS).flatmap(lambda form: st.one_of(st.just(FIELD), SPELLED).map(form)).flatmap(cut)


def texts_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file, Parquet as its rows and its statistics, with escapes of JSON undone."""
    for file in folder.rglob("*"):
        if file.suffix == ".parquet":
            text = repr(pq.ParquetFile(file).read().to_pylist()) + str(pq.read_metadata(file).to_dict())
        elif file.is_file():
            text = file.read_bytes().decode("utf-8", errors="replace")
        else:
            continue
        yield file, text + _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


@settings(max_examples=drawn(2), phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=30, max_size=60))
def test_the_planted_value_is_in_no_file(
    lines: list[str], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Raw, bronze, quarantine, what was staged of them, and all logs."""
    workshop = Workshop(tmp_path_factory.mktemp("planted"), lambda: spark)
    land(workshop.settings.landing, "visits", str(FIRST), "a", [*lines, *(form(FIELD) for form in FORMS)])
    with pytest.MonkeyPatch.context() as monkeypatch:
        declare_visits(monkeypatch)
        workshop.build("raw_visits", [FIRST])
        with pytest.raises(DaysFailed):
            workshop.build("bronze_visits", [FIRST])
    looked_at = list(texts_below(Path(workshop.settings.lakehouse)))
    assert any("withheld: " in text for _, text in looked_at)
    assert any("quarantine_visits" in str(file) and file.suffix == ".parquet" for file, _ in looked_at)
    assert [str(file) for file, text in looked_at if PLANTED in text] == []
