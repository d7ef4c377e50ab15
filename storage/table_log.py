"""The log of a table, for users: how far it has come, sending what is missing, and beginning anew."""

from dataclasses import dataclass

from .altering import alter
from .arguments import checked
from .errors import InvalidRequest, StorageError
from .identifier import MAIN_BRANCH
from .log.definition import log_options, own_topic, partition_count
from .log.log_store import TopicDefinition
from .log.log_systems import open_log
from .log.publish import catch_up, sent_until
from .log_options import TOPIC_ID, has_log
from .metadata.schema_change import SetOptions
from .metadata.table_store import TableStore
from .metadata.trouble import LOG
from .read.changes import has_untold
from .same_table import of_same_table
from .store_errors import outcome


@dataclass(frozen=True, slots=True)
class LogStatus:
    """How far a log has come. `sent`: the last snapshot that is in it, as the log says, or, if it does not answer, as the table
    knows; None if nobody knows. `trouble`: why it cannot be read or followed, empty if it can. `waits`: the latest snapshot has
    rows of which nobody is told before they are compacted.
    """

    system: str
    topic: str
    sent: int | None
    latest: int | None
    ends: tuple[int, ...] = ()
    trouble: str = ""
    waits: bool = False

    @property
    def behind(self) -> int | None:
        """How many snapshots are missing; None if nobody knows."""
        return None if self.sent is None else max(0, (self.latest or 0) - self.sent)


@checked
class TableLog:
    """The log of main."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    @outcome("Nothing was changed.")
    @of_same_table
    def status(self) -> LogStatus:
        """How far the log has come. Raises InvalidRequest for a table without one."""
        self._refuse_without()
        store, options = self._store, log_options(self._store.schema)
        sent, trouble = sent_until(store), ""
        ends: tuple[int, ...] = ()
        kept = store.troubles.find(LOG)
        try:
            topic = own_topic(store.schema, str(store.identifier))
            position = open_log(store.schema.options).position(topic)
            if position is not None:
                sent, ends = position.snapshot_id, position.ends
        except StorageError as error:
            trouble = str(error)
        if not trouble and kept is not None:
            trouble = str(kept)
        latest = store.snapshots.latest()
        waits = latest is not None and has_untold(store, latest)
        number = None if latest is None else latest.id
        return LogStatus(options.system, options.topic or "", sent, number, ends, trouble, waits)

    @outcome("What is missing in the log stays missing until the next commit, or call.")
    def catch_up(self) -> int | None:
        """Send what is missing; returns the last snapshot that is in the log then. None if somebody else sends it."""
        self._refuse_without()
        self._store.refuse_other_table()
        kept = self._store.troubles.content(LOG)
        position = catch_up(self._store)
        self._store.troubles.clear_if(LOG, kept)
        return None if position is None else position.snapshot_id

    @outcome("The topic may be there: repeat the call.")
    def rebuild(self) -> int | None:
        """Let readers begin anew at the newest snapshot, in the topic that there is, or in a new one if it is gone. Returns that
        snapshot; None if somebody else sends.
        """
        self._refuse_without()
        self._store.refuse_other_table()
        store, options = self._store, log_options(self._store.schema)
        log, name = open_log(store.schema.options), options.topic or ""
        topic, count = log.find_topic(name), partition_count(store.schema)
        if topic is not None and topic.partitions != count:
            raise InvalidRequest(
                f"Topic {name!r} has {topic.partitions} partitions, the table {count} buckets: delete the topic, and repeat this."
            )
        if topic is None:
            topic = log.create_topic(TopicDefinition(name, count, options.replication, options.retention_ms))
        if topic.id != options.topic_id:
            store = alter(store, (SetOptions({TOPIC_ID: topic.id}),))
        kept = store.troubles.content(LOG)
        position = catch_up(store, begin_anew=True)
        store.troubles.clear_if(LOG, kept)
        return None if position is None else position.snapshot_id

    def _refuse_without(self) -> None:
        if not has_log(self._store.schema.options):
            raise InvalidRequest(f"{self._store.identifier} has no log: 'log.system' is 'none'.")
        if self._store.identifier.branch != MAIN_BRANCH:
            raise InvalidRequest(f"{self._store.identifier} is a branch: the log is of main. Name the table.")
