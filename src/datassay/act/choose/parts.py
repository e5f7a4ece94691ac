"""Samples to learn from and others to judge by, with scores that never saw the latter's labels.

What a prediction of a held-out sample is worth, though its label may be wrong too.

Let T[t, g] be the probability that a sample of class t is given the label g. Predicting class c for
a sample with given label g counts (T⁻¹)[g, c]. Over the given labels of a class t its mean is
Σ_g T[t, g] (T⁻¹)[g, c], 1 if c = t and else 0: the mean over samples is an unbiased estimate of the
accuracy on right labels, whatever the predictions are. It uses no suspicion of single labels, so it
favours no action that agrees with the model that named the suspects. It assumes that T is right and
that noise depends on the class alone.

Targets that are numbers have no such correction: held-out ones that are suspected do not count. One
that is ten times too large would outweigh all others, and favour whatever learnt from its like.

Source: backward correction of losses, Natarajan et al. (2013), Patrini et al. (2017, Theorem 1);
here of the accuracy.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from datassay.collect.curvature.output_loss import sample_scores
from datassay.collect.linearization import Linearization
from datassay.data.samples import SampleSet
from datassay.optional import coalesce, select_rows
from datassay.results import result
from datassay.score.label_issues import LOOK, LabelIssues
from datassay.train.folds import make_splits
from datassay.train.learner import Learner

# Held-out targets that are wrong with a higher probability do not count: SUSPECTED in the gain;
# SURE (the fewest that may be wrong) and LOOK (the most) in its interval's ends.
SUSPECTED, SURE = 0.5, 0.9
ACCURACY = "accuracy"
BALANCED = "balanced accuracy"
R2 = "R²"
# A class with less than this part of an even share makes accuracy say little about it.
RARE = 0.2
# Below this smallest singular value of T its inverse says more about T's error than about labels.
LEAST_SINGULAR = 0.15
NO_NOISE = 1e-9  # smaller rates of T are rounding: they say nothing of which labels are wrong


@result
class ScoringRule:
    """The scoring rule of m held-out samples; the mean over samples is the score.

    Attributes:
        held_out: the samples, with their given labels.
        credit: [m, k], what predicting each class counts; None for targets that are numbers.
        given_credit: [m, k], the same as if every given label were right.
        metric: "accuracy", "balanced accuracy" or "R²".
        is_corrected: whether `credit` counts with wrong labels.
        rows: [m], which samples count; None: all. Targets that are suspected do not.
        spread: [k], mean square of the targets' deviations, which R² divides by; None: that of the
            samples that count.
    """

    held_out: SampleSet
    credit: Float[np.ndarray, "m k"] | None
    given_credit: Float[np.ndarray, "m k"] | None
    metric: str
    is_corrected: bool
    rows: Bool[np.ndarray, " m"] | None = None
    spread: Float[np.ndarray, " k"] | None = None

    def scores(
        self, predictions: Float[np.ndarray, "R m k"], *, as_given: bool = False
    ) -> Float[np.ndarray, "R counted"]:
        """Return each counted sample's contribution to each model's score."""
        credit = self.given_credit if as_given else self.credit
        if credit is None:  # targets are numbers
            outputs = torch.from_numpy(predictions)
            if as_given:
                return sample_scores(outputs, self.held_out).numpy()
            if self.rows is not None:
                outputs = outputs[:, self.rows]
            return sample_scores(outputs, self.counted, self.spread).numpy()
        predicted = predictions.argmax(2)  # [R, m]
        return credit[np.arange(len(credit)), predicted]

    @property
    def counted(self) -> SampleSet:
        """The held-out samples that count."""
        if self.rows is None:
            return self.held_out
        return self.held_out.subset(self.rows)

    @property
    def groups(self) -> np.ndarray | None:
        """The groups of the samples that count; None: each is a group of its own."""
        return select_rows(self.held_out.groups, coalesce(self.rows, slice(None)))

    @property
    def unit(self) -> float:
        """Mean square of what one right prediction scores; 0 for a regression."""
        if self.credit is None:
            return 0.0
        return float(np.square(self.credit.max(1)).mean())


def scoring_rule(
    held_out: SampleSet, labels: np.ndarray, transition: Float[np.ndarray, "k k"] | None
) -> ScoringRule:
    """Return the rule that scores held-out predictions, corrected for label noise T if given."""
    if not held_out.is_classification:
        return ScoringRule(held_out, None, None, R2, is_corrected=False)
    k = held_out.n_classes
    shares = np.bincount(labels, minlength=k) / len(labels)
    is_balanced = bool((shares[shares > 0] < RARE / k).any())
    given_credit = credit = _tabulate_credits(held_out.y, np.eye(k), is_balanced)
    if transition is not None and _is_invertible(transition):
        credit = _tabulate_credits(held_out.y, np.linalg.inv(transition), is_balanced)
    metric = BALANCED if is_balanced else ACCURACY
    return ScoringRule(held_out, credit, given_credit, metric, credit is not given_credit)


def _is_invertible(transition: Float[np.ndarray, "k k"]) -> bool:
    """Return whether the inverse of T says more about labels than about the error of T."""
    return bool(np.linalg.svd(transition, compute_uv=False)[-1] > LEAST_SINGULAR)


def with_share(
    transition: Float[np.ndarray, "k k"], labels: Int[np.ndarray, " m"], share: float
) -> Float[np.ndarray, "k k"]:
    """Return T scaled so that a given share of the labels is wrong.

    Args:
        transition: T, as it was found; I: each wrong label is as likely as any other.
        labels: the given ones.
        share: of them that is wrong; less, in steps, if T could then not be inverted.

    Returns:
        T(λ) = I + λ (T − I).
    """
    k = len(transition)
    noise = transition - np.eye(k)
    if noise.diagonal().min() > -NO_NOISE:
        noise = (np.ones((k, k)) / k - np.eye(k)) * k / (k - 1)
    class_shares = np.bincount(labels, minlength=k) / len(labels)
    strength = share / max(float(-noise.diagonal() @ class_shares), 1e-12)
    largest_strength = 1 / float(-noise.diagonal().min())  # no probability below 0
    strengths = min(strength, largest_strength) * np.linspace(1, 0, 21)
    transitions = (np.eye(k) + factor * noise for factor in strengths)
    return next(t for t in transitions if _is_invertible(t))


def _tabulate_credits(
    labels: np.ndarray, inverse: Float[np.ndarray, "k k"], is_balanced: bool
) -> Float[np.ndarray, "m k"]:
    """Return the credit for predicting each class; balanced: true classes weigh the same."""
    # inverse: T⁻¹, which makes the expected credit that of the true labels.
    credit = inverse[labels]
    if not is_balanced:
        return credit
    share = np.maximum(credit.mean(0), 1 / len(labels))  # of the true classes
    return credit / (share * (share > 1 / len(labels)).sum())


def mark_trusted(
    probabilities: Float[np.ndarray, "R m k"],
    labels: np.ndarray,
    transition: Float[np.ndarray, "k k"],
) -> Bool[np.ndarray, " m"]:
    """Return a mask of held-out labels likelier right than wrong, [m].

    probabilities: by R models that never saw these labels. transition: T[true, given].
    """
    true_class_p = probabilities.mean(0)
    if _is_invertible(transition):  # models of noisy labels predict noisy labels
        true_class_p = np.clip(true_class_p @ np.linalg.inv(transition), 1e-9, None)
    joint = true_class_p * transition[:, labels].T  # [m, k]: P(true class, given label)
    return joint[np.arange(len(labels)), labels] >= joint.sum(1) / 2


FIFTHS = 5  # parts that training samples are divided into


@result
class Part:
    """Samples to learn from, and others to judge by, which no score of the first has seen.

    Attributes:
        train: n samples.
        held_out: m samples.
        lin: the linearisation of train, with held_out as its validation samples; None: actions are
            not screened.
        issues: of the labels of train.
        information: [n].
        penalty: of the screen's kernel ridge regression, kernel unit.
        noise: T of the held-out labels, [k, k]; None: they count as right, or are numbers.
        share: of the held-out labels that are wrong, at least and at most.
        copies: of train, as `fifths` takes them; None: all differ.
        doubt: [m], how likely each held-out target is wrong, by fits to all other samples; None:
            they count as right, or are classes.
        spreads: by limit (SUSPECTED, SURE, LOOK) variances, [k], of all targets that are no
            likelier wrong, which R² divides by in every part; none: those of the held-out ones.
        learner: fits R ≥ 2 models to R subsets, alike where it draws nothing; each part has its own
            seeds.
    """

    train: SampleSet
    held_out: SampleSet
    lin: Linearization | None
    issues: LabelIssues
    information: Float[np.ndarray, " n"]
    penalty: float
    noise: Float[np.ndarray, "k k"] | None
    learner: Learner
    share: tuple[float, float] = (0.0, 0.0)
    copies: Int[np.ndarray, " n"] | None = None
    doubt: Float[np.ndarray, " m"] | None = None
    spreads: Mapping[float, Float[np.ndarray, " k"]] = field(default_factory=dict)

    @property
    def scoring_rule(self) -> ScoringRule:
        """The scoring rule of the held-out samples."""
        rule = scoring_rule(self.held_out, self.train.y, self.noise)
        if self.doubt is None:
            return rule
        return self._limit_doubt(rule, SUSPECTED)

    @property
    def extremes(self) -> tuple[ScoringRule, ...]:
        """The scoring rules for the fewest and for the most held-out labels that may be wrong."""
        if self.doubt is not None:
            return tuple(self._limit_doubt(self.scoring_rule, limit) for limit in (SURE, LOOK))
        if self.noise is None or not self.share[1]:
            return ()
        noises = (with_share(self.noise, self.held_out.y, share) for share in self.share)
        return tuple(scoring_rule(self.held_out, self.train.y, noise) for noise in noises)

    def _limit_doubt(self, rule: ScoringRule, limit: float) -> ScoringRule:
        """Return the rule without targets likelier wrong than `limit`, if some are left."""
        assert self.doubt is not None
        rows = self.doubt <= limit
        if rows.sum() <= 1:
            rows = self.doubt <= 1
        return replace(rule, rows=rows, spread=self.spreads.get(limit), is_corrected=not rows.all())


def fifths(
    lin: Linearization,
    train: SampleSet,
    information: Float[np.ndarray, " n"],
    n_parts: int,
    *,
    noise: Float[np.ndarray, "k k"] | None,
    share: tuple[float, float] = (0.0, 0.0),
    copies: Int[np.ndarray, " n"] | None = None,
    doubt: Float[np.ndarray, " n"] | None = None,
    judge: Callable[[Linearization, SampleSet], tuple[LabelIssues, float]],
    learner: Callable[[SampleSet, int], Learner],
    seed: int = 0,
) -> list[Part]:
    """Return parts that hold out each fifth of the training samples in turn.

    Args:
        lin: the linearisation of all n samples; nothing is collected anew.
        train: n samples.
        information: of each, which ranks what could be dropped.
        n_parts: how many fifths, 1 to 5.
        noise: T of all labels, which is that of the held-out ones too; None: none is known.
        share: of all labels that are wrong, at least and at most.
        copies: a number per sample, shared by (near) copies. These stay in one part, or a model
            would have seen what it is judged on, unless the samples have groups. None: all differ.
        doubt: how likely each target is wrong; None: classes.
        judge: gives the label issues of some samples and the penalty of a ridge fit to them.
        learner: gives the models of a part, from its training samples and its number.
        seed: of the division.

    Returns:
        The parts.

    Cost: that of `judge` for each.
    """
    fold = np.full(len(train), -1)
    parts = []
    for f, test_idx in enumerate(make_splits(train, None, FIFTHS, seed).test_idx):
        fold[test_idx] = f
    n_parts = min(n_parts, fold.max() + 1)
    spreads = {}
    if doubt is not None:
        targets = train.y.reshape(len(train), -1)
        for limit in (SUSPECTED, SURE, LOOK):
            trusted = targets[doubt <= limit]
            is_varied = len(trusted) and np.ptp(trusted, 0).all()
            spreads[limit] = (trusted if is_varied else targets).var(0)
    judged = train
    if train.groups is None and copies is not None and len(np.unique(copies)) > 1:
        # Copies vary together, as groups do: intervals count each group once.
        judged = replace(train, groups=copies)
        start, group_of = np.unique(copies, return_index=True, return_inverse=True)[1:]
        fold = fold[start[group_of]]
    for f in range(n_parts):
        train_idx = np.flatnonzero(fold != f)
        test_idx = np.flatnonzero(fold == f)
        samples = train.subset(train_idx)
        part_lin = lin.held_out(train_idx, test_idx)
        issues, penalty = judge(part_lin, samples)

        parts.append(
            Part(
                samples, judged.subset(test_idx), part_lin, issues, information[train_idx],
                penalty, noise, learner(samples, f), share, copies=select_rows(copies, train_idx),
                doubt=select_rows(doubt, test_idx), spreads=spreads,
            )
        )  # fmt: skip
    return parts
