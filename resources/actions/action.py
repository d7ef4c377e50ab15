"""Actions: what can be done to tables, tags, branches, snapshots, consumers and lineage.

Each is written once, as a function with typed parameters. `snapline …` and `CALL sys.*` are made from it.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from storage import InvalidRequest, Table
from storage.sql.added_statements import AddedStatement, read_pattern

from ..warehouse.warehouse_session import WarehouseSession
from .kinds import Kind
from .outcome import Outcome


@dataclass(frozen=True)
class Reach:
    """What actions work on: the session, the current catalog, how tables are opened by name, and what a name is in full
    (database and table).
    """

    session: WarehouseSession
    catalog: str
    table: Callable[[str], Table]
    full_name: Callable[[str], str] = str


@dataclass(frozen=True)
class Given:
    """How a parameter is given, noted in its annotation. `option`: its name on the command line; without one it is an argument
    there. `alias_option`: its option in the alias of a command. `also`: other names in CALL, such as Paimon's.
    """

    kind: Kind
    meaning: str = ""
    option: str = ""
    alias_option: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """A parameter of an action: its name in CALL, how it is given, and its default if it may be left out."""

    name: str
    given: Given
    required: bool
    default: Any = None

    def value(self, given: Any, label: str | None = None) -> Any:
        """What the action is called with. Raises InvalidRequest for what is not of its kind."""
        return self.given.kind.value(label or self.name, given)


@dataclass(frozen=True)
class Procedure:
    """A name in `CALL sys.*`, and its parameters in their order."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def signature(self) -> str:
        """The parameters in their order for messages: `table, tag, [snapshot]`; those in brackets may be left out."""
        return ", ".join(each.name if each.required else f"[{each.name}]" for each in self.parameters)


@dataclass(frozen=True)
class Action:
    """`command` and `alias` are words of the command line; the first of `procedures` is the action's own, the others are names
    that do the same with fewer parameters. `statement`: a statement of SQL that carries it out.
    """

    command: tuple[str, ...]
    alias: tuple[str, ...]
    procedures: tuple[Procedure, ...]
    parameters: tuple[Parameter, ...]
    function: Callable[..., Outcome]
    meaning: str
    statement: AddedStatement | None = None

    def carry_out(self, reach: Reach, values: Mapping[str, Any], spelt: Mapping[str, str] | None = None) -> Outcome:
        """Do it with values of the right kinds; None stands for what was not given. Raises what the store raises; `spelt`: what
        the parameters are called where they were given, and in errors.
        """
        try:
            outcome = self.function(reach, **{name: value for name, value in values.items() if value is not None})
            if not isinstance(outcome, Outcome):
                raise InvalidRequest(
                    f"Action {self.procedures[0].name} gives {outcome!r} instead of an Outcome: mend it."
                )
            return outcome
        except InvalidRequest as error:
            message = _as_spelt(str(error), spelt or {})
            if message == str(error):
                raise
            raise type(error)(message) from None


ACTIONS: dict[str, Action] = {}
# What every command has.
_OWN_OPTIONS = ("--format", "--help", "-h")


def action(
    command: str, alias: str = "", also: Mapping[str, Sequence[str]] | None = None, statement: str = ""
) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """Make a function an action. Its name is that of the procedure, its docstring the meaning, and the annotation of each
    parameter but the first, a `Reach`, holds a `Given`.

    `also`: further procedures, by name: the parameters that they take; those with a `!` behind them cannot be left out there.
    `statement`: a statement of SQL that carries it out, such as `PEEK TABLE table [ROWS rows]`: upper-case words are typed as
    they are, lower-case ones are parameters, and what stands in brackets may be left out; a bracket of words alone is a flag,
    named by its last word. Raises InvalidRequest for names of procedures, commands and statements that another action has, and
    for a statement that begins as one of the platform.
    """

    def register(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
        parameters = tuple(_parameters(function))
        own = Procedure(function.__name__, parameters)
        others = [_variant(name, parameters, chosen) for name, chosen in (also or {}).items()]
        made = Action(
            tuple(command.split()),
            tuple(alias.split()),
            (own, *others),
            parameters,
            function,
            inspect.getdoc(function) or "",
            _statement(statement, own) if statement else None,
        )
        _refuse_names(made)
        _refuse_taken_names(made)
        ACTIONS[function.__name__] = made
        return function

    return register


def _refuse_names(added: Action) -> None:
    name, words = added.procedures[0].name, added.command
    if words and (len(words) != 2 or not all(re.fullmatch(r"[a-z][a-z0-9-]*", word) for word in words)):
        raise InvalidRequest(f"Action {name!r} cannot be added: its command {' '.join(words)!r} is no noun and verb.")
    options = [option for each in added.parameters for option in (each.given.option, each.given.alias_option) if option]
    own = [each for each in options if each in _OWN_OPTIONS]
    if own:
        raise InvalidRequest(f"Action {name!r} cannot be added: every command has an option {own[0]} of its own.")


def _refuse_taken_names(added: Action) -> None:
    for other in ACTIONS.values():
        same = {each.name for each in added.procedures} & {each.name for each in other.procedures}
        commands = {added.command, added.alias} & {other.command, other.alias} - {()}
        if added.statement is not None and other.statement is not None:
            first, second = added.statement.words, other.statement.words
            if first[: len(second)] == second[: len(first)]:
                commands.add(second)
        if same or commands:
            names = ", ".join([*sorted(same), *(repr(" ".join(words)) for words in sorted(commands))])
            raise InvalidRequest(
                f"An action {added.procedures[0].name!r} cannot be added: there is one of the name {names}."
            )


def _statement(pattern: str, procedure: Procedure) -> AddedStatement:
    required = {each.name: each.required for each in procedure.parameters}
    flags = {each.name for each in procedure.parameters if each.given.kind.is_flag}
    return read_pattern(pattern, procedure.name, required, flags)


def _as_spelt(message: str, spelt: Mapping[str, str]) -> str:
    """A message with parameters by the names that were typed. Words of the language are no names: those have a `_` in them."""
    names = [name for name, label in spelt.items() if "_" in name and label != name]
    if not names:
        return message
    return re.sub(rf"('?)\b({'|'.join(map(re.escape, names))})\b\1", lambda match: spelt[match[2]], message)


def _parameters(function: Callable[..., Outcome]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for each in list(inspect.signature(function).parameters.values())[1:]:
        given = next(note for note in hints[each.name].__metadata__ if isinstance(note, Given))
        required = each.default is each.empty
        yield Parameter(each.name, given, required, None if required else each.default)


def _variant(name: str, parameters: Sequence[Parameter], chosen: Sequence[str]) -> Procedure:
    """A procedure of some of the parameters; those with a `!` behind them cannot be left out there."""
    by_name = {each.name: each for each in parameters}
    return Procedure(
        name,
        tuple(
            replace(by_name[each.rstrip("!")], required=each.endswith("!") or by_name[each.rstrip("!")].required)
            for each in chosen
        ),
    )


def procedures() -> dict[str, tuple[Action, Procedure]]:
    """What `CALL sys.*` can name, with the action that it carries out."""
    return {each.name: (action, each) for action in ACTIONS.values() for each in action.procedures}


def only_one_of(**given: Any) -> None:
    """Raise InvalidRequest unless exactly one of some parameters was given."""
    if sum(value is not None for value in given.values()) != 1:
        *others, last = given
        raise InvalidRequest(f"Give one of {', '.join(others)} and {last}, and only one.")
