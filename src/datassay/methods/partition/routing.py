"""One model per block, and a router that chooses the model from the input."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from datassay.collect.curvature.output_geometry import OutputGeometry, SharedFeatures
from datassay.collect.loss import loss_named
from datassay.data.arguments import checks_arguments
from datassay.data.splits import fold_pairs
from datassay.errors import SettingError
from datassay.machine import threads_for
from datassay.methods.partition.block_count import LEAST_IN_BLOCK
from datassay.methods.partition.blocks import Partition, gate_inputs, geometry_partition
from datassay.models.estimators import class_probabilities
from datassay.optional import map_optional, select_rows
from datassay.results import result

# Inputs that the partition sees; of more inputs, as many principal components. The blocks' models
# and the router see all inputs.
MOST_FEATURES = 30
FOLDS = 5
# Standard errors by which a router must beat the largest block; at 1 a useless router of two blocks
# of equal size would pass one time in six.
ERRORS = 2.0
DAMPING = 0.01


@result
class Routed:
    """Models of the blocks, and the router that chooses among them.

    Attributes:
        experts: one fitted estimator a block.
        router: fitted on inputs → block, or None where there is one block or it does not help.
        share: [K], of the samples.
        gain: how much more probable the router's block is than the largest one, mean over samples,
            by cross-validation; 0 for one block.
        gain_error: its standard error.
    """

    experts: tuple[Any, ...]
    router: Any
    share: Float[np.ndarray, " K"]
    gain: float
    gain_error: float

    def weights(self, x: np.ndarray, routing: str) -> Float[np.ndarray, "m K"]:
        """Return how much each expert counts for each input."""
        if self.router is None:
            probability = np.tile(self.share, (len(x), 1))
        else:
            probability = class_probabilities(self.router, x, len(self.share))
        if routing == "soft":
            return probability
        return np.eye(len(self.share))[probability.argmax(1)]


@checks_arguments
def linear_partition(
    x: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, "n k"],
    loss: str,
    *,
    n_blocks: int | None,
    max_blocks: int,
    ridge: float,
    restarts: int,
    seed: int,
    fit_idx: Int[np.ndarray, " s"] | None = None,
    most_features: int = MOST_FEATURES,
    sample_weight: Float[np.ndarray, " n"] | None = None,
) -> Partition | None:
    """Return a partition of rows by linear models of standardised columns or principal components.

    None where two blocks are not allowed, or inputs or targets are all the same. Models are fitted
    to the rows at `fit_idx` (None: all), and then assign every row.

    Raises:
        SettingError: n_blocks blocks do not have LEAST_IN_BLOCK samples each.
    """
    n = len(x) if fit_idx is None else len(fit_idx)
    most_blocks = n // LEAST_IN_BLOCK
    if n_blocks is not None and not 1 <= n_blocks <= max(1, most_blocks):
        raise SettingError(
            f"n_blocks must be at least 1 and leave {LEAST_IN_BLOCK} samples a block; {n_blocks} "
            f"blocks of {n} samples do not. Take at most {max(1, most_blocks)}."
        )
    max_blocks = n_blocks or min(max_blocks, most_blocks)
    if max_blocks < 2 or (x == x[:1]).all() or (targets == targets[:1]).all():
        return None
    weight = None
    if sample_weight is not None:
        weight = sample_weight / sample_weight.mean()
    mean = np.average(x, 0, weight)
    deviation = np.sqrt(np.average(np.square(x - mean), 0, weight))
    rows = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    if rows.shape[1] > most_features:
        rows = PCA(min(most_features, len(x)), random_state=seed).fit_transform(rows)
        rows = rows / rows.std()  # all components by the same factor, so that small ones stay small
    inputs = torch.from_numpy(rows)
    y = torch.from_numpy(targets)
    if not loss_named(loss).has_one_class:
        y = (y - y.mean(0)) / y.std()
    features = SharedFeatures(torch.cat([inputs, inputs.new_ones(len(x), 1)], 1), y.shape[1])
    weights = y.new_zeros(features.n_parameters)
    geometry = OutputGeometry(features, features.outputs(weights), y, loss, weights)
    fit_geometry = geometry
    if fit_idx is not None:
        fit_geometry = geometry.subset(torch.from_numpy(fit_idx))
    with threads_for(n * features.n_parameters):
        divided = geometry_partition(
            fit_geometry, np.arange(n), n_blocks, max_blocks, FOLDS, ridge=ridge, damping=DAMPING,
            gate="auto", seed=seed, restarts=restarts,
            weight=map_optional(torch.from_numpy, weight),
        )  # fmt: skip
    if fit_idx is None:
        return divided
    # Assign all samples to the blocks that were found on a part of them.
    gate = None
    if divided.is_gated:
        gate = gate_inputs(geometry)
    joint = divided.mixture.joint(geometry.features, geometry.targets, geometry.loss, gate)
    responsibility = joint.softmax(1).numpy()
    block = responsibility.argmax(1)
    return replace(divided, block=block, responsibility=responsibility, ids=np.arange(len(block)))


def scaled_linear(*, is_classification: bool = True, seed: int | None = None) -> Any:
    """Build logistic or ridge regression of standardised inputs: a block's model, the router."""
    logistic = LogisticRegression(max_iter=1000, random_state=seed)
    ridge = Ridge(random_state=seed)
    return make_pipeline(StandardScaler(), logistic if is_classification else ridge)


def fit_experts(
    x: np.ndarray,
    y: np.ndarray,
    block: Int[np.ndarray, " n"],
    responsibility: Float[np.ndarray, "n K"],
    estimator: Any,
    router: Any,
    seed: int,
    sample_weight: Float[np.ndarray, " n"] | None = None,
) -> Routed:
    """Return an estimator fitted to each block, and a router if inputs predict the block."""
    n_blocks = responsibility.shape[1]
    share = np.bincount(block, sample_weight, n_blocks)
    experts = []
    for k in range(n_blocks):
        y_k = y[block == k]
        # Few classifiers can be fitted to one class.
        is_one_class = y.dtype.kind != "f" and (y_k == y_k[0]).all()
        expert: Any = DummyClassifier(strategy="prior") if is_one_class else clone(estimator)
        weight = select_rows(sample_weight, block == k)
        experts.append(expert.fit(x[block == k], y_k, **weight_options(expert, weight)))
    fitted_router, gain, error = fit_router(x, block, responsibility, router, seed, sample_weight)
    return Routed(tuple(experts), fitted_router, share / share.sum(), gain, error)


def weight_options(
    estimator: Any, sample_weight: Float[np.ndarray, " n"] | None
) -> dict[str, Float[np.ndarray, " n"]]:
    """Return the options of `fit` that hand weights to an estimator, or to a pipeline's steps.

    Raises:
        SettingError: the estimator, or a pipeline's last step, takes no weights.
    """
    if sample_weight is None:
        return {}
    if isinstance(estimator, Pipeline):
        steps = estimator.steps
    else:
        steps = [("", estimator)]
    last_step = steps[-1][1]
    if not has_fit_parameter(last_step, "sample_weight"):
        raise SettingError(
            "estimator and router must take sample_weight in fit where weights are given; "
            f"{type(last_step).__name__} does not. Choose one that does, or fit without them."
        )
    names = [name for name, step in steps if has_fit_parameter(step, "sample_weight")]
    return {f"{name}__sample_weight" if name else "sample_weight": sample_weight for name in names}


def fit_router(
    x: np.ndarray,
    block: Int[np.ndarray, " n"],
    responsibility: Float[np.ndarray, "n K"],
    router: Any,
    seed: int,
    sample_weight: Float[np.ndarray, " n"] | None = None,
) -> tuple[Any, float, float]:
    """Return the router fitted to inputs → block (None if it does not help), its gain and error."""
    sizes = np.bincount(block)
    if len(sizes) < 2 or sizes.min() < FOLDS:
        return None, 0.0, 0.0
    folds = fold_pairs(block, FOLDS, seed)
    options = weight_options(router, sample_weight)
    routed_block = np.asarray(
        cross_val_predict(clone(router), x, block, cv=folds, params=options)  # pyrefly: ignore[unexpected-keyword] (old stubs)
    )
    largest = np.bincount(block, sample_weight).argmax()
    gains = responsibility[np.arange(len(x)), routed_block] - responsibility[:, largest]
    share = np.full(len(x), 1 / len(x))
    if sample_weight is not None:
        share = sample_weight / sample_weight.sum()
    gain = float(share @ gains)
    error = float(np.linalg.norm(share * (gains - gain)))
    fitted_router: Any = clone(router)
    if gain > ERRORS * error:
        fitted_router = fitted_router.fit(x, block, **options)
    else:
        fitted_router = None
    return fitted_router, gain, error


def compact(
    partition: Partition | None, n: int
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n K"]]:
    """Return blocks and responsibilities without empty blocks; a single block for None."""
    if partition is None:
        return np.zeros(n, dtype=np.int64), np.ones((n, 1))
    filled, block = np.unique(partition.block, return_inverse=True)
    responsibility = partition.responsibility[:, filled]
    return block, responsibility / responsibility.sum(1, keepdims=True)
