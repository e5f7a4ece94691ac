"""Training of one dense layer on fixed features: many weightings from many seeds in one program.

A batch of b samples costs (1/b) Σ_i w_i ℓ_i with weights of mean 1 over the training set. Weights
that sum to 1 would shrink every step of plain descent by n, weights from 1 to m would multiply it
by their mean; with mean 1 a learning rate means what it means without weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.collect.curvature.output_geometry import CHUNK_VALUES, SharedFeatures
from datassay.collect.curvature.output_loss import LOSSES
from datassay.collect.loss import loss_named
from datassay.errors import DataError, SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import one_of, positive
from datassay.train.convex import fit_convex

BETAS = (0.9, 0.999)
EPSILON = 1e-7  # Keras' default; torch's is 1e-8
STEP = "train last layer"
OnEpoch = Callable[[int, Float[Tensor, "S M"]], bool]


@dataclass(frozen=True, slots=True)
class HeadRecipe:
    """The training of the layer.

    Attributes:
        solver: "adam" (minibatches) or "exact": to the minimum, by Newton's method up to 1600
            weights and L-BFGS beyond.
        start: "fresh" (uniform weights of Glorot and Bengio, zero bias) or "trained" (the layer's
            own); where "exact" starts does not matter.
        lr: of Adam.
        epochs: passes over the samples.
        batch_size: samples an update; None is all of them.
        patience: with validation samples: stop when so many epochs brought no better score for any
            of the layers, and return each layer's best epoch. None trains all epochs and returns
            the last.
        ridge: of "exact", (ridge/2)‖θ‖² added to the mean loss, the bias included.
    """

    solver: str = "adam"
    start: str = "fresh"
    lr: float = 1e-3
    epochs: int = 25
    batch_size: int | None = 25
    patience: int | None = None
    ridge: float = 1e-4


@result
class TrainedHeads:
    """S · M dense layers: M weightings of the samples, each from S seeds.

    Attributes:
        weight: W, [S, M, k, d].
        bias: b, [S, M, k]; None without one.
        val_score: [epochs, S, M], accuracy or −(half squared error), after each epoch; no rows
            without validation samples. "exact" has one.
        epoch: [S, M], the epoch that was returned, from 1.
    """

    weight: Float[Tensor, "S M k d"]
    bias: Float[Tensor, "S M k"] | None
    val_score: Float[Tensor, "epochs S M"]
    epoch: Int[Tensor, "S M"]

    def outputs(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "S M n k"]:
        """Return every layer's outputs on the same features: S seeds, M weightings."""
        outputs = features.to(self.weight.dtype) @ self.weight.mT
        if self.bias is None:
            return outputs
        return outputs + self.bias[..., None, :]


def mean_one(sample_weight: Float[np.ndarray, "*M n"]) -> Float[np.ndarray, "*M n"]:
    """Return weights rescaled to mean 1; raise unless they are finite, ≥ 0 and not all 0."""
    weight = np.asarray(sample_weight, np.float64)
    if not (np.isfinite(weight).all() and (weight >= 0).all() and (weight.sum(-1) > 0).all()):
        raise DataError(
            "weights must be finite, not negative and not all 0; got values from "
            f"{weight.min():g} to {weight.max():g}."
        )
    return weight / weight.mean(-1, keepdims=True)


def train_heads(
    features: Float[Tensor, "n d"],
    targets: Float[Tensor, "n k"],
    sample_weight: Float[np.ndarray, "M weights"],
    loss: str,
    recipe: HeadRecipe,
    *,
    seeds: Sequence[int] = (0,),
    start: tuple[Float[Tensor, "k d"], Float[Tensor, " k"] | None] | None = None,
    bias: bool = True,
    val: tuple[Float[Tensor, "m d"], Float[Tensor, "m k"]] | None = None,
    on_epoch: OnEpoch | None = None,
    progress: Progress = silent,
) -> TrainedHeads:
    """Train a dense layer on features under each weighting, from each seed.

    Layers of one seed start alike and see the same batches, so that what differs between two
    weightings is the weighting.

    Args:
        features: what enters the layer.
        targets: one-hot, {0, 1} for two classes with one output, or numbers.
        sample_weight: M weightings of the n samples; each is rescaled to mean 1.
        loss: "cross_entropy" (binary with one output) or "mse" (½ squared error, summed over
            outputs).
        recipe: solver and its settings.
        seeds: of fresh weights and of the order of the samples; "exact" gives each the same.
        start: W and b, for recipe.start "trained".
        bias: whether the layer has one.
        val: features and targets of samples that stop the training; never the test set's.
        on_epoch: called with the epoch and the validation scores; True stops.
        progress: called with (step, epochs done, epochs in all).

    Returns:
        The layers, in float32 by "adam" and float64 by "exact".

    Raises:
        DataError: weights that are no weights, or not one per sample.
        SettingError: an unknown solver, start or loss, or a setting out of range.

    Cost: 4 n d k S M operations per epoch; 4 d k S M values held.
    Source: S0 Algorithm 1, line 6, with Keras' Adam as in S0 Table 8. Deviates: weights have mean
    1 (the paper: sum 1, its code: 1 to m; Adam is blind to such factors, plain descent is not),
    and epsilon is added to the bias-corrected root, as torch does, not before the correction.
    """
    _validate(features, sample_weight, loss, recipe)
    weight = torch.as_tensor(mean_one(sample_weight))
    problem = _Heads(features, targets, loss, bias, val)
    if recipe.solver == "exact":
        return problem.exact(weight, recipe.ridge, len(seeds), progress)
    theta = problem.start(recipe.start, start, seeds, len(weight))
    return problem.adam(theta, weight.float(), recipe, seeds, on_epoch, progress)


class _Heads:
    """The samples that S · M layers are trained on: S seeds, M weightings.

    Weights are theta, [S, inputs, M · k]: a seed's layers are side by side. A bias is the weight of
    a last input of 1.
    """

    def __init__(self, features: Tensor, targets: Tensor, loss: str, has_bias: bool, val):
        self.loss = loss
        self.has_bias = has_bias
        self.x = self._append_ones(features)
        self.y = targets
        self.val = None
        if val is not None:
            self.val = (self._append_ones(val[0]), val[1])

    def _append_ones(self, features: Tensor) -> Float[Tensor, "n inputs"]:
        """Return the layers' inputs: the features, with a 1 where the layers have a bias."""
        if not self.has_bias:
            return features
        return torch.cat([features, features.new_ones(len(features), 1)], 1)

    def start(
        self, kind: str, start: tuple[Tensor, Tensor | None] | None, seeds: Sequence[int], m: int
    ) -> Float[Tensor, "S inputs m_k"]:
        """Return starting weights of m weightings: random, or "trained" ones from `start`."""
        k = self.y.shape[1]
        d = self.x.shape[1] - self.has_bias
        if kind == "trained":
            if start is None:
                raise SettingError('start "trained" needs the layer; give start=(weight, bias).')
            weight, bias = start
            trained = weight.T if bias is None else torch.cat([weight.T, bias[None]])
            theta = trained.float().expand(len(seeds), -1, -1)
        else:
            theta = torch.zeros(len(seeds), self.x.shape[1], k)
            for s, seed in enumerate(seeds):
                draw = torch.rand(d, k, generator=torch.Generator().manual_seed(seed))
                theta[s, :d] = (2 * draw - 1) * (6 / (d + k)) ** 0.5
        return theta[:, :, None].expand(-1, -1, m, -1).flatten(2).clone()

    def adam(
        self,
        theta: Float[Tensor, "S inputs m_k"],
        weight: Float[Tensor, "M n"],
        recipe: HeadRecipe,
        seeds: Sequence[int],
        on_epoch: OnEpoch | None,
        progress: Progress,
    ) -> TrainedHeads:
        """Return the layers trained from theta by Adam, one per weighting and seed."""
        x = self.x.float()
        y = self.y.float()
        w = weight.T.contiguous()  # [n, M]
        streams = [torch.Generator().manual_seed(2**20 + seed) for seed in seeds]
        optimizer = torch.optim.Adam([theta], lr=recipe.lr, betas=BETAS, eps=EPSILON, fused=True)
        tracker = _BestEpochs(theta, len(seeds), len(weight), recipe.patience)
        for epoch in range(1, recipe.epochs + 1):
            for rows in _draw_batches(len(x), recipe.batch_size, streams):
                theta.grad = self._gradient(theta, x[rows], y[rows], w[rows])
                optimizer.step()
            progress(STEP, epoch, recipe.epochs)
            if self.val is None:
                continue
            score, loss = self._score_validation(theta, len(weight))
            if tracker.update(theta, epoch, score, loss) or (on_epoch and on_epoch(epoch, score)):
                break
        returned_epoch = torch.full_like(tracker.epoch, epoch)
        if self.val is not None and recipe.patience is not None:
            theta = tracker.theta
            returned_epoch = tracker.epoch
        return self._unpack(theta, len(weight), tracker.scores, returned_epoch)

    def _gradient(self, theta: Tensor, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Return the gradient of (1/b) Σ_i w_i ℓ_i by theta; x: [S or 1, b, inputs]."""
        k = y.shape[-1]
        outputs = (x @ theta).unflatten(-1, (-1, k))  # [S, b, M, k]
        gradient = loss_named(self.loss).gradient(outputs, y[..., None, :])
        slope = gradient * (w[..., None] / x.shape[-2])
        return x.mT @ slope.flatten(-2)

    def _score_validation(self, theta: Tensor, m: int) -> tuple[Tensor, Tensor]:
        """Return validation scores (higher is better) and losses, both [S, M]."""
        assert self.val is not None
        x = self.val[0].to(theta.dtype)
        y = self.val[1].to(theta.dtype)
        outputs = (x @ theta).unflatten(-1, (m, -1)).transpose(1, 2)  # [S, M, m_val, k]
        kind = loss_named(self.loss)
        loss = kind.value(outputs, y).mean(-1)
        if not kind.has_one_class:
            return -loss, loss
        if y.shape[1] == 1:
            is_correct = (outputs[..., 0] > 0) == (y[:, 0] > 0.5)
        else:
            is_correct = outputs.argmax(-1) == y.argmax(-1)
        return is_correct.to(theta.dtype).mean(-1), loss

    def exact(
        self, weight: Float[Tensor, "M n"], ridge: float, n_seeds: int, progress: Progress
    ) -> TrainedHeads:
        """Return the layers at the loss's minimum, one per weighting, equal for all seeds."""
        k = self.y.shape[1]
        features = SharedFeatures(self.x.double(), k)
        y = self.y.double()
        at_once = max(1, CHUNK_VALUES // (len(y) * max(k * k, self.x.shape[1] * k)))
        parts = []
        for start in range(0, len(weight), at_once):
            rows = weight[start : start + at_once]
            parts.append(fit_convex(features, y, self.loss, ridge, sample_weight=rows).weights)
            progress(STEP, min(start + at_once, len(weight)), len(weight))
        theta = torch.cat(parts).unflatten(1, (k, -1))  # [M, k, inputs]
        theta = theta.permute(2, 0, 1).flatten(1).expand(n_seeds, -1, -1)  # [S, inputs, M k]
        scores = []
        if self.val is not None:
            score, _ = self._score_validation(theta, len(weight))
            scores = [score]
        epoch = torch.ones(n_seeds, len(weight), dtype=torch.int64)
        return self._unpack(theta, len(weight), scores, epoch)

    def _unpack(self, theta: Tensor, m: int, scores: list[Tensor], epoch: Tensor) -> TrainedHeads:
        """Return theta unpacked into W and b of each seed and weighting, with the scores."""
        w = theta.unflatten(2, (m, -1)).permute(0, 2, 3, 1)  # [S, M, k, inputs]
        if scores:
            history = torch.stack(scores)
        else:
            history = theta.new_zeros(0, *epoch.shape)
        if not self.has_bias:
            return TrainedHeads(w.contiguous(), None, history, epoch)
        return TrainedHeads(w[..., :-1].contiguous(), w[..., -1].contiguous(), history, epoch)


class _BestEpochs:
    """Each layer's best epoch so far: by the score and, among equal ones, by the loss."""

    def __init__(self, theta: Tensor, n_seeds: int, m: int, patience: int | None):
        self.theta = theta.clone()
        self.patience = patience
        self.score = torch.full((n_seeds, m), -torch.inf)
        self.loss = torch.full((n_seeds, m), torch.inf)
        self.epoch = torch.zeros(n_seeds, m, dtype=torch.int64)
        self.scores: list[Tensor] = []

    def update(self, theta: Tensor, epoch: int, score: Tensor, loss: Tensor) -> bool:
        """Record an epoch; keep the best weights so far; return whether to stop early."""
        self.scores.append(score)
        is_better = (score > self.score) | ((score == self.score) & (loss < self.loss))
        self.score = torch.where(is_better, score, self.score)
        self.loss = torch.where(is_better, loss, self.loss)
        self.epoch[is_better] = epoch
        if self.patience is None:
            return False
        k = theta.shape[2] // is_better.shape[1]
        is_better_column = is_better.repeat_interleave(k, 1)[:, None]  # [S, 1, M · k]
        self.theta = torch.where(is_better_column, theta, self.theta)
        return epoch - int(self.epoch.max()) >= self.patience


def _draw_batches(n: int, batch_size: int | None, streams: list[torch.Generator]):
    """Yield positions [S, b], shuffled for each seed; [1, n] where one batch holds all."""
    if batch_size is None or batch_size >= n:
        yield torch.arange(n)[None]
        return
    order = torch.stack([torch.randperm(n, generator=g) for g in streams])
    for start in range(0, n, batch_size):
        yield order[:, start : start + batch_size]


def _validate(features: Tensor, sample_weight: np.ndarray, loss: str, recipe: HeadRecipe) -> None:
    """Raise where settings are out of range, or weights are not one per sample."""
    one_of("solver", recipe.solver, ("adam", "exact"))
    one_of("start", recipe.start, ("fresh", "trained"))
    one_of("loss", loss, LOSSES)
    for name in ("lr", "epochs", "batch_size", "patience"):
        value = getattr(recipe, name)
        if value is not None:
            positive(name, value)
    if sample_weight.shape[1] != len(features):
        raise DataError(
            f"weights must hold one number for each of the {len(features)} samples; got "
            f"{sample_weight.shape[1]}."
        )
