"""Products of decimals: multiplied and divided row by row, and rounded each time, as Java does; all keys at once."""

import numpy as np
import pyarrow as pa

_LOW = (1 << 64) - 1


def decimal_product(factors: pa.Array, divisors: pa.Array, starts: np.ndarray) -> pa.Array:
    """The product of each group of rows, which begin at `starts`; null for a group without a factor.

    `factors`, `divisors`: decimals of one type, at most one of both in a row; no divisor is 0. Half is rounded away from zero.
    Raises ArrowInvalid if a product on the way has more digits than the type.
    """
    kind = factors.type
    unit, limit = 10**kind.scale, 10**kind.precision
    multiplies, divides = np.asarray(factors.is_valid()), np.asarray(divisors.is_valid())
    values = np.where(divides, _unscaled(divisors), _unscaled(factors))
    sizes = np.diff(np.append(starts, len(factors)))
    product, known = np.zeros(len(starts), object), np.zeros(len(starts), bool)
    for place in range(int(sizes.max(initial=0))):
        keys = np.flatnonzero(sizes > place)
        rows = starts[keys] + place
        begins = multiplies[rows] & ~known[keys]
        product[keys[begins]] = values[rows[begins]]
        known[keys[begins]] = True
        goes_on = ~begins & (multiplies | divides)[rows]
        keys, rows = keys[goes_on], rows[goes_on]
        if not len(keys):
            continue
        value, before = values[rows], product[keys]
        above = np.where(divides[rows], before * unit, before * value)
        below = np.where(divides[rows], value, unit)
        product[keys] = _rounded(above, below)
        if (np.abs(product[keys]) >= limit).any():
            raise pa.ArrowInvalid(f"it has more than {kind.precision} digits")
    return _decimals(product, known, kind)


def _rounded(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotients of whole numbers of any size."""
    sign = np.where((above < 0) != (below < 0), -1, 1)
    above, below = np.abs(above), np.abs(below)
    quotients: np.ndarray = sign * ((2 * above + below) // (2 * below))
    return quotients


def _unscaled(column: pa.Array) -> np.ndarray:
    """The digits of decimals as whole numbers (Python's, of any size); what is null is any."""
    halves = np.frombuffer(column.buffers()[1], np.int64)
    halves = halves[2 * column.offset : 2 * (column.offset + len(column))]
    unscaled: np.ndarray = halves[1::2].astype(object) * (1 << 64) + halves[::2].astype(np.uint64).astype(object)
    return unscaled


def _decimals(unscaled: np.ndarray, known: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Decimals of whole numbers; null where none is known."""
    halves = np.empty(2 * len(unscaled), np.int64)
    halves[::2] = (unscaled & _LOW).astype(np.uint64).view(np.int64)
    halves[1::2] = (unscaled >> 64).astype(np.int64)
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, len(unscaled), [bits, pa.py_buffer(halves)])
