"""Settings of loading, each default once, and the rules that settings of this step share."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from datassay.errors import DataError

# Split off where a part is to be held out, and nobody said how much.
HELD_OUT = 0.2


@dataclass(frozen=True)
class Loading:
    """How a source becomes two sample sets.

    Attributes:
        target: the column of a table to predict, several as a,b; None: the one called
            target, label, y or class.
        ids: the column of a table that names its rows; None: one whose values do, else row numbers.
        source: the column of a table that says where each row came from; None: unknown.
        trusted: the column of a table that says whose labels are known to be right; None: unknown.
        groups: the column of a table whose equal values stay together: no sample is judged by a
            model that saw others of its group; None: none do.
        time: the column of a table that orders its rows: each is judged by models that saw none of
            its time; None: rows have no order.
        task: "classification", "regression" or None: by the targets.
        val_fraction: split off where there is no validation part, in [0, 1); None: nothing of a
            table, `HELD_OUT` of anything else.
        seed: of the split.
        drop: columns of a table to leave out; of several, names between commas or a list; None:
            none, and so for the rest.
        keep: columns that stay, though our rules would leave them out.
        categorical: columns read as categories.
        text: columns read as texts.
        log_target: whether the logarithm of the target is predicted.
    """

    target: str | None = None
    ids: str | None = None
    source: str | None = None
    trusted: str | None = None
    groups: str | None = None
    time: str | None = None
    task: str | None = None
    val_fraction: float | None = None
    seed: int = 0
    drop: str | None = None
    keep: str | None = None
    categorical: str | None = None
    text: str | None = None
    log_target: bool = False


@dataclass(frozen=True)
class Corruption:
    """How samples are corrupted on purpose.

    Attributes:
        kind: of label noise, "uniform" or "pair".
        epsilon: the largest change of an adversarial input's value.
    """

    kind: str = "uniform"
    epsilon: float = 0.01


def check_seed(seed: Any) -> None:
    """Refuse a seed that NumPy and scikit-learn would not both take.

    Args:
        seed: an integer, 0 ≤ seed < 2^32.

    Raises:
        DataError: it is not.
    """
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 2**32:
        raise DataError(f"seed must be an integer in 0..2^32−1; got {seed!r}. Pass 0, 1, 2, ...")


def is_fraction(value: Any) -> bool:
    """Return whether the value is a real number in [0, 1]; NaN and strings are not."""
    return isinstance(value, Real) and 0 <= float(value) <= 1
