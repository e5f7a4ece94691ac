"""Fit models to many subsets of samples: networks together, estimators one by one.

Both kinds answer the same two questions: what R fits to R subsets say of other samples, and how far
each is from the given targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import expit, softmax
from sklearn.utils.validation import has_fit_parameter
from torch import nn

from datassay.act.weigh.features import network_recipe
from datassay.act.weigh.gain import sample_scores
from datassay.collect.model_code import code_fingerprint
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.build import build_model
from datassay.models.estimators import fitted, named_estimator
from datassay.models.reference import is_reference
from datassay.models.user_code import user_code
from datassay.progress import Progress, silent
from datassay.store.manifest import CODE, digest
from datassay.train.recipe import Recipe
from datassay.train.retrain import CONVOLUTIONS, fingerprint
from datassay.train.training import train_networks

# Most memory for weights, gradients and Adam's moments of networks that train together.
NETWORK_BYTES = 2**28
CHUNK = 4096


class _Fits(ABC):
    """R fits to R subsets, asked about other samples."""

    takes_weights: bool

    @abstractmethod
    def outputs(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m k"]:
        """What each fit says of the validation samples.

        Args:
            train: N samples.
            val: m samples; only their inputs are read.
            subsets: positions that each fit learns from.
            weights: of each sample of train in the loss, of any scale; None: all alike.
            progress: called with (step, fits done, fits in all).

        Returns:
            One column a class or target.

        Raises:
            ModelError: the model cannot be fitted to a subset, or takes no weights.
        """

    def answers(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m k"]:
        """The outputs as class probabilities, or as targets; the arguments are theirs."""
        outputs = self.outputs(train, val, subsets, weights, progress)
        return self.probabilities(outputs) if train.is_classification else outputs

    def probabilities(self, outputs: Float[np.ndarray, "R m k"]) -> Float[np.ndarray, "R m c"]:
        """What outputs of classes say of each class: here they are probabilities already."""
        return outputs

    def errors(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m"]:
        """Error of each fit on each validation sample: 1 minus its score."""
        outputs = torch.from_numpy(self.outputs(train, val, subsets, progress=progress))
        return 1 - sample_scores(outputs, val).numpy()


class Networks(_Fits):
    """Networks trained together, one per repeat.

    Args:
        models: R networks of one architecture with their initial weights.
        recipe: training settings; None: Adam, batches of 64, 20 epochs of the subset but 500 to
            3000 updates.
        seed: random seed of the batches.

    Raises:
        SettingError: models is empty.
    """

    def __init__(self, models: Sequence[nn.Module], recipe: Recipe | None = None, seed: int = 0):
        if not models:
            raise SettingError("models must hold one network a repeat; got none.")
        self.models, self.recipe, self.seed = list(models), recipe, seed

    takes_weights = True

    @property
    def repeats(self) -> int:
        """R."""
        return len(self.models)

    def identity(self, train: SampleSet, val: SampleSet) -> dict[str, object]:
        """Everything that determines the errors, as plain JSON values."""
        recipe = self.recipe or network_recipe(train)
        causes = fingerprint(self.models[0], train, val, recipe)
        return causes | {"repeats": self.repeats, "seed of the fits": self.seed}

    def outputs(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m k"]:
        """Logits where there are classes, one of two with one output; or targets."""
        recipe = self.recipe or network_recipe(train.subset(subsets[0]))
        outputs, at_once = [], _at_once(self.models[0])
        weight = None if weights is None else torch.as_tensor(weights)
        for start in range(0, len(subsets), at_once):
            part = slice(start, start + at_once)
            networks = train_networks(
                self.models[part], train, torch.as_tensor(subsets[part]), recipe,
                seed=self.seed + start, sample_weight=weight,
            )  # fmt: skip
            x = torch.as_tensor(val.x).to(getattr(torch, recipe.precision))
            outputs += [torch.cat([networks.outputs(c).double() for c in x.split(CHUNK)], 1)]
            progress("fit", min(part.stop, len(subsets)), len(subsets))
        return torch.cat(outputs).numpy()

    def probabilities(self, outputs: Float[np.ndarray, "R m k"]) -> Float[np.ndarray, "R m c"]:
        """Of logits: one of two classes, or one a class."""
        if outputs.shape[2] > 1:
            return softmax(outputs, 2)
        chance = expit(outputs)
        return np.concatenate([1 - chance, chance], 2)


class Estimators(_Fits):
    """A scikit-learn estimator, cloned and fitted once per repeat.

    Args:
        estimator: with fit and predict; its random_state, if it has one, is set to seed + repeat.
        repeats: R.
        seed: random state of the first repeat.

    Raises:
        ModelError: the estimator has no fit or no predict.
        SettingError: repeats is below 1.
    """

    def __init__(self, estimator: Any, repeats: int, seed: int = 0):
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise ModelError(
                "the estimator must have fit and predict; got "
                f"{type(estimator).__name__}. Give a classifier or a regressor."
            )
        if repeats < 1:
            raise SettingError(f"repeats must be at least 1; got {repeats}.")
        self.estimator, self._repeats, self.seed = estimator, repeats, seed

    @property
    def repeats(self) -> int:
        """R."""
        return self._repeats

    def identity(self, train: SampleSet, val: SampleSet) -> dict[str, object]:
        """Everything that determines the errors, as plain JSON values."""
        return {
            "model": repr(self.estimator),
            CODE: code_fingerprint(self.estimator),
            "training samples": digest({"x": train.x, "y": train.y}),
            "validation inputs": digest({"x": val.x}),
            "scikit-learn": version("scikit-learn"),
            "repeats": self.repeats,
            "seed of the fits": self.seed,
        }

    def outputs(
        self,
        train: SampleSet,
        val: SampleSet,
        subsets: Int[np.ndarray, "R n"],
        weights: Float[np.ndarray, " N"] | None = None,
        progress: Progress = silent,
    ) -> Float[np.ndarray, "R m k"]:
        """1 for the class that a fit names and 0 for others, or targets."""
        rows, queries, told = _rows(train), _rows(val), []
        for r, chosen in enumerate(subsets):
            weight = None if weights is None else weights[chosen] / weights[chosen].mean()
            said = self._said(r, rows[chosen], train.y[chosen], queries, weight)
            if train.is_classification:
                told.append(np.eye(train.n_classes)[said])
            else:
                told.append(np.asarray(said, np.float64).reshape(len(val), -1))
            progress("fit", r + 1, len(subsets))
        return np.stack(told)

    @property
    def takes_weights(self) -> bool:
        """Whether its fit has an argument sample_weight."""
        return has_fit_parameter(self.estimator, "sample_weight")

    def _said(
        self, r: int, x: np.ndarray, y: np.ndarray, queries: np.ndarray, weight: np.ndarray | None
    ) -> np.ndarray:
        one = fitted(self.estimator, x, y, self.seed + r, weight)
        with user_code(
            lambda error: f"the estimator must predict; {type(one).__name__} raised {error}"
        ):
            return one.predict(queries)


Learner = Networks | Estimators


def named_learner(name: str, train: SampleSet, *, repeats: int, seed: int = 0) -> Learner:
    """Build the learner that a user names.

    Args:
        name: as in `build_model`, or package.module:name of an estimator, its class, or a function
            without arguments that returns one, such as "sklearn.svm:SVC".
        train: the samples; they set the scaling layer of built-in networks.
        repeats: R.
        seed: random seed of the first fit; each repeat starts from other weights.

    Returns:
        Networks, or an estimator.

    Raises:
        ModelError: the name or the module cannot be used.
        SettingError: repeats is below 1.
    """
    if repeats < 1:
        raise SettingError(f"repeats must be at least 1; got {repeats}.")
    if is_reference(name):
        estimator = named_estimator(name)
        if estimator is not None:
            return Estimators(estimator, repeats, seed)
    models = [build_model(name, train, seed=seed + r) for r in range(repeats)]
    return Networks(models, seed=seed)


def _at_once(model: nn.Module) -> int:
    """Number of networks that train together; 1 for convolutions, which are slower stacked."""
    if any(isinstance(m, CONVOLUTIONS) for m in model.modules()):
        return 1
    weights = sum(p.numel() for p in model.parameters())
    return max(1, NETWORK_BYTES // (16 * max(1, weights)))


def _rows(samples: SampleSet) -> Float[np.ndarray, "n d"]:
    return np.asarray(samples.x, np.float64).reshape(len(samples), -1)
