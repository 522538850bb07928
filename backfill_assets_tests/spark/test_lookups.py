from __future__ import annotations

import pyspark.errors.utils
import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark.errors import NumberFormatException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

_QUESTION = "r\n"
"""How a command begins that asks the JVM what a name stands for."""


def _column() -> Column:
    amount = F.coalesce(F.col("sales_value"), F.lit(0))
    fields = F.map_filter(F.create_map("store_id", amount), lambda name, value: value > 0)
    return F.when(F.size(fields) > 0, F.xxhash64("store_id", amount)).cast("string").alias("large")


def test_columns_are_built_without_asking_the_jvm_twice_what_a_function_is(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for functions, nor for the line of Python that each column comes from."""
    _column()
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def recorded(connection: ClientServerConnection, command: str) -> str:
        sent.append(command)
        return str(send(connection, command))

    monkeypatch.setattr(ClientServerConnection, "send_command", recorded)
    _column()
    assert len(sent) >= 10
    assert [command for command in sent if command.startswith(_QUESTION)] == []
    assert not any("PySparkCurrentOrigin" in command for command in sent)


def test_what_a_class_does_not_have_is_still_an_error(spark: SparkSession) -> None:
    functions = spark.sparkContext._jvm.functions  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(Py4JError, match="no_such_function"):
            functions.no_such_function("day")


def test_remembered_functions_give_the_same_values(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(5, "a"), (None, "b")], "sales_value int, store_id string")
    large, none = rows.select(_column()).collect()
    assert large["large"] is not None
    assert none["large"] is None


@pytest.mark.parametrize(("told", "named"), [(True, True), (False, False)])
def test_spark_names_the_line_of_a_column_when_it_is_asked_to(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, told: bool, named: bool
) -> None:
    """As the guide says of the setting. PySpark reads it once in a process, and keeps it."""
    monkeypatch.setattr(pyspark.errors.utils, "_enable_debugging_cache", told)
    no_number = spark.createDataFrame([("12,50",)], "sales_value string")
    with pytest.raises(NumberFormatException) as failed:
        no_number.select(F.col("sales_value").cast("int")).collect()
    assert ("test_lookups.py" in str(failed.value)) is named


def test_profiles_set_pyspark_not_to_look_for_the_line(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.errors.utils, "_enable_debugging_cache", None)
    assert pyspark.errors.utils.is_debugging_enabled() is False


def test_sessions_of_a_server_do_not_look_for_it_either(
    connect_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark.errors.utils, "_enable_debugging_cache", None)
    connect_spark.range(1).select(F.col("id").cast("string"))
    assert pyspark.errors.utils.is_debugging_enabled() is False
