"""Formats by their names: those of this package, and those that installed packages add.

    [project.entry-points."snapline.message_formats"]
    my-format = "my_platform.my_format:open_format"

The function takes the columns (`tuple[DataField, ...]`), the options of the format without its name before them, and a codec for
JSON; it returns a `MessageFormat`.
"""

from collections.abc import Callable, Mapping, Sequence

from ..data_types import DataField
from ..errors import InvalidRequest
from ..extensions import extension_names, load_extension
from .avro_format import AvroFormat
from .canal_json import CanalJson, MaxwellJson
from .csv_format import CsvFormat
from .debezium_json import DebeziumJson
from .json_codec import JsonCodec
from .json_format import JsonFormat
from .message_format import MessageFormat
from .ogg_json import OggJson
from .raw_format import RawFormat

ENTRY_POINT = "snapline.message_formats"
MakeFormat = Callable[[tuple[DataField, ...], Mapping[str, str], JsonCodec], MessageFormat]
_OWN: dict[str, MakeFormat] = {
    "json": JsonFormat,
    "debezium-json": DebeziumJson,
    "canal-json": CanalJson,
    "maxwell-json": MaxwellJson,
    "ogg-json": OggJson,
    "csv": CsvFormat,
    "avro": AvroFormat,
    "raw": RawFormat,
}


def message_format(
    name: str, fields: Sequence[DataField], options: Mapping[str, str], codec: JsonCodec
) -> MessageFormat:
    """The format of that name for some columns. Raises InvalidRequest for unknown names and options, and lists the known ones."""
    added: MakeFormat | None = load_extension(ENTRY_POINT, name, "format", _OWN)
    make = _OWN.get(name, added)
    if make is None:
        raise InvalidRequest(
            f"Format {name!r} is not known. Formats: {', '.join([*_OWN, *extension_names(ENTRY_POINT)])}."
        )
    return make(tuple(fields), options, codec)
