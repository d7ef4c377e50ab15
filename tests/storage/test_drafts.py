"""Objects made by way of drafts are those that the constructor makes."""

import pickle
from dataclasses import FrozenInstanceError, astuple, replace

import pytest

from storage.drafts import maker
from storage.format.column_stats import SerializedStats


def test_an_object_made_of_a_draft_is_like_any_other() -> None:
    plain = SerializedStats(b"low", b"high", (1, None))
    made = maker(SerializedStats)(b"low", b"high", (1, None))
    assert type(made) is SerializedStats
    assert (made, hash(made), repr(made)) == (plain, hash(plain), repr(plain))
    assert pickle.loads(pickle.dumps(made)) == plain
    assert astuple(replace(made, minimums=b"")) == (b"", b"high", (1, None))
    with pytest.raises(FrozenInstanceError):
        made.minimums = b""  # type: ignore[misc]


def test_each_field_is_given() -> None:
    with pytest.raises(TypeError):
        maker(SerializedStats)(b"low", b"high")
