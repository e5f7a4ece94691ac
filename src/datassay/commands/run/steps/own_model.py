"""The user's scikit-learn model: it judges labels and is retrained; a network stands beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from datassay.commands.run.settings import TrainingSettings
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.estimators import checked_estimator, named_estimator
from datassay.models.names import AUTO, full_name
from datassay.models.reference import is_reference

S = TypeVar("S", bound=TrainingSettings)


def with_network(settings: S, train: SampleSet) -> S:
    """Settings whose model is a network, with nothing left to guess in its name.

    Args:
        settings: of a run; `model` may name a scikit-learn estimator, or `own` be one.
        train: the samples.

    Returns:
        The same; where an estimator was named it is `own`, and the model the default network.

    Raises:
        ModelError: the module cannot be imported, or the estimator is for another task.
        SettingError: weights were given for an estimator.
    """
    if settings.given is not None:
        return settings
    own = settings.own
    if own is None and is_reference(settings.model):
        own = named_estimator(settings.model)
    if own is None:
        return replace(settings, model=full_name(settings.model, train))
    if settings.weights is not None:
        raise SettingError(f"weights are of a network; the model is {settings.model}. Leave out.")
    own = checked_estimator(own, is_classification=train.is_classification)
    return replace(settings, model=full_name(AUTO, train), own=own)


def own_facts(settings: TrainingSettings) -> dict[str, str]:
    """Which scores are the user's model's, and which the network's."""
    if settings.own is None:
        return {}
    return {
        "Your model": f"{type(settings.own).__name__}: it judges the labels and is retrained on "
        f"what is kept; scores that need gradients (information, effects) are of {settings.model}"
    }
