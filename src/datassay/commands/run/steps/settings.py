"""Checks of the settings before any work, and the network that goes with the user's model."""

from dataclasses import replace
from typing import TypeVar

from torch import nn

from datassay.collect.jacobian.inputs import check_device
from datassay.commands.run.settings import RunSettings, TrainingSettings
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.build import build_model, copy_or_build
from datassay.models.estimators import checked_estimator, named_estimator
from datassay.models.names import AUTO, FEATURES, HEAD, full_name
from datassay.models.reference import is_reference
from datassay.score.information.average import check_memory
from datassay.store.location import check_place

S = TypeVar("S", bound=TrainingSettings)

# Units of the networks that are trained again where the model's name leaves them open: half as many
# as of the one that is linearised, at half the time.
WIDTH = 256


def check_settings(settings: RunSettings, n_samples: int) -> None:
    """Raise if the settings do not suit the number of samples or this machine."""
    s = settings
    s.refuse(only_plan=False)
    if s.store is not None:
        check_place(s.store)
    check_memory(s.subsets, n_samples)
    check_device(s.device)


def with_network(settings: S, train: SampleSet) -> S:
    """Return settings with the model's full name, or the estimator that it names."""
    if settings.network is not None:
        return settings
    estimator = settings.estimator
    if estimator is None and is_reference(settings.model):
        estimator = named_estimator(settings.model)
    if estimator is None:
        is_open = settings.model == AUTO and settings.weights is None
        return replace(settings, model=full_name(settings.model, train), is_open=is_open)
    if settings.weights is not None:
        raise SettingError(f"weights are of a network; the model is {settings.model}. Leave out.")
    estimator = checked_estimator(estimator, is_classification=train.is_classification)
    return replace(settings, model=full_name(AUTO, train), estimator=estimator)


def with_width(settings: RunSettings) -> RunSettings:
    """Return settings whose network has the width of retrained ones, if its name leaves it open."""
    name = settings.model
    is_open = name == HEAD or (name.startswith(FEATURES) and name.endswith(f"+{HEAD}"))
    if not is_open or settings.weights is not None or settings.attribution_at == "trained":
        return settings
    return replace(settings, model=f"{name}:width={WIDTH}")


def retrained_network(
    model: nn.Module, train: SampleSet, settings: RunSettings
) -> tuple[nn.Module, RunSettings]:
    """Return the network that is retrained for curve and actions, and settings naming it."""
    config = with_width(settings)
    if config.model != settings.model:
        model = starting_network(train, config)
    return model, config


def starting_network(train: SampleSet, settings: RunSettings, index: int = 0) -> nn.Module:
    """Return the untrained network of seed `settings.seed + index`; 0 is the linearised one."""
    seed = settings.seed + index
    if settings.network is not None:  # from its own weights, where it is no function that makes one
        return copy_or_build(settings.network, seed)
    return build_model(settings.model, train, weights=settings.weights, seed=seed)
