"""What the main job says of classes and sources: sums over their samples, and each as one."""

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

# Beyond so many operations (about 4 seconds) the removal of whole groups is left out.
MOST_GROUP_WORK = 3e11


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
        The findings' `groups`, sums over samples, and `whole_groups`. A single class or source is
        no comparison and left out.
    """
    sums = {
        by: aggregate(information.information, names, seed=settings.seed)
        for by, names in _labels(train).items()
    }
    return {"groups": sums, "whole_groups": whole_groups(lin, train, settings, progress)}


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


def _labels(train: SampleSet) -> dict[str, np.ndarray]:
    labels = {}
    if train.is_classification:
        labels["class"] = np.array(train.class_names)[train.y]
    if train.source is not None:
        labels["source"] = train.source
    return {by: names for by, names in labels.items() if len(np.unique(names)) > 1}
