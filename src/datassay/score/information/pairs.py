"""Information that two samples share (redundancy) or give only together (synergy)."""

from typing import Unpack

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.score.information.groups import check_smoothing, informations
from datassay.score.linear.panels import all_rows
from datassay.score.linear.training_run import training_run
from datassay.score.settings import Queries, Run, Smoothing


def nearest_pairs(lin: Linearization) -> Int[np.ndarray, "q 2"]:
    """Return pairs of each sample with its most similar one by the kernel's cosine.

    cos(i, j) = tr Θ_ij / √(tr Θ_ii tr Θ_jj),  Θ_ij the b x b block of samples i and j

    Args:
        lin: the linearisation of n samples.

    Returns:
        Positions, the smaller first; between n/2 and n pairs. A sample without gradient has no
        nearest and starts no pair.

    Cost: n² values; of features 2 n² b p operations besides.
    Source: the cosine of gradients, as in Charpiat et al. (2019); our choice of candidates for
    `pair_information`, whose redundancy is largest among samples that move the same outputs.
    """
    cosine = cosines(lin)
    nearest = cosine.argmax(1).numpy()
    rows = np.flatnonzero(cosine.amax(1).isfinite().numpy())
    return np.unique(np.sort(np.stack([rows, nearest[rows]], 1), 1), axis=0)


def cosines(lin: Linearization) -> Float[Tensor, "n n"]:
    """Return kernel cosines of all samples, [n, n]; −∞ on the diagonal."""
    traces = _compute_traces(lin)
    length = traces.diagonal().clamp_min(0).sqrt()
    has_length = length > 0
    scale = torch.where(has_length, 1 / torch.where(has_length, length, 1.0), 0.0)
    cosine = traces.mul_(scale[:, None]).mul_(scale)  # in place: n² values are held once
    cosine.fill_diagonal_(-torch.inf)
    cosine[:, ~has_length] = -torch.inf
    cosine[~has_length] = -torch.inf
    return cosine


def _compute_traces(lin: Linearization) -> Float[Tensor, "n n"]:
    """Return tr Θ_ij for all pairs of samples, [n, n]."""
    n = len(lin)
    b = lin.rows_per_sample
    if lin.kernel is not None:
        return lin.kernel.reshape(n, b, n, b).diagonal(dim1=1, dim2=3).sum(-1)
    assert lin.features is not None
    rows = all_rows(lin.features).reshape(n, -1)
    return rows @ rows.T


@result
class PairInformation(Tabular):
    """Information of pairs of samples, one row per pair.

    Attributes:
        pairs: [q, 2], positions.
        ids: [q, 2], the samples' ids.
        single: [q, 2], nats: information of each sample alone.
        joint: [q], nats: information of both, left out together.
        interaction: [q], nats: I(i) + I(j) − I(i, j). Negative: redundancy; each stands in for the
            other (a sample with a duplicate has I = 0, and only both are missed) or both push the
            same way. Positive: synergy; each adds more given the other, as samples that contradict
            each other do. 0: no interaction.
        smoothing: "functional" or "isotropic".
        sigma: output unit (functional) or weight unit (isotropic).
    """

    pairs: Int[np.ndarray, "q 2"]
    ids: np.ndarray
    single: Float[np.ndarray, "q 2"]
    joint: Float[np.ndarray, " q"]
    interaction: Float[np.ndarray, " q"]
    smoothing: str
    sigma: float

    def to_table(self) -> pa.Table:
        """Return one row per pair: id_a, id_b, information_a, information_b, joint, interaction."""
        return pa.table({
            "id_a": self.ids[:, 0],
            "id_b": self.ids[:, 1],
            "information_a": self.single[:, 0],
            "information_b": self.single[:, 1],
            "joint": self.joint,
            "interaction": self.interaction,
        })


def pair_information(
    lin: Linearization,
    pairs: ArrayLike | None = None,
    *,
    among: ArrayLike | None = None,
    top: int | None = Queries.top,
    smoothing: str = Smoothing.smoothing,
    sigma: float = Smoothing.sigma,
    alone: Float[np.ndarray, " n"] | None = None,
    progress: Progress = silent,
    **run: Unpack[Run],
) -> PairInformation:
    """Compute the redundancy (negative) or synergy (positive) of pairs, I(i) + I(j) − I(i, j).

    Args:
        lin: the linearisation.
        pairs: [q, 2] positions; or else
        among: all pairs of these positions; or else
        top: all pairs of this many most informative samples.
        smoothing: "functional" or "isotropic", as `sample_information`.
        sigma: σ, output unit or weight unit.
        alone: `sample_information` of each sample, where it is known under the same settings.
        progress: called with (step, pairs done, pairs in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`.

    Returns:
        Nats, one row per pair.

    Raises:
        SettingError: not exactly one of pairs, among and top is given, positions are not whole
            numbers of that shape or do not exist, a pair names one sample twice, there are fewer
            than three samples, or a setting is out of range.

    Cost: one decomposition, shared; then about 4 p (m b + 60 b) operations per pair and column.
    Source: METHODS §3; S1 §7 names it as open. Exact for the linearised network. The sign follows
    from what S1 measures, the information of a sample given all others: with R the rest,
    I(i) + I(j) − I(i, j) is I(i | R, j) − I(i | R), what j's presence adds to i.
    """
    check_smoothing(smoothing, sigma)
    n = len(lin)
    pairs = _check_positions("pairs", pairs, (-1, 2))
    among = _check_positions("among", among, (-1,))
    _check_choice(n, pairs, among, top)
    training = training_run(lin, **run)
    candidates = coalesce(among, pairs)
    members = np.arange(n) if candidates is None else np.unique(candidates)
    extreme = members[0] if members[0] < 0 else members[-1]
    require(0 <= extreme < n, "positions", f"be from 0 to {n - 1}", extreme)
    information = np.full(n, np.nan)  # of the members alone
    if alone is None:
        singletons = list(torch.as_tensor(members)[:, None])
        information[members] = informations(training, singletons, smoothing, sigma)
    else:
        information[members] = alone[members]
    if pairs is None:
        selected = members
        if top is not None:
            selected = np.argsort(-information, kind="stable")[:top]
        pairs = selected[np.stack(np.triu_indices(len(selected), 1), 1)]
    joint = informations(training, list(torch.as_tensor(pairs)), smoothing, sigma, progress)
    return PairInformation(
        pairs=pairs,
        ids=lin.ids[pairs],
        single=information[pairs],
        joint=joint,
        interaction=information[pairs].sum(1) - joint,
        smoothing=smoothing,
        sigma=float(sigma),
    )


def _check_positions(
    name: str, values: ArrayLike | None, shape: tuple[int, ...]
) -> np.ndarray | None:
    """Return positions as an int64 array; raise unless whole and of this shape."""
    if values is None:
        return None
    positions = np.asarray(values)
    has_shape = positions.ndim == len(shape) and positions.shape[1:] == shape[1:]
    if not has_shape or not np.issubdtype(positions.dtype, np.integer):
        rule = "[q, 2]" if len(shape) == 2 else "[s]"
        raise SettingError(
            f"{name} must be {rule} whole positions; got shape {list(positions.shape)} and type "
            f"{positions.dtype}."
        )
    return positions.astype(np.int64)


def _check_choice(n: int, pairs, among, top) -> None:
    """Raise unless exactly one of pairs, among and top is given, and samples suffice."""
    settings = {"pairs": pairs, "among": among, "top": top}
    names = [name for name, value in settings.items() if value is not None]
    if len(names) != 1:
        got = ", ".join(names) or "none"
        raise SettingError(f"give exactly one of pairs, among and top; got {got}.")
    if n < 3:
        raise SettingError(f"pairs need at least 3 samples, so that one is left; got {n}.")
    if top is not None and not 2 <= top <= n:
        raise SettingError(f"top must be from 2 to the {n} samples; got {top}.")
    if among is not None and len(np.unique(among)) < 2:
        raise SettingError(f"among must hold at least 2 positions; got {len(np.unique(among))}.")
    if pairs is not None and (len(pairs) == 0 or (pairs[:, 0] == pairs[:, 1]).any()):
        raise SettingError("pairs must hold at least one pair, each of two different samples.")
