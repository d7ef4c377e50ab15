"""Which aggregate functions can take a value back."""

# Aggregate functions that cannot take a value back, as rows of kind -U and -D ask for.
_TAKES_NOTHING_BACK = frozenset(
    (
        "max",
        "min",
        "first_value",
        "first_non_null_value",
        "first_not_null_value",
        "bool_and",
        "bool_or",
        "listagg",
        "nested_partial_update",
        "merge_map_with_keytime",
        "rbm32",
    )
)


def takes_back(function: str) -> bool:
    """Whether an aggregate function can take values back; those that are not known are said to."""
    return function not in _TAKES_NOTHING_BACK
