"""Changes of a table's options: which may come and go once there are rows."""

from collections.abc import Mapping

from ..errors import InvalidRequest
from ..format.file_index.wanted import PREFIX, check_file_indexes, wanted_indexes
from ..option_checks import check_table_options
from ..options import TableOptions
from ..retractable import takes_back
from .schema import TableSchema

# Options that decide how rows were written, so that they stand once there are any.
FIXED_OPTIONS = (
    "bucket-key",
    "merge-engine",
    "sequence.field",
    "rowkind.field",
    "primary-key",
    "partition",
    "type",
    "bucket-function.type",
    "aggregation.remove-record-on-delete",
    "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group",
    "row-tracking.enabled",
    "data-evolution.enabled",
    "deletion-vectors.enabled",
    "dynamic-bucket.initial-buckets",
    "sequence.field.sort-order",
    "data-file.path-directory",
    "partition.default-name",
    "partition.legacy-name",
)


def check_changed_indexes(old: TableSchema, new: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported for file indexes that the columns cannot have, where those changed."""
    before, after = ({field.name: field.type.not_null() for field in schema.fields} for schema in (old, new))
    options = [{key: value for key, value in schema.options.items() if key.startswith(PREFIX)} for schema in (old, new)]
    retyped = any(before.get(index.column) != after.get(index.column) for index in wanted_indexes(new.options))
    if options[0] != options[1] or retyped:
        check_file_indexes(new.options, after)


def check_changed_options(old: TableSchema, new: TableSchema, *, has_rows: bool) -> None:
    """Raise InvalidRequest or Unsupported for values that options cannot have, or not any more once a table has rows."""
    check_table_options(new.options, "after the change", before=old.options)
    if not has_rows:
        return
    for key in FIXED_OPTIONS:
        before, after = old.options.get(key), new.options.get(key)
        # A renamed column renames what the option says, not what it means.
        if before != after and after != _renamed_value(old, new, before):
            raise InvalidRequest(f"Option {key!r} decides how rows were written and cannot change any more.")
    before_count, after_count = old.table_options.bucket, new.table_options.bucket
    if before_count != after_count and (before_count < 1 or after_count < 1):
        raise InvalidRequest(
            f"Option 'bucket' cannot change from {before_count} to {after_count}: between positive numbers it may."
        )
    merges = new.table_options.merge_engine in ("aggregation", "partial-update") or new.table_options.sequence_field
    if merges and old.table_options.looks_up != new.table_options.looks_up:
        raise InvalidRequest(
            "'changelog-producer' = 'lookup' and 'force-lookup' decide what compactions store where rows are aggregated, updated "
            "in part or ordered by a sequence field, and cannot come or go any more. Make a new table."
        )
    _check_told_level(old.table_options, new.table_options)
    if old.table_options.ignore_delete and not new.table_options.ignore_delete:
        raise InvalidRequest("Option 'ignore-delete' cannot be taken back: deletes that came since are lost.")


def _check_told_level(old: TableOptions, new: TableOptions) -> None:
    """Refuse to move the level from which on files count as told of: changes would be told twice, or never."""
    before, after = old.told_level, new.told_level
    if before is None or after is None or before == after:
        return
    if old.changelog_producer != new.changelog_producer:
        raise InvalidRequest(
            f"'changelog-producer' cannot change from {old.changelog_producer!r} to {new.changelog_producer!r} any more: the "
            "levels of files say of which rows the changelog has told. Make a new table."
        )
    raise InvalidRequest(
        f"A table with 'changelog-producer' = {new.changelog_producer!r} keeps its {old.top_level + 1} levels: the highest "
        "holds the rows that the changelog has told of. Beside 'num-sorted-run.compaction-trigger' set 'num-levels' = "
        f"'{old.top_level + 1}'."
    )


def refuse_other_merging(old: TableSchema, new: TableSchema, written: TableSchema) -> None:
    """Raise InvalidRequest for an option by which rows that are there would be merged otherwise, in all snapshots: those of
    columns that no row has yet may come and go.
    """
    held = {field.id for field in written.fields}
    of_columns = {field.name for field in new.fields if field.id in held}
    names = {field.name: other.name for field in old.fields for other in new.fields if field.id == other.id}
    before = {_renamed_key(key, names): _renamed_parts(value, names) for key, value in old.options.items()}
    for key in sorted(before.keys() | new.options.keys()):
        if not key.startswith("fields.") or key.endswith(".stats-mode") or before.get(key) == new.options.get(key):
            continue
        named = {key.removeprefix("fields.").rpartition(".")[0]}
        if key == "fields.default-aggregate-function" or key.endswith(".sequence-group"):
            named = of_columns
        if named & of_columns and not _ignores_what_is_refused(key, new):
            raise InvalidRequest(
                f"Option {key!r} decides how rows are merged, also those that are there, and cannot change any more. Make a new "
                "table, or a new column."
            )


def _ignores_what_is_refused(key: str, new: TableSchema) -> bool:
    """Whether an option lets rows be read that could not be before, and changes no others: a function that cannot take values
    back ignores the rows that do from then on.
    """
    if not key.endswith(".ignore-retract") or new.options.get(key, "").strip().lower() != "true":
        return False
    column = key.removeprefix("fields.").removesuffix(".ignore-retract")
    function = new.options.get(
        f"fields.{column}.aggregate-function", new.options.get("fields.default-aggregate-function")
    )
    return function is not None and not takes_back(function)


def _renamed_key(key: str, names: Mapping[str, str]) -> str:
    if not key.startswith("fields.") or "." not in key.removeprefix("fields."):
        return key
    columns, _, rest = key.removeprefix("fields.").rpartition(".")
    return f"fields.{_renamed_parts(columns, names)}.{rest}"


def _renamed_parts(text: str, names: Mapping[str, str]) -> str:
    return ",".join(names.get(part.strip(), part.strip()) for part in text.split(","))


def _renamed_value(old: TableSchema, new: TableSchema, text: str | None) -> str | None:
    if text is None:
        return None
    names = {field.name: other.name for field in old.fields for other in new.fields if field.id == other.id}
    return ",".join(names.get(part.strip(), part.strip()) for part in text.split(","))
