"""datassay: which training samples matter, and what to do about it."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

# Name → where it lives. Nothing here is imported until it is used, so `import datassay` costs
# milliseconds and loads neither torch nor plotly.
_EXPORTS = {
    "DataError": "datassay.errors",
    "DatassayError": "datassay.errors",
    "ModelError": "datassay.errors",
    "SettingError": "datassay.errors",
    "SampleSet": "datassay.data.samples",
    "load": "datassay.data.load",
    "add_label_noise": "datassay.data.noise",
    "build_model": "datassay.models.build",
    "Linearization": "datassay.collect.linearization",
    "collect": "datassay.collect.collect",
    "leave_one_out": "datassay.score.leave_one_out",
    "sample_information": "datassay.score.information",
    "label_issues": "datassay.score.label_issues",
    "learning_curve": "datassay.score.learning_curve",
    "summarize": "datassay.act.summarize",
    "removal_curve": "datassay.act.removal_curve",
}

__all__ = [*_EXPORTS, "__version__"]
__version__ = version("datassay")


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'datassay' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
