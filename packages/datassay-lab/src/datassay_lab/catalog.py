"""Table of contents: the chapters of the course and their experiments."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator

from datassay.errors import SettingError
from datassay_lab.experiment import Experiment

# Chapter → names of its experiments.
CHAPTERS: dict[str, tuple[str, ...]] = {
    "From kernels to networks": (
        "ntk-width",
        "lazy-training",
        "linearized-training",
        "universal-approximation",
    ),
    "What gradient descent learns first": (
        "eigenmodes",
        "spectral-bias",
    ),
    "Complexity": (
        "polynomial-overfitting",
        "bias-variance",
        "double-descent",
        "generative-discriminative",
    ),
    "Explicit regularisation": (
        "weight-decay",
        "input-noise",
        "dropout",
        "normalization",
        "adversarial-training",
    ),
    "Implicit regularisation": (
        "minimum-norm",
        "matrix-completion",
        "early-stopping",
        "finite-steps",
    ),
    "Step size, initialisation, noise": (
        "step-size",
        "xavier",
        "flat-minima",
        "stationary-covariance",
    ),
    "Architecture": (
        "linear-convolution",
        "shift-equivariance",
        "permutation-equivariance",
        "depth-compositionality",
    ),
    "Symmetry in data": (
        "augmented-gradient",
        "symmetric-weights",
        "shift-averaging",
        "invariant-loss",
    ),
    "What a network looks at": (
        "class-activation",
        "fourier-mask",
        "first-filters",
        "texture-shape",
        "wavelets-trees",
        "out-of-distribution",
    ),
    "Finding laws": (
        "pde-discovery",
        "simulated-laws",
        "network-dictionary",
    ),
    "Generative models": (
        "autoencoder",
        "variational-autoencoder",
        "gan",
        "optimal-discriminator",
    ),
}

# Chapter → its folder; the file of "weight-decay" is regularisation/weight_decay.py.
_FOLDERS = {
    "From kernels to networks": "kernels",
    "What gradient descent learns first": "learned_first",
    "Complexity": "complexity",
    "Explicit regularisation": "regularisation",
    "Implicit regularisation": "implicit",
    "Step size, initialisation, noise": "steps",
    "Architecture": "architecture",
    "Symmetry in data": "symmetry",
    "What a network looks at": "looking",
    "Finding laws": "laws",
    "Generative models": "generative",
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
    """Experiment by name.

    Args:
        name: as `datassay lab` lists it.

    Returns:
        The experiment.

    Raises:
        SettingError: no experiment has that name.
    """
    known = [n for names in CHAPTERS.values() for n in names]
    if name not in known:
        near = difflib.get_close_matches(name, known, 3, 0.6)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise SettingError(
            f"experiment must be one of those that `datassay lab` lists, or all; got {name!r}. "
            f"{hint}"
        )
    return importlib.import_module(module_of(name)).EXPERIMENT


def module_of(name: str) -> str:
    """Module of an experiment.

    Args:
        name: of a known experiment.

    Returns:
        The dotted name of its module.
    """
    chapter = next(c for c, names in CHAPTERS.items() if name in names)
    return f"datassay_lab.{_FOLDERS[chapter]}.{name.replace('-', '_')}"
