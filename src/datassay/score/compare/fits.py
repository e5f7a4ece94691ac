"""Fits of a network, or of an estimator, to subsets of the samples; two each, by other seeds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.model_code import code_fingerprint
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.estimators import checked_estimator, fitted, is_estimator
from datassay.score.effects import outcome
from datassay.score.labels.cross_validated import said_of
from datassay.store.manifest import CODE, digest
from datassay.train.recipe import Recipe
from datassay.train.retrain import fingerprint, networks_at_a_time
from datassay.train.training import TrainedNetworks, sample_losses, train_networks, with_loss

# Fits a subset: two tell what seeds do; beyond that more subsets tell more.
TWO = 2
# First seed of the fits to subsets; networks on all samples have those before it.
FIRST_SEED = 1000
# Networks side by side: more would not be faster, and report less often.
MOST_TOGETHER = 20
# Networks · samples that pass at once.
PASSED = 2**16
# Chances below this count as this: an estimator may say 0.
LEAST_CHANCE = 1e-3

# From samples to outputs [S, part, k] of S fits, part by part.
Ask = Callable[[SampleSet], Iterator[tuple[Tensor, SampleSet]]]


class Fits(ABC):
    """Fits to subsets of the samples.

    Attributes:
        size: subsets that are fitted together.
        identity: everything that determines the fits, plain JSON values.
    """

    size: int
    identity: dict[str, object]

    def __init__(self, train: SampleSet, val: SampleSet, recipe: Recipe, seed: int):
        self.train, self.val, self.seed = train, val, seed
        self.recipe = with_loss(recipe, train)

    @abstractmethod
    def outputs(self, subsets: Int[np.ndarray, "p kept"], first: int) -> Iterator[tuple[Ask, str]]:
        """Fits, some together: each a function from samples to outputs, and what it is called."""

    def fit(self, subsets: Int[np.ndarray, "p kept"], first: int) -> dict[str, np.ndarray]:
        """Two fits to each of p subsets.

        Args:
            subsets: positions of samples.
            first: number of the first subset among all, which decides the seeds.

        Returns:
            "outcome" of the queries, [p, 2, m], and "loss" of the training samples, [p, 2, n].

        Raises:
            ModelError: a fit fails, or says what is not finite.
        """
        found: dict[str, list[Tensor]] = {"outcome": [], "loss": []}
        for ask, name in self.outputs(subsets, first):
            asked = [outcomes(f, part, self.recipe) for f, part in ask(self.val)]
            losses = [sample_losses(f, part, self.recipe) for f, part in ask(self.train)]
            for key, parts in (("outcome", asked), ("loss", losses)):
                values = torch.cat(parts, 1)
                if not values.isfinite().all():
                    raise ModelError(
                        f"what is trained on a half must stay finite; {name} diverged. Take a "
                        "smaller step."
                    )
                found[key].append(values)
        return {
            key: torch.cat(parts).unflatten(0, (-1, TWO)).float().numpy()
            for key, parts in found.items()
        }


class NetworkFits(Fits):
    """Trainings of a network, side by side.

    Args:
        network: from a seed to a network at the weights that it starts from.
        train: n samples.
        val: m queries.
        recipe: how the networks are trained.
        seed: of first weights and batches.
    """

    def __init__(
        self,
        network: Callable[[int], nn.Module],
        train: SampleSet,
        val: SampleSet,
        recipe: Recipe,
        seed: int,
    ):
        super().__init__(train, val, recipe, seed)
        self.network, model = network, network(seed)
        batch = train.subset(np.arange(min(len(train), recipe.batch_size or len(train))))
        self._at_once = min(MOST_TOGETHER, networks_at_a_time(model, batch))
        self.size = max(1, self._at_once // TWO)
        asked = {"validation targets": digest({"y": val.y})}
        self.identity = fingerprint(model, train, val, self.recipe) | asked

    def outputs(self, subsets, first):
        """As `Fits` says; batches follow the seed and the place among networks side by side."""
        subsets = torch.as_tensor(subsets).repeat_interleave(TWO, 0)
        order = TWO * (FIRST_SEED * (self.seed + 1) + first)
        for start in range(0, len(subsets), self._at_once):
            some = subsets[start : start + self._at_once]
            number = self.seed + FIRST_SEED + TWO * first + start
            models = [self.network(number + place) for place in range(len(some))]
            networks = train_networks(models, self.train, some, self.recipe, seed=order + start)
            yield partial(_said_by_networks, networks), f"a network with lr {self.recipe.lr:g}"


class EstimatorFits(Fits):
    """Fits of a scikit-learn estimator, one by one.

    Args:
        estimator: a classifier or a regressor, as the targets need.
        train: n samples.
        val: m queries.
        seed: of the random states.

    Raises:
        ModelError: it is for another task.
    """

    size = 5

    def __init__(self, estimator: Any, train: SampleSet, val: SampleSet, seed: int):
        super().__init__(train, val, Recipe(), seed)
        self.estimator = checked_estimator(estimator, is_classification=train.is_classification)
        self.identity = {
            "model": repr(estimator),
            CODE: code_fingerprint(estimator),
            "training samples": digest({"x": train.x, "y": train.y}),
            "validation samples": digest({"x": val.x, "y": val.y}),
        }

    def outputs(self, subsets, first):
        """As `Fits` says; each fit has a random state of its own."""
        for place, subset in enumerate(np.repeat(subsets, TWO, 0)):
            seed = self.seed + FIRST_SEED + TWO * first + place
            model = fitted(self.estimator, rows_of(self.train)[subset], self.train.y[subset], seed)
            yield partial(_said_by_estimator, model), type(model).__name__


def fits_of(model: Any, train: SampleSet, val: SampleSet, recipe: Recipe | None, seed: int) -> Fits:
    """The fits of a network or an estimator.

    Args:
        model: an estimator, or from a seed to a network at the weights that it starts from.
        train: n samples.
        val: m queries.
        recipe: of networks; None: Adam, 300 updates of 64 samples.
        seed: of first weights, batches and random states.

    Returns:
        The fits, nothing fitted yet.

    Raises:
        ModelError: the model does not suit the samples.
    """
    if is_estimator(model):
        return EstimatorFits(model, train, val, seed)
    return NetworkFits(model, train, val, recipe or Recipe(), seed)


def rows_of(samples: SampleSet) -> Float[np.ndarray, "n d"]:
    """Inputs as an estimator takes them.

    Args:
        samples: n of them.

    Returns:
        One row a sample.
    """
    return np.asarray(samples.x, np.float64).reshape(len(samples), -1)


def estimator_outputs(model: Any, samples: SampleSet) -> Float[Tensor, "n k"]:
    """What a fitted estimator says of samples: log chances, decision values or predictions.

    Args:
        model: the estimator, fitted.
        samples: n of them.

    Returns:
        One column a class or target; chances below 0.001 count as that.
    """
    width = samples.n_classes if samples.is_classification else samples.y[:1].size
    said = said_of(model, rows_of(samples), width, samples.is_classification)
    if samples.is_classification and hasattr(model, "predict_proba"):
        said = np.log(np.maximum(said, LEAST_CHANCE))
    return torch.as_tensor(said, dtype=torch.float64)


def measure_of(train: SampleSet) -> str:
    """What is asked of a query.

    Args:
        train: whose task.

    Returns:
        "margin" of classes, "output" of one target, else "loss".
    """
    if train.is_classification:
        return "margin"
    return "output" if train.y[:1].size == 1 else "loss"


def outcomes(
    outputs: Float[Tensor, "S m k"], samples: SampleSet, recipe: Recipe
) -> Float[Tensor, "S m"]:
    """What is asked of each sample.

    Args:
        outputs: of S fits on the samples.
        samples: m of them.
        recipe: whose loss.

    Returns:
        Margins (log odds under cross-entropy), outputs or losses.
    """
    measure, k = measure_of(samples), outputs.shape[2]
    if measure == "loss":
        return sample_losses(outputs, samples, recipe).double()
    targets = torch.as_tensor(samples.y).reshape(len(samples), -1)
    if samples.is_classification and k > 1:
        targets = nn.functional.one_hot(targets[:, 0].long(), k)
    asked = outcome(
        measure, recipe.loss, outputs[0], targets.double(),
        is_classification=samples.is_classification,
    )  # fmt: skip
    return asked(outputs)


def _said_by_networks(
    networks: TrainedNetworks, samples: SampleSet
) -> Iterator[tuple[Tensor, SampleSet]]:
    size = max(1, PASSED // len(next(iter(networks.state.values()))))
    for start in range(0, len(samples), size):
        part = samples.subset(np.arange(start, min(start + size, len(samples))))
        yield networks.outputs(part.x).double(), part


def _said_by_estimator(model: Any, samples: SampleSet) -> Iterator[tuple[Tensor, SampleSet]]:
    yield estimator_outputs(model, samples)[None], samples
