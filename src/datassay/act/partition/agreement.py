"""Agreement of blocks with the truth, beside the best that a model of the true blocks reaches."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn
from torch.nn import functional

from datassay.act.partition.block_count import fold_numbers
from datassay.act.partition.blocks import Partition, gate_inputs
from datassay.act.partition.mixture import MixtureProblem, log_densities, log_prior
from datassay.act.settings import Division
from datassay.collect.curvature.output_geometry import output_geometry
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError

FOLDS = 10


@checks_arguments
def agreement(partition: Partition, train: SampleSet) -> float:
    """Adjusted Rand index between blocks and sources: 1 for the same, about 0 for chance.

    Args:
        partition: the blocks.
        train: what was divided, with `source`.

    Returns:
        The index (Hubert and Arabie, 1985).

    Raises:
        DataError: the samples have no source, or their number differs.
    """
    source = _sources(train)
    if len(partition.block) != len(source):
        raise DataError(
            f"samples must be those that were divided, {len(partition.block)}; got {len(source)}."
        )
    return float(adjusted_rand_score(source, partition.block))


@checks_arguments
def oracle_agreement(
    model: nn.Module,
    train: SampleSet,
    *,
    loss: str = Division.loss,
    ridge: float = Division.ridge,
    is_gated: bool = False,
    seed: int = Division.seed,
) -> float:
    """The index when samples are assigned by models (and shares) fitted on the true blocks.

    Where the blocks' rules give an input the same target nothing can tell them apart, so that this
    is below 1. A sample is assigned by models that did not see it: one that did would claim it.

    Args:
        model: as `partition` takes it.
        train: with `source`.
        loss: as `partition` takes it.
        ridge: of each model.
        is_gated: whether the share of a block may depend on the input.
        seed: of the ten folds.

    Returns:
        The index.

    Raises:
        DataError: the samples have no source.
    """
    source = _sources(train)
    block = torch.from_numpy(np.unique(source, return_inverse=True)[1])
    geometry = output_geometry(model, train, loss)
    problem = MixtureProblem(
        geometry.features,
        geometry.targets,
        geometry.loss,
        ridge,
        gate_inputs(geometry) if is_gated else None,
    )
    folds = fold_numbers(geometry.targets, geometry.loss, FOLDS, seed)
    training = (folds != torch.arange(FOLDS)[:, None]).double()
    truth = functional.one_hot(block).T.double().expand(FOLDS, -1, -1).contiguous()
    runs = problem.fitted(truth, training)
    joint = log_prior(runs.mixing, runs.gate, problem.gate_inputs) + log_densities(
        geometry.features.outputs(runs.weights), geometry.targets, geometry.loss, runs.noise
    )
    assigned = joint.argmax(1)[folds, torch.arange(len(folds))]
    return float(adjusted_rand_score(source, assigned.numpy()))


def _sources(train: SampleSet) -> np.ndarray:
    if train.source is None:
        raise DataError(
            "samples must have a source, so that blocks can be compared with it; got none. Load "
            "them with source=..."
        )
    return train.source
