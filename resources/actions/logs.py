"""Actions on the logs of tables: copies of their changes in a system such as Kafka."""

from typing import Annotated

from .action import Given, Reach, action
from .kinds import TABLE
from .outcome import Outcome

TheTable = Annotated[str, Given(TABLE)]


@action("log status")
def log_status(reach: Reach, table: TheTable) -> Outcome:
    """Say how far the log of a table has come, and why it does not follow."""
    status = reach.table(table).log.status()
    sent, latest = (f"snapshot {number}" if number else "no snapshot" for number in (status.sent, status.latest))
    behind = status.behind
    message = f"The log of {table}, topic {status.topic} in {status.system}, has come to {sent}, the table to {latest}."
    lines = [status.trouble] if status.trouble else []
    if status.waits:
        lines.append(f"Some rows of {table} are told once a compaction has lifted them: `snapline compact {table}`.")
    row = (status.system, status.topic, status.sent, status.latest, behind, status.trouble or None)
    return Outcome(
        message,
        ["system", "topic", "sent", "latest", "behind", "trouble"],
        [tuple(None if value is None else str(value) for value in row)],
        lines=lines,
        sound=not status.trouble and behind == 0,
    )


@action("log catch-up")
def log_catch_up(reach: Reach, table: TheTable) -> Outcome:
    """Send to the log of a table what is missing in it."""
    sent = reach.table(table).log.catch_up()
    if sent is None:
        message = f"Somebody else sends what is missing in the log of {table}."
        return Outcome(message, facts={"table": table, "snapshot": None})
    message = f"The log of {table} has come to {f'snapshot {sent}' if sent else 'no snapshot: there is none'}."
    return Outcome(message, facts={"table": table, "snapshot": sent or None})


@action("log rebuild")
def log_rebuild(reach: Reach, table: TheTable) -> Outcome:
    """Let readers of the log of a table begin anew at its newest snapshot; a topic that is gone is made again."""
    sent = reach.table(table).log.rebuild()
    if sent is None:
        return Outcome(f"Somebody else sends to the log of {table}: repeat it.", sound=False)
    message = f"Readers of the log of {table} begin anew{f' at snapshot {sent}' if sent else ''}."
    return Outcome(message, facts={"table": table, "snapshot": sent or None})
