"""The job of `datassay bench DATA`: score, retrain on halves, compare."""

from __future__ import annotations

import time
from dataclasses import field, replace
from typing import Any

import numpy as np

from datassay.commands.bench.settings import TrustSettings
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.data.samples import SampleSet
from datassay.data.settings import check_seed
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.models.estimators import checked_estimator, is_estimator, named_estimator
from datassay.models.names import full_name
from datassay.models.reference import is_reference
from datassay.models.weights import weights_choice
from datassay.progress import Progress, silent
from datassay.report.wording import count, number, percent
from datassay.results import result
from datassay.score.compare.halves import FEWEST, MOST, retrained_halves
from datassay.score.compare.scores import standard_scores
from datassay.score.compare.trust import TrustCheck, trust_check
from datassay.setting import default_of

# Halves and updates of the two short studies that a plan times.
SHORT, TIMED = 4, (5, 30)
MOST_HALVES, MOST_STEPS = 10_000, 1_000_000


@result
class TrustFindings:
    """A trust check and what it was made of.

    Attributes:
        samples: the training samples.
        queries: those held out whose predictions were asked about.
        model: as the user named it.
        check: the correlations and verdicts.
        fit: accuracy of the trained networks on the queries, or R².
        seconds: of retraining.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    queries: SampleSet
    model: str
    check: TrustCheck
    fit: float
    seconds: float
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def run(
    train: SampleSet, val: SampleSet, settings: TrustSettings, progress: Progress = silent
) -> TrustFindings:
    """Everything `datassay bench DATA` computes, without writing anything."""
    started = time.perf_counter()
    check_settings(settings)
    settings = replace(settings, model=full_name(settings.model, train))
    make, queries = model_of(train, settings), some_of(val, settings)
    scores = standard_scores(
        make, train, queries, recipe=settings.recipe, seed=settings.seed, progress=progress
    )
    halves = retrained_halves(
        make, train, queries, recipe=settings.recipe, halves=settings.halves,
        seconds=60 * settings.minutes, seed=settings.seed, store=settings.store, progress=progress,
    )  # fmt: skip
    check = trust_check(halves, scores, seed=settings.seed)
    findings = TrustFindings(train, queries, settings.model, check, scores.fit, halves.seconds)
    trained = _estimator_facts(make, settings) if is_estimator(make) else _network_facts(settings)
    facts = _facts(findings) | trained | closing_facts(started, settings.seed, settings.command)
    choice = () if settings.weights is None else weights_choice(settings.weights, make(0))
    return replace(findings, facts=facts, warnings=choice)


def check_settings(settings: TrustSettings, *, only_plan: bool = False) -> None:
    """Refuse, before anything is loaded, what cannot be."""
    check_seed(settings.seed)
    if not 0 < settings.minutes <= 1e6:
        raise SettingError(f"minutes must be positive; got {settings.minutes:g}.")
    if settings.halves is not None and not FEWEST <= settings.halves <= MOST_HALVES:
        raise SettingError(
            f"halves must be at least {FEWEST}, so that intervals mean something, and at most "
            f"{MOST_HALVES:,}; got {settings.halves}."
        )
    if not 1 <= settings.steps <= MOST_STEPS:
        raise SettingError(f"steps must be 1 to {MOST_STEPS:,}; got {settings.steps}.")
    if settings.n_queries < 2:
        raise SettingError(f"queries must be at least 2; got {settings.n_queries}.")


def model_of(train: SampleSet, settings: TrustSettings) -> Any:
    """From a seed to the user's network at the weights it starts from; or their estimator.

    Args:
        train: the samples that it is built for.
        settings: name it.

    Returns:
        What `retrained_halves` takes.

    Raises:
        SettingError: an estimator is given what only networks have.
    """
    own = named_estimator(settings.model) if is_reference(settings.model) else None
    if own is None:
        return lambda seed: build_model(settings.model, train, weights=settings.weights, seed=seed)
    for name in ("weights", "optimizer", "lr", "steps", "batch_size", "weight_decay"):
        if getattr(settings, name) != default_of(TrustSettings, name):
            raise SettingError(
                f"{name.replace('_', '-')} is of networks; {settings.model} is a scikit-learn "
                "estimator. Leave it out."
            )
    return checked_estimator(own, is_classification=train.is_classification)


def some_of(val: SampleSet, settings: TrustSettings) -> SampleSet:
    """The queries: held-out samples, drawn where there are more than are asked about."""
    if len(val) <= settings.n_queries:
        return val
    drawn = np.random.default_rng(settings.seed).permutation(len(val))[: settings.n_queries]
    return val.subset(np.sort(drawn))


def plan_lines(train: SampleSet, val: SampleSet, settings: TrustSettings) -> list[str]:
    """What `run` would train, by the time of some updates, or of some fits."""
    settings = replace(settings, model=full_name(settings.model, train))
    make, queries, recipe = model_of(train, settings), some_of(val, settings), settings.recipe
    took = [
        retrained_halves(
            make, train, queries, recipe=replace(recipe, steps=steps), halves=SHORT
        ).seconds
        for steps in (1, *TIMED)  # the first call also starts the libraries
    ]
    update = max(0.0, took[2] - took[1]) / (TIMED[1] - TIMED[0])
    more = 0 if is_estimator(make) else recipe.steps - TIMED[0]
    each = (took[1] + update * more) / SHORT
    halves = settings.halves or int(np.clip(60 * settings.minutes / each, FEWEST, MOST))
    return [
        f"{count(halves, 'half', 'halves')} of {len(train):,} samples, two fits each: "
        f"{count(2 * halves, 'fit')} beside those on all samples.",
        f"About {each:.2g} s a half, {each * halves:.0f} s in all; at least {FEWEST} halves are "
        "fitted. Scores come on top. Nothing was run.",
    ]


def _facts(findings: TrustFindings) -> dict[str, str]:
    train, check = findings.samples, findings.check
    fit = percent(round(findings.fit, 3)) + " of the queries right"
    return {
        **data_facts(train, findings.queries),
        "Fit": fit if train.is_classification else f"R² {number(findings.fit)} on the queries",
        "Retraining": f"{check.n_halves} random halves, two fits each, in "
        f"{findings.seconds:.0f} s; --halves {check.n_halves} repeats them",
    }


def _network_facts(settings: TrustSettings) -> dict[str, str]:
    recipe = settings.recipe
    batch = "all samples" if recipe.batch_size is None else f"{recipe.batch_size} samples"
    start = "drawn anew" if settings.weights is None else f"those of {settings.weights.name}"
    return model_facts(settings.model, f"{settings.model}, first weights {start}") | {
        "Training": f"{recipe.optimizer}, step size {recipe.lr:g}, {recipe.steps:,} updates of "
        f"{batch}, weight decay {recipe.weight_decay:g}",
    }


def _estimator_facts(estimator: Any, settings: TrustSettings) -> dict[str, str]:
    return model_facts(settings.model, f"{type(estimator).__name__}, fitted anew") | {
        "Scores": "labels are judged by your model; effects, information and left-out loss are of "
        "the default network, linearised, as in datassay run"
    }
