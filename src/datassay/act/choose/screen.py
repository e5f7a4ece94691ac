"""What actions would gain in closed form, by kernel ridge regression.

f(X') = K(X', S) (K(S, S) + λ diag(w)⁻¹)⁻¹ y(S),  S the samples kept, w their weights, of mean 1

λ is the penalty of the label scores. It takes a factorisation per action and no training.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.act.choose.action import Action
from datassay.act.choose.parts import ScoringRule
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result
from datassay.score.checks.weak_groups import WeakGroup

MOST = 2000  # training samples of the screen; of more, as many at random
MOST_GROUPS = 50  # of which halves are left out
FEWEST = 8  # samples of such a group


@result
class Screen:
    """Kernel ridge regression on some training samples, judged on the held-out ones.

    Attributes:
        index: [s] positions in train.
        kernel: K(S, S), [s, s] float64.
        across: K(held out, S), [m, s].
        penalty: λ, kernel unit.
        scoring_rule: of the held-out samples.
    """

    index: np.ndarray
    kernel: Float[Tensor, "s s"]
    across: Float[Tensor, "m s"]
    penalty: float
    scoring_rule: ScoringRule

    def scores(self, action: Action, train: SampleSet) -> Float[np.ndarray, " m"]:
        """Return each held-out sample's score after an action, by kernel ridge in closed form."""
        weights = action.weights[self.index]
        if action.blocks is None:
            outputs = self._predict_held_out(action.labels, weights, train)
        else:
            share = torch.from_numpy(action.blocks.weights(self.scoring_rule.held_out))
            outputs = torch.zeros(len(self.across), 1, dtype=torch.float64)
            for k, members in enumerate(action.blocks.members):
                block_weights = weights * np.isin(self.index, members)
                block_outputs = self._predict_held_out(action.labels, block_weights, train)
                outputs = outputs + share[:, k, None] * block_outputs
        return self.scoring_rule.scores(outputs.numpy()[None])[0]

    def score_without(
        self, removed: np.ndarray, train: SampleSet, inverse: Float[Tensor, "s s"]
    ) -> float:
        """Return the score without the training samples `removed`; inverse: (K(S, S) + λ)⁻¹."""
        is_removed = removed[self.index]
        targets, center = _centre_targets(train.y[self.index], ~is_removed, train)
        solved = inverse @ (targets - center)
        removed_idx = torch.from_numpy(np.flatnonzero(is_removed))
        # By the inverse of a block: samples left out get the coefficient 0.
        correction = torch.linalg.solve(inverse[removed_idx][:, removed_idx], solved[removed_idx])
        outputs = self.across @ (solved - inverse[:, removed_idx] @ correction) + center
        return float(self.scoring_rule.scores(outputs.numpy()[None])[0].mean())

    def inverse(self) -> Float[Tensor, "s s"]:
        """Return (K(S, S) + λ)⁻¹, [s, s]."""
        return torch.cholesky_inverse(_factor_kernel(self.kernel.clone(), self.penalty))

    def _predict_held_out(
        self, labels: np.ndarray, weights: np.ndarray, train: SampleSet
    ) -> Float[Tensor, "m k"]:
        """Return held-out outputs of the ridge fit to labels [n] under the screen's weights [s].

        Samples of weight 0 are left out.
        """
        kept_idx = np.flatnonzero(weights)
        w = torch.from_numpy(weights[kept_idx] / weights[kept_idx].mean())
        rows = torch.from_numpy(kept_idx)
        targets, center = _centre_targets(labels[self.index][kept_idx], ..., train)
        factor = _factor_kernel(self.kernel[rows][:, rows].clone(), self.penalty / w)
        solved = torch.cholesky_solve(targets - center, factor)
        return self.across[:, rows] @ solved + center


def _centre_targets(labels: np.ndarray, mask: Any, train: SampleSet) -> tuple[Tensor, Tensor]:
    """Return targets [s, k] and the centre that fits subtract: their mean over `mask`.

    Classes are one-hot, and their centre is 0.
    """
    values = torch.from_numpy(labels)
    if train.is_classification:
        return torch.eye(train.n_classes).double()[values], torch.zeros(1)
    targets = values.double().reshape(len(values), -1)
    return targets, targets[mask].mean(0)


def _factor_kernel(gram: Tensor, penalty: Tensor | float) -> Tensor:
    """Return the Cholesky factor of the kernel plus a penalty, which is added in place."""
    gram.diagonal().add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(gram)
    if int(failed):
        raise DataError("the kernel is singular to rounding; no closed form can be computed.")
    return factor


def screen(
    lin: Linearization, train: SampleSet, penalty: float, scoring_rule: ScoringRule, seed: int
) -> Screen:
    """Return the kernels of at most MOST random training samples, for closed-form gains."""
    rng = np.random.default_rng((seed, 2))
    index = np.sort(rng.permutation(len(train))[:MOST])
    if len(index) < len(train):
        lin = lin.subset(index)
    lin = lin.average_outputs()
    if lin.kernel is not None:
        assert lin.val_kernel is not None
        kernel = lin.kernel.double()
        across = lin.val_kernel.double()
    else:
        assert lin.features is not None and lin.val_features is not None
        features, val_features = (f[0 : len(f)].double() for f in (lin.features, lin.val_features))
        kernel = features @ features.T
        across = val_features @ features.T
    return Screen(index, kernel, across, penalty, scoring_rule)


def find_costliest_group(
    closed: Screen, train: SampleSet, seed: int, weak: Sequence[WeakGroup] = ()
) -> tuple[str, float, np.ndarray] | None:
    """Return (name, cost, ids) of the class, source or weak group whose half is missed most."""
    inverse = closed.inverse()
    base = closed.score_without(np.zeros(len(train), bool), train, inverse)
    worst = None
    largest_cost = 2 / len(closed.across)  # of two held-out samples: less counts as none
    rng = np.random.default_rng((seed, 4))
    weak_groups = [("samples where", ("", w.words), w.samples.astype(int)) for w in weak]
    for kind, names, group in (*_list_groups(train), *weak_groups):
        for g in np.unique(group[closed.index]):
            members = closed.index[group[closed.index] == g]
            if not names[g] or not FEWEST <= len(members) < len(closed.index):
                continue
            removed = np.zeros(len(train), bool)
            removed[rng.permutation(members)[: len(members) // 2]] = True
            cost = base - closed.score_without(removed, train, inverse)
            if cost > largest_cost:
                worst = (f"{kind} {names[g]}", cost, train.ids[members])
                largest_cost = cost
    return worst


def _list_groups(train: SampleSet) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """Return (kind, names, group of each sample) of classes and sources, 2 to 50 groups each."""
    groups: list[tuple[str, tuple[str, ...], np.ndarray]] = []
    if train.is_classification:
        groups += [("class", train.class_names, train.y)]
    if train.source is not None:
        names, index = np.unique(train.source.astype(str), return_inverse=True)
        groups += [("source", tuple(names), index)]
    return [grouping for grouping in groups if 2 <= len(grouping[1]) <= MOST_GROUPS]
