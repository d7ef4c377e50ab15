"""Options as other writers of the format spell them: values in any case, and keys of older versions.

Paimon compares the values of enumerated options and of truth values without their case, and takes an older key of an option
where the option's own is not given. Every schema, whoever wrote it, has them in one spelling, so that nothing that asks for an
option has to know of others.
"""

import re
from collections.abc import Mapping
from typing import Final

from .errors import InvalidRequest

# The older keys of each option, in the order in which they count.
OLDER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "ignore-delete": ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
    "write-only": ("write.compaction-skip",),
    "lookup-wait": ("changelog-producer.lookup-wait",),
    "write.batch-size": ("orc.write.batch-size",),
    "file-operation.thread-num": ("delete-file.thread-num",),
    "snapshot.clean-empty-directories": ("snapshot.expire.clean-empty-directories",),
    "variant.shreddingSchema": ("parquet.variant.shreddingSchema",),
    "blob-descriptor-field": ("blob.stored-descriptor-fields",),
    "kafka.bootstrap.servers": ("log.kafka.bootstrap.servers",),
    "kafka.topic": ("log.kafka.topic",),
    "log.scan.timestamp-millis": ("log.scan.timestamp-mills",),
}

# How the source document begins the keys of clients of a log, and how they begin here.
_CLIENTS_OLDER, _CLIENTS = "log.kafka.", "kafka."
_KEY_OF_OLDER = {older: key for key, olders in OLDER_KEYS.items() for older in olders}

# Options whose values are words that mean the same in any case.
IN_ANY_CASE: Final = frozenset(
    {
        "type",
        "bucket-function.type",
        "merge-engine",
        "changelog-producer",
        "sequence.field.sort-order",
        "tag.automatic-creation",
        "tag.creation-period",
        "tag.period-formatter",
        "partition.expiration-strategy",
        "file.format",
        "file.compression",
        "manifest.format",
        "metadata.stats-mode",
        "metadata.iceberg.storage",
        "metadata.iceberg.storage-location",
        "log.system",
        "log.consistency",
        "log.changelog-mode",
        "log.key.format",
        "log.format",
        # Truth values.
        "aggregation.remove-record-on-delete",
        "partial-update.remove-record-on-delete",
        "change-tracking",
        "changelog-producer.row-deduplicate",
        "data-evolution.enabled",
        "data-file.thin-mode",
        "deletion-vectors.bitmap64",
        "deletion-vectors.enabled",
        "deletion-vectors.merge-on-read",
        "dynamic-partition-overwrite",
        "file-index.read.enabled",
        "force-lookup",
        "ignore-delete",
        "ignore-update-before",
        "log.ignore-delete",
        "index-file-in-data-file-dir",
        "chain-table.enabled",
        "metadata.iceberg.delete-after-commit.enabled",
        "metadata.iceberg.manifest-legacy-version",
        "partition.end-input-to-done",
        "partition.legacy-name",
        "pk-clustering-override",
        "query-auth.enabled",
        "row-tracking.enabled",
        "sequence.snapshot-ordering",
        "streaming-read-overwrite",
        "write-only",
    }
)

_OF_COLUMNS_IN_ANY_CASE = re.compile(r"fields\..+\.(ignore-retract|distinct|stats-mode)")


def own_key(key: str) -> str:
    """The key that an option has by now."""
    if key.startswith(_CLIENTS_OLDER):
        return _CLIENTS + key.removeprefix(_CLIENTS_OLDER)
    return _KEY_OF_OLDER.get(key, key)


def in_one_spelling(options: Mapping[str, str]) -> dict[str, str]:
    """The same options under their own keys, and words in lower case. An older key says nothing beside the option's own."""
    spelled: dict[str, str] = {}
    for key, value in options.items():
        own = own_key(key)
        if own != key and key != _first_given(own, options):
            continue
        spelled[own] = value.lower() if own in IN_ANY_CASE or _OF_COLUMNS_IN_ANY_CASE.fullmatch(own) else value
    return spelled


def refuse_two_spellings(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest for an option that is given under two keys with two values."""
    given: dict[str, str] = {}
    for key, value in options.items():
        other = given.setdefault(own_key(key), key)
        if options[other] != value:
            raise InvalidRequest(
                f"Options {other!r} = {options[other]!r} and {key!r} = {value!r} are two spellings of one option: give one."
            )


def _first_given(own: str, options: Mapping[str, str]) -> str | None:
    olders = OLDER_KEYS.get(own, (f"log.{own}",))
    return next((key for key in (own, *olders) if key in options), None)
