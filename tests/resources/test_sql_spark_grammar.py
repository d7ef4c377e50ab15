"""Whatever Spark's own parser takes is parsed here too, or refused by the name of its clause: a walk over Spark's whole grammar."""

import re

import pytest

from resources import Settings
from resources.spark_session import start_spark
from resources.sql.parsing import parse
from storage import StorageError
from tests.resources.spark_grammar import spark_grammar

pytestmark = pytest.mark.spark
# What the parser below says of any token that it did not expect.
_UNNAMED = re.compile(r"Invalid expression|Expecting|Required|Unsupported|<class|begins no statement")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Statements that Spark's parser takes, one at least for each way through a rule."""
    spark = start_spark(Settings.from_environment())
    parser = spark._jsparkSession.sessionState().sqlParser()
    known = []
    for text in spark_grammar(spark._jvm).sentences():
        try:
            parser.parsePlan(text)
        except Exception as error:
            assert type(error).__name__ in ("ParseException", "Py4JJavaError", "IllegalArgumentException"), error
            continue
        known.append(text)
    assert len(known) > 700
    return known


def test_each_is_parsed_or_refused_by_name(sentences: list[str]) -> None:
    unnamed = {}
    for text in sentences:
        try:
            parse(text)
        except StorageError as error:
            if _UNNAMED.search(str(error)):
                unnamed[text] = str(error)
    assert not unnamed
