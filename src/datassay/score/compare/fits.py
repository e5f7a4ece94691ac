"""Fits of a network or an estimator to subsets of the samples, two to each, by different seeds."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.fingerprint import code_fingerprint
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.estimators import checked_estimator, is_estimator
from datassay.results import result
from datassay.score.effects import outcome
from datassay.store.digests import digest
from datassay.store.manifest import CODE
from datassay.train.learner import Estimators, Learner, Networks, estimator_outputs, rows_of
from datassay.train.recipe import Recipe
from datassay.train.retrain import fingerprint, networks_at_a_time
from datassay.train.training import TrainedNetworks, sample_losses, with_loss

FITS = 2  # to each subset: two show what seeds do; beyond that more subsets tell more
FIRST_SEED = 1000  # of the fits to subsets; networks on all samples have those before it
MOST_TOGETHER = 20  # networks side by side: more are not faster, and report less often
ESTIMATORS_TOGETHER = 5  # subsets
VALUES_AT_ONCE = 2**16  # networks times samples, in a forward pass
LEAST_PROBABILITY = 1e-3  # smaller ones count as this: an estimator may say 0


@result
class Fits:
    """Fits to subsets of the samples.

    Attributes:
        learner: what is fitted.
        train: n samples.
        val: m queries.
        recipe: whose loss is measured.
        size: number of subsets that are fitted together.
        identity: everything that determines the fits, plain JSON values.
    """

    learner: Learner
    train: SampleSet
    val: SampleSet
    recipe: Recipe
    size: int
    identity: dict[str, object]

    def fit(self, subsets: Int[np.ndarray, "p kept"], start: int) -> dict[str, np.ndarray]:
        """Return the outcomes [p, 2, m] and losses [p, 2, n] of two fits to each of p subsets."""
        # start: number of the first subset, by which seeds are set.
        measures = {"outcome": (outcomes, self.val), "loss": (sample_losses, self.train)}
        results: dict[str, list[Tensor]] = {key: [] for key in measures}
        repeated = np.repeat(subsets, FITS, 0)
        for fit in self.learner.fits(self.train, repeated, first_number=FITS * start):
            for key, (measure, samples) in measures.items():
                parts = _evaluate_by_part(fit, samples)
                values = torch.cat([measure(f, batch, self.recipe) for f, batch in parts], 1)
                if not values.isfinite().all():
                    name = f"a network with lr {self.recipe.lr:g}"
                    if not isinstance(fit, TrainedNetworks):
                        name = type(fit).__name__
                    raise ModelError(
                        f"what is trained on a half must stay finite; {name} diverged. Take a "
                        "smaller step."
                    )
                results[key].append(values)
        return {
            key: torch.cat(parts).unflatten(0, (-1, FITS)).float().numpy()
            for key, parts in results.items()
        }


def fits_of(model: Any, train: SampleSet, val: SampleSet, recipe: Recipe | None, seed: int) -> Fits:
    """Return the procedure that fits a network or estimator to subsets of `train`."""
    if is_estimator(model):
        return _prepare_estimator(model, train, val, seed)
    return _prepare_networks(model, train, val, with_loss(recipe or Recipe(), train), seed)


def _prepare_estimator(model: Any, train: SampleSet, val: SampleSet, seed: int) -> Fits:
    """Return the procedure that fits clones of an estimator to subsets."""
    estimator = checked_estimator(model, is_classification=train.is_classification)
    identity: dict[str, object] = {
        "model": repr(model),
        CODE: code_fingerprint(model),
        "training samples": digest({"x": train.x, "y": train.y}),
        "validation samples": digest({"x": val.x, "y": val.y}),
    }
    learner = Estimators(estimator, FITS, seed + FIRST_SEED)
    recipe = with_loss(Recipe(), train)
    return Fits(learner, train, val, recipe, ESTIMATORS_TOGETHER, identity)


def _prepare_networks(
    network: Callable[[int], nn.Module], train: SampleSet, val: SampleSet, recipe: Recipe, seed: int
) -> Fits:
    """Return the procedure that trains networks of different seeds on subsets, in stacks."""
    model = network(seed)
    batch = train.subset(np.arange(min(len(train), recipe.batch_size or len(train))))
    at_once = min(MOST_TOGETHER, networks_at_a_time(model, batch))
    identity = fingerprint(model, train, val, recipe)
    identity |= {"validation targets": digest({"y": val.y})}
    first_seed = seed + FIRST_SEED
    learner = Networks(
        lambda number: network(first_seed + number), recipe, FITS * FIRST_SEED * (seed + 1), at_once
    )
    return Fits(learner, train, val, recipe, max(1, at_once // FITS), identity)


def fitted_outputs(model: Any, samples: SampleSet) -> Float[Tensor, "n k"]:
    """Return a fitted estimator's outputs: log probabilities, decision values or predictions."""
    if samples.is_classification:
        width = samples.n_classes
    else:
        width = samples.y[:1].size
    outputs = estimator_outputs(model, rows_of(samples), width, samples.is_classification)
    if samples.is_classification and hasattr(model, "predict_proba"):
        outputs = np.log(np.maximum(outputs, LEAST_PROBABILITY))
    return torch.as_tensor(outputs, dtype=torch.float64)


def measure_of(train: SampleSet) -> str:
    """Return the name of the queries' measure: "margin", "output" of one target, or "loss"."""
    if train.is_classification:
        return "margin"
    if train.y[:1].size == 1:
        return "output"
    return "loss"


def outcomes(
    outputs: Float[Tensor, "S m k"], samples: SampleSet, recipe: Recipe
) -> Float[Tensor, "S m"]:
    """Return each sample's measure under each of S fits, [S, m]."""
    measure = measure_of(samples)
    k = outputs.shape[2]
    if measure == "loss":
        return sample_losses(outputs, samples, recipe).double()
    targets = torch.as_tensor(samples.y).reshape(len(samples), -1)
    if samples.is_classification and k > 1:
        targets = nn.functional.one_hot(targets[:, 0].long(), k)
    outcome_of = outcome(
        measure, recipe.loss, outputs[0], targets.double(),
        is_classification=samples.is_classification,
    )  # fmt: skip
    return outcome_of(outputs)


def _evaluate_by_part(fit: Any, samples: SampleSet) -> Iterator[tuple[Tensor, SampleSet]]:
    """Yield outputs [S, part, k] of S fits and the samples, part by part to save memory."""
    if not isinstance(fit, TrainedNetworks):
        yield fitted_outputs(fit, samples)[None], samples
        return
    n_networks = len(next(iter(fit.state.values())))
    size = max(1, VALUES_AT_ONCE // n_networks)
    for start in range(0, len(samples), size):
        batch = samples.subset(np.arange(start, min(start + size, len(samples))))
        yield fit.outputs(batch.x).double(), batch
