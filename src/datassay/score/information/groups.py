"""Information of whole groups of samples."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.score.information.group_removal import group_removals
from datassay.score.linear.many_outputs import is_mixed, mix_columns
from datassay.score.linear.training_run import TrainingRun, training_run
from datassay.score.registry import few_threads
from datassay.score.settings import Run, Smoothing

SMOOTHINGS = ("functional", "isotropic")


@result
class GroupInformation(Tabular):
    """Information that each group of samples gives, one row per group.

    Attributes:
        information: [g], nats, never negative: what training without the whole group changes. The
            informations of its samples do not add up to it: less where they repeat each other,
            more where they need each other.
        size: [g], samples in the group.
        names: [g], the labels, or the groups' positions in the list given.
        smoothing: "functional" or "isotropic".
        sigma: output unit (functional) or weight unit (isotropic).
    """

    information: Float[np.ndarray, " g"]
    size: Int[np.ndarray, " g"]
    names: Shaped[np.ndarray, " g"]
    smoothing: str
    sigma: float

    def to_table(self) -> pa.Table:
        """Return one row per group: group, size, information."""
        return pa.table({"group": self.names, "size": self.size, "information": self.information})


def group_information(
    lin: Linearization,
    groups: Sequence[np.ndarray] | Shaped[np.ndarray, " n"],
    *,
    smoothing: str = Smoothing.smoothing,
    sigma: float = Smoothing.sigma,
    progress: Progress = silent,
    **run: Unpack[Run],
) -> GroupInformation:
    """Compute the information that weights or predictions lose without whole groups.

    functional: (1/(2σ²m)) Σ_j ‖f(x_j) − f₋g(x_j)‖²;  isotropic: ‖w − w₋g‖²/(2σ²)

    Args:
        lin: the linearisation.
        groups: positions of each group's samples, one array per group (groups may overlap and
            differ in size), or one label per sample, [n], such as its class or source.
        smoothing: "functional" or "isotropic", as `sample_information`.
        sigma: σ, output unit or weight unit.
        progress: called with (step, groups done, groups in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`.

    Returns:
        Nats, one value per group, in the order given; labels in sorted order.

    Raises:
        SettingError: a group is empty, repeats a sample, names one that does not exist or leaves
            none; or a setting is out of range.

    Cost: one decomposition, shared; then that of `group_removals` and 2 m b p operations per group
    and column.
    Source: METHODS §2 and §3 with more rows per block; S1 §7 names it as open. Exact for the
    linearised network; a group of one is `sample_information`.
    """
    check_smoothing(smoothing, sigma)
    names, members = named_groups(groups, len(lin))
    training = training_run(lin, **run)
    if is_mixed(training):
        training = replace(training, residual=mix_columns(training.residual))
    return GroupInformation(
        information=informations(training, members, smoothing, sigma, progress),
        size=np.array([len(group) for group in members]),
        names=names,
        smoothing=smoothing,
        sigma=float(sigma),
    )


def check_smoothing(smoothing: str, sigma: float) -> None:
    """Raise if groups do not have this smoothing, or sigma is not positive."""
    require(smoothing in SMOOTHINGS, "smoothing", "be 'functional' or 'isotropic'", repr(smoothing))
    require(np.isfinite(sigma) and sigma > 0, "sigma", "be finite and positive", sigma)


def informations(
    training: TrainingRun,
    groups: Sequence[Int[Tensor, " _"]],
    smoothing: str,
    sigma: float,
    progress: Progress = silent,
) -> Float[np.ndarray, " g"]:
    """Return each group's information in nats, under one run."""
    basis = training.basis
    if smoothing == "functional":
        measure = basis.squared_predictions()
        n_terms = basis.n_queries
    else:
        measure = basis.squared_weights
        n_terms = 1
    squared_change = torch.zeros(len(groups), dtype=torch.float64)
    n, b, p = basis.rows.shape
    n_done = 0
    with few_threads(n * b, p):
        for chunk in group_removals(training, groups):
            squared_change[chunk.groups] = measure(chunk.coordinates)
            n_done += len(chunk.groups)
            progress("leave each group out", n_done, len(groups))
    return (squared_change / (2 * sigma**2 * n_terms)).numpy()


def named_groups(groups, n: int) -> tuple[np.ndarray, list[Int[Tensor, " _"]]]:
    """Return groups' names and their members' positions; raise if a group is unusable."""
    # groups: n labels, or a list of positions per group, whose names are 0, 1, ...
    require(len(groups) != 0, "groups", "hold at least one group", "none")
    if all(np.ndim(group) == 0 for group in groups):
        labels = np.asarray(groups)
        if len(labels) != n:
            raise SettingError(
                f"groups as labels must hold one label for each of {n} samples; got {len(labels)}. "
                "Or give one array of positions a group."
            )
        names = np.unique(labels)
        members = [np.flatnonzero(labels == name) for name in names]
    else:
        names = np.arange(len(groups))
        members = [np.asarray(group) for group in groups]
    for name, group in zip(names, members, strict=True):
        _check_group(name, group, n)
    return names, [torch.as_tensor(group).long() for group in members]


def _check_group(name: object, group: np.ndarray, n: int) -> None:
    """Raise unless a group is distinct positions of some, but not all, of n samples."""
    if group.ndim != 1 or len(group) == 0 or not np.issubdtype(group.dtype, np.integer):
        raise SettingError(
            f"a group must be a non-empty list of whole positions; group {name} is of shape "
            f"{group.shape} and type {group.dtype}."
        )
    if group.min() < 0 or group.max() >= n:
        position = group.min() if group.min() < 0 else group.max()
        raise SettingError(f"positions must be from 0 to {n - 1}; group {name} holds {position}.")
    if len(np.unique(group)) < len(group):
        raise SettingError(f"a group must name each sample once; group {name} repeats one.")
    if len(group) == n:
        raise SettingError(
            f"a group must leave at least one sample to train on; group {name} holds all {n}."
        )
