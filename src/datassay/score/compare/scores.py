"""The scores of one training run that retraining can judge: ours, and what costs nothing."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.collection import check_sets, collect
from datassay.collect.curvature.output_loss import sample_scores
from datassay.collect.jacobian.inputs import network_inputs
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.build import build_model
from datassay.models.estimators import fit_clone, is_estimator
from datassay.models.names import AUTO, full_name
from datassay.models.networks import seeded
from datassay.progress import Progress, silent
from datassay.score.attribution import removal_scores
from datassay.score.compare.fits import fitted_outputs, measure_of
from datassay.score.compare.retraining_check import baselines
from datassay.score.compare.stability import RunSmoothness, run_smoothness
from datassay.score.influence.methods import influence
from datassay.score.label_issues import label_issues
from datassay.score.sample_information import sample_information
from datassay.train.fitter import taken_network
from datassay.train.head import split_head
from datassay.train.learner import rows_of
from datassay.train.recipe import Recipe
from datassay.train.training import sample_losses, train_networks, with_loss

NETWORKS = 3  # on all samples, whose effects are averaged
ROUNDING = 1e-6  # relative change of the first weights of a network trained beside the first one
Named = dict[str, np.ndarray]  # scores by name
LOSS = "loss alone"
SIMILAR = "similar and alike"
FINAL = "final loss"
MARGIN = "smallest margin"
STEP = "score with trained and linearised networks"


@dataclass(frozen=True)
class Scores:
    """Scores of n samples, each from all of them.

    Attributes:
        effects: name → [n, m], what each sample's presence adds to each query's outcome.
        samples: name → [n], higher where a sample's presence should lower its own loss more.
        trivial: names of those that are free: what the others have to beat.
        smoothness: how far rounding takes two runs apart; None: not measured.
        fit: share of the queries that the trained networks get right, or their R².
    """

    effects: Mapping[str, Float[np.ndarray, "n m"]]
    samples: Mapping[str, Float[np.ndarray, " n"]]
    trivial: tuple[str, ...] = ()
    smoothness: RunSmoothness | None = None
    fit: float = float("nan")


@checks_arguments
def standard_scores(
    network: Any,
    train: SampleSet,
    val: SampleSet,
    *,
    recipe: Recipe | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Scores:
    """Compute the scores of `influence`, `attribution` and a run, and of trivial baselines.

    Args:
        network: from a seed to a network at the weights that it starts from; or a scikit-learn
            estimator, besides which `datassay run` linearises the default network.
        train: n samples.
        val: m queries, with targets.
        recipe: how networks are trained; None: Adam, 300 updates of 64 samples.
        seed: of first weights, batches, projections and random states.
        progress: called with (step, parts done, parts in all).

    Returns:
        Effects on the queries at the trained weights of one network and of three, and of the
        network linearised where it starts; each sample's own scores of the same; final loss, margin
        and likeness. "similar and alike": cosine of the last layer's features, positive for the
        same label, negative for others. Of an estimator nothing is at trained weights, and likeness
        is that of standardised inputs.

    Raises:
        DataError: too few samples, or train and val do not belong together.
        ModelError: outputs do not fit the targets, or a network cannot be differentiated.
        SettingError: the recipe does not suit the samples, or n m is above 2^25.

    Cost: four trainings, `influence` four times and one linearisation; n m values an effect.
    """
    check_sets(train, val)
    if is_estimator(network):
        return _score_estimator(network, train, val, seed, progress)
    recipe = with_loss(recipe or Recipe(), train)
    n_steps = NETWORKS + 2
    models = []
    outputs = []
    for index in range(NETWORKS):
        progress(STEP, index, n_steps)
        networks = _train_network(network(seed + index), train, recipe, seed + index)
        models.append(taken_network(network(seed + index), networks))
        outputs.append(networks.outputs(train.x)[0])
    progress(STEP, NETWORKS, n_steps)
    start = _perturb_weights(network(seed), seed)
    duplicate = taken_network(start, _train_network(start, train, recipe, seed))
    settings: Any = {"loss": recipe.loss, "weight_decay": recipe.weight_decay, "seed": seed}
    settings |= {"measure": measure_of(train), "progress": progress}
    results = [influence(model, train, val, **settings) for model in [*models, duplicate]]
    progress(STEP, NETWORKS + 1, n_steps)
    # At trained weights: of the first network, and the mean of all.
    effect = np.stack([_require_whole_matrix(r.effect) for r in results[:NETWORKS]])
    self_effect = np.stack([_require_whole_matrix(r.self_influence) for r in results[:NETWORKS]])
    suffix = f", {NETWORKS} networks"
    effects = {"influence": effect[0], f"influence{suffix}": effect.mean(0)}
    samples = {"self-influence": self_effect[0], f"self-influence{suffix}": self_effect.mean(0)}
    linear_effects, linear_samples = _score_linearised(network(seed), train, val, seed, progress)
    features = _last_features(models[0], train, val)
    trivial_effects, trivial_samples = _score_trivially(
        torch.stack(outputs), features, train, val, recipe
    )
    progress(STEP, n_steps, n_steps)
    return Scores(
        effects=effects | linear_effects | trivial_effects,
        samples=samples | linear_samples | trivial_samples,
        trivial=(*trivial_effects, *trivial_samples),
        smoothness=run_smoothness(results[0], results[-1]),
        fit=float(sample_scores(_average_outputs(models, val), val).mean()),
    )


def _perturb_weights(model: nn.Module, seed: int) -> nn.Module:
    """Return a copy with weights changed by about rounding: times 1 + ROUNDING · N(0, 1)."""
    model = deepcopy(model)
    with torch.no_grad(), seeded(seed):
        for weight in model.parameters():
            if weight.requires_grad:
                noise = torch.randn(weight.shape, dtype=weight.dtype).to(weight.device)
                weight.mul_(1 + ROUNDING * noise)
    return model


def _score_estimator(
    estimator: Any, train: SampleSet, val: SampleSet, seed: int, progress: Progress
) -> Scores:
    """Return a run's scores for an estimator; those of networks by the default network."""
    progress(STEP, 0, 2)
    network = build_model(full_name(AUTO, train), train, seed=seed)
    effects, samples = _score_linearised(network, train, val, seed, progress)
    if "label issue score" in samples:
        samples["label issue score"] = label_issues(train, model=estimator, seed=seed).score
    progress(STEP, 1, 2)
    model = fit_clone(estimator, rows_of(train), train.y, seed)
    outputs = fitted_outputs(model, train)[None]
    spread = np.maximum(rows_of(train).std(0), 1e-12)
    features = (rows_of(train) / spread, rows_of(val) / spread)
    recipe = with_loss(Recipe(), train)
    trivial_effects, trivial_samples = _score_trivially(outputs, features, train, val, recipe)
    progress(STEP, 2, 2)
    return Scores(
        effects=effects | trivial_effects,
        samples=samples | trivial_samples,
        trivial=(*trivial_effects, *trivial_samples),
        fit=float(sample_scores(fitted_outputs(model, val), val).mean()),
    )


def _train_network(model: nn.Module, train: SampleSet, recipe: Recipe, seed: int):
    """Return the network trained on all samples, as TrainedNetworks of one."""
    return train_networks([model], train, torch.arange(len(train))[None], recipe, seed=seed)


def _require_whole_matrix(values: np.ndarray | None) -> np.ndarray:
    """Return the effects of all pairs; raise where there were too many to keep (None)."""
    if values is None:
        raise SettingError(
            "train and val must be small enough to hold every effect, n m values up to 2^25. Ask "
            "about fewer queries."
        )
    return values


def _score_linearised(
    model: nn.Module, train: SampleSet, val: SampleSet, seed: int, progress: Progress
) -> tuple[Named, Named]:
    """Return effects and sample scores in closed form at the starting weights."""
    lin = collect(model, train, val, seed=seed, progress=progress)
    removed = removal_scores(lin, measure=measure_of(train), progress=progress)
    assert removed.attribution is not None
    loo = removed.leave_one_out
    targets = lin.targets.double().reshape(loo.outputs.shape).numpy()
    held_out_error = np.square(loo.held_out - targets).sum(1)
    training_error = np.square(loo.outputs - targets).sum(1)
    samples = {
        "left-out loss": (held_out_error - training_error) / 2,
        "information": sample_information(lin, loo=loo).information,
    }
    if train.y[:1].size == 1:
        samples["label issue score"] = label_issues(lin).score
    return {"attribution at the start": _require_whole_matrix(removed.attribution.effect)}, samples


def _score_trivially(
    outputs: Float[Tensor, "s n k"],
    features: tuple[np.ndarray, np.ndarray],
    train: SampleSet,
    val: SampleSet,
    recipe: Recipe,
) -> tuple[Named, Named]:
    """Return trivial baselines: effects from losses and similarity, and sample scores."""
    losses = sample_losses(outputs, train, recipe).double().numpy()
    baseline = baselines(
        outputs.numpy(), losses, train.y, train.ids, is_classification=train.is_classification
    )
    effects = {
        LOSS: np.repeat(_guess_effect(baseline.loss, outputs, train)[:, None], len(val), 1),
        SIMILAR: _label_similarity(*features, train, val),
    }
    margin = {}
    if train.is_classification:
        margin = {MARGIN: -baseline.margin}
    return effects, {FINAL: baseline.loss} | margin


def _guess_effect(loss: np.ndarray, outputs: Tensor, train: SampleSet) -> np.ndarray:
    """Return a guess of each sample's effect on any query, from its loss or residual."""
    measure = measure_of(train)
    if measure == "output":
        return train.y.reshape(-1) - outputs.mean(0).double().numpy().reshape(-1)
    if measure == "loss":
        return loss
    return -loss


def _last_features(
    model: nn.Module, train: SampleSet, val: SampleSet
) -> tuple[np.ndarray, np.ndarray]:
    """Return the last dense layer's inputs for samples and queries; else the raw inputs."""
    try:
        head = split_head(model, train)
    except ModelError:
        return rows_of(train), rows_of(val)
    return head.features(train).double().numpy(), head.features(val).double().numpy()


def _label_similarity(
    features: np.ndarray, queries: np.ndarray, train: SampleSet, val: SampleSet
) -> np.ndarray:
    """Return the cosine of centred features times the similarity of labels, [n, m]."""
    # Of k classes that is 1, or −1/(k − 1), which sums to 0 over them. Of losses, −1: a sample
    # lowers the loss of queries like it.
    center = features.mean(0)
    unit_x, unit_q = (
        (v - center) / np.maximum(np.linalg.norm(v - center, axis=1), 1e-12)[:, None]
        for v in (features, queries)
    )
    cosine = unit_x @ unit_q.T
    measure = measure_of(train)
    if measure == "margin":
        has_same_label = train.y[:, None] == val.y[None]
        return np.where(has_same_label, 1.0, -1 / (train.n_classes - 1)) * cosine
    if measure == "output":
        return (train.y - train.y.mean()).reshape(-1, 1) * cosine
    return -cosine


def _average_outputs(models: list[nn.Module], val: SampleSet) -> Tensor:
    """Return the queries' outputs, [m, k], mean over networks."""
    with torch.no_grad():
        dtype = next(models[0].parameters()).dtype
        outputs = [
            model(network_inputs(val.x, model, dtype, as_integers=False)) for model in models
        ]
    return torch.stack(outputs).mean(0).double().cpu()
