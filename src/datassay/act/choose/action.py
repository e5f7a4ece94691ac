"""An action: one thing that can be done to the training samples before a model learns from them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from datassay.data.samples import SampleSet
from datassay.results import result
from datassay.train.learner import Learner
from datassay.train.together import Fitting, predictions_of

# The built-in kinds, each the name of its module, in the order in which they are proposed.
BUILT_IN = ("relabel", "source", "remove", "copies", "drop", "review")
RELABEL, SOURCE, REMOVE, COPIES, DROP, REVIEW = BUILT_IN
SPLIT = "split"  # the kind of what `splitting` makes
SAVES = (COPIES, DROP)  # kinds worth doing without a gain: fewer samples that do as well
AGAIN = "trained again, nothing changed"


@result
class Blocks:
    """Several models, and a router that says which counts for an input.

    Attributes:
        members: positions of the samples that each of K models learns from.
        share: [K], how much each model counts where there is no router.
        router: tells blocks from inputs (`predict_proba` of rows), or None.
    """

    members: tuple[Int[np.ndarray, " _"], ...]
    share: Float[np.ndarray, " K"]
    router: Any = None

    def weights(self, held_out: SampleSet) -> Float[np.ndarray, "m K"]:
        """Return the weight of each of the K block models for each sample, [m, K]."""
        if self.router is None:
            return np.tile(self.share, (len(held_out), 1))
        rows = np.asarray(held_out.x, np.float64).reshape(len(held_out), -1)
        return self.router.predict_proba(rows)


@result
class Action:
    """What is done to n training samples.

    Attributes:
        kind: which action: the name of an ActionKind, or several with + between.
        words: what is done, as a heading.
        labels: [n] or [n, k], the targets afterwards.
        weights: [n], of the samples in the loss, of any scale; 0: left out.
        changed: how many samples it touches.
        control: the same retraining with the same amount of change, at random: what the action's
            choice of samples is worth. None: the samples as they are, trained again.
        control_words: what the control does.
        blocks: several models instead of one; None: one.
        fraction: of the samples, where several fractions are tried.
    """

    kind: str
    words: str
    labels: Shaped[np.ndarray, "n ..."]
    weights: Float[np.ndarray, " n"]
    changed: int
    control: "Action | None" = None
    control_words: str = AGAIN
    blocks: Blocks | None = None
    fraction: float = 0.0

    @property
    def key(self) -> tuple[str, float]:
        """The kind and the fraction, by which an action is the same on other samples."""
        return self.kind, self.fraction

    @property
    def fits(self) -> int:
        """Number of models per seed, those of the control too."""
        n_models = 1 if self.blocks is None else len(self.blocks.members)
        n_control = 0 if self.control is None else self.control.fits
        return n_models + n_control

    @property
    def kept(self) -> Int[np.ndarray, " kept"]:
        """Positions of the samples that stay."""
        return np.flatnonzero(self.weights)

    @property
    def is_weighted(self) -> bool:
        """Whether samples that stay have different weights."""
        weights = self.weights[self.kept]
        return bool((weights != weights[:1]).any())


def as_it_is(train: SampleSet) -> Action:
    """Return the action that changes nothing, with which every action is compared."""
    return Action("none", "As it is", train.y, np.ones(len(train)), 0)


def relabelling(
    train: SampleSet, labels: Shaped[np.ndarray, "n ..."], changed: Bool[np.ndarray, " n"]
) -> Action:
    """Return the action that gives some samples another label.

    Args:
        train: n samples.
        labels: those afterwards.
        changed: which samples differ.

    Returns:
        The action, compared with the samples as they are, trained again.
    """
    mask = changed.reshape(-1, *[1] * (train.y.ndim - 1))  # broadcasts over several targets
    words = f"Relabel suspected {'labels' if train.is_classification else 'targets'}"
    return replace(
        as_it_is(train), kind=RELABEL, words=words, labels=np.where(mask, labels, train.y),
        changed=int(changed.sum()),
    )  # fmt: skip


def removal(
    kind: str, words: str, train: SampleSet, removed: Bool[np.ndarray, " n"], seed: int
) -> Action:
    """Return the action that leaves samples out, compared with as many at random.

    Args:
        kind: of the action.
        words: what is done.
        train: n samples.
        removed: which samples go.
        seed: of the random choice.

    Returns:
        The action.
    """
    n = int(removed.sum())
    random_weights = np.ones(len(train))
    random_weights[np.random.default_rng((seed, n)).choice(len(train), n, replace=False)] = 0
    control = replace(as_it_is(train), weights=random_weights, changed=n)
    return Action(kind, words, train.y, (~removed).astype(float), n, control, "as many at random")


def weighting(
    kind: str, words: str, train: SampleSet, weights: Float[np.ndarray, " n"], seed: int
) -> Action:
    """Return the action that weighs samples, compared with the same weights in a random order.

    Args:
        kind: of the action.
        words: what is done.
        train: n samples.
        weights: positive, of any scale.
        seed: of the random order.

    Returns:
        The action.
    """
    weights = weights / weights.mean()
    shuffled = np.random.default_rng((seed, len(train))).permutation(weights)
    control = replace(as_it_is(train), weights=shuffled, changed=len(train))
    return Action(kind, words, train.y, weights, len(train), control, "the same weights, shuffled")


def splitting(train: SampleSet, blocks: Blocks, seed: int) -> Action:
    """Return the action of one model per block, compared with random blocks of the same sizes.

    Args:
        train: n samples.
        blocks: K of them, and their router.
        seed: of the random blocks.

    Returns:
        The action.
    """
    order = np.random.default_rng((seed, len(blocks.members))).permutation(len(train))
    ends = np.cumsum([len(members) for members in blocks.members])[:-1]
    parts = tuple(np.sort(members) for members in np.split(order, ends))
    shares = np.array([len(members) for members in parts]) / len(train)
    random_blocks = Blocks(parts, shares)
    # Without a router a new sample's prediction is the blocks' mean, weighted by their shares.
    criterion = "shares" if blocks.router is None else "router"
    words = f"Split into {len(parts)} blocks, by {criterion}"
    action = replace(as_it_is(train), kind=SPLIT, changed=len(train))
    control = replace(action, blocks=random_blocks)
    return replace(
        action, words=words, blocks=blocks, control=control, control_words="blocks at random"
    )


def predictions(
    learner: Learner, train: SampleSet, held_out: SampleSet, action: Action
) -> Float[np.ndarray, "R m k"]:
    """Return predictions of R models on held-out samples, trained on the samples of an action.

    Args:
        learner: fits R models to R subsets.
        train: n samples, as they are.
        held_out: m samples.
        action: what is done to train.

    Returns:
        Class probabilities, or targets. Models of one seed start alike under every action and see
        batches in the same order where the numbers of samples agree.

    Raises:
        ModelError: the model cannot be fitted to these samples.

    Cost: R fits, and for each further block R more.
    """
    fittings = fittings_of(learner, train, held_out, action, range(learner.repeats))
    return route_predictions(action, held_out, predictions_of(fittings))


def fittings_of(
    learner: Learner, train: SampleSet, held_out: SampleSet, action: Action, seeds: range
) -> list[Fitting]:
    """Return the fits that an action needs, each with R seeds: one, or one per block."""
    weights = action.weights if action.is_weighted else None
    if action.blocks is None:
        subsets = (action.kept,)
    else:
        subsets = action.blocks.members
    return [
        Fitting(learner, train, held_out, action.labels, rows, weights, seeds) for rows in subsets
    ]


def route_predictions(
    action: Action, held_out: SampleSet, outputs: Sequence[Float[np.ndarray, "R m k"]]
) -> Float[np.ndarray, "R m k"]:
    """Return an action's predictions; those of several blocks' models are averaged by weight."""
    if action.blocks is None:
        return outputs[0]
    share = action.blocks.weights(held_out)  # [m, K]
    return np.einsum("mK,Krmk->rmk", share, np.stack(outputs))
