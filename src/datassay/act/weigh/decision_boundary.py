"""Where networks in the plane change their mind (S0 Fig. 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.train.training import TrainedNetworks

GRID = 90
MARGIN = 0.06


@result
class Boundary:
    """The lead of each class over the others on a grid of two inputs.

    Attributes:
        horizontal: [g], of the first column.
        vertical: [g], of the second.
        lead: [M, K, g, g], by trainings, class, vertical and horizontal: probability of the class
            minus that of the best other one, each the mean over seeds. 0 is the boundary.
    """

    horizontal: Float[np.ndarray, " g"]
    vertical: Float[np.ndarray, " g"]
    lead: Float[np.ndarray, "M K g g"]


def in_the_plane(samples: SampleSet) -> bool:
    """Whether a boundary can be drawn: classes of rows with two columns."""
    return samples.is_classification and samples.kind == "row" and samples.input_shape == (2,)


def decision_boundary(samples: SampleSet, trainings: Sequence[TrainedNetworks]) -> Boundary:
    """Where the networks of each training change their mind."""
    # Cost: M passes of 8100 points.
    x = np.asarray(samples.x, np.float64)
    margin = MARGIN * (x.max(0) - x.min(0))
    ends = zip(x.min(0) - margin, x.max(0) + margin, strict=True)
    axes = [np.linspace(low, high, GRID) for low, high in ends]
    points = torch.as_tensor(np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)).float()
    leads = []
    for networks in trainings:
        outputs = networks.outputs(points).double()  # [S, g g, k]
        if outputs.shape[2] == 1:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 2)
        chance = outputs.softmax(2).mean(0)
        top = chance.topk(2, 1).values
        best_other = torch.where(chance == top[:, :1], top[:, 1:], top[:, :1])
        leads.append((chance - best_other).T.reshape(-1, GRID, GRID).numpy())
    return Boundary(axes[0], axes[1], np.stack(leads))
