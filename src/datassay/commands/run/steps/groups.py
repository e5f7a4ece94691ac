"""Scores of several samples at once: classes, sources and pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from datassay.collect.form import Form
from datassay.collect.linearization import Linearization
from datassay.commands.run.settings import RunSettings
from datassay.data.samples import SampleSet
from datassay.progress import Progress
from datassay.score.compare.aggregate import aggregate
from datassay.score.information.group_removal import removal_work
from datassay.score.information.groups import SMOOTHINGS, GroupInformation, group_information
from datassay.score.information.pairs import PairInformation, nearest_pairs, pair_information
from datassay.score.linear.training_run import N_NODES
from datassay.score.sample_information import SampleInformation

# Beyond so many operations (about 4 seconds) whole groups, or pairs, are left out.
MOST_GROUP_WORK = 3e11
FEWEST_FOR_PAIRS = 3


def by_group(
    lin: Linearization,
    train: SampleSet,
    information: SampleInformation,
    settings: RunSettings,
    progress: Progress,
) -> dict[str, Any]:
    """Information by class and by source, where the samples have several; and of pairs.

    Returns:
        The findings' `groups`, sums over samples, `whole_groups` and `pairs`.
    """
    sums = {
        by: aggregate(information.information, names, seed=settings.seed)
        for by, names in _labels(train).items()
    }
    whole = whole_groups(lin, train, settings, progress)
    return {
        "groups": sums,
        "whole_groups": whole,
        "pairs": likest_pairs(lin, settings, progress),
    }


def whole_groups(
    lin: Linearization, train: SampleSet, settings: RunSettings, progress: Progress
) -> dict[str, GroupInformation]:
    """Information that each class and each source holds as one: lost when all of it is left out.

    Returns:
        "class" and "source" → nats a group, of smoothings that groups have; without those whose
        removal would take minutes.
    """
    if settings.smoothing not in SMOOTHINGS:
        return {}
    whole, work = {}, group_work(train, lin.form)
    for by, names in _labels(train).items():
        if work[by] <= MOST_GROUP_WORK:
            whole[by] = group_information(
                lin, names, smoothing=settings.smoothing, sigma=settings.sigma,
                progress=progress, **settings.dynamics_settings,
            )  # fmt: skip
    return whole


def likest_pairs(
    lin: Linearization, settings: RunSettings, progress: Progress
) -> PairInformation | None:
    """Information of each sample together with the one most like it.

    Returns:
        At most n pairs; None where that would take long, or of a smoothing that pairs do not have.
    """
    n = len(lin)
    m = n if lin.val_outputs is None else len(lin.val_outputs)
    work = pair_work(n, m, lin.form)
    if settings.smoothing not in SMOOTHINGS or work > MOST_GROUP_WORK or n < FEWEST_FOR_PAIRS:
        return None
    pairs = nearest_pairs(lin)
    if not len(pairs):
        return None
    return pair_information(
        lin, pairs, smoothing=settings.smoothing, sigma=settings.sigma, progress=progress,
        **settings.dynamics_settings,
    )  # fmt: skip


def group_work(train: SampleSet, form: Form) -> dict[str, float]:
    """Additions and multiplications that leaving out whole groups takes, by class and source."""
    n, b = len(train), form.n_rows // len(train)
    sizes = {
        by: np.unique(names, return_counts=True)[1].tolist() for by, names in _labels(train).items()
    }
    return {by: removal_work(n, b, form.eigenproblem, s, N_NODES // 2) for by, s in sizes.items()}


def pair_work(n: int, m: int, form: Form) -> float:
    """Additions and multiplications that finding and leaving out n pairs takes, of m queries."""
    p, b = form.eigenproblem, form.n_rows // n
    return 4.0 * n * p * (m + 60) * form.n_outputs + 2.0 * n * n * b * p


def _labels(train: SampleSet) -> dict[str, np.ndarray]:
    labels = {}
    if train.is_classification:
        labels["class"] = np.array(train.class_names)[train.y]
    if train.source is not None:
        labels["source"] = train.source
    return {by: names for by, names in labels.items() if len(np.unique(names)) > 1}
