"""Actions on tags."""

from datetime import datetime, timedelta
from typing import Annotated

from storage import InvalidRequest, NotFound, Table

from .action import Given, Reach, action
from .kinds import DURATION, FLAG, MOMENT, NAME, NUMBER, TABLE, TAG
from .outcome import Outcome
from .sentences import counted, named_in

_WAS_DAMAGED = " It was damaged; which files it kept cannot be told: `remove-orphan-files` deletes them."

TheTable = Annotated[str, Given(TABLE)]
TheTag = Annotated[str, Given(NAME, "Not only digits: those are snapshot ids.", alias_option="--name")]


@action(
    "tag create",
    "create-tag",
    also={
        "create_tag_from_timestamp": ("table", "tag", "timestamp!", "time_retained"),
        "create_tag_from_watermark": ("table", "tag", "watermark!", "time_retained"),
    },
)
def create_tag(
    reach: Reach,
    table: TheTable,
    tag: TheTag,
    snapshot_id: Annotated[
        int | None, Given(NUMBER, "The snapshot to tag. Default: the latest.", "--snapshot", also=("snapshot",))
    ] = None,
    time_retained: Annotated[
        timedelta | None,
        Given(DURATION, "Keep the tag for so long, as in `30 d`. Default: for good.", "--time-retained"),
    ] = None,
    timestamp: Annotated[
        datetime | None, Given(MOMENT, "Or: the first snapshot at or after this local time.", "--timestamp")
    ] = None,
    watermark: Annotated[
        int | None,
        Given(NUMBER, "Or: the first snapshot whose watermark has reached this (milliseconds).", "--watermark"),
    ] = None,
    replace: Annotated[bool, Given(FLAG, "Move the tag if it exists.", "--replace")] = False,
) -> Outcome:
    """Give a snapshot a name. It can be read by it for as long as the tag exists; nothing is copied."""
    if sum(each is not None for each in (snapshot_id, timestamp, watermark)) > 1:
        raise InvalidRequest("Give one of snapshot, timestamp and watermark, and only one.")
    opened = reach.table(table)
    if timestamp is not None:
        snapshot_id = _first_since(opened, table, timestamp)
    elif watermark is not None:
        snapshot = opened.snapshot(f"watermark-{watermark}")
        if snapshot is None:
            raise NotFound(f"{table} has no snapshot.")
        snapshot_id = snapshot.id
    made = opened.tags.create(tag, snapshot_id=snapshot_id, replace=replace, time_retained=time_retained)
    return _named(table, made.name, made.snapshot.id)


def _first_since(opened: Table, table: str, moment: datetime) -> int:
    """The id of the first snapshot at or after a time. Raises NotFound."""
    moment_ms = int(moment.timestamp() * 1000)
    for snapshot in opened.snapshots.all():
        if snapshot.time_ms >= moment_ms:
            return snapshot.id
    raise NotFound(f"{table} has no snapshot at {moment} or later.")


@action("")
def replace_tag(
    reach: Reach,
    table: TheTable,
    tag: Annotated[str, Given(TAG)],
    snapshot_id: Annotated[
        int | None, Given(NUMBER, "The snapshot to tag. Default: the latest.", "--snapshot", also=("snapshot",))
    ] = None,
    time_retained: Annotated[timedelta | None, Given(DURATION, "Keep the tag for so long.", "--time-retained")] = None,
) -> Outcome:
    """Make a tag that exists name another snapshot."""
    opened = reach.table(table)
    if not opened.tags.is_damaged(tag):
        # Raises NotFound: a misspelt name would be one more tag.
        opened.tags.get(tag)
    made = opened.tags.create(tag, snapshot_id=snapshot_id, replace=True, time_retained=time_retained)
    return _named(table, made.name, made.snapshot.id)


@action("tag create-due", "create-due-tag", also={"trigger_tag_automatic_creation": ("table",)})
def create_due_tag(reach: Reach, table: TheTable) -> Outcome:
    """Create the tag of the last period that is over, as the table's options ask for."""
    made = reach.table(table).tags.create_due()
    if made is None:
        return Outcome(f"{table} has no tag due.", facts={"table": table, "tag": None, "snapshot": None})
    return _named(table, made.name, made.snapshot.id)


@action("tag rename", "rename-tag")
def rename_tag(
    reach: Reach,
    table: TheTable,
    tag: Annotated[str, Given(TAG, alias_option="--name")],
    target_tag: Annotated[str, Given(NAME, "The new name.", alias_option="--to")],
) -> Outcome:
    """Give a tag another name."""
    reach.table(table).tags.rename(tag, target_tag)
    return Outcome(f"Tag {tag} of {table} is called {target_tag}.", facts={"table": table, "tag": target_tag})


@action("tag expire", "expire-tags")
def expire_tags(reach: Reach, table: TheTable) -> Outcome:
    """Delete the tags whose time is over, and the files that nobody needs then."""
    expired = reach.table(table).tags.expire()
    message = f"{counted(len(expired), 'tag')} of {table} expired{': ' if expired else ''}{', '.join(expired)}."
    return Outcome(message, ["expired_tags"], [(name,) for name in expired])


@action("tag delete", "delete-tag")
def delete_tag(
    reach: Reach,
    table: TheTable,
    tag: Annotated[str, Given(TAG, "Several are separated by commas.", alias_option="--name")],
) -> Outcome:
    """Forget the names of snapshots, and the files that only they need."""
    opened = reach.table(table)
    tags, names = opened.tags, _tags_in(opened, tag)
    were_damaged = [name for name in names if tags.is_damaged(name)]
    for name in names:
        if name not in were_damaged:
            # Raises NotFound before any of them is gone.
            tags.get(name)
    for name in names:
        tags.delete(name)
    deleted = f"Deleted tag{'' if len(names) == 1 else 's'} {', '.join(names)} of {table}."
    return Outcome(f"{deleted}{_WAS_DAMAGED if were_damaged else ''}", facts={"table": table, "tags": names})


def _tags_in(table: Table, text: str) -> list[str]:
    """The names in a text: separated by commas, if it is not the name of a tag itself."""
    tags = table.tags
    if "," not in text or tags.is_damaged(text):
        return [text]
    try:
        return named_in(text, [tags.get(text).name])
    except NotFound:
        return named_in(text, [])


def _named(table: str, tag: str, snapshot_id: int) -> Outcome:
    message = f"Tag {tag} of {table} names snapshot {snapshot_id}."
    return Outcome(message, facts={"table": table, "tag": tag, "snapshot": snapshot_id})
