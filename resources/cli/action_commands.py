"""Commands made from actions: `snapline tag create T name`, and the older `snapline create-tag T --name name`."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from ..actions import ACTIONS, Action, Parameter, Reach
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from .completion import names_for
from .output import format_option, print_outcome
from .parameters import Command


def add_actions(cli: click.Group, groups: Mapping[str, click.Group]) -> None:
    """Add a command for each action to the group of its noun, and one of its other spelling to `cli`, which is hidden in the
    list of commands if there are both.
    """
    for action in ACTIONS.values():
        if action.command:
            noun, verb = action.command
            groups[noun].add_command(_command(action, verb, as_alias=False))
        if action.alias:
            cli.add_command(_command(action, action.alias[0], as_alias=True))


def _command(action: Action, name: str, *, as_alias: bool) -> click.Command:
    parameters = [_click_parameter(each, as_alias=as_alias) for each in action.parameters]
    command = Command(
        name,
        params=parameters,
        callback=_callback(
            action,
            {each.name or "": given for each, given in zip(parameters, action.parameters, strict=True)},
            as_alias=as_alias,
        ),
        help=_help(action, as_alias=as_alias),
        hidden=as_alias and bool(action.command),
    )
    # Click adds an option to a command by its function.
    format_option(command)
    return command


def _help(action: Action, *, as_alias: bool) -> str:
    if as_alias and action.command:
        return f"{action.meaning}\n\nThe same as `snapline {' '.join(action.command)}`."
    return action.meaning


def _callback(action: Action, given_as: Mapping[str, Parameter], *, as_alias: bool) -> Callable[..., None]:
    @click.pass_obj
    def carry_out(session: Session, /, form: str, **texts: Any) -> None:
        values = {
            parameter.name: None
            if _is_left_out(texts[name])
            else parameter.value(texts[name], _label(name, parameter, as_alias=as_alias))
            for name, parameter in given_as.items()
        }
        reach = Reach(session, CATALOG_NAME, session.table)
        spelt = {parameter.name: _label(name, parameter, as_alias=as_alias) for name, parameter in given_as.items()}
        print_outcome(action.carry_out(reach, values, spelt), form)

    return carry_out


def _is_left_out(text: Any) -> bool:
    return text is None or text == ()


def _label(name: str, parameter: Parameter, *, as_alias: bool) -> str:
    return parameter.given.option or (as_alias and parameter.given.alias_option) or name


def _click_parameter(parameter: Parameter, *, as_alias: bool) -> click.Parameter:
    given, kind = parameter.given, parameter.given.kind
    option = given.option or (given.alias_option if as_alias else "")
    complete = names_for(kind)
    if not option:
        return click.Argument(
            [parameter.name],
            nargs=-1 if kind.repeats else 1,
            required=parameter.required,
            shell_complete=complete,
            metavar=_metavar(parameter),
        )
    if kind.is_flag:
        return click.Option([option, parameter.name], is_flag=True, help=given.meaning)
    return click.Option(
        [option, parameter.name],
        required=parameter.required,
        multiple=kind.repeats,
        help=given.meaning or None,
        metavar=kind.metavar,
        shell_complete=complete,
    )


def _metavar(parameter: Parameter) -> str:
    text = parameter.given.kind.metavar
    name = parameter.name.upper()
    text = text if parameter.name in ("table", "tables") else name
    return text if parameter.required else f"[{text}]"
