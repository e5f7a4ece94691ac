"""Fit models to many subsets of samples: networks together, estimators one by one.

Both kinds have the same methods, which give the predictions of R fits to R subsets for other
samples. `folds` decides which samples are held out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import expit, softmax
from torch import Tensor, nn

from datassay.collect.curvature.output_loss import sample_scores
from datassay.collect.fingerprint import code_fingerprint
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.build import build_model
from datassay.models.estimators import by_class, class_probabilities, fit_clone, named_estimator
from datassay.models.reference import is_reference
from datassay.models.tabular import TREES, column_parts, draws
from datassay.models.user_code import user_code
from datassay.optional import map_optional
from datassay.progress import Progress, silent
from datassay.rules import at_least
from datassay.store.digests import digest
from datassay.store.manifest import CODE
from datassay.train.recipe import Recipe, network_recipe
from datassay.train.retrain import CONVOLUTIONS, fingerprint
from datassay.train.training import TrainedNetworks, train_networks

# Most memory for weights, gradients and Adam's moments of networks that train together.
NETWORK_BYTES = 2**28


class _Learner(ABC):
    """A model that is fitted to R subsets, and predicts other samples."""

    takes_weights: bool
    is_random = True  # whether fits to the same samples differ

    @abstractmethod
    def fits(
        self,
        train: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        *,
        first_number: int = 0,
    ) -> Iterator[Any]:
        """Fit once to each subset; yield stacks of trained networks, or estimators one by one."""
        # weights: of each sample of train in the loss, of any scale; None: all equal.
        # first_number: fit i has the seed of number first_number + i.

    @abstractmethod
    def predictions(
        self, model: Any, val: SampleSet, n_classes: int
    ) -> Float[Tensor | np.ndarray, "fits m k"]:
        """Return what `fits` yielded predicts for other samples; 0 classes: a regression."""

    def outputs(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        progress: Progress = silent,
        *,
        first_number: int = 0,
    ) -> Float[np.ndarray, "R m k"]:
        """Return each of R fits' predictions on val, a column per class or target."""
        if not self.is_random and len(subsets) > 1 and (subsets == subsets[0]).all():
            # All fits are equal: one is enough.
            shared = self.outputs(
                train, val, subsets[:1], weights, progress, first_number=first_number
            )
            return np.repeat(shared, len(subsets), 0)
        n_classes = train.n_classes if train.is_classification else 0
        outputs = []
        for fits in self.fits(train, subsets, weights, first_number=first_number):
            outputs.append(np.asarray(self.predictions(fits, val, n_classes)))
            progress("fit", sum(map(len, outputs)), len(subsets))
        return np.concatenate(outputs)

    def answers(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m k"]:
        """Return `outputs` of the same arguments as class probabilities, or as targets."""
        outputs = self.outputs(train, val, subsets, weights, progress)
        if train.is_classification:
            return self.probabilities(outputs)
        return outputs

    def probabilities(self, outputs: Float[np.ndarray, "R m k"]) -> Float[np.ndarray, "R m c"]:
        """Return the class probabilities that outputs stand for; here they are the outputs."""
        return outputs

    def errors(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m"]:
        """Return the error of each fit on each validation sample: 1 minus its score."""
        outputs = torch.from_numpy(self.outputs(train, val, subsets, progress=progress))
        return 1 - sample_scores(outputs, val).numpy()


class Networks(_Learner):
    """Networks trained together, one per repeat.

    Args:
        models: R networks of one architecture with their initial weights, or from the number of a
            fit to its network.
        recipe: training settings; None: Adam, batches of 64, 20 epochs of the subset but 500 to
            3000 updates.
        seed: random seed of the batches.
        at_once: networks that train together; None: as many as a quarter of a GiB holds, one of
            convolutions, which are slower stacked.

    Raises:
        SettingError: models is empty.
    """

    takes_weights = True

    def __init__(
        self,
        models: Sequence[nn.Module] | Callable[[int], nn.Module],
        recipe: Recipe | None = None,
        seed: int = 0,
        at_once: int | None = None,
    ):
        if not callable(models) and not models:
            raise SettingError("models must hold one network per repeat; got none.")
        if callable(models):
            self.models = models
        else:
            self.models = list(models)
        self.recipe = recipe
        self.seed = seed
        self.at_once = at_once or _count_stackable(self._get_model(0))

    def _get_model(self, number: int) -> nn.Module:
        """Return the network for fit `number`, at its initial weights."""
        if callable(self.models):
            return self.models(number)
        return self.models[number]

    @property
    def repeats(self) -> int:
        """The number of repeats, R."""
        if callable(self.models):
            return 1
        return len(self.models)

    def identity(self, train: SampleSet, val: SampleSet) -> dict[str, object]:
        """Return all that determines the outputs, as JSON values; val's targets do not."""
        recipe = self.recipe or network_recipe(len(train))
        causes = fingerprint(self._get_model(0), train, val, recipe)
        return causes | {"repeats": self.repeats, "seed of the fits": self.seed}

    def fits(
        self,
        train: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        *,
        first_number: int = 0,
    ) -> Iterator[TrainedNetworks]:
        """Yield stacks of trained networks, one network per row of subsets, in order."""
        recipe = self.recipe or network_recipe(subsets.shape[1])
        weight = map_optional(torch.as_tensor, weights)
        for start in range(0, len(subsets), self.at_once):
            rows = torch.as_tensor(subsets[start : start + self.at_once])
            numbers = range(first_number + start, first_number + start + len(rows))
            yield train_networks(
                [self._get_model(number) for number in numbers], train, rows, recipe,
                seed=self.seed + numbers[0], sample_weight=weight,
            )  # fmt: skip

    def predictions(
        self, model: TrainedNetworks, val: SampleSet, n_classes: int
    ) -> Float[Tensor, "fits m k"]:
        """Return logits where there are classes (one output for two classes), or targets."""
        return model.outputs_in_parts(val.x)

    def probabilities(self, outputs: Float[np.ndarray, "R m k"]) -> Float[np.ndarray, "R m c"]:
        """Return class probabilities from logits; a single logit is that of class 1."""
        if outputs.shape[2] > 1:
            return softmax(outputs, 2)
        probability = expit(outputs)
        return np.concatenate([1 - probability, probability], 2)


class Estimators(_Learner):
    """A scikit-learn estimator, cloned and fitted once per repeat.

    Args:
        estimator: with fit and predict; its random_state, if it has one, is set to seed + repeat.
        repeats: R.
        seed: random state of the first repeat.
        dtype: of the rows that it sees; None: that of the samples.
        is_random: whether fits to the same samples differ; else one answers for all repeats.

    Raises:
        ModelError: the estimator has no fit or no predict.
        SettingError: repeats is below 1.
    """

    def __init__(
        self,
        estimator: Any,
        repeats: int,
        seed: int = 0,
        dtype: type | None = np.float64,
        *,
        is_random: bool = True,
    ):
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise ModelError(
                "the estimator must have fit and predict; got "
                f"{type(estimator).__name__}. Give a classifier or a regressor."
            )
        at_least("repeats", repeats, 1)
        self.estimator = estimator
        self.repeats = repeats
        self.seed = seed
        self.dtype = dtype
        self.is_random = is_random

    @property
    def takes_weights(self) -> bool:  # pyrefly: ignore[bad-override] (read only)
        """Whether the estimator's fit has an argument sample_weight."""
        from sklearn.utils.validation import has_fit_parameter  # slow to import

        return has_fit_parameter(self.estimator, "sample_weight")

    def identity(self, train: SampleSet, val: SampleSet) -> dict[str, object]:
        """Return all that determines the outputs, as JSON values; val's targets do not."""
        return {
            "model": repr(self.estimator),
            CODE: code_fingerprint(self.estimator),
            "training samples": digest({"x": train.x, "y": train.y}),
            "validation inputs": digest({"x": val.x}),
            "scikit-learn": version("scikit-learn"),
            "repeats": self.repeats,
            "seed of the fits": self.seed,
        }

    def fits(
        self,
        train: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        *,
        first_number: int = 0,
    ) -> Iterator[Any]:
        """Yield a fitted clone of the estimator per row of subsets, each with its own seed."""
        rows = rows_of(train, self.dtype)
        for number, idx in enumerate(subsets, first_number):
            weight = None
            if weights is not None:
                weight = weights[idx] / weights[idx].mean()
            yield fit_clone(self.estimator, rows[idx], train.y[idx], self.seed + number, weight)

    def predictions(self, model: Any, val: SampleSet, n_classes: int) -> Float[np.ndarray, "1 m k"]:
        """Return one-hot predicted classes, or predicted targets if n_classes is 0."""
        with user_code(
            lambda error: f"the estimator must predict; {type(model).__name__} raised {error}"
        ):
            predicted = model.predict(rows_of(val, self.dtype))
        if n_classes:
            return np.eye(n_classes)[predicted][None]
        return np.asarray(predicted, np.float64).reshape(1, len(val), -1)


Learner = Networks | Estimators


def named_learner(name: str, train: SampleSet, *, repeats: int, seed: int = 0) -> Learner:
    """Return the learner of a model by name: the user's estimator, or networks."""
    at_least("repeats", repeats, 1)
    if is_reference(name):
        estimator = named_estimator(name)
        if estimator is not None:
            return Estimators(estimator, repeats, seed)
    models = [build_model(name, train, seed=seed + r) for r in range(repeats)]
    return Networks(models, seed=seed)


def table_learner(name: str, train: SampleSet, *, repeats: int, seed: int = 0) -> Estimators:
    """Return the learner of one of the usual models of tables, by its name.

    Args:
        name: of `models.tabular`.
        train: samples of the task.
        repeats: R; one fit serves all of a linear model, or of trees for a small regression.
        seed: random state of the first repeat.

    Returns:
        The learner.
    """
    from datassay.models.table_estimators import TableClassifier, TableRegressor

    kind = TableRegressor
    if train.is_classification:
        kind = TableClassifier
    parts = ()
    if name == TREES:
        parts = column_parts(train)
    return Estimators(kind(name, parts=parts), repeats, seed, is_random=draws(name, train))


def rows_of(samples: SampleSet, dtype: type | None = np.float64) -> Float[np.ndarray, "n d"]:
    """Return the inputs as an estimator takes them: one row per sample."""
    return np.asarray(samples.x, dtype).reshape(len(samples), -1)


def estimator_outputs(
    estimator: Any, x: np.ndarray, width: int, is_classification: bool
) -> Float[np.ndarray, "n k"]:
    """Return a fitted estimator's class probabilities, decision values or targets per sample."""
    if not is_classification:
        return np.asarray(estimator.predict(x), np.float64).reshape(len(x), width)
    # A class whose only samples are held out is unknown to this fit; it has a column all the same.
    if hasattr(estimator, "predict_proba"):
        return class_probabilities(estimator, x, width)
    values = np.asarray(estimator.decision_function(x))
    if values.ndim == 1:  # of two classes, positive for the second
        values = np.stack([-values, values], 1) / 2
    return by_class(estimator, values, width, unseen=float(values.min()))


def _count_stackable(model: nn.Module) -> int:
    """Return how many networks fit in one stack; 1 for convolutions, slower when stacked."""
    if any(isinstance(m, CONVOLUTIONS) for m in model.modules()):
        return 1
    weights = sum(p.numel() for p in model.parameters())
    return max(1, NETWORK_BYTES // (16 * max(1, weights)))
