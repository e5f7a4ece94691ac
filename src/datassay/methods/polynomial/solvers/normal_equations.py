"""Normal equations, accumulated in chunks: the feature matrix is never held in memory."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs

from datassay.errors import DataError, SettingError
from datassay.machine import available_memory
from datassay.methods.polynomial.monomials import Monomials
from datassay.methods.polynomial.settings import PRECISIONS, Regression
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import at_least, one_of

CHUNK = 2000  # samples per chunk of features
KEEP_EVERY = 10_000  # samples between two checkpoints, each a third of a gigabyte on MNIST
ROWS = 2000  # random samples kept for leave-one-out errors
FEW = 3000  # features whose products in float64 take seconds
PANEL = 1536  # rows of the Gram matrix that are added to at once, in bfloat16
PROBES = 64  # features whose products are also summed in float64, to measure the error
STEP = "polynomial: products of features"


@result
class NormalEquations:
    """Normal equations of the samples seen so far.

    Attributes:
        monomials: the p features.
        live: [p'], features that are not zero in every sample, ascending; the coefficients of the
            others are 0 in every minimum-norm and ridge fit.
        gram: [p', p'], Σ φ φᵀ: upper triangle in Fortran order, zeros below.
        cross: [p', q], Σ φ yᵀ.
        feature_sum: [p'], Σ φ.
        target_sum: [q], Σ y.
        target_squares: [q], Σ y².
        n_samples: n.
        rows: [s, d], inputs of s random samples (all where n ≤ s), for leave-one-out errors.
        row_targets: [s, q].
        row_order: [s], the random numbers that chose the rows: the s largest of n are kept.
        gram_error: largest error of `gram` against float64 over the products of `PROBES` random
            features, relative to the root of the product of both features' sums of squares.
    """

    monomials: Monomials
    live: Int[np.ndarray, " k"]
    gram: Float[np.ndarray, "k k"]
    cross: Float[np.ndarray, "k q"]
    feature_sum: Float[np.ndarray, " k"]
    target_sum: Float[np.ndarray, " q"]
    target_squares: Float[np.ndarray, " q"]
    n_samples: int
    rows: Float[np.ndarray, "s d"]
    row_targets: Float[np.ndarray, "s q"]
    row_order: Float[np.ndarray, " s"]
    gram_error: float


def normal_equations(
    x: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "n q"],
    monomials: Monomials,
    *,
    precision: str = Regression.precision,
    chunk: int = CHUNK,
    store: str | Path | None = Regression.store,
    n_rows: int = ROWS,
    seed: int = Regression.seed,
    seen: int = 0,
    progress: Progress = silent,
) -> NormalEquations:
    """Sum up the normal equations; x is read once, in chunks, so may be memory-mapped.

    Args:
        x: [n, d].
        targets: [n, q].
        monomials: the features.
        precision: of features, products and Gram matrix: "float32", "float64", or "bfloat16",
            which rounds features to 8 bits and sums products in float32 (faster only on
            processors with bfloat16 units). "auto" is float64 up to `FEW` features, where it
            costs nothing, and float32 above. All other sums are float64.
        chunk: samples per chunk.
        store: checkpoint folder: an interrupted call resumes and loses at most `KEEP_EVERY`
            samples of work; None keeps nothing.
        n_rows: number of random samples kept for leave-one-out errors.
        seed: random seed of that choice.
        seen: samples already in the sums that these will be merged with (`merge`).
        progress: called after each chunk.

    Returns:
        The sums.

    Raises:
        DataError: shapes are wrong, or values or their products are not finite.
        SettingError: the precision is unknown, chunk is below 1, the sums exceed the memory, or
            the store holds other samples, features or precision.

    Cost: n · p'² operations for p' live features (half of a plain product); p'² + 3 · chunk · p'
    values of memory.
    """
    one_of("precision", precision, PRECISIONS)
    at_least("chunk", chunk, 1)
    check_samples(x, targets, monomials)
    dtype = chosen_dtype(precision, monomials)
    live = live_features(x, monomials, dtype)
    _check_room(len(live), dtype)
    sums = _Sums(live, targets.shape[1], dtype)
    probes = _Probes(monomials, live, seed)
    checkpoint = None
    n_done = 0
    if store is not None:
        from datassay.store.digests import digest  # both import torch
        from datassay.store.results import ResultStore

        manifest = {
            "inputs": digest({"x": x}),
            "targets": digest({"targets": targets}),
            "monomials": digest({"terms": monomials.terms, "scale": monomials.scale}),
            "precision": precision,
        }
        checkpoint = ResultStore(store, manifest)
        n_done = _load_sums(checkpoint, sums, probes)
    add = _add_gram
    if precision == "bfloat16":
        add = _add_bfloat16
    for start in range(n_done, len(x), chunk):
        inputs = x[start : start + chunk]
        y = targets[start : start + chunk]
        sums.add(monomials.features(inputs, keep=live, dtype=dtype), y, add)
        probes.add(inputs)
        n_done = start + len(inputs)
        if checkpoint is not None and (n_done % KEEP_EVERY < chunk or n_done == len(x)):
            checkpoint.put("sums", {**sums.arrays, "probes": probes.sums, "done": np.array(n_done)})
        progress(STEP, n_done, len(x))
    _check_sums(sums)
    order = np.random.default_rng([seed, seen]).random(len(x))
    rows = np.sort(np.argsort(order)[-n_rows:])
    return NormalEquations(
        monomials,
        live,
        **sums.arrays,
        target_sum=targets.sum(axis=0, dtype=np.float64),
        target_squares=np.einsum("nq,nq->q", targets, targets, dtype=np.float64),
        n_samples=len(x),
        rows=np.asarray(x[rows]),
        row_targets=targets[rows].astype(np.float64),
        row_order=order[rows],
        gram_error=probes.error(sums.gram),
    )


def merge(earlier: NormalEquations, added: NormalEquations) -> NormalEquations:
    """Return the sums over two sets of samples; `added` was made with seen=earlier.n_samples."""
    # Exact: a feature not live in one set is zero there.
    has_same_terms = np.array_equal(earlier.monomials.terms, added.monomials.terms)
    if not has_same_terms or earlier.cross.shape[1] != added.cross.shape[1]:
        raise DataError(
            "both sums must have the same monomials and targets; got "
            f"{earlier.monomials.n_features} and {added.monomials.n_features} monomials, "
            f"{earlier.cross.shape[1]} and "
            f"{added.cross.shape[1]} targets. Make both from the same `Monomials`."
        )
    live = np.union1d(earlier.live, added.live)
    sums = _Sums(live, earlier.cross.shape[1], earlier.gram.dtype.type)
    order = np.concatenate([earlier.row_order, added.row_order])
    n_rows = max(len(earlier.rows), len(added.rows), min(len(order), ROWS))
    top_rows = np.argsort(order)[-n_rows:]
    for summand in (earlier, added):
        positions = np.searchsorted(live, summand.live)
        sums.gram[np.ix_(positions, positions)] += summand.gram
        sums.cross[positions] += summand.cross
        sums.feature_sum[positions] += summand.feature_sum
    return NormalEquations(
        earlier.monomials,
        live,
        **sums.arrays,
        target_sum=earlier.target_sum + added.target_sum,
        target_squares=earlier.target_squares + added.target_squares,
        n_samples=earlier.n_samples + added.n_samples,
        rows=np.concatenate([earlier.rows, added.rows])[top_rows],
        row_targets=np.concatenate([earlier.row_targets, added.row_targets])[top_rows],
        row_order=order[top_rows],
        gram_error=max(earlier.gram_error, added.gram_error),
    )


def chosen_dtype(precision: str, monomials: Monomials) -> type[np.floating]:
    """Return the dtype that features are computed in, np.float32 or np.float64."""
    if precision == "auto":
        precision = "float32"
        if monomials.n_features <= FEW:
            precision = "float64"
    if precision == "float64":
        return np.float64
    return np.float32


def live_features(
    x: Float[np.ndarray, "n d"], monomials: Monomials, dtype: type[np.floating] = np.float64
) -> Int[np.ndarray, " k"]:
    """Return the features that are not zero in every sample, ascending, the constant first."""
    # A very small one can be zero in float32 but not in float64. Cost: n · p · k multiplications
    # for the features that are dead, `CHUNK` · p · k for all others.
    dead = np.arange(monomials.n_features)
    for start in range(0, len(x), CHUNK):
        values = monomials.features(x[start : start + CHUNK], keep=dead, dtype=dtype)
        dead = dead[~values.any(axis=0)]
        if not len(dead):
            break
    return np.setdiff1d(np.arange(monomials.n_features), dead)


def check_samples(
    x: Float[np.ndarray, "n d"], targets: Float[np.ndarray, "m q"], monomials: Monomials
) -> None:
    """Raise if the samples' inputs, lengths or values cannot be fitted."""
    if x.shape[1] != monomials.n_inputs:
        raise DataError(
            f"x must have the {monomials.n_inputs} inputs the monomials were made for; got "
            f"{x.shape[1]}. Make new monomials for this data."
        )
    if len(x) != len(targets):
        raise DataError(
            f"x and targets must be of the same samples; got {len(x)} and {len(targets)}."
        )
    for name, values in (("x", x), ("targets", targets)):
        for start in range(0, len(values), CHUNK):
            is_bad = ~np.isfinite(values[start : start + CHUNK]).all(axis=1)
            if is_bad.any():
                raise DataError(
                    f"{name} must be finite; row {start + int(is_bad.argmax())} holds NaN or "
                    "infinity. Remove or fill it."
                )


Add = Callable[[np.ndarray, np.ndarray], None]  # adds the products of features to a Gram matrix


def _check_room(n_features: int, dtype: type[np.floating]) -> None:
    """Raise where the Gram matrix does not fit into the free memory."""
    needed = n_features**2 * np.dtype(dtype).itemsize
    spare = available_memory()
    if needed > spare:
        raise SettingError(
            f"the exact fit's sums must fit into memory; those of {n_features:,} features take "
            f"{needed / 1e9:.1f} GB, and {spare / 1e9:.1f} GB are free. Lower the degree, choose a "
            "window, reduce the inputs (grey for colour images), or take solver 'batched'."
        )


class _Sums:
    """The sums gram, cross and feature_sum of `NormalEquations`, as they grow."""

    def __init__(self, live: np.ndarray, n_targets: int, dtype: type[np.floating]):
        self.gram = np.zeros((len(live), len(live)), dtype, order="F")
        self.cross = np.zeros((len(live), n_targets))
        self.feature_sum = np.zeros(len(live))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"gram": self.gram, "cross": self.cross, "feature_sum": self.feature_sum}

    def add(self, features: np.ndarray, targets: np.ndarray, add_gram: Add) -> None:
        """Add a chunk's features, [b, k], and targets, [b, q], in place."""
        add_gram(self.gram, features)
        # Products are in the chunk's precision, their sums over chunks in float64. The mean of
        # targets far from 0 is multiplied in float64, or it would drown their differences.
        mean = targets.mean(axis=0, dtype=np.float64)
        offset = np.where(np.abs(mean) > targets.std(axis=0, dtype=np.float64), mean, 0.0)
        columns = np.column_stack([targets - offset, np.ones(len(targets))]).astype(features.dtype)
        products = features.T @ columns
        self.cross += products[:, :-1] + np.outer(products[:, -1], offset)
        self.feature_sum += products[:, -1]


def _add_gram(gram: np.ndarray, features: np.ndarray) -> None:
    """Add featuresᵀ features to gram in place, upper triangle."""
    (update,) = get_blas_funcs(("syrk",), (gram,))
    updated = update(1.0, features, beta=1.0, c=gram, trans=1, overwrite_c=1)
    assert np.shares_memory(updated, gram)


def _add_bfloat16(gram: np.ndarray, features: np.ndarray) -> None:
    """Add to gram as `_add_gram` does, with features rounded to bfloat16.

    Without bfloat16 units the sums are the same, at float32 speed.
    """
    import torch

    from datassay.score.linear.panels import bfloat16_units

    features_t = torch.from_numpy(np.ascontiguousarray(features.T)).bfloat16().float()  # [p, n]
    lower = torch.from_numpy(gram.T)  # its lower triangle is gram's upper
    with bfloat16_units():
        for start in range(0, len(features_t), PANEL):
            rows = features_t[start : start + PANEL]
            columns = features_t[: start + len(rows)]
            lower[start : start + len(rows), : len(columns)].addmm_(rows, columns.T)


class _Probes:
    """Products of a few random features in float64, to measure the Gram matrix's error."""

    def __init__(self, monomials: Monomials, live: np.ndarray, seed: int):
        n = min(PROBES, len(live))
        self._positions = np.sort(np.random.default_rng(seed).choice(len(live), n, replace=False))
        self.monomials = monomials
        self.keep = live[self._positions]
        self.sums = np.zeros((n, n))

    def add(self, x: np.ndarray) -> None:
        features = self.monomials.features(x, keep=self.keep)
        self.sums += features.T @ features

    def error(self, gram: np.ndarray) -> float:
        """Return `NormalEquations.gram_error`."""
        norm = np.sqrt(np.diag(self.sums))
        products = gram[np.ix_(self._positions, self._positions)]
        difference = np.triu(products - self.sums) / np.outer(norm, norm)
        return float(np.abs(difference).max())


def _load_sums(checkpoint, sums: _Sums, probes: _Probes) -> int:
    """Load stored sums in place, and return the number of samples in them, 0 without any."""
    if "sums" not in checkpoint:
        return 0
    stored = checkpoint.get("sums")
    sums.gram = np.asfortranarray(stored["gram"])
    sums.cross = stored["cross"]
    sums.feature_sum = stored["feature_sum"]
    probes.sums = stored["probes"]
    return int(stored["done"])


def _check_sums(sums: _Sums) -> None:
    """Raise where a sum is not finite."""
    # No entry of a Gram matrix is larger than its largest diagonal one.
    if not (np.isfinite(sums.gram.diagonal()).all() and np.isfinite(sums.cross).all()):
        kind = sums.gram.dtype
        raise DataError(
            f"squares of features must stay below {np.finfo(kind).max:.2g}, the largest {kind}; "
            "the inputs or targets are too large. Scale them (sklearn's StandardScaler), or take "
            "precision='float64'."
        )
