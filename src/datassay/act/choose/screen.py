"""What actions would gain in closed form: kernel ridge regression, other targets, weights, samples.

f(X') = K(X', S) (K(S, S) + λ diag(w)⁻¹)⁻¹ y(S),  S the samples kept, w their weights, mean 1

λ is the penalty of the label scores. It takes a factorisation per action and no training.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.act.choose.action import Action, as_it_is
from datassay.act.choose.parts import Yardstick
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result

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

    def score(self, action: Action, train: SampleSet) -> float:
        """The score after an action, in closed form."""
        return float(self.scores(action, train).mean())

    def scores(self, action: Action, train: SampleSet) -> Float[np.ndarray, " m"]:
        """What each held-out sample adds to it."""
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

    def without(self, removed: np.ndarray, train: SampleSet) -> float:
        """The score without some of the training samples, [n] bool."""
        return self.score(replace(as_it_is(train), weights=(~removed).astype(float)), train)

    def _outputs(
        self, labels: np.ndarray, weights: np.ndarray, train: SampleSet
    ) -> Float[Tensor, "m k"]:
        kept = np.flatnonzero(weights)
        w = torch.from_numpy(weights[kept] / weights[kept].mean())
        given = torch.from_numpy(labels[self.chosen][kept])
        if train.is_classification:
            targets, center = torch.eye(train.n_classes).double()[given], torch.zeros(1)
        else:
            targets = given.double().reshape(len(given), -1)
            center = targets.mean(0)
        index = torch.from_numpy(kept)
        gram = self.kernel[index][:, index].clone()
        gram.diagonal().add_(self.penalty / w)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if int(failed):
            raise DataError("the kernel is singular to rounding; no closed form can be computed.")
        solved = torch.cholesky_solve(targets - center, factor)
        return self.across[:, index] @ solved + center


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


def most_wanted(closed: Screen, train: SampleSet, seed: int) -> tuple[str, float] | None:
    """The class or source of which more samples would help most, by leaving out half of each."""
    base = closed.without(np.zeros(len(train), bool), train)
    worst, lost = "", 2 / len(closed.across)
    rng = np.random.default_rng((seed, 4))
    for kind, names, group in _groups(train):
        for g in np.unique(group[closed.chosen]):
            members = closed.chosen[group[closed.chosen] == g]
            if not FEWEST <= len(members) < len(closed.chosen):
                continue
            removed = np.zeros(len(train), bool)
            removed[rng.permutation(members)[: len(members) // 2]] = True
            if (cost := base - closed.without(removed, train)) > lost:
                worst, lost = f"{kind} {names[g]}", cost
    return (worst, lost) if worst else None


def _groups(train: SampleSet) -> list[tuple[str, tuple[str, ...], np.ndarray]]:
    """(what, names, group of each sample), where there are from 2 to 50 groups."""
    groups: list[tuple[str, tuple[str, ...], np.ndarray]] = []
    if train.is_classification:
        groups += [("class", train.class_names, train.y)]
    if train.source is not None:
        names, index = np.unique(train.source.astype(str), return_inverse=True)
        groups += [("source", tuple(names), index)]
    return [one for one in groups if 2 <= len(one[1]) <= MOST_GROUPS]
