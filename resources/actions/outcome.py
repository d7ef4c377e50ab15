"""What an action gives: a sentence, rows, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from storage import InvalidRequest


@dataclass(frozen=True)
class Outcome:
    """`message` says in a sentence what was done. `columns` and `rows` are for programs: values by row, texts unless `types`
    says otherwise. `facts` are for programs where there are no rows: what the sentence says, by names, each a text, a number, a
    list of texts, or None. `lines` are what a terminal shows above the sentence. `sound` is False if something is broken: the
    exit code of a command is 1 then.
    """

    message: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    sound: bool = True

    def to_arrow(self) -> pa.Table:
        """The rows, a column for each of `columns`. Without any: a row with the message as `result`, the facts and the lines, or
        a column `result` with lines and message. Raises InvalidRequest if the rows do not fit the columns.
        """
        if not self.columns and self.facts:
            values = {"result": self.message, **self.facts, **({"lines": [*self.lines]} if self.lines else {})}
            return pa.table({name: [value] for name, value in values.items()})
        if not self.columns:
            return pa.table({"result": [*self.lines, *([self.message] if self.message else [])]})
        if wrong := [row for row in self.rows if len(row) != len(self.columns)]:
            raise InvalidRequest(
                f"A row of the answer has {len(wrong[0])} values for {len(self.columns)} columns: mend the action."
            )
        arrays = [self._column(index, name) for index, name in enumerate(self.columns)]
        return pa.Table.from_arrays(arrays, list(self.columns))

    def _column(self, index: int, name: str) -> pa.Array:
        kind = self.types.get(name, pa.string())
        try:
            return pa.array([row[index] for row in self.rows], kind)
        except (pa.ArrowException, OverflowError) as error:
            raise InvalidRequest(f"Column {name!r} of the answer is no {kind}: {error}. Mend the action.") from None
