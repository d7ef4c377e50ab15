"""SET and RESET: what is said stands until the session ends."""

import pyarrow as pa

from storage import (
    shown_options,
)
from storage.sql.commands import (
    ResetOption,
    SetOption,
)

from .result import Act, Result
from .settings import STARTUP_OPTION, check_key, check_setting
from .statement_context import StatementContext


class SettingStatements:
    """Plans SET and RESET; what a plan returns carries one out."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context

    def run(self, tree: SetOption | ResetOption) -> Act:
        """What carries the statement out. Raises InvalidRequest for a key or a value that is not understood."""
        key = tree.this
        if isinstance(tree, ResetOption):
            return lambda: self._reset(key)
        value = tree.args.get("value")
        if value is None:
            return lambda: self._shown(key)
        check_setting(key, value, self._context.session.catalog_of(self._context.settings.catalog).warehouse)

        if key == STARTUP_OPTION:
            self._context.names.refuse_unknown_job(value)

        def act() -> Result:
            self._context.settings.options[key] = value
            return Result(f"{key} = {shown_options({key: value})[key]}")

        return act

    def _reset(self, key: str | None) -> Result:
        if key is None:
            self._context.settings.options.clear()
        else:
            check_key(key)
            self._context.settings.options.pop(key, None)
        return Result(f"{key or 'Everything'} is as it was at first.")

    def _shown(self, key: str | None) -> Result:
        if key is not None:
            check_key(key)
        shown = shown_options(
            {each: value for each, value in sorted(self._context.settings.options.items()) if key in (None, each)}
        )
        return Result(
            rows=pa.table({"key": pa.array(shown.keys(), pa.string()), "value": pa.array(shown.values(), pa.string())})
        )
