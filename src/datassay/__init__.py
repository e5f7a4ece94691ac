"""datassay: which training samples matter, and what to do about it."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datassay.act.partition.blocks import partition
    from datassay.act.purify.loop import purify
    from datassay.act.remove.removal_curve import removal_curve as removal_curve
    from datassay.act.remove.summarize import summarize
    from datassay.act.sample.taylor import taylor_sample
    from datassay.act.weigh.reweight import reweight
    from datassay.act.weigh.weights import local_variance_weights
    from datassay.collect.collection import collect
    from datassay.collect.linearization import Linearization as Linearization
    from datassay.data.corrupt.label_noise import add_label_noise
    from datassay.data.load import load
    from datassay.data.samples import SampleSet
    from datassay.errors import DataError as DataError
    from datassay.errors import DatassayError
    from datassay.errors import ModelError as ModelError
    from datassay.errors import SettingError as SettingError
    from datassay.estimators.local_variance import (
        LocalVarianceClassifier,
        LocalVarianceRegressor,
    )
    from datassay.estimators.partitioned import PartitionedClassifier, PartitionedRegressor
    from datassay.estimators.polynomial import PolynomialClassifier, PolynomialRegressor
    from datassay.estimators.purifier import Purifier
    from datassay.models.build import build_model
    from datassay.score.attribution import attribution
    from datassay.score.influence.methods import influence
    from datassay.score.influence_moments import influence_moments
    from datassay.score.label_issues import label_issues
    from datassay.score.learning_curve import learning_curve as learning_curve
    from datassay.score.leave_one_out import leave_one_out
    from datassay.score.removal_effects import removal_effects
    from datassay.score.sample_information import sample_information
    from datassay.train.retrain import retrain as retrain

__version__ = version("datassay")
# The kinds of DatassayError and a few more are attributes too (see _HOMES), but no names to learn.
__all__ = [
    "DatassayError",
    "LocalVarianceClassifier",
    "LocalVarianceRegressor",
    "PartitionedClassifier",
    "PartitionedRegressor",
    "PolynomialClassifier",
    "PolynomialRegressor",
    "Purifier",
    "SampleSet",
    "add_label_noise",
    "attribution",
    "build_model",
    "collect",
    "influence",
    "influence_moments",
    "label_issues",
    "leave_one_out",
    "load",
    "local_variance_weights",
    "partition",
    "purify",
    "removal_effects",
    "reweight",
    "sample_information",
    "summarize",
    "taylor_sample",
]

# Name → where it lives. Nothing here is imported until it is used, so `import datassay` costs
# milliseconds and loads neither torch nor plotly.
_HOMES = {
    "DataError": "errors",
    "DatassayError": "errors",
    "Linearization": "collect.linearization",
    "LocalVarianceClassifier": "estimators.local_variance",
    "LocalVarianceRegressor": "estimators.local_variance",
    "ModelError": "errors",
    "PartitionedClassifier": "estimators.partitioned",
    "PartitionedRegressor": "estimators.partitioned",
    "PolynomialClassifier": "estimators.polynomial",
    "PolynomialRegressor": "estimators.polynomial",
    "Purifier": "estimators.purifier",
    "SampleSet": "data.samples",
    "SettingError": "errors",
    "add_label_noise": "data.corrupt.label_noise",
    "attribution": "score.attribution",
    "build_model": "models.build",
    "collect": "collect.collection",
    "influence": "score.influence.methods",
    "influence_moments": "score.influence_moments",
    "label_issues": "score.label_issues",
    "learning_curve": "score.learning_curve",
    "leave_one_out": "score.leave_one_out",
    "load": "data.load",
    "local_variance_weights": "act.weigh.weights",
    "purify": "act.purify.loop",
    "partition": "act.partition.blocks",
    "removal_curve": "act.remove.removal_curve",
    "removal_effects": "score.removal_effects",
    "retrain": "train.retrain",
    "reweight": "act.weigh.reweight",
    "sample_information": "score.sample_information",
    "summarize": "act.remove.summarize",
    "taylor_sample": "act.sample.taylor",
}


class _Package(ModuleType):
    """This package, with `datassay.collect` the function although a folder has that name too.

    The import system would bind the folder there; `from datassay.collect.x import y` needs no such
    binding and goes on working.
    """

    def __getattr__(self, name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'datassay' has no attribute {name!r}")
        return getattr(import_module(f"datassay.{_HOMES[name]}"), name)

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(__all__)


sys.modules[__name__].__class__ = _Package
