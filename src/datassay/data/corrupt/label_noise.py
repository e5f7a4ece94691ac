"""Add label noise and keep the true labels, to test how well scores find it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.data.settings import Corruption, check_seed, is_fraction
from datassay.data.source import to_numpy
from datassay.errors import DataError
from datassay.optional import coalesce


@checks_arguments
def add_label_noise(
    samples: SampleSet, rate: float | None, *, kind: Any = Corruption.kind, seed: int = 0
) -> SampleSet:
    """Change some labels; x, ids and order stay.

    "uniform", "pair" and a mapping change exactly round(rate · m) labels, drawn without
    replacement, m being the samples that may change; a matrix draws every label by itself, so its
    counts vary.

    Args:
        samples: a classification set.
        rate: fraction of labels to change, in [0, 1]; None with a matrix, which holds the rates.
        kind: "uniform": to any other class with equal chance (m = n). "pair": class c becomes
            c + 1, the last becomes 0 (m = n). A mapping, class → class, by name or index: only
            these classes change (m = their samples). A [K, K] matrix: row c holds the
            probabilities with which class c is given each label; rows sum to 1.
        seed: of the draw.

    Returns:
        The set with noisy y; true_y holds the labels before, or, where samples has a true_y
        already, that.

    Raises:
        DataError: a regression set, a rate outside its rule, or an unknown kind.

    Source: symmetric, pair and class-conditional noise as in Han et al. (2018), Co-teaching;
        deviates in that all but the matrix fix the number of changed labels, not their chance.
    """
    if not samples.is_classification:
        raise DataError(
            f"label noise needs classes; {samples.name} is a regression set. Load it with "
            "task='classification' if y holds labels."
        )
    is_matrix = not isinstance(kind, str | Mapping)
    if is_matrix != (rate is None) or not (rate is None or is_fraction(rate)):
        raise DataError(
            f"rate must lie in [0, 1], and be None if kind is a matrix; got {rate!r} with "
            f"{'a matrix' if is_matrix else repr(kind)}."
        )
    check_seed(seed)
    rng = np.random.default_rng(seed)
    if rate is None:
        cumulative = _check_transitions(kind, samples.n_classes).cumsum(axis=1)
        cumulative /= cumulative[:, -1:]  # no draw may reach beyond the last class by rounding
        is_beyond = rng.random(len(samples))[:, None] >= cumulative[samples.y]  # [n, K]
        y = is_beyond.sum(axis=1).astype(np.int64)
    else:
        y = _relabel(samples, rate, kind, rng)
    return replace(samples, y=y, true_y=coalesce(samples.true_y, samples.y))


def _relabel(samples: SampleSet, rate: float, kind: Any, rng: np.random.Generator) -> np.ndarray:
    """Return y with a share `rate` of labels changed: to any class, the next, or by a mapping."""
    y = samples.y.copy()
    n_classes = samples.n_classes
    if kind == "uniform":
        changed_idx = rng.choice(len(y), round(rate * len(y)), replace=False)
        y[changed_idx] = (y[changed_idx] + rng.integers(1, n_classes, len(changed_idx))) % n_classes
        return y
    new_class = np.arange(n_classes)
    if kind == "pair":
        new_class = (new_class + 1) % n_classes
    elif isinstance(kind, Mapping):
        for label, noisy in kind.items():
            new_class[_find(label, samples.class_names)] = _find(noisy, samples.class_names)
    else:
        raise DataError(
            f"kind must be 'uniform', 'pair', a mapping or a [K, K] matrix; got {kind!r}."
        )
    movable = np.flatnonzero(new_class[y] != y)
    changed_idx = rng.choice(movable, round(rate * len(movable)), replace=False)
    y[changed_idx] = new_class[y[changed_idx]]
    return y


def _find(label: Any, names: tuple[str, ...]) -> int:
    """Return the index of the class that is given by its name or index."""
    if label in names:
        return names.index(label)
    if isinstance(label, int | np.integer) and 0 <= label < len(names):
        return int(label)
    raise DataError(
        f"a mapping must name classes, or index them by 0..{len(names) - 1}; got {label!r}. The "
        f"classes are {', '.join(names)}."
    )


def _check_transitions(kind: Any, n_classes: int) -> Float[np.ndarray, "k k"]:
    """Return transition probabilities, [k, k]; raise unless each row sums to 1."""
    matrix = to_numpy(kind, "kind")
    if matrix.dtype.kind not in "biuf" or matrix.shape != (n_classes, n_classes):
        raise DataError(
            f"a transition matrix must be [{n_classes}, {n_classes}], a row and a column for each "
            f"class; got {matrix.dtype} in shape {list(matrix.shape)}."
        )
    sums = matrix.sum(axis=1)
    if not (matrix >= 0).all() or not np.allclose(sums, 1, rtol=0, atol=1e-8):
        raise DataError(
            "a transition matrix must hold probabilities whose rows sum to 1; got row sums "
            f"{sums.tolist()} and a smallest entry of {matrix.min()}. Divide each row by its sum."
        )
    return matrix.astype(np.float64)
