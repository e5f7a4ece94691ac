"""The job of `datassay weigh`: find neighbours, weigh, try the weights, gather the findings."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from torch import nn

from datassay.act.weigh.features import (
    standardized_inputs,
    suits_inputs,
    trained_network,
)
from datassay.act.weigh.gain import (
    Boundary,
    WeightGain,
    decision_boundary,
    head_gain,
    in_the_plane,
    network_gain,
)
from datassay.act.weigh.methods import (
    METHODS,
    NEEDS_CLASSES,
    NEEDS_NETWORK,
    Watched,
    recorder,
    rival_of,
    weigh,
)
from datassay.act.weigh.reweight import HeadProblem, head_problem
from datassay.act.weigh.search import WeightSearch, search_weights
from datassay.act.weigh.weights import SampleWeights, check_ratios
from datassay.commands.facts import (
    closing_facts,
    data_facts,
    file_digest,
    model_facts,
    noise_facts,
)
from datassay.commands.weigh.command import WeighSettings
from datassay.commands.weigh.findings import WeighFindings
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.models.checkpoints import file_and_place
from datassay.models.names import full_name
from datassay.models.weights import weights_choice
from datassay.progress import Progress, silent
from datassay.report.wording import count
from datassay.results import result
from datassay.score.neighbors.local_variance import LocalVariance, local_variance
from datassay.score.neighbors.search import check_n_neighbors, check_search
from datassay.train.history import PredictionHistory
from datassay.train.recipe import network_recipe

FEATURES = ("auto", "inputs", "model")
FEWEST_K, MOST_K = 5, 50
TUNE_SEEDS = (0, 1, 2)


def run(
    train: SampleSet, val: SampleSet, settings: WeighSettings, progress: Progress = silent
) -> WeighFindings:
    """Everything `datassay weigh` computes, without writing anything."""
    started = time.perf_counter()
    check_against_samples(settings, train)
    settings = replace(settings, model=full_name(settings.model, train))
    job = _Job.prepared(train, val, settings, progress)
    settings = job.settings
    progress("find neighbours", 0, 1)
    local = local_variance(job.features, train.y, settings.n_neighbors, search=settings.search)
    progress("find neighbours", 1, 1)
    ours = job.weigh(settings.method, local)
    gain, boundary = job.tried(local, ours) if settings.seeds else (None, None)
    facts = _facts(train, val, job, local, ours)
    facts |= closing_facts(started, settings.seed, settings.command)
    return WeighFindings(
        samples=train,
        validation=val,
        weights=ours,
        local=local,
        space=job.space,
        in_last_layer=job.problem is not None,
        gain=gain,
        method=METHODS[settings.method],
        boundary=boundary,
        search=job.search,
        facts=facts,
        warnings=_of_weights(train, settings),
    )


def check_against_samples(settings: WeighSettings, train: SampleSet) -> None:
    """Refuse, before any work is done, what cannot be."""
    for name, value, allowed in (
        ("method", settings.method, tuple(METHODS)),
        ("features", settings.features, FEATURES),
    ):
        if value not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
    check_n_neighbors(settings.n_neighbors, len(train))
    check_search(settings.search)
    check_ratios(settings.max_ratio)
    if settings.tune < 0 or settings.seeds < 0 or settings.seeds == 1:
        raise SettingError(
            "tune must be at least 0, and seeds 0 (do not try the weights) or at least 2; got "
            f"{settings.tune} and {settings.seeds}."
        )
    local = settings.method == "local_variance"
    if settings.tune and (not local or settings.features == "inputs"):
        raise SettingError(
            "tune searches k and m of local variance by retraining a last layer; got method "
            f"{settings.method!r}, features {settings.features!r}. Leave both out."
        )
    if settings.density and not local:
        raise SettingError(
            f"density corrects local variance only; got method {settings.method!r}. Leave it out."
        )
    if settings.method in NEEDS_CLASSES and not train.is_classification:
        raise SettingError(
            f"method {settings.method!r} needs classes; the targets are numbers. Take "
            "local_variance."
        )
    if settings.method == "active_bias" and settings.weights is not None:
        raise SettingError(
            "active_bias watches the network while it is trained; with --weights it is not. Leave "
            "them out."
        )


@result
class _Job:
    """What is known before the weights are: the network where one is needed, and features."""

    train: SampleSet
    val: SampleSet
    settings: WeighSettings
    progress: Progress
    watched: Watched
    problem: HeadProblem | None
    features: np.ndarray
    search: WeightSearch | None

    @classmethod
    def prepared(
        cls, train: SampleSet, val: SampleSet, settings: WeighSettings, progress: Progress
    ) -> _Job:
        inputs = settings.features == "inputs" or (
            settings.features == "auto"
            and suits_inputs(train)
            and not settings.tune
            and settings.weights is None
        )
        watched = Watched()
        if not inputs or settings.method in NEEDS_NETWORK:
            watched = _watched(train, settings, progress)
        if inputs:
            return cls(
                train, val, settings, progress, watched, None, standardized_inputs(train), None
            )
        assert watched.model is not None
        problem = head_problem(watched.model, train, val, progress=progress)
        search = _tuned(watched.model, train, settings, progress) if settings.tune else None
        if search is not None:
            settings = replace(settings, n_neighbors=search.n_neighbors, max_ratio=search.max_ratio)
        features = problem.features.double().numpy()
        return cls(train, val, settings, progress, watched, problem, features, search)

    @property
    def space(self) -> str:
        """Where neighbours are searched, in words."""
        if self.problem is None:
            return f"the standardised inputs, {count(self.features.shape[1], 'column')}"
        width = count(self.features.shape[1], "feature")
        return f"what enters the network's last layer, {width}"

    def weigh(self, method: str, local: LocalVariance) -> SampleWeights:
        return weigh(
            method,
            self.train,
            local,
            self.watched,
            n_columns=self.features.shape[1],
            max_ratio=self.settings.max_ratio,
            density=self.settings.density,
        )

    def tried(
        self, local: LocalVariance, ours: SampleWeights
    ) -> tuple[WeightGain, Boundary | None]:
        """Scores with and without the weights, and with the usual rival's."""
        settings = self.settings
        weightings = {METHODS[settings.method]: ours.weight}
        rival = rival_of(settings.method, self.train)
        if rival is not None:
            weightings[METHODS[rival]] = self.weigh(rival, local).weight
        if self.problem is not None:
            gain = head_gain(
                self.problem,
                self.val,
                weightings,
                n_seeds=settings.seeds,
                seed=settings.seed,
                progress=self.progress,
            )
            return gain, None
        gain, networks = network_gain(
            [_model(self.train, settings, s) for s in range(settings.seeds)],
            self.train,
            self.val,
            weightings,
            recipe=network_recipe(len(self.train)),
            seed=settings.seed,
            progress=self.progress,
        )
        pair = list(networks.values())[:2]
        return gain, decision_boundary(self.train, pair) if in_the_plane(self.train) else None


def _model(train: SampleSet, settings: WeighSettings, offset: int = 0) -> nn.Module:
    return build_model(settings.model, train, weights=settings.weights, seed=settings.seed + offset)


def _of_weights(train: SampleSet, settings: WeighSettings) -> tuple[str, ...]:
    if settings.weights is None:
        return ()
    return weights_choice(settings.weights, _model(train, settings))


def _watched(train: SampleSet, settings: WeighSettings, progress: Progress) -> Watched:
    """The trained network, and what was seen while it was trained."""
    model = _model(train, settings)
    if settings.weights is not None:
        return Watched(model)
    history = observe = None
    if settings.method == "active_bias":
        history = PredictionHistory(len(train))
        observe = recorder(history, train)
    network = trained_network(model, train, seed=settings.seed, observe=observe, progress=progress)
    return Watched(network, history)


def _tuned(
    model: nn.Module, train: SampleSet, settings: WeighSettings, progress: Progress
) -> WeightSearch:
    most = min(MOST_K, len(train) // 2)
    return search_weights(
        model,
        train,
        n_trials=settings.tune,
        n_neighbors=(min(FEWEST_K, most), most),
        seeds=TUNE_SEEDS,
        search=settings.search,
        seed=settings.seed,
        progress=progress,
    )


def _facts(
    train: SampleSet, val: SampleSet, job: _Job, local: LocalVariance, ours: SampleWeights
) -> dict[str, str]:
    settings = job.settings
    near = local.neighbors
    recall = f", recall {near.recall:.3f}" if near.search == "approximate" else ""
    facts = {
        **data_facts(train, val),
        "Weights": METHODS[settings.method],
        "Neighbours": f"k = {settings.n_neighbors} in {job.space} ({near.search} search{recall})",
    }
    if settings.method == "local_variance":
        facts["Largest weight"] = f"m = {settings.max_ratio:.3g} times the smallest possible"
        if settings.density:
            facts["Density"] = f"divided out, {ours.details['density_clipped']:,} samples clipped"
    if job.search is not None:
        facts["Search"] = f"{count(settings.tune, 'trial')} of k and m"
    if settings.seeds or job.problem is not None:
        file = settings.weights
        digest = "" if file is None else file_digest(file_and_place(file)[0])
        came = "" if file is None else f", weights of {file.name}, {digest}"
        facts |= model_facts(settings.model, f"{settings.model}{came}")
    return facts | noise_facts(train)
