"""Actions on consumers: readers of changes that have a name."""

import re
from typing import Annotated

from .action import Given, Reach, action
from .kinds import CONSUMER, PATTERN, POSITIVE, TABLE
from .outcome import Outcome
from .sentences import counted

TheTable = Annotated[str, Given(TABLE)]


@action("consumer reset", "reset-consumer")
def reset_consumer(
    reach: Reach,
    table: TheTable,
    consumer_id: Annotated[
        str, Given(CONSUMER, "The name of the consumer.", alias_option="--name", also=("consumerid",))
    ],
    next_snapshot_id: Annotated[
        int | None,
        Given(POSITIVE, "Go on from here. Default: forget the consumer.", "--snapshot", also=("nextsnapshotid",)),
    ] = None,
) -> Outcome:
    """Make a named reader of changes go on from a snapshot, or forget it, so that old snapshots can expire."""
    consumers = reach.table(table).consumers
    facts = {"table": table, "consumer": consumer_id}
    if next_snapshot_id is not None:
        consumers.reset(consumer_id, next_snapshot_id)
        message = f"Consumer {consumer_id} of {table} goes on from snapshot {next_snapshot_id}."
        return Outcome(message, facts=facts | {"next_snapshot": next_snapshot_id})
    was_damaged = consumers.is_damaged(consumer_id)
    consumers.delete(consumer_id)
    message = f"Consumer {consumer_id} of {table} is forgotten.{' It was damaged.' if was_damaged else ''}"
    return Outcome(message, facts=facts | {"next_snapshot": None})


@action("consumer clear", "clear-consumers")
def clear_consumers(
    reach: Reach,
    table: TheTable,
    including_consumers: Annotated[
        str | None, Given(PATTERN, "only those.", "--including", also=("includingconsumers",))
    ] = None,
    excluding_consumers: Annotated[
        str | None, Given(PATTERN, "not those.", "--excluding", also=("excludingconsumers",))
    ] = None,
) -> Outcome:
    """Forget the named readers of changes whose names match regular expressions; without any, all."""
    consumers = reach.table(table).consumers
    chosen = [each.name for each in consumers.list() if is_chosen(each.name, including_consumers, excluding_consumers)]
    for name in chosen:
        consumers.delete(name)
    return Outcome(
        f"{counted(len(chosen), 'consumer')} of {table} forgotten.",
        ["consumer"],
        [(name,) for name in chosen],
        lines=chosen,
    )


def is_chosen(text: str, including: str | None, excluding: str | None) -> bool:
    """Whether a text matches the one regular expression, if there is one, and not the other."""
    return (including is None or re.fullmatch(including, text) is not None) and (
        excluding is None or re.fullmatch(excluding, text) is None
    )
