"""What DuckDB says of a query that it cannot run, in a line, with what to do."""

import duckdb


def failure(error: duckdb.Error) -> str:
    """The first line, and advice where DuckDB's own would not help here."""
    message = str(error).splitlines()[0]
    if isinstance(error, duckdb.PermissionException):
        return (
            f"{message.removeprefix('Permission Error: ').rstrip('.')}. A query reads tables; files only below the "
            "directories of SNAPLINE_READABLE_DIRECTORIES, a JSON list."
        )
    if "extension" in message and "catalog" in message:
        return f"{message.split(', but it exists')[0]}. Extensions of DuckDB are not loaded here."
    if message.startswith("Parser Error") and 'at or near "default"' in message:
        return f'{message} DEFAULT is a word of SQL there: write the database as "default", in double quotes.'
    if "bignum" in message.lower():
        return (
            f"{message} A number of more than 38 digits is compared with no column: write it as a double, such as 1e40."
        )
    return message
