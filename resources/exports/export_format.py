"""The format of an exported file, and its options by the names that Spark and DuckDB give them.

Each option is carried out or refused by name. Where the two have other defaults, each statement keeps those of the engine
that it comes from: COPY those of DuckDB, INSERT OVERWRITE DIRECTORY those of Spark.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from storage import InvalidRequest

FORMATS = ("parquet", "orc", "csv", "json")
_PARQUET_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")
_ORC_COMPRESSIONS = ("zstd", "snappy", "zlib", "lz4", "none")
_TEXT_COMPRESSIONS = {"none": "", "gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}
_ENDINGS = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10), "brotli": range(12)}
# Rows, and bytes, after which a group of rows is written.
_GROUP_ROWS = 122_880

# Other names of options, in lower case, as Spark, DuckDB and PostgreSQL have them.
_SAME = {
    "codec": "compression",
    "delim": "delimiter",
    "sep": "delimiter",
    "nullstr": "null",
    "nullvalue": "null",
    "quoteall": "quote_all",
    "ignorenullfields": "ignore_nulls",
}
_KNOWN = {
    "parquet": ("compression", "compression_level", "row_group_size"),
    "orc": ("compression",),
    "csv": ("compression", "delimiter", "header", "quote", "escape", "null", "quote_all"),
    "json": ("compression", "ignore_nulls"),
}
_IN_QUERY = "values are written in ISO 8601: write date_format(…) in the query for another form"
_ONE_FILE = "one statement writes one file: write one for each, with a WHERE"
_NOT_CARRIED_OUT = {
    "dateformat": _IN_QUERY,
    "timestampformat": _IN_QUERY,
    "timestampntzformat": _IN_QUERY,
    "timezone": _IN_QUERY,
    "partition_by": _ONE_FILE,
    "file_size_bytes": _ONE_FILE,
    "per_thread_output": _ONE_FILE,
    "maxrecordsperfile": _ONE_FILE,
    "filename_pattern": _ONE_FILE,
    "row_groups_per_file": _ONE_FILE,
    "row_group_size_bytes": "use row_group_size, in rows",
    "encoding": "texts are UTF-8",
    "charset": "texts are UTF-8",
    "linesep": "lines end with a line feed",
    "force_quote": "quote_all quotes every value",
    "prefix": "lines are all that there is",
    "suffix": "lines are all that there is",
    "array": "each row is a line of its own",
    "emptyvalue": "an empty text is two quotes",
    "overwrite": "what is there is replaced",
    "overwrite_or_ignore": "what is there is replaced",
    "append": "what is there is replaced",
    "write_partition_columns": _ONE_FILE,
    "hive_file_pattern": _ONE_FILE,
    "preserve_order": "rows are written in the order of the query",
    "parquet_version": "files are of version 2",
    "orc.compress": "use compression",
    "orc.bloom.filter.columns": "files have none",
    "use_tmp_file": "a file is complete or not there",
    "field_ids": "columns are known by their names",
    "return_files": "the answer names the file",
    "path": "the statement names the place",
    "ignoreleadingwhitespace": "blanks are kept",
    "ignoretrailingwhitespace": "blanks are kept",
}


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """How rows are written. Options of other formats than `name` stay as they are, and mean nothing."""

    name: str
    compression: str
    compression_level: int | None = None
    row_group_size: int = _GROUP_ROWS
    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    null: str = ""
    quote_all: bool = False
    ignore_nulls: bool = False

    @property
    def ending(self) -> str:
        """By what names of such files end."""
        if self.name in ("parquet", "orc"):
            return f".{self.name}" if self.compression == "none" else f".{self.compression}.{self.name}"
        return f".{self.name}{_TEXT_COMPRESSIONS[self.compression]}"


def export_format(
    name: str | None, options: Sequence[tuple[str, str | tuple[str, ...] | None]], path: str, *, as_spark: bool
) -> ExportFormat:
    """The format that a statement asks for; without a name, that of the path's ending. An option without a value is on.

    Raises InvalidRequest for a format or an option that is not carried out, and for a value that it cannot have.
    """
    ending, packed = _told_by(path) if not as_spark else (None, "none")
    name = (name or ending or "").lower()
    if name not in FORMATS:
        asked = (
            f"Format {name!r} is not written here"
            if name
            else "The statement says no format, and neither does the path"
        )
        raise InvalidRequest(f"{asked}. Formats: {', '.join(FORMATS)}.")
    given = _by_name(name, options)
    compression = _compression(name, given.pop("compression", None), packed)
    delimiter = "\t" if path.lower().endswith((".tsv", ".tsv.gz")) and not as_spark else ","
    quote = _text("quote", given.pop("quote", '"'))
    made = ExportFormat(
        name=name,
        compression=compression,
        compression_level=_level(given.pop("compression_level", None), compression),
        row_group_size=_number("row_group_size", given.pop("row_group_size", str(_GROUP_ROWS)), 2**31 - 1),
        header=_switch("header", given.pop("header", "false" if as_spark else "true")),
        delimiter=_text("delimiter", given.pop("delimiter", delimiter)),
        quote=quote,
        escape=_text("escape", given.pop("escape", "\\" if as_spark else quote)),
        null=given.pop("null", "") or "",
        quote_all=_switch("quote_all", given.pop("quote_all", "false")),
        ignore_nulls=_switch("ignoreNullFields", given.pop("ignore_nulls", "true" if as_spark else "false")),
    )
    _refuse_contradictions(made)
    return made


def _told_by(path: str) -> tuple[str | None, str]:
    """Format and compression that the ending of a path tells."""
    lower = path.lower()
    packed = next((name for name, ending in _TEXT_COMPRESSIONS.items() if ending and lower.endswith(ending)), "none")
    plain = lower.removesuffix(_TEXT_COMPRESSIONS[packed])
    return next((name for ending, name in _ENDINGS.items() if plain.endswith(ending)), None), packed


def _by_name(name: str, options: Sequence[tuple[str, str | tuple[str, ...] | None]]) -> dict[str, str | None]:
    by_name: dict[str, str | None] = {}
    for key, value in options:
        own = _SAME.get(key.lower(), key.lower())
        if own not in _KNOWN[name]:
            raise InvalidRequest(_refusal(name, key, own))
        if own in by_name:
            raise InvalidRequest(f"Option {key!r} is given twice. Give it once.")
        if isinstance(value, tuple):
            raise InvalidRequest(f"Option {key!r} takes one value, not the list ({', '.join(value)}).")
        by_name[own] = value
    return by_name


def _refusal(name: str, key: str, own: str) -> str:
    others = [form for form in FORMATS if own in _KNOWN[form]]
    if others:
        return f"Option {key!r} is one of {' and '.join(others)}, not of {name}. Leave it out."
    if own in _NOT_CARRIED_OUT:
        return f"Option {key!r} is not carried out: {_NOT_CARRIED_OUT[own]}."
    near = difflib.get_close_matches(own, [*_KNOWN[name], *_SAME], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Options of {name}: {', '.join(_KNOWN[name])}."
    return f"There is no option {key!r}. {hint}"


def _compression(name: str, given: str | None, packed: str) -> str:
    known = {"parquet": _PARQUET_COMPRESSIONS, "orc": _ORC_COMPRESSIONS}.get(name, tuple(_TEXT_COMPRESSIONS))
    if given is None or given.lower() == "auto":
        return {"parquet": "snappy", "orc": "zstd"}.get(name, packed)
    lower = {"uncompressed": "none", "lz4_raw": "lz4"}.get(given.lower(), given.lower())
    if lower not in known:
        raise InvalidRequest(f"Compression {given!r} is not known for {name}. Compressions: {', '.join(known)}.")
    return lower


def _level(given: str | None, compression: str) -> int | None:
    if given is None:
        return None
    levels = _LEVELS.get(compression)
    if levels is None:
        raise InvalidRequest(f"Compression {compression!r} has no levels: leave 'compression_level' out.")
    if not given.isdigit() or int(given) not in levels:
        raise InvalidRequest(
            f"'compression_level' of {compression} is a number from {levels[0]} to {levels[-1]}, not {given!r}."
        )
    return int(given)


def _number(name: str, given: str | None, most: int) -> int:
    if given is None or not given.isascii() or not given.isdigit() or not 0 < int(given) <= most:
        raise InvalidRequest(f"{name!r} is a number from 1 to {most}, not {given!r}.")
    return int(given)


def _switch(name: str, given: str | None) -> bool:
    text = "true" if given is None else given.lower()
    if text not in ("true", "false", "1", "0"):
        raise InvalidRequest(f"{name!r} is true or false, not {given!r}.")
    return text in ("true", "1")


def _text(name: str, given: str | None) -> str:
    if not given or len(given) != 1 or given in "\r\n\0":
        raise InvalidRequest(f"{name!r} is one character, and no line feed, not {given!r}.")
    return given


def _refuse_contradictions(made: ExportFormat) -> None:
    if made.name != "csv":
        return
    if made.delimiter in (made.quote, made.escape):
        raise InvalidRequest(f"'delimiter' and 'quote' or 'escape' are the same character, {made.delimiter!r}.")
    if any(value in made.null for value in (made.delimiter, made.quote, made.escape, "\r", "\n")):
        raise InvalidRequest(f"'null' = {made.null!r} holds a character that separates, quotes or escapes values.")
