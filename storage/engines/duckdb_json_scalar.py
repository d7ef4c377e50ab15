"""How a scalar of JSON becomes a value of its type, in SQL: null where it is none."""

from ..data_types import DataType
from ..messages.json_codec import JsonStyle

_WIDTHS = {"TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER", "BIGINT": "BIGINT"}
_ZONE = "(Z|[+-][0-9]{2}:?[0-9]{2})$"
_DAY = "[0-9]{4,6}-[0-9]{2}-[0-9]{2}"
_CLOCK = "[0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{0,9})?)?"
_MOST_DIGITS = 38


def read_scalar(raw: str, type_: DataType, style: JsonStyle) -> tuple[str, str]:
    """SQL of the value, and a condition (`AND …`, or empty) for what may be null without being wrong.

    `raw`: SQL of the text of the value; of times its JSON, with quotes.
    """
    if type_.is_integer:
        whole = f"regexp_full_match({raw}, '\\s*[+-]?[0-9]+(\\.0*)?\\s*')"
        return f"CASE WHEN {whole} THEN try_cast({raw} AS {_WIDTHS[type_.root]}) END", ""
    if type_.is_float:
        number = f"try_cast({raw} AS {type_.root})"
        words = f" OR trim({raw}) IN ('NaN', 'Infinity', '-Infinity', 'nan', 'inf', '-inf')"
        is_number = f"isfinite({number}){words if style.numbers_may_be_infinite else ''}"
        return f"CASE WHEN {is_number} THEN {number} END", ""
    if type_.root == "BOOLEAN":
        digits = "WHEN '1' THEN true WHEN '0' THEN false " if style.digits_are_booleans else ""
        return f"CASE lower(trim({raw})) WHEN 'true' THEN true WHEN 'false' THEN false {digits}END", ""
    if type_.root == "DECIMAL":
        return (_unscaled(raw, type_) if style.decimal_is_base64 else _decimal(raw, type_)), ""
    if type_.is_text:
        return raw, ""
    if type_.is_bytes:
        return f"try(from_base64({raw}))", ""
    return _time(raw, type_, style)


def _decimal(raw: str, type_: DataType) -> str:
    precision, scale = type_.precision, type_.scale
    value = f"try_cast({raw} AS DECIMAL({precision}, {scale}))"
    fits = f"regexp_full_match({raw}, '\\s*[+-]?[0-9]*(\\.[0-9]{{0,{scale}}}0*)?\\s*')"
    finer = min(_MOST_DIGITS - precision + scale, scale + 12)
    same = f"contains(lower({raw}), 'e') AND try_cast({raw} AS DECIMAL({_MOST_DIGITS}, {finer})) = {value}"
    return f"CASE WHEN {fits} OR ({same}) THEN {value} END"


def _unscaled(raw: str, type_: DataType) -> str:
    """From the bytes of a whole number, the highest first, in two's complement."""
    digits = f"hex(try(from_base64({raw})))"
    inverted = f"translate({digits}, '0123456789ABCDEF', 'FEDCBA9876543210')"
    number = (
        f"CASE WHEN {digits} >= '8' THEN (-1 - try_cast('0x' || {inverted} AS HUGEINT)) "
        f"WHEN {digits} <> '' THEN try_cast('0x' || {digits} AS HUGEINT) END"
    )
    # The point is put in by text: an exponent would need more digits than there may be.
    text, scale = f"CAST({number} AS VARCHAR)", type_.scale
    padded = f"lpad(ltrim({text}, '-'), CAST(greatest(length(ltrim({text}, '-')), {scale + 1}) AS INTEGER), '0')"
    sign = f"CASE WHEN starts_with({text}, '-') THEN '-' ELSE '' END"
    pointed = f"{sign} || left({padded}, length({padded}) - {scale}) || '.' || right({padded}, {scale})"
    return f"try_cast({pointed} AS DECIMAL({type_.precision}, {scale}))"


def _time(raw: str, type_: DataType, style: JsonStyle) -> tuple[str, str]:
    text = f"CASE WHEN starts_with({raw}, '\"') THEN trim({raw}, '\"') END"
    number = f"try_cast(CASE WHEN NOT starts_with({raw}, '\"') THEN {raw} END AS BIGINT)"
    if type_.root == "DATE":
        from_text = f"CASE WHEN regexp_full_match({text}, '{_DAY}') THEN try_cast({text} AS DATE) END"
        from_number = f"try(DATE '1970-01-01' + try_cast({number} AS INTEGER))"
    elif type_.root == "TIME":
        # Milliseconds is what a TIME keeps.
        kept = f"regexp_extract({text}, '^([0-9:]+(\\.[0-9]{{0,3}})?)', 1)"
        from_text = f"CASE WHEN regexp_full_match({text}, '{_CLOCK}') THEN try_cast({kept} AS TIME) END"
        from_number = (
            f"CASE WHEN {number} BETWEEN 0 AND 86399999999 THEN TIME '00:00' + to_milliseconds({number} // 1000) END"
        )
    else:
        from_text, from_number = _timestamp(text, number, type_)
    value = f"coalesce({from_text}, {from_number})" if style.numbers_are_times else from_text
    allowed = f" AND NOT coalesce(starts_with({text}, '0000-00-00'), false)" if style.zero_timestamp_is_null else ""
    return value, allowed


def _timestamp(text: str, number: str, type_: DataType) -> tuple[str, str]:
    kind = "TIMESTAMP_MS" if type_.precision <= 3 else "TIMESTAMP" if type_.precision <= 6 else "TIMESTAMP_NS"
    wide = "TIMESTAMP_NS" if type_.precision > 6 else "TIMESTAMP"
    moment = f"{_DAY}[ T]{_CLOCK}"
    if type_.root == "TIMESTAMP":
        from_text = f"CASE WHEN regexp_full_match({text}, '{moment}') THEN try_cast({text} AS {wide}) END"
    else:
        naive = f"try_cast(regexp_replace({text}, '{_ZONE}', '') AS {wide})"
        offset = f"regexp_extract({text}, '{_ZONE}', 1)"
        hours, rest = f"CAST({offset}[1:3] AS INTEGER)", f"CAST({offset}[1] || right({offset}, 2) AS INTEGER)"
        shifted = f"{naive} - to_minutes({hours} * 60 + {rest})"
        in_utc = f"CASE WHEN ends_with({text}, 'Z') THEN {naive} ELSE {shifted} END"
        from_text = f"CASE WHEN regexp_full_match({text}, '{moment}{_ZONE[:-1]}') THEN {in_utc} END"
    micros = f"{number} * 1000" if type_.precision <= 3 else number
    return f"CAST({from_text} AS {kind})", f"CAST(try(make_timestamp({micros})) AS {kind})"
