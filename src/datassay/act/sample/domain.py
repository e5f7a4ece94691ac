"""A box to sample points in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from datassay.data.settings import check_seed
from datassay.errors import DataError, SettingError

INITIAL = ("grid", "uniform")
# Squares of widths must be numbers.
LARGEST = 1e150


def checked_domain(
    domain: Sequence[float] | Sequence[Sequence[float]] | Float[np.ndarray, "d 2"],
) -> Float[np.ndarray, "d 2"]:
    """The lower and upper end of each input.

    Args:
        domain: (lower, upper) of one input, or one such pair for each of d.

    Returns:
        [d, 2].

    Raises:
        DataError: not pairs of finite numbers, reversed, or of zero volume.
    """
    rule = "domain must be pairs of finite numbers (lower, upper), one for each input"
    try:
        box = np.array(domain, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{rule}; got {domain!r}. Write [(0, 1), (0, 10)].") from error
    box = box[None] if box.shape == (2,) else box
    if box.ndim != 2 or box.shape[1] != 2 or not len(box):
        raise DataError(f"{rule}; got shape {list(box.shape)}. Write [(0, 1), (0, 10)].")
    for i, (low, high) in enumerate(box):
        # Halves: the whole width of (-1e308, 1e308) is no number.
        if not np.isfinite(high / 2 - low / 2) or max(abs(low), abs(high)) > LARGEST:
            raise DataError(f"{rule}; got ({low:g}, {high:g}) for input {i}. Give it both ends.")
        if low >= high:
            fault = "which has no volume" if low == high else "which is reversed"
            raise DataError(
                f"{rule}, the lower first; got ({low:g}, {high:g}) for input {i}, {fault}."
            )
    return box


def initial_points(
    box: Float[np.ndarray, "d 2"], n: int, kind: str, seed: int
) -> Float[np.ndarray, "n d"]:
    """The first points, spread evenly: f is not known yet.

    Args:
        box: the domain.
        n: how many.
        kind: "grid": a regular one with the ends of the domain, n^(1/d) values an input.
            "uniform": at random.
        seed: of the random ones.

    Returns:
        [n, d].

    Raises:
        SettingError: n is below 2 or no d-th power for a grid, or the kind is unknown.
        DataError: the seed is no seed.
    """
    d = len(box)
    check_count("n_initial", n, 2)
    check_seed(seed)
    if kind not in INITIAL:
        raise SettingError(f"initial must be one of {', '.join(INITIAL)}; got {kind!r}.")
    if kind == "uniform":
        return np.random.default_rng(seed).uniform(box[:, 0], box[:, 1], (n, d))
    side = round(n ** (1 / d))
    if side**d != n or side < 2:
        low = max(2, int(n ** (1 / d) + 1e-9))
        raise SettingError(
            f"n_initial must be a power of {d} for a grid in {d} dimensions; got {n}. Take "
            f"{low**d} or {(low + 1) ** d}, or initial='uniform'."
        )
    axes = [np.linspace(low, high, side) for low, high in box]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(n, d)


def check_count(name: str, value: int, least: int) -> None:
    """Refuse a value that is not a count.

    Args:
        name: of the setting.
        value: to be a whole number.
        least: the smallest allowed.

    Raises:
        SettingError: it is not, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise SettingError(f"{name} must be a whole number of at least {least}; got {value!r}.")
