"""What a statement that an action adds has to do, as tests for those of one's own.

class TestPeekTable(StatementContract):
    text = "PEEK TABLE shop.orders ROWS 2"
    action = "peek"
    values = {"table": "shop.orders", "rows": 2}
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from storage import InvalidRequest
from storage.sql.commands import Call

from ..actions import ACTIONS
from .parsing import parse
from .procedures import called


class StatementContract:
    """Tests that a statement passes. `text`: one with a value for each parameter. `action`: the name of the function that it
    carries out. `values`: what the function is called with.
    """

    text: ClassVar[str]
    action: ClassVar[str]
    values: ClassVar[Mapping[str, Any]]

    def called(self, text: str) -> tuple[str, dict[str, Any]]:
        """The action that a statement carries out, and what it is called with."""
        (tree,) = parse(text)
        assert isinstance(tree, Call), f"{text} is another statement."
        action, values, _ = called(tree.this, tree.expressions)
        return action.procedures[0].name, values

    def test_it_carries_out_its_action(self) -> None:
        """Also in lower case, and beside other statements."""
        assert self.called(self.text) == (self.action, dict(self.values))
        assert len(parse(f"SELECT 1; {self.text};\nSELECT 2")) == 3

    def test_it_is_refused_with_what_it_does_not_know(self) -> None:
        """Words behind it, and a statement that ends too early."""
        with pytest.raises(InvalidRequest):
            self.called(f"{self.text} NONSENSE 1")
        statement = ACTIONS[self.action].statement
        assert statement is not None
        with pytest.raises(InvalidRequest):
            self.called(" ".join(statement.words))

    def test_its_words_are_names_elsewhere(self) -> None:
        """Tables and columns may be called by its words."""
        statement = ACTIONS[self.action].statement
        assert statement is not None
        for word in statement.words:
            (tree,) = parse(f"SELECT `{word}` FROM {word}")
            assert not isinstance(tree, Call)
