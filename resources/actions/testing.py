"""What every action has to do, as tests for those of one's own.

from resources.actions.testing import ActionContract

class TestVacuum(ActionContract):
    name = "vacuum"
    good = {"table": "shop.orders"}
    wrong = {"older_than": "soon"}
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from storage import InvalidRequest

from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.warehouse_session import WarehouseSession
from . import ACTIONS, Action, Outcome, Reach, procedures


class ActionContract:
    """Tests that an action passes. `name`: that of its function. `good`: a value for each parameter that has to be given.
    `wrong`: for some parameters a value that is none of its kind. `tables`: rows of tables, by name; with some it is carried out,
    with the values of `good`.
    """

    name: ClassVar[str]
    good: ClassVar[Mapping[str, Any]]
    wrong: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    tables: ClassVar[Mapping[str, pa.Table]] = MappingProxyType({})

    @property
    def action(self) -> Action:
        """The registered action of that name. Raises KeyError if there is none."""
        return ACTIONS[self.name]

    def test_it_is_registered_and_says_what_it_does(self) -> None:
        """`CALL sys.…` finds the action by its name, and it has a sentence for the help."""
        assert procedures()[self.name][0] is self.action
        assert self.action.meaning

    def test_it_has_one_command_of_noun_and_verb_at_most(self) -> None:
        """Its command is two words, or none, and no other action has the same."""
        assert len(self.action.command) in (0, 2)
        same = [other for other in ACTIONS.values() if other.command and other.command == self.action.command]
        assert len(same) <= 1

    def test_each_parameter_takes_what_is_right(self) -> None:
        """`good` has a value for each required parameter and for no unknown one, and each is taken."""
        needed = {parameter.name for parameter in self.action.parameters if parameter.required}
        assert needed <= set(self.good) <= {parameter.name for parameter in self.action.parameters}
        for parameter in self.action.parameters:
            if parameter.name in self.good:
                assert parameter.value(self.good[parameter.name]) is not None

    def test_each_parameter_refuses_in_one_line_what_is_wrong(self) -> None:
        """Each value of `wrong` raises InvalidRequest with a message of one line."""
        parameters = {parameter.name: parameter for parameter in self.action.parameters}
        for name, value in self.wrong.items():
            with pytest.raises(InvalidRequest) as refused:
                parameters[name].value(value)
            assert "\n" not in str(refused.value)

    def test_it_answers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Carried out on `tables`, it gives an outcome whose rows fit its columns, and a sentence or rows."""
        if not self.tables:
            pytest.skip("give `tables` to carry it out")
        monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path))
        session = WarehouseSession()
        for name, rows in self.tables.items():
            session.catalog.create_table(name, rows.schema).write(rows)
        parameters = {parameter.name: parameter for parameter in self.action.parameters}
        values = {name: parameters[name].value(given) for name, given in self.good.items()}
        outcome = self.action.carry_out(Reach(session, CATALOG_NAME, session.table), values)
        assert isinstance(outcome, Outcome)
        assert outcome.message or outcome.lines or outcome.columns
        assert outcome.to_arrow().num_columns > 0
