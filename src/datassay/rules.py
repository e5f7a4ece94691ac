"""Rules: the small vocabulary in which public functions check what they are given.

Each function returns nothing where its rule holds, and otherwise raises one sentence that names
the argument, the rule, the value got and the remedy: `ridge must be positive, so that the fit has
one minimum; got 0.0. Try 0.0001.` A rule about numbers refuses NaN, strings and None, too.

All of them take the same words after the rule's own:
    name: of the argument.
    value: what was given for it.
    why: follows the rule, as in `must be positive{why}`; begins with its own comma or space.
    remedy: a sentence or several that follow the value got.
    error: the class to raise.
"""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, TypedDict, Unpack

from datassay.errors import DatassayError, SettingError
from datassay.optional import text_if

ROUNDING = 1e-3  # that a sum of probabilities may miss 1 by


class Words(TypedDict, total=False):
    """What every rule takes besides its own arguments; see above."""

    why: str
    remedy: str
    error: type[DatassayError]


def require(
    holds: Any,
    name: str,
    rule: str,
    got: Any,
    *,
    why: str = "",
    remedy: str = "",
    error: type[DatassayError] = SettingError,
) -> None:
    """Raise an error in the sentence that all rules share, unless `holds`.

    Args:
        holds: whether the rule holds.
        name: of the argument.
        rule: what follows "must", as in "be below 1".
        got: what was given, or words about it; shown as it prints.
        why: follows the rule.
        remedy: follows what was got.
        error: the class to raise.

    Raises:
        DatassayError: it does not hold; of the class asked for.
    """
    if not holds:
        raise error(f"{name} must {rule}{why}; got {got}.{text_if(remedy, ' ')}{remedy}")


def positive(name: str, value: Any, *, finite: bool = False, **words: Unpack[Words]) -> None:
    """Check that a number is above 0; infinity passes unless `finite` is asked for."""
    number = _to_number(value)
    rule = "be positive"
    if finite:
        rule = "be finite and positive"
    require(number > 0 and not (finite and math.isinf(number)), name, rule, _quote(value), **words)


def at_least(
    name: str, value: Any, minimum: float, *, finite: bool = False, **words: Unpack[Words]
) -> None:
    """Check that a number is at least `minimum`; infinity passes unless `finite` is asked for."""
    number = _to_number(value)
    holds = number >= minimum and not (finite and math.isinf(number))
    rule = f"be at least {minimum:,}{text_if(finite, ' and finite')}"
    require(holds, name, rule, _quote(value), **words)


def integer(name: str, value: Any, minimum: int = 1, **words: Unpack[Words]) -> None:
    """Check for an integer of at least `minimum`, Python's or NumPy's; not True, not 2.0."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    rule = f"be a whole number of at least {minimum:,}"
    require(is_whole and int(value) >= minimum, name, rule, _quote(value), **words)


def in_interval(
    name: str, value: Any, low: float, high: float, ends: str = "[]", **words: Unpack[Words]
) -> None:
    """Check that a number lies between two; `ends` is "[]", "[)", … as in interval notation."""
    number = _to_number(value)
    if ends[0] == "[":
        is_above = number >= low
    else:
        is_above = number > low
    if ends[1] == "]":
        is_below = number <= high
    else:
        is_below = number < high
    rule = f"lie in {ends[0]}{low:g}, {high:g}{ends[1]}"
    require(is_above and is_below, name, rule, _quote(value), **words)


def fraction(name: str, value: Any, ends: str = "(]", **words: Unpack[Words]) -> None:
    """Check that a number lies between 0 and 1."""
    in_interval(name, value, 0, 1, ends, **words)


def one_of(
    name: str, value: Any, allowed: Iterable[Any], *, alternative: str = "", **words: Unpack[Words]
) -> None:
    """Check for one of some names; `alternative` describes values that the caller handles."""
    names = list(allowed)
    if len(names) <= 2:
        rule = " or ".join(map(repr, names))
    else:
        rule = f"one of {', '.join(map(str, names))}"
    rule = f"be {rule}{text_if(alternative, ', or ')}{alternative}"
    holds = any(isinstance(value, type(n)) and value == n for n in names)
    require(holds, name, rule, _quote(value), **words)


def finite(name: str, values: Any, **words: Unpack[Words]) -> None:
    """Check that no number of an array of any shape is NaN or infinite."""
    import numpy as np  # rules themselves cost no time to load

    n_not_finite = np.size(values) - int(np.isfinite(np.asarray(values)).sum())
    require(not n_not_finite, name, "be finite", f"{n_not_finite:,} values that are not", **words)


def positions(name: str, values: Any, n: int, **words: Unpack[Words]) -> None:
    """Check [m] positions among `n` samples: whole numbers from 0 to n − 1."""
    import numpy as np

    array = np.asarray(values)
    rule = f"hold positions in 0..{n - 1}"
    require(not array.size or array.dtype.kind in "iu", name, rule, f"type {array.dtype}", **words)
    if array.size:
        low, high = int(array.min()), int(array.max())
        require(low >= 0 and high < n, name, rule, f"{low} to {high}", **words)


def probabilities(name: str, values: Any, **words: Unpack[Words]) -> None:
    """Check [n, k] class probabilities: finite, not negative, each row sums to 1."""
    import numpy as np

    bad_rows = np.flatnonzero(~((values >= 0).all(1) & (abs(values.sum(1) - 1) <= ROUNDING)))
    example = [f"the first at position {i}: {values[i][:5].tolist()}" for i in bad_rows[:1]]
    rule = "be at least 0 and sum to 1 in each row"
    got = f"{len(bad_rows):,} rows that do not"
    require(not len(bad_rows), name, rule, ", ".join([got, *example]), **words)


def _to_number(value: Any) -> float:
    """Return a value as a float; NaN if it is no number, so that comparisons fail."""
    is_scalar = getattr(value, "ndim", None) == 0  # of a tensor or an array
    if isinstance(value, str) or not (isinstance(value, Real) or is_scalar):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _quote(value: Any) -> str:
    """Return a value for an error message; strings in quotes, cut if long."""
    if isinstance(value, str):
        return repr(value)
    return str(value)
