"""The table store: LSM tables in Apache Paimon's on-disk format, Arrow in and out.

This is the front door; rooms behind it are private to the package. `storage.engines` is a second door, for Spark and
DuckDB. Importing it loads neither.
"""

from .basis import Basis
from .branch_history import BranchHistory
from .branch_set import BranchSet
from .catalog import Catalog
from .clock import Clock, FixedClock
from .data_types import VARIANT, DataField, DataType, is_variant, nullable_arrow, parse_type
from .errors import (
    AlreadyExists,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    InvalidRequest,
    MainReplaced,
    NotFound,
    StorageError,
    StoreUnavailable,
    Unsupported,
)
from .extensions import extension_names, load_extension
from .file_io import FileIO
from .file_system import is_known_protocol, refuse_other_urls, same_protocol
from .identifier import (
    DEFAULT_CATALOG,
    MAIN_BRANCH,
    Identifier,
    SnapshotRef,
    check_branch_name,
    check_new_branch_name,
    check_new_tag_name,
    check_tag_name,
    name_and_version,
    whole_number,
)
from .kafka.definition import KafkaTable
from .lock import CatalogLock, FileLock
from .log_options import TOPIC_ID, is_of_log
from .maintain.findings import FailedWork, KeptAside, Unfinished
from .maintain.verdict import Verdict
from .metadata.default_values import default_of
from .metadata.derived_columns import ComputedColumn, Watermark
from .metadata.option_columns import options_in_case
from .metadata.schema_change import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNotNull,
    SetOptions,
)
from .metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from .metrics import METRICS, Meter, Metric, set_meter
from .notes import Notes
from .option_checks import check_option_of_log, check_table_options
from .option_texts import parse_duration_ms
from .options import TableOptions
from .options_without_effect import refuse_without_effect, with_an_effect
from .progress import Tell, progress_of, progress_of_each, progress_text, watched_by
from .publications.open_publication import OpenPublication
from .read.metadata_columns import METADATA_COLUMNS, metadata_field, metadata_of
from .read.predicate import Predicate
from .read.scan import Scan
from .read.split import Split
from .read.version import BRANCH_OPTIONS, VERSION_OPTIONS, TagName, Version, moment_of, version_of_options
from .redaction import hidden, is_secret_name, remember, secrets_in
from .secret import (
    Secret,
    guarded_options,
    guarded_storage,
    plain_secrets,
    refers_to_environment,
    resolved,
    revealed,
    shown_options,
    written_options,
)
from .snapshots import CommitSummary
from .store_errors import outcome
from .table import Table
from .table_names import new_table_name
from .topic_range import TopicRange
from .views import View, ViewColumn
from .warehouse_check import Unpublished
from .write.commit_id import CommitId
from .write.commit_metrics import LOG_FIELDS
from .write.listeners import CommitListener
from .write.operation import operation_of
from .write.overwrite import Overwrite
from .write.taken_over import TakenNewest, taken_newest

__all__ = [
    "BATCH_COMMIT_IDENTIFIER",
    "BRANCH_OPTIONS",
    "DEFAULT_CATALOG",
    "LOG_FIELDS",
    "MAIN_BRANCH",
    "METADATA_COLUMNS",
    "METRICS",
    "TOPIC_ID",
    "VARIANT",
    "VERSION_OPTIONS",
    "AddColumn",
    "AlreadyExists",
    "Basis",
    "BranchHistory",
    "BranchSet",
    "Catalog",
    "CatalogLock",
    "ChangeType",
    "Clock",
    "CommitConflict",
    "CommitId",
    "CommitListener",
    "CommitOutcomeUnknown",
    "CommitSummary",
    "ComputedColumn",
    "CorruptData",
    "DataField",
    "DataType",
    "DropColumn",
    "DropNotNull",
    "FailedWork",
    "FileIO",
    "FileLock",
    "FixedClock",
    "Identifier",
    "InvalidRequest",
    "KafkaTable",
    "KeptAside",
    "MainReplaced",
    "Meter",
    "Metric",
    "MoveColumn",
    "NotFound",
    "Notes",
    "OpenPublication",
    "Overwrite",
    "Predicate",
    "RenameColumn",
    "Scan",
    "SchemaChange",
    "Secret",
    "SetComment",
    "SetDefault",
    "SetNotNull",
    "SetOptions",
    "Snapshot",
    "SnapshotRef",
    "Split",
    "StorageError",
    "StoreUnavailable",
    "Table",
    "TableOptions",
    "TagName",
    "TakenNewest",
    "Tell",
    "TopicRange",
    "Unfinished",
    "Unpublished",
    "Unsupported",
    "Verdict",
    "Version",
    "View",
    "ViewColumn",
    "Watermark",
    "check_branch_name",
    "check_new_branch_name",
    "check_new_tag_name",
    "check_option_of_log",
    "check_table_options",
    "check_tag_name",
    "default_of",
    "extension_names",
    "guarded_options",
    "guarded_storage",
    "hidden",
    "is_known_protocol",
    "is_of_log",
    "is_secret_name",
    "is_variant",
    "load_extension",
    "metadata_field",
    "metadata_of",
    "moment_of",
    "name_and_version",
    "new_table_name",
    "nullable_arrow",
    "operation_of",
    "options_in_case",
    "outcome",
    "parse_duration_ms",
    "parse_type",
    "plain_secrets",
    "progress_of",
    "progress_of_each",
    "progress_text",
    "refers_to_environment",
    "refuse_other_urls",
    "refuse_without_effect",
    "remember",
    "resolved",
    "revealed",
    "same_protocol",
    "secrets_in",
    "set_meter",
    "shown_options",
    "taken_newest",
    "version_of_options",
    "watched_by",
    "whole_number",
    "with_an_effect",
    "written_options",
]
