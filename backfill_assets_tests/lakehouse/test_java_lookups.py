from __future__ import annotations

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import Py4JError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

_QUESTION = "r\n"
"""How a command begins that asks the JVM what a name stands for."""


def _column() -> Column:
    amount = F.coalesce(F.col("sales_value"), F.lit(0))
    return F.when(amount > 1, F.xxhash64("store_id", amount)).cast("string").alias("large")


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
