"""What actions would gain in closed form: kernel ridge regression, other targets, weights, samples.

f(X') = K(X', S) (K(S, S) + λ diag(w)⁻¹)⁻¹ y(S),  S the samples kept, w their weights, mean 1

λ is the penalty of the label scores. It takes a factorisation per action and no training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.act.choose.action import Action
from datassay.act.choose.parts import Yardstick
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result
from datassay.score.checks.weak_groups import WeakGroup

# Training samples that the screen looks at; of more, as many at random.
MOST = 2000
# Groups of which halves are left out, and samples that one must have.
MOST_GROUPS, FEWEST = 50, 8


@result
class Screen:
    """Kernel ridge regression on some training samples, judged on the held-out ones.

    Attributes:
        chosen: [s] positions in train.
        kernel: K(S, S), [s, s] float64.
        across: K(held out, S), [m, s].
        penalty: λ, kernel unit.
        yardstick: of the held-out samples.
    """

    chosen: np.ndarray
    kernel: Float[Tensor, "s s"]
    across: Float[Tensor, "m s"]
    penalty: float
    yardstick: Yardstick

    def scores(self, action: Action, train: SampleSet) -> Float[np.ndarray, " m"]:
        """What each held-out sample adds to the score after an action, in closed form."""
        weights = action.weights[self.chosen]
        if action.blocks is None:
            outputs = self._outputs(action.labels, weights, train)
        else:
            share = torch.from_numpy(action.blocks.weights(self.yardstick.held_out))
            outputs = torch.zeros(len(self.across), 1, dtype=torch.float64)
            for k, members in enumerate(action.blocks.members):
                inside = weights * np.isin(self.chosen, members)
                outputs = outputs + share[:, k, None] * self._outputs(action.labels, inside, train)
        return self.yardstick.scores(outputs.numpy()[None])[0]

    def without(
        self, removed: np.ndarray, train: SampleSet, inverse: Float[Tensor, "s s"]
    ) -> float:
        """The score without some of the training samples, [n] bool; by (K(S, S) + λ)⁻¹."""
        gone = removed[self.chosen]
        targets, center = _targets(train.y[self.chosen], ~gone, train)
        solved, out = inverse @ (targets - center), torch.from_numpy(np.flatnonzero(gone))
        # The inverse of a block: what is left out has the coefficient 0.
        own = torch.linalg.solve(inverse[out][:, out], solved[out])
        outputs = self.across @ (solved - inverse[:, out] @ own) + center
        return float(self.yardstick.scores(outputs.numpy()[None])[0].mean())

    def inverse(self) -> Float[Tensor, "s s"]:
        """(K(S, S) + λ)⁻¹."""
        return torch.cholesky_inverse(_factor(self.kernel.clone(), self.penalty))

    def _outputs(
        self, labels: np.ndarray, weights: np.ndarray, train: SampleSet
    ) -> Float[Tensor, "m k"]:
        kept = np.flatnonzero(weights)
        w = torch.from_numpy(weights[kept] / weights[kept].mean())
        index = torch.from_numpy(kept)
        targets, center = _targets(labels[self.chosen][kept], ..., train)
        factor = _factor(self.kernel[index][:, index].clone(), self.penalty / w)
        solved = torch.cholesky_solve(targets - center, factor)
        return self.across[:, index] @ solved + center


def _targets(labels: np.ndarray, kept: Any, train: SampleSet) -> tuple[Tensor, Tensor]:
    """What is fitted, [s, k], and its mean over those kept; 0 of classes."""
    given = torch.from_numpy(labels)
    if train.is_classification:
        return torch.eye(train.n_classes).double()[given], torch.zeros(1)
    targets = given.double().reshape(len(given), -1)
    return targets, targets[kept].mean(0)


def _factor(gram: Tensor, penalty: Tensor | float) -> Tensor:
    gram.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed):
        raise DataError("the kernel is singular to rounding; no closed form can be computed.")
    return factor


def screen(
    lin: Linearization, train: SampleSet, penalty: float, yardstick: Yardstick, seed: int
) -> Screen:
    """Prepare the screen."""
    rng = np.random.default_rng((seed, 2))
    chosen = np.sort(rng.permutation(len(train))[:MOST])
    part = lin.subset(chosen).averaged() if len(chosen) < len(train) else lin.averaged()
    if part.kernel is not None:
        assert part.val_kernel is not None
        kernel, across = part.kernel.double(), part.val_kernel.double()
    else:
        assert part.features is not None and part.val_features is not None
        rows, others = (f[0 : len(f)].double() for f in (part.features, part.val_features))
        kernel, across = rows @ rows.T, others @ rows.T
    return Screen(chosen, kernel, across, penalty, yardstick)


def most_wanted(
    closed: Screen, train: SampleSet, seed: int, weak: Sequence[WeakGroup] = ()
) -> tuple[str, float, np.ndarray] | None:
    """Which class, source or weak group half left out costs most: name, cost, ids of members."""
    inverse = closed.inverse()
    base = closed.without(np.zeros(len(train), bool), train, inverse)
    worst, lost = None, 2 / len(closed.across)
    rng = np.random.default_rng((seed, 4))
    regions = [("samples where", ("", one.words), one.samples.astype(int)) for one in weak]
    for kind, names, group in (*_groups(train), *regions):
        for g in np.unique(group[closed.chosen]):
            members = closed.chosen[group[closed.chosen] == g]
            if not names[g] or not FEWEST <= len(members) < len(closed.chosen):
                continue
            removed = np.zeros(len(train), bool)
            removed[rng.permutation(members)[: len(members) // 2]] = True
            if (cost := base - closed.without(removed, train, inverse)) > lost:
                worst, lost = (f"{kind} {names[g]}", cost, train.ids[members]), cost
    return worst


def _groups(train: SampleSet) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """(what, names, group of each sample), where there are from 2 to 50 groups."""
    groups: list[tuple[str, tuple[str, ...], np.ndarray]] = []
    if train.is_classification:
        groups += [("class", train.class_names, train.y)]
    if train.source is not None:
        names, index = np.unique(train.source.astype(str), return_inverse=True)
        groups += [("source", tuple(names), index)]
    return [one for one in groups if 2 <= len(one[1]) <= MOST_GROUPS]
