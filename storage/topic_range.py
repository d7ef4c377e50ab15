"""What was read of a topic: what a snapshot that was made from it knows, and lineage with it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TopicRange:
    """Records of a partition from `start` to before `end`, read through a Kafka table of a catalog.

    `topic_id`: what tells the topic from one that is made under its name later; empty where it is not known.
    """

    catalog: str
    database: str
    table: str
    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""

    @property
    def place(self) -> str:
        """The partition, `topic/0`."""
        return f"{self.topic}/{self.partition}"

    def __str__(self) -> str:
        return f"{self.database}.{self.table} {self.place} [{self.start}, {self.end})"
