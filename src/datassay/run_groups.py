"""What the main job says of several samples at once: classes, sources, and pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.progress import Progress
from datassay.run_settings import RunSettings
from datassay.score.aggregate import aggregate
from datassay.score.dynamics import N_NODES
from datassay.score.group_information import SMOOTHINGS, GroupInformation, group_information
from datassay.score.group_removal import removal_work
from datassay.score.information import SampleInformation
from datassay.score.nearest_pairs import nearest_pairs
from datassay.score.pair_information import PairInformation, pair_information

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
    """Information by class and by source, where the samples have them.

    Args:
        lin: of the samples.
        train: the samples.
        information: theirs.
        settings: of the run; its seed is that of the bootstrap.
        progress: called with (step, groups done, groups in all).

    Returns:
        The findings' `groups`, sums over samples, `whole_groups` and `pairs`. A single class or
        source is no comparison and left out.
    """
    sums = {
        by: aggregate(information.information, names, seed=settings.seed)
        for by, names in _labels(train).items()
    }
    whole = whole_groups(lin, train, settings, progress)
    return {"groups": sums, "whole_groups": whole, "pairs": likest_pairs(lin, settings, progress)}


def whole_groups(
    lin: Linearization, train: SampleSet, settings: RunSettings, progress: Progress
) -> dict[str, GroupInformation]:
    """Information that each class and each source holds as one: lost when all of it is left out.

    Args:
        lin: of the samples.
        train: the samples.
        settings: of the run.
        progress: called with (step, groups done, groups in all).

    Returns:
        "class" and "source" → nats a group, of smoothings that groups have; without those whose
        removal would take minutes.
    """
    if settings.smoothing not in SMOOTHINGS:
        return {}
    found = {}
    p = lin.form.eigenproblem
    for by, names in _labels(train).items():
        sizes = np.unique(names, return_counts=True)[1].tolist()
        work = removal_work(len(train), lin.rows_per_sample, p, sizes, N_NODES // 2)
        if work <= MOST_GROUP_WORK:
            found[by] = group_information(
                lin, names, smoothing=settings.smoothing, sigma=settings.sigma,
                progress=progress, **settings.dynamics_settings,
            )  # fmt: skip
    return found


def likest_pairs(
    lin: Linearization, settings: RunSettings, progress: Progress
) -> PairInformation | None:
    """Information of each sample together with the one most like it.

    Args:
        lin: of the samples.
        settings: of the run.
        progress: called with (step, pairs done, pairs in all).

    Returns:
        At most n pairs; None where that would take long, or of a smoothing that pairs do not have.
    """
    n, b, p = len(lin), lin.rows_per_sample, lin.form.eigenproblem
    m = n if lin.val_outputs is None else len(lin.val_outputs)
    work = 4.0 * n * p * (m * b + 60 * b) * lin.form.n_outputs / b + 2.0 * n * n * b * p
    if settings.smoothing not in SMOOTHINGS or work > MOST_GROUP_WORK or n < FEWEST_FOR_PAIRS:
        return None
    pairs = nearest_pairs(lin)
    if not len(pairs):
        return None
    return pair_information(
        lin, pairs, smoothing=settings.smoothing, sigma=settings.sigma, progress=progress,
        **settings.dynamics_settings,
    )  # fmt: skip


def _labels(train: SampleSet) -> dict[str, np.ndarray]:
    labels = {}
    if train.is_classification:
        labels["class"] = np.array(train.class_names)[train.y]
    if train.source is not None:
        labels["source"] = train.source
    return {by: names for by, names in labels.items() if len(np.unique(names)) > 1}
