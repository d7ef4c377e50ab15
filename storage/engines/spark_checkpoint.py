"""What a checkpoint tells of a stream: which rows a batch has, and which table it writes to.

A batch of another stream has the same number, and maybe other rows.

A commit of a stream keeps in its properties the id that Spark has given the checkpoint, and a digest of the positions between
which the batch lies. So a batch that is replayed is told from one of a stream whose checkpoint was lost, or that was begun under
the same name elsewhere.

The checkpoint keeps which table the stream has written to (`snapline-sink`): one that was made anew under the name of the sink
has none of the rows that came before.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidRequest
from ..file_io import FileIO
from ..file_system import split_url
from ..metadata.snapshot import Snapshot
from ..table import Table
from ..write.commit_id import CommitId

_SINK_FILE = "snapline-sink"
BATCH_PROPERTY = "snapline.stream-batch"
# Ahead of the offsets of the sources stand the version of the file, and the time of the batch, which is another at each start.
_HEAD = 2


def batch_properties(table: Table, commit_id: CommitId, checkpoint: str) -> Mapping[str, str]:
    """The property that a batch is committed with. Raises InvalidRequest if another batch of its number was committed already:
    its rows would be left out.
    """
    own = _batch_of(checkpoint, commit_id.identifier)
    if own is None:
        return {}
    committed = table.new_commit(commit_id).find_committed()
    if committed is not None:
        is_own = commit_id.made(committed)
        known = _known(committed if is_own else _newest_of(table, commit_id.user))
        # Of one that has expired nothing is known but what its user has committed last.
        key = "positions" if is_own else "checkpoint"
        if known.get(key, own[key]) != own[key]:
            raise InvalidRequest(
                f"Stream {commit_id.user!r} has committed its batch {commit_id.identifier} to {table.identifier} already, with "
                "other rows: its checkpoint was lost, or it was begun under one name in two places. Nothing is written. Go on "
                "with the checkpoint that it had, or begin under another name."
            )
    return {BATCH_PROPERTY: json.dumps(own)}


def check_sink(table: Table, checkpoint: str) -> None:
    """Have the checkpoint remember which table its stream writes to. Raises InvalidRequest if it wrote to another one before,
    which this one lacks the rows of.
    """
    own = _identity(table)
    try:
        file_io, directory = FileIO(checkpoint), split_url(checkpoint)
        known = file_io.read_text_or_none(f"{directory}/{_SINK_FILE}")
        if known is None:
            file_io.make_directory(directory)
            file_io.create_exclusively(f"{directory}/{_SINK_FILE}", own.encode())
    except (OSError, ValueError, InvalidRequest):
        # Only Spark can read and write there.
        return
    if known not in (None, own):
        raise InvalidRequest(
            f"This stream has written to another table than {table.identifier} is now: that one was dropped or renamed, and this "
            "one has none of its rows. Begin with another checkpoint, under another name, or write to the other one."
        )


def _identity(table: Table) -> str:
    """What a table keeps when it is renamed, altered, or its main replaced, and another one of its name has not."""
    # Branches begin with copies of the versions of the schema.
    first = table.store.file_io.read_bytes(table.store.paths.schema(0))
    return hashlib.sha256(first).hexdigest()[:32]


def _batch_of(checkpoint: str, number: int) -> dict[str, str] | None:
    """A batch as its checkpoint knows it; None where only Spark can read that."""
    try:
        file_io, root = FileIO(checkpoint), split_url(checkpoint)
        value = json.loads(file_io.read_text_or_none(f"{root}/metadata") or "null")
        texts = [
            file_io.read_text_or_none(f"{root}/offsets/{batch_number}") or "" for batch_number in (number - 1, number)
        ]
    except (OSError, ValueError, InvalidRequest):
        return None
    if not isinstance(value, dict) or "id" not in value:
        return None
    positions = json.dumps([text.splitlines()[_HEAD:] for text in texts])
    return {"checkpoint": str(value["id"]), "positions": hashlib.sha256(positions.encode()).hexdigest()[:32]}


def _newest_of(table: Table, user: str) -> Snapshot | None:
    return next((snapshot for snapshot in table.snapshots.backwards() if snapshot.commit_user == user), None)


def _known(snapshot: Snapshot | None) -> dict[str, Any]:
    """What a commit says of its batch; nothing if a version before has made it."""
    text = None if snapshot is None else (snapshot.properties or {}).get(BATCH_PROPERTY)
    try:
        value = json.loads(text or "null")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}
