"""Samples to learn from and others to judge by, with scores that never saw the latter's labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from datassay.act.choose.yardstick import Yardstick, class_shares, yardstick
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.score.label_issues import LabelIssues
from datassay.train.folds import judging
from datassay.train.learner import Learner

FIFTHS = 5


@result
class Part:
    """Samples to learn from, and others to judge by, which no score of the first has seen.

    Attributes:
        train: n samples.
        held_out: m samples.
        lin: the linearisation of train, with held_out as its validation samples; None: acts are
            not screened.
        issues: of the labels of train.
        information: [n].
        penalty: of the screen's kernel ridge regression, kernel unit.
        noise: T of the held-out labels, [k, k]; None: they count as right, or are numbers.
        learner: fits R ≥ 2 models to R subsets; of several parts each has seeds of its own.
    """

    train: SampleSet
    held_out: SampleSet
    lin: Linearization | None
    issues: LabelIssues
    information: Float[np.ndarray, " n"]
    penalty: float
    noise: Float[np.ndarray, "k k"] | None
    learner: Learner

    @property
    def yardstick(self) -> Yardstick:
        """How predictions of the held-out samples are scored."""
        return yardstick(self.held_out, class_shares(self.train), self.noise)


def fifths(
    lin: Linearization,
    train: SampleSet,
    information: Float[np.ndarray, " n"],
    n_parts: int,
    *,
    noise: Float[np.ndarray, "k k"] | None,
    copies: Int[np.ndarray, " n"] | None = None,
    judge: Callable[[Linearization, SampleSet], tuple[LabelIssues, float]],
    learner: Callable[[SampleSet, int], Learner],
    seed: int = 0,
) -> list[Part]:
    """Fifths of the training samples, each judged by scores that never saw its labels.

    Args:
        lin: the linearisation of all n samples; nothing is collected anew.
        train: n samples.
        information: of each, which ranks what could be dropped.
        n_parts: how many fifths, 1 to 5.
        noise: T of all labels, which is that of the held-out ones too; None: none is known.
        copies: a number a sample, shared by those that are next to the same: they stay together, or
            a model would have seen what it is judged on. None: all differ.
        judge: gives the label issues of some samples and the penalty of a ridge fit to them.
        learner: gives the models of a part, from its training samples and its number.
        seed: of the division.

    Returns:
        The parts.

    Cost: that of `judge` for each.
    """
    fold, parts = np.full(len(train), -1), []
    for f, rest in enumerate(judging(train, None, FIFTHS, seed).rest):
        fold[np.setdiff1d(np.arange(len(train)), rest)] = f
    if copies is not None:
        first = np.unique(copies, return_index=True)[1]
        fold = fold[first[np.unique(copies, return_inverse=True)[1]]]
    for f in range(n_parts):
        rest, held = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        some, sub = train.subset(rest), lin.held_out(rest, held)
        issues, penalty = judge(sub, some)
        held_out = train.subset(held)
        parts.append(
            Part(some, held_out, sub, issues, information[rest], penalty, noise, learner(some, f))
        )
    return parts
