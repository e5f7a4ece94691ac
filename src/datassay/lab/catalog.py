"""The table of contents: chapters of the course, and the experiments of each."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator

from datassay.errors import SettingError
from datassay.lab.experiment import Experiment

# Chapter → names of its experiments; the file of "weight-decay" is weight_decay.py.
CHAPTERS: dict[str, tuple[str, ...]] = {
    "From kernels to networks": (),
    "What gradient descent learns first": (),
    "Complexity": (),
    "Explicit regularisation": ("weight-decay",),
    "Implicit regularisation": (),
    "Step size, initialisation, noise": (),
    "Architecture": (),
    "Symmetry in data": (),
    "What a network looks at": (),
    "Finding laws": ("pde-discovery", "simulated-laws", "network-dictionary"),
    "Generative models": ("autoencoder", "variational-autoencoder", "gan", "optimal-discriminator"),
}


def experiments() -> Iterator[tuple[str, Experiment]]:
    """Every experiment, in the order of the course.

    Yields:
        (chapter, experiment).
    """
    for chapter, names in CHAPTERS.items():
        for name in names:
            yield chapter, experiment(name)


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    Args:
        name: as `datassay lab` lists it.

    Returns:
        The experiment.

    Raises:
        SettingError: there is none of that name.
    """
    known = [n for names in CHAPTERS.values() for n in names]
    if name not in known:
        near = difflib.get_close_matches(name, known, 3, 0.4)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise SettingError(
            f"experiment must be one of those that `datassay lab` lists, or all; got {name!r}. "
            f"{hint}"
        )
    module = importlib.import_module(f"datassay.lab.{name.replace('-', '_')}")
    return module.EXPERIMENT
