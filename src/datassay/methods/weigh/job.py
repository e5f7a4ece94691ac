"""The job of `datassay weigh`: find neighbours, weigh, try the weights, gather the findings."""

import time
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.commands.facts import closing_facts, data_facts, file_digest, model_facts, noise_facts
from datassay.commands.frame import SampleFindings
from datassay.commands.inputs import MODEL
from datassay.data.new_rows import row_format
from datassay.data.samples import SampleSet
from datassay.data.scaling import standardized_inputs
from datassay.errors import SettingError
from datassay.methods.weigh.baseline_weights import (
    active_bias_weights,
    balanced_variance_weights,
    class_balanced_weights,
    self_paced_weights,
)
from datassay.methods.weigh.command import WeighSettings
from datassay.methods.weigh.doubt import NeighborTargets, neighbor_targets
from datassay.methods.weigh.features import suits_inputs, trained_network
from datassay.methods.weigh.gain import WeightGain, head_gain, network_gain, retrain_head
from datassay.methods.weigh.network_file import FittedNetwork
from datassay.methods.weigh.reweight import HeadProblem, head_problem
from datassay.methods.weigh.search import WeightSearch, search_weights
from datassay.methods.weigh.settings import METHODS
from datassay.methods.weigh.weights import (
    SampleWeights,
    check_ratios,
    scaled_variance,
    weights_of_variance,
)
from datassay.models.build import build_model
from datassay.models.checkpoints import file_and_place
from datassay.models.names import asked_encoder, full_name
from datassay.models.weights import weights_choice
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.report.wording import count
from datassay.results import result
from datassay.rules import require
from datassay.score.neighbors.local_variance import LocalVariance, local_variance
from datassay.score.neighbors.search import check_n_neighbors
from datassay.train.fitter import taken_network
from datassay.train.history import PredictionHistory
from datassay.train.recipe import Recipe, network_recipe
from datassay.train.training import TrainedNetworks, sample_losses

NEEDS_CLASSES = {"balanced_variance", "class_balanced", "active_bias"}
NEEDS_NETWORK = {"self_paced", "active_bias"}
DENSITY_CLIP = 10.0
BETA = 0.999
# Self-paced, in one step: weights fall linearly to 0 at the loss of this share of the samples.
EASY = 0.9
# Class-balanced weights less uneven than this are as good as none.
EVEN = 1.1

FEWEST_K, MOST_K = 5, 50
TUNE_SEEDS = (0, 1, 2)
HEAVIEST = 0.1


@result
class WeighFindings(SampleFindings):
    """A weighting of the training samples, and what it gains."""

    weights: SampleWeights
    local: LocalVariance
    space: str  # where neighbours were searched, in words
    # Whether that is what enters the network's last layer, and that layer alone was retrained.
    in_last_layer: bool
    gain: WeightGain | None  # scores with and without weights, where that was asked for
    method: str  # this weighting's name in `gain`
    search: WeightSearch | None = None  # of k and m, where that was asked for
    fitted: FittedNetwork | None = None  # M_f under the weights, of the first seed; with `gain`

    @property
    def sample_weight(self) -> Float[np.ndarray, " n"]:
        """The weights with a mean of 1, as they are written and as estimators take them."""
        return self.weights.weight * len(self.samples)

    @property
    def order(self) -> Int[np.ndarray, " n"]:
        """Positions, heaviest first, ties in the samples' order."""
        return np.argsort(-self.weights.weight, kind="stable")

    @property
    def heaviest(self) -> Int[np.ndarray, " tenth"]:
        """Positions of the heaviest tenth, at least one sample."""
        return self.order[: max(1, round(HEAVIEST * len(self.samples)))]

    @property
    def near(self) -> NeighborTargets:
        """The targets of each sample's neighbours."""
        return neighbor_targets(self.samples, self.local.neighbors.index)


@result
class _Space:
    """The features in which neighbours are searched, and the network where one is needed."""

    features: np.ndarray
    words: str
    watched: "Watched"
    problem: HeadProblem | None = None
    search: WeightSearch | None = None


def run(
    train: SampleSet, val: SampleSet, settings: WeighSettings, progress: Progress = silent
) -> WeighFindings:
    """Compute everything that `datassay weigh` shows, without writing anything."""
    started = time.perf_counter()
    check_against_samples(settings, train)
    settings = replace(settings, model=full_name(settings.model, train))
    space = _choose_features(train, val, settings, progress)
    search = space.search
    if search is not None:
        settings = replace(settings, n_neighbors=search.n_neighbors, max_ratio=search.max_ratio)
    progress("find neighbours", 0, 1)
    local = local_variance(space.features, train.y, settings.n_neighbors, search=settings.search)
    progress("find neighbours", 1, 1)

    def compute_weights(method: str) -> SampleWeights:
        """Return the weights by a method, from what was searched and trained above."""
        return weigh(
            method, train, local, space.watched, n_columns=space.features.shape[1],
            max_ratio=settings.max_ratio, density=settings.density,
        )  # fmt: skip

    ours = compute_weights(settings.method)
    gain = None
    fitted = None
    if settings.seeds:
        weightings = {METHODS[settings.method]: ours.weight}
        baseline = baseline_of(settings.method, train)
        if baseline is not None:
            weightings[METHODS[baseline]] = compute_weights(baseline).weight
        gain, fitted = _try_weights(train, val, settings, space.problem, weightings, progress)
    weights = settings.weights
    findings = WeighFindings(
        samples=train,
        validation=val,
        weights=ours,
        local=local,
        space=space.words,
        in_last_layer=space.problem is not None,
        gain=gain,
        method=METHODS[settings.method],
        search=search,
        fitted=fitted,
        warnings=() if weights is None else weights_choice(weights, _model(train, settings)),
    )
    closing = closing_facts(started, settings.seed, settings.command)
    return replace(findings, facts=_list_facts(findings, settings) | noise_facts(train) | closing)


def check_against_samples(settings: WeighSettings, train: SampleSet) -> None:
    """Raise if the settings do not suit the loaded samples."""
    check_n_neighbors(settings.n_neighbors, len(train))
    check_ratios(settings.max_ratio)
    if settings.method in NEEDS_CLASSES and not train.is_classification:
        raise SettingError(
            f"method {settings.method!r} needs classes; the targets are numbers. Take "
            "local_variance."
        )
    if _on_inputs(settings, train) and not settings.seeds and settings.method not in NEEDS_NETWORK:
        rule = "be left out where no network is trained or looked at, as with --seeds 0"
        is_read = settings.model == MODEL or asked_encoder(settings.model)
        require(is_read, "model", rule, settings.model)


def _model(train: SampleSet, settings: WeighSettings, offset: int = 0) -> nn.Module:
    """Build the network of the settings; the offset is added to their seed."""
    return build_model(settings.model, train, weights=settings.weights, seed=settings.seed + offset)


def _on_inputs(settings: WeighSettings, train: SampleSet) -> bool:
    """Return whether neighbours are searched among the inputs, not in a network's features."""
    # A search of k and m, or weights that are given, are of the network's features.
    may_choose = settings.features == "auto" and not settings.tune and settings.weights is None
    return settings.features == "inputs" or (may_choose and suits_inputs(train))


def _choose_features(
    train: SampleSet, val: SampleSet, settings: WeighSettings, progress: Progress
) -> _Space:
    """Return the features in which neighbours are searched, and their network if any."""
    on_inputs = _on_inputs(settings, train)
    watched = Watched()
    if not on_inputs or settings.method in NEEDS_NETWORK:
        watched = _train_watched(train, settings, progress)
    if on_inputs:
        features = standardized_inputs(train)
        width = count(features.shape[1], "column")
        return _Space(features, f"the standardised inputs, {width}", watched)
    assert watched.model is not None
    problem = head_problem(watched.model, train, val, progress=progress)
    search = None
    if settings.tune:
        max_k = min(MOST_K, len(train) // 2)
        min_k = min(FEWEST_K, max_k)
        search = search_weights(
            watched.model, train, n_trials=settings.tune, n_neighbors=(min_k, max_k),
            seeds=TUNE_SEEDS, search=settings.search, seed=settings.seed, progress=progress,
        )  # fmt: skip
    width = count(problem.features.shape[1], "feature")
    words = f"what enters the network's last layer, {width}"
    return _Space(problem.features.double().numpy(), words, watched, problem, search)


def _train_watched(train: SampleSet, settings: WeighSettings, progress: Progress) -> "Watched":
    """Return the trained network with what the method records during training."""
    model = _model(train, settings)
    if settings.weights is not None:
        return Watched(model)
    history = None
    observe = None
    if settings.method == "active_bias":
        history = PredictionHistory(len(train))
        observe = recorder(history, train)
    network = trained_network(model, train, seed=settings.seed, observe=observe, progress=progress)
    return Watched(network, history)


def _try_weights(
    train: SampleSet,
    val: SampleSet,
    settings: WeighSettings,
    problem: HeadProblem | None,
    weightings: dict[str, np.ndarray],
    progress: Progress,
) -> tuple[WeightGain, FittedNetwork]:
    """Return scores of trainings with each weighting and none, and our weights' network."""
    # Only the last layer is trained where `problem` is that layer's, else the whole network.
    seed = settings.seed
    ours = METHODS[settings.method]
    if problem is not None:
        gain = head_gain(
            problem, val, weightings, n_seeds=settings.seeds, seed=seed, progress=progress
        )
        network = retrain_head(problem, weightings[ours], seed)
    else:
        starts = [_model(train, settings, s) for s in range(settings.seeds)]
        recipe = network_recipe(len(train))
        gain, networks = network_gain(
            starts, train, val, weightings, recipe=recipe, seed=seed, progress=progress
        )
        network = taken_network(starts[0], networks[ours])
    return gain, FittedNetwork(settings.model, network, row_format(train))


def _list_facts(findings: WeighFindings, settings: WeighSettings) -> dict[str, str]:
    """Return the page's facts: name → text."""
    neighbors = findings.local.neighbors
    details = findings.weights.details
    recall = text_if(neighbors.search == "approximate", f", recall {neighbors.recall:.3f}")
    facts = {
        **data_facts(findings.samples, findings.validation),
        "Weights": findings.method,
        "Neighbours": f"k = {settings.n_neighbors} in {findings.space} ({neighbors.search} search"
        f"{recall})",
    }
    if settings.method in {"local_variance", "balanced_variance"}:
        facts["Largest weight"] = f"m = {settings.max_ratio:.3g} times the smallest possible"
        if settings.density:
            facts["Density"] = f"divided out, {details['density_clipped']:,} samples clipped"
    if findings.search is not None:
        facts["Search"] = f"{count(settings.tune, 'trial')} of k and m"
    if settings.seeds or findings.in_last_layer:
        source = ""
        file = settings.weights
        if file is not None:
            source = f", weights of {file.name}, {file_digest(file_and_place(file)[0])}"
        facts |= model_facts(settings.model, f"{settings.model}{source}")
    return facts


@result
class Watched:
    """A trained network, and the history of its predictions during training.

    Attributes:
        model: the network; None where no weighting and no features need one.
        history: of the probability of each sample's label; None unless it was recorded.
    """

    model: nn.Module | None = None
    history: PredictionHistory | None = None


def weigh(
    method: str,
    train: SampleSet,
    local: LocalVariance,
    watched: Watched,
    *,
    n_columns: int,
    max_ratio: float = 40,
    density: bool = False,
) -> SampleWeights:
    """Return the samples' weights by one of METHODS."""
    if method == "local_variance":
        clip = DENSITY_CLIP if density else None
        return weights_of_variance(local, train.ids, max_ratio, clip, n_columns)
    if method == "balanced_variance":
        weight = scaled_variance(local.variance, max_ratio)
        details = {"beta": BETA, "max_ratio": max_ratio}
        weight = balanced_variance_weights(train.y, weight, BETA)
        return SampleWeights(weight, train.ids, method, details)
    if method == "class_balanced":
        return SampleWeights(
            class_balanced_weights(train.y, BETA), train.ids, method, {"beta": BETA}
        )
    if method == "active_bias":
        assert watched.history is not None
        visits = int(watched.history.visits.min())
        weight = active_bias_weights(watched.history)
        return SampleWeights(weight, train.ids, method, {"fewest_visits": visits})
    assert watched.model is not None
    weight = self_paced_weights(_losses(watched.model, train), EASY, is_soft=True)
    return SampleWeights(weight, train.ids, method, {"fraction": EASY})


def baseline_of(method: str, train: SampleSet) -> str | None:
    """Return the weighting to compare a method with, or None.

    It is local variance; for local variance itself class-balanced weights, where they differ.
    """
    if method != "local_variance":
        return "local_variance"
    if not train.is_classification:
        return None
    weight = class_balanced_weights(train.y, BETA)
    if weight.max() > EVEN * weight.min():
        return "class_balanced"
    return None


def _losses(model: nn.Module, train: SampleSet) -> np.ndarray:
    network = TrainedNetworks(model, {n: p.detach()[None] for n, p in model.state_dict().items()})
    return sample_losses(network.outputs_in_parts(train.x), train, Recipe())[0].numpy()


def recorder(history: PredictionHistory, train: SampleSet):
    """Return an `observe` hook of `train_networks` that records predictions in a history."""
    y = torch.as_tensor(train.y)

    def observe(positions: Tensor, outputs: Tensor) -> None:
        history.record(positions, outputs, y)

    return observe
