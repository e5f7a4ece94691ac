"""What actions would gain in closed form: kernel ridge regression, other targets, weights, samples.

f(X') = K(X', S) (K(S, S) + λ diag(w)⁻¹)⁻¹ y(S),  S the samples kept, w their weights, mean 1

λ is the penalty of the label scores. It takes a factorisation per action and no training.
"""

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
        index: [s] positions in train.
        kernel: K(S, S), [s, s] float64.
        across: K(held out, S), [m, s].
        penalty: λ, kernel unit.
        yardstick: of the held-out samples.
    """

    index: np.ndarray
    kernel: Float[Tensor, "s s"]
    across: Float[Tensor, "m s"]
    penalty: float
    yardstick: Yardstick

    def scores(self, action: Action, train: SampleSet) -> Float[np.ndarray, " m"]:
        """Return what each held-out sample adds to the score after an action, in closed form."""
        weights = action.weights[self.index]
        if action.blocks is None:
            outputs = self._outputs(action.labels, weights, train)
        else:
            share = torch.from_numpy(action.blocks.weights(self.yardstick.held_out))
            outputs = torch.zeros(len(self.across), 1, dtype=torch.float64)
            for k, members in enumerate(action.blocks.members):
                inside = weights * np.isin(self.index, members)
                outputs = outputs + share[:, k, None] * self._outputs(action.labels, inside, train)
        return self.yardstick.scores(outputs.numpy()[None])[0]

    def score_without(
        self, removed: np.ndarray, train: SampleSet, inverse: Float[Tensor, "s s"]
    ) -> float:
        """Return the score without the training samples `removed`; inverse: (K(S, S) + λ)⁻¹."""
        is_removed = removed[self.index]
        targets, center = _targets(train.y[self.index], ~is_removed, train)
        solved = inverse @ (targets - center)
        removed_idx = torch.from_numpy(np.flatnonzero(is_removed))
        # The inverse of a block: what is left out has the coefficient 0.
        correction = torch.linalg.solve(inverse[removed_idx][:, removed_idx], solved[removed_idx])
        outputs = self.across @ (solved - inverse[:, removed_idx] @ correction) + center
        return float(self.yardstick.scores(outputs.numpy()[None])[0].mean())

    def inverse(self) -> Float[Tensor, "s s"]:
        """Return (K(S, S) + λ)⁻¹, [s, s]."""
        return torch.cholesky_inverse(_factor_kernel(self.kernel.clone(), self.penalty))

    def _outputs(
        self, labels: np.ndarray, weights: np.ndarray, train: SampleSet
    ) -> Float[Tensor, "m k"]:
        """Return held-out outputs of kernel ridge, fitted to weighted samples with these labels."""
        kept_idx = np.flatnonzero(weights)
        w = torch.from_numpy(weights[kept_idx] / weights[kept_idx].mean())
        rows = torch.from_numpy(kept_idx)
        targets, center = _targets(labels[self.index][kept_idx], ..., train)
        factor = _factor_kernel(self.kernel[rows][:, rows].clone(), self.penalty / w)
        solved = torch.cholesky_solve(targets - center, factor)
        return self.across[:, rows] @ solved + center


def _targets(labels: np.ndarray, mask: Any, train: SampleSet) -> tuple[Tensor, Tensor]:
    """Return targets [s, k], one-hot for classes, and the mean over `mask` that fits leave out."""
    # Classes are fitted without an intercept: 0.
    values = torch.from_numpy(labels)
    if train.is_classification:
        return torch.eye(train.n_classes).double()[values], torch.zeros(1)
    targets = values.double().reshape(len(values), -1)
    return targets, targets[mask].mean(0)


def _factor_kernel(gram: Tensor, penalty: Tensor | float) -> Tensor:
    gram.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed):
        raise DataError("the kernel is singular to rounding; no closed form can be computed.")
    return factor


def screen(
    lin: Linearization, train: SampleSet, penalty: float, yardstick: Yardstick, seed: int
) -> Screen:
    """Prepare the screen on at most MOST training samples, drawn at random."""
    rng = np.random.default_rng((seed, 2))
    index = np.sort(rng.permutation(len(train))[:MOST])
    if len(index) < len(train):
        lin = lin.subset(index).average_outputs()
    else:
        lin = lin.average_outputs()
    if lin.kernel is not None:
        assert lin.val_kernel is not None
        kernel = lin.kernel.double()
        across = lin.val_kernel.double()
    else:
        assert lin.features is not None and lin.val_features is not None
        features, val_features = (f[0 : len(f)].double() for f in (lin.features, lin.val_features))
        kernel, across = features @ features.T, val_features @ features.T
    return Screen(index, kernel, across, penalty, yardstick)


def most_wanted(
    closed: Screen, train: SampleSet, seed: int, weak: Sequence[WeakGroup] = ()
) -> tuple[str, float, np.ndarray] | None:
    """Find the class, source or weak group of which half left out costs most: name, cost, ids."""
    inverse = closed.inverse()
    base = closed.score_without(np.zeros(len(train), bool), train, inverse)
    worst = None
    lost = 2 / len(closed.across)
    rng = np.random.default_rng((seed, 4))
    regions = [("samples where", ("", w.words), w.samples.astype(int)) for w in weak]
    for kind, names, group in (*_groups(train), *regions):
        for g in np.unique(group[closed.index]):
            members = closed.index[group[closed.index] == g]
            if not names[g] or not FEWEST <= len(members) < len(closed.index):
                continue
            removed = np.zeros(len(train), bool)
            removed[rng.permutation(members)[: len(members) // 2]] = True
            if (cost := base - closed.score_without(removed, train, inverse)) > lost:
                worst = (f"{kind} {names[g]}", cost, train.ids[members])
                lost = cost
    return worst


def _groups(train: SampleSet) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """Return (kind, names, group of each sample) of classes and sources, 2 to 50 groups each."""
    groups: list[tuple[str, tuple[str, ...], np.ndarray]] = []
    if train.is_classification:
        groups += [("class", train.class_names, train.y)]
    if train.source is not None:
        names, index = np.unique(train.source.astype(str), return_inverse=True)
        groups += [("source", tuple(names), index)]
    return [grouping for grouping in groups if 2 <= len(grouping[1]) <= MOST_GROUPS]
