"""Options of S3 as s3fs passes them on to its client library: what that would pass over, or stop at with an error of its own in
the middle of an operation, is refused by name before the first request, at every depth.

Names and types are those that s3fs and botocore say of themselves; what they say nothing of is declared here.
"""

import difflib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from .errors import Unsupported
from .redaction import MASK, hidden, hidden_value, is_secret_name
from .value_kinds import (
    ADDRESS,
    BOOLEAN,
    CERTIFICATES,
    CHECKED_BY,
    FILE,
    FILLED_TEXT,
    OBJECT,
    PROXY,
    SECONDS,
    TEXT,
    TEXTS,
    ValueKind,
    accepted_by,
    choice_of,
    list_of,
    whole_from,
)

# Passed on to the session of the client library.
OF_THE_SESSION = ("profile",)
# Objects that only the program which opens a file system has.
_OF_THE_PROCESS = ("asynchronous", "loop", "session")
_CLIENT, _CONFIG, _REQUESTS = "client_kwargs", "config_kwargs", "s3_additional_kwargs"
# Of the parameters of s3fs.S3FileSystem those whose defaults say nothing of their types.
_TOP: dict[str, ValueKind] = {
    **dict.fromkeys(("key", "secret", "username", "password", *OF_THE_SESSION), FILLED_TEXT),
    **dict.fromkeys((_CLIENT, _CONFIG, _REQUESTS), OBJECT),
    "token": TEXT,
    "endpoint_url": ADDRESS,
    "default_block_size": whole_from(1),
    "max_concurrency": whole_from(1),
}
# The same of a client, by its parameters there.
_SAME = {
    "key": "aws_access_key_id",
    "secret": "aws_secret_access_key",
    "token": "aws_session_token",
    "endpoint_url": "endpoint_url",
    "use_ssl": "use_ssl",
}
_CREDENTIALS = ("key", "secret", "token")
_ALIASES = {"key": "username", "secret": "password"}
_RETRIES = {
    "max_attempts": whole_from(0),
    "total_max_attempts": whole_from(1),
    "mode": choice_of(("legacy", "standard", "adaptive")),
}
# By which requests to S3 are signed in their heads.
_SIGNATURES = ("s3", "s3v4", "v4")
_CONFIG_TEXTS = ("user_agent", "user_agent_extra", "user_agent_appid", "sigv4a_signing_region_set")
_CONFIG_OBJECTS = ("proxies", "proxies_config", "s3", "retries", "client_context_params")
_CONFIG_BOOLEANS = (
    *("parameter_validation", "s3_disable_express_session_auth", "inject_host_prefix", "endpoint_discovery_enabled"),
    *("use_dualstack_endpoint", "use_fips_endpoint", "ignore_configured_endpoint_urls", "tcp_keepalive"),
    "disable_request_compression",
)
# What is different in every request, and said by who sends it.
_OF_EACH_REQUEST = (
    "Bucket",
    "Key",
    "Body",
    "ContentLength",
    "ContentMD5",
    "IfMatch",
    "IfNoneMatch",
    "WriteOffsetBytes",
)
_ANYTHING = ValueKind("", lambda _: True)


def check_s3_options(file_system: type, options: Mapping[str, Any]) -> None:
    """Raise Unsupported that names an option with which no client can be made, or which has no effect, within 'client_kwargs' and
    its like too, and options that contradict each other.
    """
    parameters = inspect.signature(vars(file_system)["__init__"]).parameters
    for name in _OF_THE_PROCESS:
        if name in parameters and options.get(name, parameters[name].default) != parameters[name].default:
            raise Unsupported(
                f"Storage option {name!r} is an object of the program that opens the store. Leave it out."
            )
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    _check("", options, kinds_of_file_system(file_system), defaults)
    client, config, requests = (options.get(name) or {} for name in (_CLIENT, _CONFIG, _REQUESTS))
    if client:
        _check_client(client)
    if config:
        _check_config(config)
    if requests:
        _check(_REQUESTS, requests, kinds_of_requests())
    _refuse_contradictions(options, client, config)


def kinds_of_file_system(file_system: type) -> dict[str, ValueKind]:
    """The kinds of the options that s3fs takes itself."""
    parameters = inspect.signature(vars(file_system)["__init__"]).parameters.values()
    named = {each.name: each.default for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD}
    del named["self"]
    return {**{name: kind_of_default(default) for name, default in named.items()}, **_TOP}


def kind_of_default(default: object) -> ValueKind:
    """The kind of an option by the type of its default; anything if that is None."""
    if isinstance(default, bool):
        return BOOLEAN
    if isinstance(default, int):
        return whole_from(0)
    if isinstance(default, str):
        # The only one of its kind is a name of fsspec's caches.
        return choice_of(filter(None, import_module("fsspec.caching").caches))
    return _ANYTHING


def _check_client(client: Mapping[str, Any]) -> None:
    _check(_CLIENT, client, kinds_of_client(), _defaults_of_client())


def _defaults_of_client() -> dict[str, Any]:
    parameters = inspect.signature(import_module("botocore.session").Session.create_client).parameters
    given = ("self", "service_name", "config")
    return {name: parameter.default for name, parameter in parameters.items() if name not in given}


def kinds_of_client() -> dict[str, ValueKind]:
    """The kinds of the parameters of botocore's client."""
    versions = import_module("botocore.loaders").Loader().list_api_versions("s3", "service-2")
    texts = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_account_id")
    kinds = {
        **dict.fromkeys(texts, TEXT),
        "region_name": _region(),
        "api_version": choice_of(versions),
        "use_ssl": BOOLEAN,
        "verify": CHECKED_BY,
        "endpoint_url": ADDRESS,
    }
    return {name: kinds.get(name, _ANYTHING) for name in _defaults_of_client()}


def _region() -> ValueKind:
    return accepted_by(import_module("botocore.utils").validate_region_name, "the name of a region, as 'eu-central-1'")


def kinds_of_config() -> dict[str, ValueKind]:
    """The kinds of botocore's settings."""
    arguments, auth = import_module("botocore.args"), import_module("botocore.auth")
    kinds = {
        **dict.fromkeys(_CONFIG_TEXTS, TEXT),
        **dict.fromkeys(_CONFIG_OBJECTS, OBJECT),
        **dict.fromkeys(_CONFIG_BOOLEANS, BOOLEAN),
        **dict.fromkeys(("connect_timeout", "read_timeout"), SECONDS),
        "region_name": _region(),
        "signature_version": choice_of(name for name in _SIGNATURES if name in auth.AUTH_TYPE_MAPS),
        "max_pool_connections": whole_from(1),
        # A list of two would be passed over.
        "client_cert": FILE,
        "defaults_mode": choice_of(("legacy", "standard", "in-region", "cross-region", "mobile", "auto")),
        "request_min_compression_size_bytes": whole_from(1, 1 << 20),
        "request_checksum_calculation": choice_of(arguments.VALID_REQUEST_CHECKSUM_CALCULATION_CONFIG),
        "response_checksum_validation": choice_of(arguments.VALID_RESPONSE_CHECKSUM_VALIDATION_CONFIG),
        "account_id_endpoint_mode": choice_of(arguments.VALID_ACCOUNT_ID_ENDPOINT_MODE_CONFIG),
        "auth_scheme_preference": list_of(auth.AUTH_PREF_TO_SIGNATURE_VERSION),
    }
    known = import_module("botocore.config").Config.OPTION_DEFAULTS
    return {name: kinds.get(name, _ANYTHING) for name in known}


def kinds_within_config() -> dict[str, Callable[[], dict[str, ValueKind]]]:
    """Of those settings that are objects, the kinds of what is in them."""
    return {
        "s3": _kinds_of_s3,
        "retries": lambda: _RETRIES,
        # Others than schemes are never looked for.
        "proxies": lambda: {"http": PROXY, "https": PROXY},
        # s3fs's client does not ask for `proxy_use_forwarding_for_https`.
        "proxies_config": lambda: {"proxy_ca_bundle": CERTIFICATES, "proxy_client_cert": FILE},
        "client_context_params": _kinds_of_context,
    }


def _check_config(config: Mapping[str, Any]) -> None:
    defaults = import_module("botocore.config").Config.OPTION_DEFAULTS
    _check(_CONFIG, config, kinds_of_config(), defaults)
    for name, kinds in kinds_within_config().items():
        if config.get(name):
            _check(f"{_CONFIG}.{name}", config[name], kinds(), {} if name == "retries" else dict.fromkeys(config[name]))
    try:
        import_module("botocore.config").Config(**config)
    except Exception as error:
        raise Unsupported(f"Storage option {_CONFIG!r} is not understood: {hidden(str(error))}.") from None


def _kinds_of_s3() -> dict[str, ValueKind]:
    """Of botocore's settings for S3 those that are no texts are true or false."""
    known = import_module("botocore.configprovider").DEFAULT_S3_CONFIG_VARS
    return {
        **dict.fromkeys((*known, "disable_s3_express_session_auth"), BOOLEAN),
        "addressing_style": choice_of(("auto", "virtual", "path")),
        "us_east_1_regional_endpoint": choice_of(import_module("botocore.args").VALID_REGIONAL_ENDPOINTS_CONFIG),
    }


@lru_cache(1)
def _service() -> Any:
    return import_module("botocore.session").Session().get_service_model("s3")


def _kinds_of_context() -> dict[str, ValueKind]:
    plain = import_module("botocore").xform_name
    return {plain(each.name): BOOLEAN for each in _service().client_context_parameters if each.type == "boolean"}


def kinds_of_requests() -> dict[str, ValueKind]:
    """What the request that puts an object takes, but for what is said of each: s3fs leaves out other names without a word."""
    members = _service().operation_model("PutObject").input_shape.members
    return {
        name: _kind_of_shape(name, shape)
        for name, shape in members.items()
        if name not in _OF_EACH_REQUEST and (not name.startswith("Checksum") or name == "ChecksumAlgorithm")
    }


def _kind_of_shape(name: str, shape: Any) -> ValueKind:
    if shape.type_name == "string":
        # Stores other than Amazon's have classes of their own, and refuse those that they do not know.
        return choice_of(shape.enum) if shape.enum and name != "StorageClass" else TEXT
    if shape.type_name == "timestamp":
        return accepted_by(
            import_module("botocore.utils").parse_timestamp, "a point in time, as '2030-01-31T00:00:00Z'"
        )
    return {"boolean": BOOLEAN, "integer": whole_from(0), "long": whole_from(0), "map": TEXTS}.get(
        shape.type_name, _ANYTHING
    )


def _check(
    where: str, given: Mapping[str, Any], kinds: Mapping[str, ValueKind], defaults: Mapping[str, Any] | None = None
) -> None:
    """Names first, then values; None stands for a default that is None."""
    refuse_unknown(where, given, kinds)
    for name, value in given.items():
        if value is None and defaults is not None and defaults.get(name) is None:
            continue
        check_value(f"{name!r} in {where!r}" if where else repr(name), name, value, kinds[name])


def check_value(option: str, name: str, value: Any, kind: ValueKind) -> None:
    """Raise Unsupported that says what an option takes unless that is its kind. A secret is not shown."""
    if not kind.accepts(value):
        raise Unsupported(f"Storage option {option} takes {kind.values}, not {_shown(name, value)}.")


def _shown(name: str, value: Any) -> str:
    if is_secret_name(name) or name.startswith("SSECustomer"):
        return MASK
    text = repr(hidden_value(name, value)) if isinstance(value, str) else hidden(repr(value))
    return text if len(text) <= 100 else f"{text[:100]}…"


def refuse_unknown(where: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise Unsupported for a name that an option which is an object does not have."""
    for name in given:
        if name not in known:
            by_lower = {each.lower(): each for each in sorted(known)}
            near = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.6)
            hint = f"Did you mean {by_lower[near[0]]!r}?" if near else f"It takes {', '.join(sorted(known))}."
            raise Unsupported(f"There is no {name!r} in storage option {where!r}. {hint}")


def _refuse_contradictions(options: Mapping[str, Any], client: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    given = {name: options.get(name) for name in _SAME}
    names = {name: repr(name) for name in _SAME}
    for name, alias in _ALIASES.items():
        if options.get(alias) is not None:
            _refuse_two(repr(name), given[name], repr(alias), options[alias])
            given[name], names[name] = options[alias], repr(alias)
    for name, inner in _SAME.items():
        if client.get(inner) is not None:
            inner_name = f"{inner!r} in {_CLIENT!r}"
            if given[name] != client[inner]:
                _refuse_two(names[name], given[name], inner_name, client[inner])
            given[name], names[name] = client[inner], inner_name
    regions = [each.get("region_name") for each in (client, config)]
    if regions[0] != regions[1]:
        _refuse_two(f"'region_name' in {_CLIENT!r}", regions[0], f"the one in {_CONFIG!r}", regions[1])
    if retries := config.get("retries"):
        first, second = (f"{name!r} in '{_CONFIG}.retries'" for name in ("max_attempts", "total_max_attempts"))
        _refuse_two(first, retries.get("max_attempts"), second, retries.get("total_max_attempts"))
    if options.get("anon"):
        credentials = next((name for name in _CREDENTIALS if given[name] is not None), None)
        if credentials is not None:
            _refuse_two("'anon'", True, names[credentials], given[credentials])
        _refuse_two("'anon'", True, f"'signature_version' in {_CONFIG!r}", config.get("signature_version"))
    _refuse_half({name: given[name] for name in _CREDENTIALS}, names)


def _refuse_two(first: str, value: object, second: str, other: object) -> None:
    if value is not None and other is not None:
        raise Unsupported(f"Storage options {first} and {second} contradict each other: leave out one of the two.")


def _refuse_half(given: Mapping[str, object], names: Mapping[str, str]) -> None:
    """A key without its secret, or a token alone."""
    for name, needed in (("key", "secret"), ("secret", "key"), ("token", "key")):
        if given[name] is not None and given[needed] is None:
            raise Unsupported(f"Storage option {names[name]} needs {needed!r} beside it.")
