"""Options of S3 as s3fs passes them on to its client library: what that would pass over, or stop at with an error of its own in
the middle of an operation, is refused by name before the first request.
"""

import difflib
import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from .errors import Unsupported
from .redaction import hidden

# Passed on to the session of the client library.
OF_THE_SESSION = ("profile",)
_SOURCES = {"client_kwargs": "botocore's Session.create_client", "config_kwargs": "botocore.config.Config"}
_NUMBERS = ("connect_timeout", "read_timeout", "max_pool_connections")
_ADDRESSES = ("http", "https")


def check_s3_options(options: Mapping[str, Any]) -> None:
    """Raise Unsupported that names an option with which no client can be made, also one within 'client_kwargs' and its like."""
    for name in ("client_kwargs", "config_kwargs", "s3_additional_kwargs"):
        if not isinstance(options.get(name) or {}, Mapping):
            raise Unsupported(f'Storage option {name!r} is no object of JSON: write {{"name": "value", …}}.')
    client, config = options.get("client_kwargs") or {}, options.get("config_kwargs") or {}
    arguments = set(inspect.signature(import_module("botocore.session").Session.create_client).parameters)
    _refuse_unknown("client_kwargs", client, arguments - {"self", "service_name", "config"})
    for where, address in (
        ("endpoint_url", options.get("endpoint_url")),
        ("client_kwargs", client.get("endpoint_url")),
    ):
        if address is not None:
            _check_address(where, str(address))
    _check_config(config)


def _check_config(config: Mapping[str, Any]) -> None:
    known = import_module("botocore.config").Config.OPTION_DEFAULTS
    _refuse_unknown("config_kwargs", config, known)
    for name in _NUMBERS:
        value = config.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise Unsupported(f"Storage option {name!r} in 'config_kwargs' is no number above 0: {value!r}.")
    try:
        import_module("botocore.config").Config(**config)
    except Exception as error:
        raise Unsupported(f"Storage option 'config_kwargs' is not understood: {hidden(str(error))}.") from None


def _refuse_unknown(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"Options are the parameters of {_SOURCES[where]}."
            raise Unsupported(f"There is no {name!r} in storage option {where!r}. {hint}")


def _check_address(where: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in _ADDRESSES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_address = False
    if not is_address:
        raise Unsupported(
            f"Storage option 'endpoint_url'{'' if where == 'endpoint_url' else f' in {where!r}'} is no address of a server: "
            f"{hidden(address)!r}. Write http://host:port or https://host."
        )
