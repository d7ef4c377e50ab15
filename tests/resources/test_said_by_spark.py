"""Errors of Spark in one line that says what was wrong."""

import pytest

from resources.sql.result import spark_errors
from storage import InvalidRequest

PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/worker.py", line 4207, in invoke_udf
    func, profiler = read_udfs(
                     ^^^^^^^^^^
  File "/x/lib.py", line 7, in <module>
    raise ValueError("the value is too large")
ValueError: the value is too large
 SQLSTATE: 38000
\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1097)
"""
ANALYSIS = "[UNRESOLVED_COLUMN] A column cannot be resolved. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- OneRowRelation\n"
JVM = "An error occurred while calling o1.collect.\n: java.lang.OutOfMemoryError: Java heap space\n\tat x"

LOST = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (192.0.2.2 executor driver): "  # noqa: E501
WAITED = f"""An error occurred while calling o69.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: {LOST}java.util.regex.PatternSyntaxException: Unclosed character class near index 0
[
^
\tat java.base/java.util.regex.Pattern.error(Pattern.java:2028)
Caused by: java.util.regex.PatternSyntaxException: Unclosed character class near index 0
[
^
\tat java.base/java.util.regex.Pattern.error(Pattern.java:2028)
\t... 7 more
"""


class SparkError(Exception):
    """As PySpark raises them."""


SparkError.__module__ = "pyspark.errors"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PYTHON, "ValueError: the value is too large"),
        (ANALYSIS, "[UNRESOLVED_COLUMN] A column cannot be resolved. SQLSTATE: 42703; line 1 pos 7;"),
        (JVM, "java.lang.OutOfMemoryError: Java heap space"),
        ("", "SparkError"),
        (WAITED, "java.util.regex.PatternSyntaxException: Unclosed character class near index 0: ["),
        (
            f"org.apache.spark.SparkException: {LOST}java.lang.OutOfMemoryError: heap\n\tat x",
            "java.lang.OutOfMemoryError: heap",
        ),
        ("org.apache.spark.SparkException: Job aborted\n\tat x", "org.apache.spark.SparkException: Job aborted"),
    ],
)
def test_an_error_is_a_line(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as raised, spark_errors():
        raise SparkError(text)
    assert str(raised.value) == f"Spark cannot run the statement: {said}"
