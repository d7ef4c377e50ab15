"""Names of whole tables: for those who create, rename and drop them."""

from .errors import InvalidRequest
from .identifier import MAIN_BRANCH, Identifier

_RESERVED_DATABASES = ("sys", "paimon", "information_schema")


def whole_table(name: str) -> Identifier:
    """The table of that name. Raises InvalidRequest for the name of a branch or of a system table."""
    identifier = Identifier.parse(name)
    if identifier.system_table is not None or identifier.branch != MAIN_BRANCH:
        raise InvalidRequest(
            f"{name!r} names a part of {identifier.full_name}: give the plain name of a table, as in `db.t`. A branch is "
            "deleted by `branches.delete`."
        )
    return identifier


def new_table_name(name: str) -> Identifier:
    """The name of a table that may be created. Raises InvalidRequest for others."""
    identifier = plain_name(name)
    refuse_reserved(identifier.database)
    return identifier


def refuse_reserved(database: str) -> None:
    """Raise InvalidRequest for the name of a database that engines have given a meaning."""
    if database in _RESERVED_DATABASES:
        raise InvalidRequest(f"Database name {database!r} is reserved.")


def plain_name(name: str) -> Identifier:
    """The name of a table that may be created or defined anew. Raises InvalidRequest for that of a branch or a system table."""
    identifier = Identifier.parse(name)
    if identifier.system_table is not None or identifier.branch != MAIN_BRANCH:
        raise InvalidRequest(f"{name!r} cannot be created: give the plain name of a table, as in `db.t`.")
    return identifier
