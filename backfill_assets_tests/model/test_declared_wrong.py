"""A wrong annotation is an error in words: the file, the line, the class, the column, and what was probably meant."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, declared_types
from backfill_assets.model.declared_wrong import names_written

MODULE = """from __future__ import annotations

from pyspark.sql import types as T

from backfill_assets.model.contract import Contract, Field


class Entry(Contract):
    entry_id: {annotation} = Field(key=True)
    day: T.DateType = Field()
"""
Write = Callable[[str], type[Contract]]


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a module ``wrong_shop.py`` into this folder, and imports its class."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> type[Contract]:
        (tmp_path / "wrong_shop.py").write_text(text)
        importlib.invalidate_caches()
        found: type[Contract] = importlib.import_module("wrong_shop").Entry
        return found

    yield write
    sys.modules.pop("wrong_shop", None)


@pytest.mark.parametrize(
    ("annotation", "words", "hint"),
    [
        ("T.StrinType", "has no attribute 'StrinType'.", "Did you mean T.StringType?"),
        ("StringType", "name 'StringType' is not defined.", "Did you mean T.StringType?"),
        ("Fild", "name 'Fild' is not defined.", "Did you mean Field?"),
        ("Decimal", "name 'Decimal' is not defined.", "Add: from decimal import Decimal"),
        ("complex", "which is no type of Spark.", "Types are those of pyspark.sql.types, such as T.StringType"),
        ("bytes", "which is no type of Spark.", "Did you mean T.BinaryType?"),
        ("T.ArrayType", "of which no type can be made:", "A list of texts is T.ArrayType(T.StringType())."),
    ],
)
def test_a_wrong_annotation_is_told_in_words(entry: Write, annotation: str, words: str, hint: str) -> None:
    """As it is typed from this folder; no traceback is needed to find it."""
    with pytest.raises(InvalidRequest) as refused:
        declared_types(entry(MODULE.format(annotation=annotation)))
    told = refused.value
    assert told.message.startswith("wrong_shop.py, line 9: Entry.entry_id is annotated ") and words in told.message
    assert hint in (told.hint or "")


def test_all_of_them_are_told_at_once(entry: Write) -> None:
    """In a class below it, too: the line is that of the class which declares the column."""
    base = entry(MODULE.format(annotation="T.StrinType").replace("T.DateType", "T.DatType"))
    below: type[Contract] = type("Below", (base,), {"__module__": "wrong_shop"})
    with pytest.raises(
        InvalidRequest, match=r"(?s)Below is declared wrong in 2 places:.*line 9: Entry.*line 10: Entry"
    ):
        declared_types(below)


def test_names_are_read_from_a_text_that_cannot_be_imported(entry: Write, tmp_path: Path) -> None:
    """Of one that cannot be parsed, the name of its file counts."""
    declared = 'ORDERS = LandedDataset(name="orders")\n@ORDERS.table("report_orders", totals=())\nclass A: pass\n'
    declared += 'ExternalTable("prices", A, location="lake", day="day")\n'
    (tmp_path / "wrong_shop.py").write_text(declared)
    landed = {"orders", "raw_orders", "bronze_orders", "quarantine_orders"}
    assert names_written("wrong_shop") == {*landed, "report_orders", "prices"}
    (tmp_path / "orders.py").write_text("def")
    assert names_written("orders") == landed
