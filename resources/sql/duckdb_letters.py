"""Letters whose case DuckDB changes otherwise than Spark does: a text that holds one is refused where case counts."""

# Letters that Spark and DuckDB do not write alike in the other case: several letters become of one, or one of them knows the
# letter and the other does not; the Greek sigma goes by what stands beside it. Found by trying every letter of Unicode.
UPPER_DIFFERS = (
    r"\x{149}\x{19b}\x{1f0}\x{264}\x{390}\x{3b0}\x{587}\x{1c8a}\x{1e96}-\x{1e9a}\x{1f50}-\x{1f56}\x{1f80}-\x{1fff}"
    r"\x{a7cd}-\x{a7db}\x{fb00}-\x{fb17}\x{10d70}-\x{10d85}\x{16ebb}-\x{16ed3}"
)
LOWER_DIFFERS = r"\x{130}\x{3a3}\x{1c89}\x{a7cb}-\x{a7dc}\x{10d50}-\x{10d65}\x{16ea0}-\x{16eb8}"


def where_case_is_alike(value: str, word: str, differs: str, then: str) -> str:
    """SQL for `then`, a text of a text `value`; an error that names `word` if that has one of the letters `differs`."""
    refusal = f"{word.upper()} of such letters is not the same on DuckDB as in Spark. Use the engine spark."
    return (
        f"(CASE WHEN regexp_matches({value}, '[{differs}]') THEN CAST(error('{refusal}') AS VARCHAR) ELSE {then} END)"
    )
