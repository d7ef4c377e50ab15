"""Values of options as texts: sizes, durations, lists, values by level, directories."""

import re

from .errors import InvalidRequest

_SIZE_UNITS = {"": 1, "b": 1, "bytes": 1}

for _power, _letter in enumerate("kmgt", start=1):
    for _spelling in (
        _letter,
        f"{_letter}b",
        {"k": "kibibytes", "m": "mebibytes", "g": "gibibytes", "t": "tebibytes"}[_letter],
    ):
        _SIZE_UNITS[_spelling] = 1024**_power

_DURATION_UNITS_MS = {"ms": 1, "s": 1000, "sec": 1000, "second": 1000, "min": 60_000, "m": 60_000, "minute": 60_000}

_DURATION_UNITS_MS |= {"h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}

# Of a length of time in milliseconds that 64 bits hold.
_MOST_DIGITS = 19

_QUANTITY = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")


def parse_size_bytes(text: str) -> int:
    """Bytes of `128 mb`, `1024`, `2 GiB` … (powers of 1024)."""
    match = _QUANTITY.fullmatch(text)
    unit = match[2].lower().replace("ib", "b") if match else None
    if match is None or unit not in _SIZE_UNITS:
        raise InvalidRequest(f"{text!r} is not a size. Write a number and a unit, as in `128 mb`.")
    return int(match[1]) * _SIZE_UNITS[unit]


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `1 h`, `10 s`, `30 min`, `1 d`, `500 ms` …"""
    match = _QUANTITY.fullmatch(text)
    unit = match[2].lower() if match else ""
    unit = unit if unit in _DURATION_UNITS_MS else unit.removesuffix("s")
    if match is None or unit not in _DURATION_UNITS_MS:
        raise InvalidRequest(f"{text!r} is not a duration. Write a number and a unit, as in `1 h`.")
    duration_ms = int(match[1][:_MOST_DIGITS]) * _DURATION_UNITS_MS[unit]
    if len(match[1]) > _MOST_DIGITS or duration_ms >= 2**63:
        raise InvalidRequest(f"{text[:40]!r} is longer than any duration: at most 2^63 - 1 ms are.")
    return duration_ms


def parse_boolean(text: str) -> bool:
    """`true` or `false`, in any case. Raises InvalidRequest for anything else."""
    if text.strip().lower() not in ("true", "false"):
        raise InvalidRequest(f"{text!r} is neither `true` nor `false`.")
    return text.strip().lower() == "true"


def parse_by_level(text: str) -> tuple[tuple[int, str], ...]:
    """`0:avro,5:parquet` as values by level."""
    pairs = [part.partition(":") for part in parse_names(text)]
    if not all(level.strip().isdigit() and value.strip() for level, _, value in pairs):
        raise InvalidRequest(f"{text!r} does not give values by level. Write level:value, as in `0:avro,5:parquet`.")
    return tuple((int(level), value.strip().lower()) for level, _, value in pairs)


def parse_names(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_directory(text: str) -> str:
    """A directory inside of a table's, as `data` or `data/files`; what lies there must be no other file of the format's."""
    names = text.rstrip("/").split("/") if text else []
    for name in names:
        if not name.strip() or name.startswith(".") or "\\" in name or not name.isprintable():
            raise InvalidRequest(
                "name directories inside of the table's, separated by slashes, none of which begins with a dot."
            )
    if names and (names[0] in _TAKEN_DIRECTORIES or names[0].startswith("bucket-")):
        raise InvalidRequest(f"{names[0]!r} has files of another kind.")
    return "/".join(names)


# Directories of a table that hold something else than data files.
_OWN_DIRECTORIES = ("trouble", "committed", "cleaning")

_TAKEN_DIRECTORIES = (
    *("schema", "snapshot", "tag", "branch", "consumer", "changelog", "service", "manifest", "index", "statistics"),
    *_OWN_DIRECTORIES,
)
