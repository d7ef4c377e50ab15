"""What must not be shown, recognised in names and texts: by the words of an option's name, by the places of a URL where
credentials stand, and by the values that have been read as secrets before.

Every error of the store passes its message through `hidden`; whatever else is shown or logged, and may hold what a user
gave, does as well.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

MASK = "******"
_ANYWHERE = ("password", "passwd", "passphrase", "secret", "credential")
_WORDS = frozenset(
    ("token", "tokens", "pwd", "sas", "jaas", "authorization", "bearer", "cookie", "apikey", "accesskey", "accountkey")
)
_BEFORE_KEY = frozenset(
    (
        "access",
        "account",
        "api",
        "private",
        "shared",
        "encryption",
        "master",
        "client",
        "auth",
        "signing",
        "ssh",
        "storage",
    )
)
# The names of columns are parts of these options, and their expressions the values.
_OF_COLUMNS = ("fields.", "schema.")
# `accountKey` is two words.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
# The last @ ends a password, which may hold whatever else; a user without a password is none.
_USER_INFO = re.compile(r"(?<=://)[^\s'\"@:]*:[^\s'\"]*@")
# The same in a list of addresses without a scheme, which the value of an option may be.
_USER_OF_ADDRESS = re.compile(r"(?:^|(?<=[\s,]))[^\s'\"@:/,]*:[^\s'\"/,]*@")
_PARAMETER = re.compile(r"(?P<start>[?&;])(?P<name>[\w.\-]+)=(?P<value>[^&;\s'\"]*)")
_PAIR = re.compile(
    r"""(?<![\w.\-/])(?P<quote>['"]?)(?P<name>[\w.\-]{2,})(?P=quote)\s*(?P<sign>=>?|:)\s*"""
    r"""(?P<value>'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.)*"?|[^\s,;&'")}\]]+)"""
)
# Without one of these no pattern can match: most messages are paths.
_SUSPECT = re.compile(r"://|pass|secret|credential|token|pwd|sas|jaas|auth|bearer|cookie|key", re.IGNORECASE)
# Shorter ones occur within other words.
_SHORTEST_KNOWN = 8
_known: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether the name of an option says that its value is a secret."""
    if name.startswith(_OF_COLUMNS):
        return False
    if any(word in name.lower() for word in _ANYWHERE):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    if any(word in _WORDS for word in words):
        return True
    return any(first in _BEFORE_KEY and second == "key" for first, second in pairwise(words))


def holds_secret(name: str, value: str) -> bool:
    """Whether the value of an option is a secret, or has one in it: a password in a URL, a key among other things."""
    return bool(value) and (is_secret_name(name) or (not name.startswith(_OF_COLUMNS) and any(secrets_in(value))))


def remember(text: str) -> None:
    """Know a secret again, wherever it turns up in this process. Short ones cannot be told from other words."""
    if len(text) >= _SHORTEST_KNOWN:
        _known.add(text)


def secrets_in(text: str, *, of_statement: bool = False) -> Iterator[str]:
    """The values that a text gives to options with names of secrets, and the passwords of URLs. In a statement the name of
    an option stands in quotes; what else is compared there is a column.
    """
    for match in _PAIR.finditer(text):
        value = match["value"].strip("'\"")
        if value and is_secret_name(match["name"]) and (match["quote"] or not of_statement):
            yield value
    for url in _USER_INFO.finditer(text):
        yield url[0].partition(":")[2].removesuffix("@")
    for each in _PARAMETER.finditer(text):
        if each["value"] and is_secret_name(each["name"]):
            yield each["value"]


def hidden(text: str) -> str:
    """The text as it may be shown."""
    for each in sorted(_known, key=len, reverse=True):
        text = text.replace(each, MASK)
    if not _SUSPECT.search(text):
        return text
    text = _USER_INFO.sub(f"{MASK}@", text)
    text = _PARAMETER.sub(_masked_parameter, text)
    return _PAIR.sub(_masked_pair, text)


def hidden_value(name: str, value: str) -> str:
    """The value of an option as it may be shown."""
    if is_secret_name(name):
        return MASK
    return hidden(value if name.startswith(_OF_COLUMNS) else _USER_OF_ADDRESS.sub(f"{MASK}@", value))


def _masked_parameter(match: "re.Match[str]") -> str:
    return f"{match['start']}{match['name']}={MASK}" if is_secret_name(match["name"]) else match[0]


def _masked_pair(match: "re.Match[str]") -> str:
    value = match["value"]
    # `token: x` in a sentence is prose; what stands in quotes is a value.
    if not is_secret_name(match["name"]) or (match["sign"] == ":" and value[0] not in "'\""):
        return match[0]
    quote = value[0] if value[0] in "'\"" else ""
    return match[0][: match.start("value") - match.start()] + f"{quote}{MASK}{quote}"
