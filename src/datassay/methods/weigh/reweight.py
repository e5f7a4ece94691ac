"""Weight the samples by local variance in feature space and retrain the last layer (S0 Alg. 1)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.collection import check_sets, network_targets
from datassay.collect.curvature.output_loss import output_score, task_loss
from datassay.collect.loss import loss_named
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.methods.weigh.settings import Weighting
from datassay.methods.weigh.weights import local_variance_weights
from datassay.optional import select_rows
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.train.head import Head, split_head
from datassay.train.head_training import HeadRecipe, TrainedHeads, mean_one, train_heads


@result
class Reweighted(Tabular):
    """A network with its last layer retrained, and the weights it was retrained with.

    Attributes:
        model: the user's network, copied, with the new layer in place.
        weights: w, [n], summing to 1.
        ids: [n].
        layer: name of the layer retrained; "" where the network is that layer.
        n_features: what enters it, d.
        metric: "accuracy" or "R²".
        before: of the network as given, on the validation samples; NaN without any.
        after: of `model`; NaN without any.
        epoch: how many passes the layer was trained; 0 where it was solved exactly.
    """

    model: nn.Module
    weights: Float[np.ndarray, " n"]
    ids: np.ndarray
    layer: str
    n_features: int
    metric: str
    before: float
    after: float
    epoch: int

    def to_table(self) -> pa.Table:
        """Return one row per sample: id, sample_weight."""
        return pa.table({"id": self.ids, "sample_weight": self.weights})


@result
class HeadProblem:
    """A last layer with the features and targets that it is trained on.

    Attributes:
        head: the layer.
        features: [n, d], of the training samples.
        targets: [n, k], in the layer's own unit.
        labels: [n] class indices or [n, q] numbers, whose local variance counts.
        loss: "cross_entropy" or "mse".
        val: features and targets of the validation samples, or None.
    """

    head: Head
    features: Float[Tensor, "n d"]
    targets: Float[Tensor, "n k"]
    labels: np.ndarray
    loss: str
    val: tuple[Float[Tensor, "m d"], Float[Tensor, "m k"]] | None

    def train(
        self,
        weights: Float[np.ndarray, "M n"],
        recipe: HeadRecipe,
        *,
        seeds: tuple[int, ...] = (0,),
        stopped: bool = True,
        **options: Any,
    ) -> TrainedHeads:
        """Retrain the layer under each weighting, from each seed.

        Args:
            weights: M weightings, of any scale.
            recipe: solver and its settings.
            seeds: of fresh weights and of the order of the samples.
            stopped: whether the validation samples may stop the training.
            options: on_epoch and progress of `train_heads`.

        Returns:
            The layers.
        """
        layer = self.head.layer
        bias = None
        if layer.bias is not None:
            bias = layer.bias.detach().cpu()
        return train_heads(
            self.features, self.targets, weights, self.loss, recipe, seeds=seeds,
            start=(layer.weight.detach().cpu(), bias), bias=bias is not None,
            val=self.val if stopped else None, **options,
        )  # fmt: skip

    def scores(self, trained: TrainedHeads) -> Float[np.ndarray, " M"]:
        """Return the validation scores at the returned epochs, the mean over seeds."""
        epoch = trained.epoch[None] - 1
        return trained.val_score.gather(0, epoch)[0].double().mean(0).numpy()

    @property
    def metric(self) -> str:
        """Name of what `scores` measures."""
        if loss_named(self.loss).has_one_class:
            return "accuracy"
        return "−½ squared error"


@checks_arguments
def head_problem(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    layer: str | None = None,
    loss: str = "auto",
    progress: Progress = silent,
) -> HeadProblem:
    """Return the last layer with what enters it, collected in one pass, and its targets.

    Args:
        model: trained; left untouched.
        train: n training samples.
        val: validation samples; may be None.
        layer: as for `split_head`.
        loss: "auto" is cross-entropy for classes and squared error for numbers.
        progress: called with (step, samples done, samples in all).

    Returns:
        Everything that training the layer needs.

    Raises:
        DataError: too few samples or classes, or sets that do not belong together.
        ModelError: no linear last layer, or outputs that do not fit the targets.
        SettingError: the loss does not suit the task.
    """
    check_sets(train, val)
    loss = task_loss(train, loss)
    head = split_head(model, train, layer)
    targets = _targets(head, train)  # before the pass: they may not fit the outputs
    val_part = None
    if val is not None:
        val_part = (head.features(val, progress=progress), _targets(head, val))
    features = head.features(train, progress=progress)
    return HeadProblem(head, features, targets, train.y, loss, val_part)


@checks_arguments
def reweight(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    n_neighbors: int = Weighting.n_neighbors,
    max_ratio: float = Weighting.max_ratio,
    weights: np.ndarray | None = None,
    layer: str | None = None,
    loss: str = "auto",
    solver: str = "adam",
    recipe: HeadRecipe | None = None,
    search: str = Weighting.search,
    seed: int = Weighting.seed,
    progress: Progress = silent,
) -> Reweighted:
    """Retrain a trained network's last layer on its features, samples weighted by local variance.

    Lines 3 to 6 of Algorithm 1: the network without its last linear layer gives features, the local
    variance of the labels among each sample's neighbours there gives weights, the layer is trained
    afresh under them and put back.

    Args:
        model: trained (line 2), with or without weights of its own; left untouched.
        train: n training samples, on the network's own inputs.
        val: stops the training where recipe.patience is set, and is scored; never the test set if
            it does the first. May be None.
        n_neighbors: k, the sample itself included.
        max_ratio: m, the heaviest weight over the lightest.
        weights: [n], from any method, instead of local variance: Active Bias, class-balanced, a
            product of several. Any scale.
        layer: name of the layer to retrain; None: the nn.Linear that gives the network's output.
        loss: "cross_entropy" (binary with one output), "mse", or "auto" by the task.
        solver: "adam" or "exact"; used where recipe is None.
        recipe: how the layer is trained; None: S0's for images, 25 epochs of Adam, batches of 25.
        search: how neighbours are found, as for `local_variance_weights`.
        seed: of fresh weights and of the order of the samples.
        progress: called with (step, units done, units in all).

    Returns:
        The network with its new layer, the weights, and the validation score before and after.

    Raises:
        DataError: too few samples or classes, weights that are not numbers of at least 0, or sets
            that do not belong together.
        ModelError: no linear last layer gives the output, outputs that do not fit the targets, or
            features that are not finite.
        SettingError: a setting is out of range.

    Cost: a forward pass over the samples, the neighbours, and 4 n d k operations per epoch.
    Source: S0 Algorithm 1. Deviates: weights of mean 1 in the loss (`train_heads`); the paper's
    neighbours come from a KD-tree, ours from `nearest_neighbors`.
    """
    if weights is not None:
        weights = np.asarray(weights, np.float64)
        n = len(train)
        if weights.shape != (n,):
            raise DataError(
                f"weights must hold one number for each of the {n} samples; got shape "
                f"{list(weights.shape)}."
            )
        weights = mean_one(weights) / n
    problem = head_problem(model, train, val, layer=layer, loss=loss, progress=progress)
    if weights is None:
        weights = local_variance_weights(
            problem.features.double().numpy(), problem.labels, n_neighbors, max_ratio, search=search
        )
    recipe = recipe or HeadRecipe(solver=solver)
    stopped = recipe.patience is not None
    trained = problem.train(
        weights[None], recipe, seeds=(seed,), stopped=stopped, progress=progress
    )
    bias = select_rows(trained.bias, (0, 0))
    retrained = problem.head.with_layer(trained.weight[0, 0], bias)
    new_layer: Any = retrained.get_submodule(problem.head.name)
    new_head = replace(problem.head, model=retrained, layer=new_layer)
    return Reweighted(
        model=retrained,
        weights=weights,
        ids=train.ids,
        layer=problem.head.name,
        n_features=problem.features.shape[1],
        metric=train.metric,
        before=_score_head(problem, problem.head, val),
        after=_score_head(problem, new_head, val),
        epoch=0 if recipe.solver == "exact" else int(trained.epoch[0, 0]),
    )


def _targets(head: Head, train: SampleSet) -> Float[Tensor, "n k"]:
    """Return the targets in the layer's own unit, before the network scales and shifts them."""
    return (network_targets(train, len(head.scale)) - head.shift) / head.scale


def _score_head(problem: HeadProblem, head: Head, val: SampleSet | None) -> float:
    """Return a last layer's accuracy or R² on validation samples; NaN without any."""
    if problem.val is None or val is None:
        return float("nan")
    with torch.no_grad():
        return output_score(head.outputs(problem.val[0]), val)
