"""A linear model per block and the router as arrays: what predicts new samples, in a file too."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from scipy.special import softmax
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from datassay.collect.curvature.output_loss import sample_scores
from datassay.data.arguments import checks_arguments
from datassay.data.new_rows import RowFormat, row_format
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.methods.partition.blocks import Partition
from datassay.methods.partition.routing import Routed, compact, fit_experts, scaled_linear
from datassay.methods.partition.settings import Division
from datassay.optional import coalesce
from datassay.results import result
from datassay.rules import one_of
from datassay.stats import mean_interval
from datassay.store.model_file import write_model
from datassay.train.learner import rows_of

FORMAT = "datassay blocks 1"
ROUTING = ("soft", "hard")


@result
class BlockModel:
    """K linear models of standardised inputs, and a router that weighs them.

    Attributes:
        block: [K], the number of each in the partition; blocks without a sample have no model.
        center: [K, d], subtracted from the inputs of each block's model.
        spread: [K, d], by which they are then divided.
        coef: [K, k, d]; of classes the logits of a softmax, of targets their own unit.
        intercept: [K, k]; −inf of a class that the block does not have.
        router_center: [d].
        router_spread: [d].
        router_coef: [K, d]; zeros where nothing routes: the inputs do not tell the blocks apart.
        router_intercept: [K]; the logarithms of the blocks' shares where nothing routes.
        is_routed: whether the inputs decide.
        gain: how much more probable the router's block is than the largest one, by
            cross-validation; 0 for one block.
        gain_error: its standard error.
        rows: what new rows must be.
    """

    block: Int[np.ndarray, " K"]
    center: Float[np.ndarray, "K d"]
    spread: Float[np.ndarray, "K d"]
    coef: Float[np.ndarray, "K k d"]
    intercept: Float[np.ndarray, "K k"]
    router_center: Float[np.ndarray, " d"]
    router_spread: Float[np.ndarray, " d"]
    router_coef: Float[np.ndarray, "K d"]
    router_intercept: Float[np.ndarray, " K"]
    is_routed: bool
    gain: float
    gain_error: float
    rows: RowFormat

    def router(self, x: Shaped[np.ndarray, "m ..."]) -> Float[np.ndarray, "m K"]:
        """Return the probability of each block given the inputs alone.

        Args:
            x: [m, ...] as loaded.

        Returns:
            [m, K], rows sum to 1.

        Raises:
            DataError: a sample does not have d values.
        """
        z = (_to_rows(x, len(self.router_center)) - self.router_center) / self.router_spread
        return softmax(z @ self.router_coef.T + self.router_intercept, axis=1)

    def blocks(self, x: Shaped[np.ndarray, "m ..."]) -> Int[np.ndarray, " m"]:
        """Return the most probable block given the inputs alone.

        Args:
            x: [m, ...] as loaded.

        Returns:
            [m], as `block` numbers them; the largest block where nothing routes.
        """
        return self.block[self.router(x).argmax(1)]

    def outputs(
        self, x: Shaped[np.ndarray, "m ..."], *, routing: str = "soft"
    ) -> Float[np.ndarray, "m k"]:
        """Return the predicted probabilities of classes, or targets.

        Args:
            x: [m, ...] as loaded.
            routing: "soft" weighs the blocks' models by the router's probabilities, "hard" asks the
                most probable block alone.

        Returns:
            [m, k].

        Raises:
            DataError: a sample does not have d values.
            SettingError: another routing.
        """
        one_of("routing", routing, ROUTING)
        weight = self.router(x)
        if routing == "hard":
            weight = np.eye(len(self.block))[weight.argmax(1)]
        rows = _to_rows(x, self.center.shape[1])
        weighted_sum = np.zeros((len(x), self.coef.shape[1]))
        for k, block_weight in enumerate(weight.T):
            standardized = (rows - self.center[k]) / self.spread[k]
            outputs = standardized @ self.coef[k].T + self.intercept[k]
            if self.rows.example.is_classification:
                outputs = softmax(outputs, axis=1)
            weighted_sum += block_weight[:, None] * outputs
        return weighted_sum

    def save(self, path: str | Path) -> None:
        """Write a safetensors file; `datassay predict` and `estimators.load_model` read it.

        Args:
            path: of the file.
        """
        facts = {"is_routed": self.is_routed, "gain": self.gain, "gain_error": self.gain_error}
        arrays = {name: getattr(self, name) for name in ARRAYS}
        write_model(path, FORMAT, arrays, facts | {"rows": self.rows.to_json()})


ARRAYS = (
    "block", "center", "spread", "coef", "intercept",
    "router_center", "router_spread", "router_coef", "router_intercept",
)  # fmt: skip


def _to_rows(x: np.ndarray, d: int) -> Float[np.ndarray, "m d"]:
    """Return inputs as [m, d]; raise if samples have another number of features."""
    if len(x):
        rows = np.asarray(x, np.float64).reshape(len(x), -1)
    else:
        rows = np.zeros((0, d))
    if rows.shape[1] != d:
        raise DataError(
            f"the blocks' models take {d} values per sample; got {rows.shape[1]}. Give samples "
            "like those that were divided."
        )
    return rows


@checks_arguments
def block_model(
    train: SampleSet,
    partition: Partition,
    *,
    may_route: bool | None = None,
    seed: int = Division.seed,
) -> BlockModel:
    """Fit a model per block, and the router where the inputs tell the blocks apart.

    Args:
        train: the samples that were divided.
        partition: the blocks.
        may_route: whether a router may be used at all; None: where the blocks' shares depend on
            the input. Its own gain alone is easily led astray, since blocks are assigned by labels.
        seed: of the router's cross-validation.

    Returns:
        The models: logistic or ridge regression of standardised inputs for each block, and a
        logistic router, used where it gains two standard errors in cross-validation.

    Raises:
        DataError: the samples are not those that were divided.

    Cost: K + 6 fits of a linear model.
    """
    if not np.array_equal(train.ids, partition.ids):
        raise DataError("train must be the samples that were divided; their ids differ.")
    block, responsibility = compact(partition, len(train))
    x = rows_of(train)
    width = train.n_classes or train.y[:1].size
    linear = scaled_linear(is_classification=train.is_classification)
    router = scaled_linear()
    routed = fit_experts(x, train.y, block, responsibility, linear, router, seed)
    if not coalesce(may_route, partition.is_gated):
        routed = replace(routed, router=None)
    return as_arrays(routed, np.unique(partition.block), row_format(train), x.shape[1], width)


def as_arrays(
    routed: Routed, block: Int[np.ndarray, " K"], rows: RowFormat, d: int, width: int
) -> BlockModel:
    """Return the fitted linear models and router as one BlockModel of arrays."""
    log_share = np.log(routed.share)
    maps = [_extract_affine(expert, d, width) for expert in routed.experts]
    center, spread, coef, intercept = map(np.stack, zip(*maps, strict=True))
    n_blocks = len(log_share)
    router_arrays = (np.zeros(d), np.ones(d), np.zeros((n_blocks, d)), log_share)
    is_routed = routed.router is not None
    if is_routed:
        router_arrays = _extract_affine(routed.router, d, n_blocks)
    arrays = (block, center, spread, coef, intercept, *router_arrays)
    return BlockModel(
        **dict(zip(ARRAYS, arrays, strict=True)),
        is_routed=is_routed,
        gain=routed.gain,
        gain_error=routed.gain_error,
        rows=rows,
    )


def _extract_affine(fitted: Any, d: int, width: int) -> tuple[np.ndarray, ...]:
    """Return centres [d], deviations [d], coefficients [width, d], intercepts [width]."""
    if isinstance(fitted, DummyClassifier):  # of one class, whose logit is 0
        intercept = np.full(width, -np.inf)
        intercept[fitted.classes_] = np.log(fitted.class_prior_)
        return np.zeros(d), np.ones(d), np.zeros((width, d)), intercept
    scaler = fitted[0]
    linear = fitted[-1]
    coef = np.atleast_2d(linear.coef_)
    intercept = np.atleast_1d(linear.intercept_)
    if isinstance(linear, LogisticRegression):
        if len(coef) == 1:  # of two classes one logit, that of the second
            coef = np.stack([0 * coef[0], coef[0]])
            intercept = np.array([0.0, intercept[0]])
        all_coef = np.zeros((width, d))
        all_intercept = np.full(width, -np.inf)
        all_coef[linear.classes_] = coef
        all_intercept[linear.classes_] = intercept
        coef = all_coef
        intercept = all_intercept
    return scaler.mean_, scaler.scale_, coef.astype(np.float64), intercept.astype(np.float64)


def block_model_of(
    file_format: str, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> BlockModel:
    """Build a model from a file's parts; raise ValueError where they are inconsistent."""
    if file_format != FORMAT or set(arrays) != set(ARRAYS):
        raise ValueError("it holds something else.")
    rows = RowFormat.from_json(facts["rows"])
    n, k, d = arrays["coef"].shape
    example = rows.example
    shapes = ((n,), (n, d), (n, d), (n, k, d), (n, k), (d,), (d,), (n, d), (n,))  # as in ARRAYS
    shape_of = dict(zip(ARRAYS, shapes, strict=True))
    # All but `block` are float64, and finite but for the intercepts, −inf of a missing class.
    if (
        any(arrays[name].shape != shape for name, shape in shape_of.items())
        or any(np.isnan(array).any() for array in arrays.values())
        or any((array.dtype != np.float64) != (name == "block") for name, array in arrays.items())
        or any(np.isinf(array).any() for name, array in arrays.items() if "intercept" not in name)
        or (d, k) != (example.x[0].size, example.n_classes or example.y[:1].size)
    ):
        raise ValueError("its parts contradict each other.")
    gain = float(facts["gain"])
    error = float(facts["gain_error"])
    return BlockModel(**arrays, is_routed=bool(facts["is_routed"]), gain=gain, gain_error=error,
                      rows=rows)  # fmt: skip


def router_check(train: SampleSet, val: SampleSet, model: BlockModel) -> dict[str, float]:
    """Return scores with and without blocks, and whether inputs predict the block."""
    # By name: the router's `gain` and `gain_error`; `is_informative`, whether it is used; accuracy
    # or R² of a `single` linear model and of one a block, `routed`, and the 95 % interval of the
    # difference, `ahead_low` and `ahead_high`: NaN of one block, many targets.
    scores = dict.fromkeys(("single", "routed", "ahead_low", "ahead_high"), math.nan)
    if len(model.block) > 1 and train.y.ndim == 1:
        single_model = scaled_linear(is_classification=train.is_classification)
        predicted = single_model.fit(rows_of(train), train.y).predict(rows_of(val))
        if train.is_classification:
            outputs = np.eye(train.n_classes)[predicted]
        else:
            outputs = predicted[:, None]
        of_single, of_routed = (
            sample_scores(torch.from_numpy(out), val).double().numpy()
            for out in (outputs, model.outputs(val.x))
        )
        lead = mean_interval(of_routed - of_single)
        values = (of_single.mean(), of_routed.mean(), lead.low, lead.high)
        scores = dict(zip(scores, map(float, values), strict=True))
    gains = {"gain": model.gain, "gain_error": model.gain_error, "is_informative": model.is_routed}
    return {**gains, **scores}
