"""Average of minimum-norm fits to random batches: bagging, each batch solved exactly."""

from collections.abc import Callable
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.methods.polynomial.model import are_classes
from datassay.methods.polynomial.monomials import Monomials
from datassay.methods.polynomial.solvers.normal_equations import chosen_dtype
from datassay.methods.polynomial.solvers.ridge import minimum_norm
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import at_least, require

CURVE_ROWS = 2000  # samples that each score of the curves is averaged over, as in Fig. 3.11
STEP = "polynomial: batches"
Rate = Callable[[np.ndarray, np.ndarray], float]  # of outputs and targets


@result
class BatchCurve:
    """Scores after 1, 2, … b batches.

    Of one-hot classes a score is the share of samples whose largest output is their class's, else
    R², 1 − Σ (y − f)² / Σ (y − mean y)², mean over targets. Each is over at most `CURVE_ROWS`
    samples.

    Attributes:
        single: [b], each batch's own fit on the validation samples (Fig. 3.11); NaN without
            any.
        cumulative: [b], the average so far on the validation samples; NaN without any.
        in_sample: [b], the average so far on samples it was fitted to: those of the first batch,
            which stand for all batches so far (Fig. 3.12).
        out_of_bag: [b], on training samples, each predicted by the average of the fits that did
            not see it; NaN until there are such samples.
        is_accuracy: whether the scores are accuracies (else R²).
    """

    single: Float[np.ndarray, " b"]
    cumulative: Float[np.ndarray, " b"]
    in_sample: Float[np.ndarray, " b"]
    out_of_bag: Float[np.ndarray, " b"]
    is_accuracy: bool


@result
class BatchedFit:
    """Average of the fits to all batches."""

    coef: Float[np.ndarray, "k q"]  # of the live features; row 0 is the constant
    curve: BatchCurve  # scores by number of batches
    ranks: Int[np.ndarray, " b"]  # of each batch's centred features

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats, one sentence each."""
        score = self.curve.out_of_bag[-1]
        kind = "R²"
        if self.curve.is_accuracy:
            kind = "accuracy"
        return (
            f"Out-of-bag {kind} {score:.4f}: of training samples, each by the batches without it.",
            f"The batches' features minus their mean have ranks {self.ranks.min()} to "
            f"{self.ranks.max()}.",
        )


def batched_fit(
    x: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "n q"],
    monomials: Monomials,
    live: Int[np.ndarray, " k"],
    *,
    n_batches: int = 60,
    batch_size: int = 2000,
    precision: str = "auto",
    seed: int = 0,
    val: tuple[Float[np.ndarray, "m d"], Float[np.ndarray, "m q"]] | None = None,
    progress: Progress = silent,
) -> BatchedFit:
    """Average `n_batches` minimum-norm least-squares fits to random batches, live features only.

    A batch holds no sample twice, batches may share samples. The norm is over all coefficients but
    the constant's, each ordered product counted; each batch is solved in float64. `val` samples are
    for the out-of-sample curves alone.

    Returns:
        The average; only one batch's coefficients are held with it.

    Cost: n_batches · (B² p' + B³/3) operations; 4 · B · p' values.
    Source: S3 eqs. (3.14)-(3.16).
    """
    at_least("n_batches", n_batches, 1)
    rule = f"be between 2 and the {len(x)} samples there are"
    remedy = "Take smaller batches, or solver='exact'."
    require(2 <= batch_size <= len(x), "batch_size", rule, batch_size, remedy=remedy)
    rng = np.random.default_rng(seed)
    dtype = chosen_dtype(precision, monomials)
    batches = [rng.choice(len(x), batch_size, replace=False) for _ in range(n_batches)]
    oob_rows = rng.permutation(len(x))[:CURVE_ROWS]
    features = partial(monomials.features, keep=live, dtype=dtype)
    first_rows = batches[0][:CURVE_ROWS]
    rate: Rate = mean_r2
    if are_classes(targets):
        rate = accuracy
    views = {
        "in_sample": _View(features(x[first_rows]), targets[first_rows], rate),
        "out_of_bag": _View(features(x[oob_rows]), targets[oob_rows], rate),
    }
    if val is not None:
        val_rows = rng.permutation(len(val[0]))[:CURVE_ROWS]
        views["val"] = _View(features(val[0][val_rows]), val[1][val_rows], rate)
    total = np.zeros((len(live), targets.shape[1]))
    ranks = []
    scores = []
    for b, batch in enumerate(batches):
        coef, rank = _fit_batch(features(x[batch]), targets[batch])
        total += coef
        ranks.append(rank)
        scores.append(_add_to_views(views, coef, ~np.isin(oob_rows, batch)))
        progress(STEP, b + 1, n_batches)
    curve = BatchCurve(*np.array(scores).T, is_accuracy=are_classes(targets))
    return BatchedFit(total / n_batches, curve, np.array(ranks))


def _fit_batch(features: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, int]:
    """Return coefficients [k, q], the constant's first, and the rank of the centred features."""
    coef, rank = minimum_norm(features[:, 1:], targets)
    constant = targets.mean(axis=0) - features[:, 1:].mean(axis=0, dtype=np.float64) @ coef
    return np.vstack([constant, coef]), rank


class _View:
    """Samples, and the sums of the fits' outputs on them."""

    def __init__(self, features: np.ndarray, targets: np.ndarray, rate: Rate):
        self.features = features
        self.targets = targets
        self.rate = rate
        self.total = np.zeros(targets.shape)
        self.count = np.zeros(len(targets))

    def add(self, coef: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Add a fit's outputs to the average, for the rows of a mask; return them for all rows."""
        outputs = (self.features @ coef.astype(self.features.dtype)).astype(np.float64)
        is_counted = coalesce(rows, np.ones(len(outputs), bool))
        self.total[is_counted] += outputs[is_counted]
        self.count += is_counted
        return outputs

    def score(self) -> float:
        """Return the score of the average of the outputs; NaN with fewer than 2 samples."""
        rows = np.flatnonzero(self.count)
        if len(rows) < 2:
            return np.nan
        return self.rate(self.total[rows] / self.count[rows, None], self.targets[rows])


def _add_to_views(
    views: dict[str, _View], coef: np.ndarray, out_of_bag: Bool[np.ndarray, " s"]
) -> tuple[float, float, float, float]:
    """Average in a batch's fit, and return the scores so far: a point of each curve."""
    single_score = np.nan
    cumulative = np.nan
    if "val" in views:
        val = views["val"]
        single_score = val.rate(val.add(coef), val.targets)
        cumulative = val.score()
    views["in_sample"].add(coef)
    views["out_of_bag"].add(coef, out_of_bag)
    return single_score, cumulative, views["in_sample"].score(), views["out_of_bag"].score()


def accuracy(outputs: Float[np.ndarray, "n q"], targets: Float[np.ndarray, "n q"]) -> float:
    """Return the share of samples whose largest output is their class's."""
    return float((outputs.argmax(axis=1) == targets.argmax(axis=1)).mean())


def mean_r2(outputs: Float[np.ndarray, "n q"], targets: Float[np.ndarray, "n q"]) -> float:
    """Return R², mean over the targets that vary; NaN if none does."""
    total_squares = ((targets - targets.mean(axis=0)) ** 2).sum(axis=0)
    error_squares = ((targets - outputs) ** 2).sum(axis=0)
    varies = total_squares > 0
    if varies.any():
        return float((1 - error_squares[varies] / total_squares[varies]).mean())
    return np.nan
