"""Removal at trained weights with Gauss–Newton's H and each sample's own leverage."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from datassay.collect.collect import collect
from datassay.score.attribution import OutputChanges
from datassay.score.gauss_newton import gauss_newton
from datassay.score.influence_problem import Problem


def leveraged(problem: Problem) -> Iterator[OutputChanges]:
    """Collect the Jacobians at the trained weights, and take the second-order step.

    Args:
        problem: the network, samples and queries.

    Yields:
        Chunks in sample order.

    Raises:
        SettingError: damping and weight decay are both 0.

    Cost: one pass for the Jacobians, and that of `gauss_newton`.
    Source: METHODS §3. H is positive semidefinite wherever the weights are, so damping alone
    decides whether it can be inverted.
    """
    lin = collect(
        problem.model,
        problem.train,
        problem.val,
        projection=None,
        outputs="joint",
        allow_trained=True,
        progress=problem.progress,
    )
    chunks = gauss_newton(lin, problem.at.loss, problem.penalty)
    if problem.removed is None:
        yield from chunks
        return
    parts = list(chunks)  # the leverages of all samples come together anyway
    chosen = torch.tensor(problem.removed)
    outputs = torch.cat([part.outputs for part in parts])[chosen]
    yield OutputChanges(0, outputs, torch.cat([part.weights for part in parts])[chosen])
