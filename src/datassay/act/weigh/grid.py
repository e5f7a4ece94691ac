"""Validation score at every pair of neighbours and ratio, in one batched training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from torch import nn

from datassay.act.settings import Weighting
from datassay.act.weigh.reweight import HeadProblem, head_problem
from datassay.act.weigh.weights import scaled_variance
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.score.neighbors.local_variance import neighbor_variance
from datassay.score.neighbors.search import nearest_neighbors
from datassay.train.head_training import HeadRecipe


@result
class WeightingGrid(Tabular):
    """The map of S0's Fig. 6 for one network's last layer.

    Attributes:
        n_neighbors: [K].
        max_ratios: [R].
        score: [R, K], on the validation samples, mean over seeds: accuracy, or minus half the
            squared error in the layer's unit.
        uniform: the same without weights.
        metric: "accuracy" or "−½ squared error".
    """

    n_neighbors: Int[np.ndarray, " K"]
    max_ratios: Float[np.ndarray, " R"]
    score: Float[np.ndarray, "R K"]
    uniform: float
    metric: str

    def to_table(self) -> pa.Table:
        """One row a pair: n_neighbors, max_ratio, score."""
        ratio, k = np.meshgrid(self.max_ratios, self.n_neighbors, indexing="ij")
        return pa.table({
            "n_neighbors": k.ravel(),
            "max_ratio": ratio.ravel(),
            "score": self.score.ravel(),
        })


class Weightings:
    """Local-variance weights at many (k, m); neighbours are searched once, for the largest k."""

    def __init__(self, problem: HeadProblem, largest: int, search: str):
        features = problem.features.double().numpy()
        self.index = nearest_neighbors(features, largest, search=search).index
        self.y = problem.labels

    def __call__(self, n_neighbors: int, max_ratio: float) -> Float[np.ndarray, " n"]:
        """w, summing to 1."""
        return scaled_variance(neighbor_variance(self.index[:, :n_neighbors], self.y), max_ratio)


@checks_arguments
def weighting_grid(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet,
    *,
    n_neighbors: Sequence[int] = tuple(np.linspace(10, 50, 20).round().astype(int).tolist()),
    max_ratios: Sequence[float] = tuple(np.linspace(2, 100, 20).tolist()),
    layer: str | None = None,
    recipe: HeadRecipe | None = None,
    seeds: Sequence[int] = (0,),
    search: str = Weighting.search,
    progress: Progress = silent,
) -> WeightingGrid:
    """Retrain the last layer under every weighting of a grid, all at once.

    Args:
        model: trained; left untouched.
        train: n training samples.
        val: what the layers are scored on, and stopped by where recipe.patience is set. A test set
            here would be used up by the choice.
        n_neighbors: values of k; S0 takes 20 from 10 to 50.
        max_ratios: values of m; S0 takes 20 from 2 to 100.
        layer: as for `reweight`.
        recipe: as for `reweight`.
        seeds: of fresh weights and of the order of the samples; scores are averaged over them.
        search: how neighbours are found, as for `local_variance_weights`.
        progress: called with (step, units done, units in all).

    Returns:
        The scores of all pairs, and of no weighting.

    Raises:
        DataError: as `reweight`.
        ModelError: as `reweight`.
        SettingError: no values, or some out of range.

    Cost: 4 n d k_out · R K · seeds operations an epoch; n R K weights are held.
    Source: S0 Appendix C, Fig. 6. Deviates: neighbours and training in feature space.
    """
    if not len(n_neighbors) or not len(max_ratios) or not min(max_ratios) >= 1:
        raise SettingError(
            "n_neighbors and max_ratios must hold values, ratios of at least 1; got "
            f"{list(n_neighbors)} and {list(max_ratios)}."
        )
    problem = head_problem(model, train, val, layer=layer, progress=progress)
    weightings = Weightings(problem, max(n_neighbors), search)
    pairs = [(k, m) for m in max_ratios for k in n_neighbors]
    weights = np.stack([np.full(len(train), 1 / len(train)), *(weightings(*p) for p in pairs)])
    score = problem.best_scores(weights, recipe or HeadRecipe(), seeds, progress)
    return WeightingGrid(
        n_neighbors=np.array(n_neighbors),
        max_ratios=np.array(max_ratios, np.float64),
        score=score[1:].reshape(len(max_ratios), len(n_neighbors)),
        uniform=float(score[0]),
        metric=problem.metric,
    )
