"""What three and more samples or groups tell in common, at least one of them, and only together."""

from collections.abc import Sequence
from itertools import combinations
from typing import Unpack

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import Tabular, result
from datassay.rules import require
from datassay.score.information.group_removal import group_removals
from datassay.score.information.groups import named_groups
from datassay.score.information.pairs import cosines
from datassay.score.linear.training_run import training_run
from datassay.score.settings import Run, Smoothing

MOST_PARTS = 8  # all 2^s − 1 unions of s parts are left out


@result
class CommonInformation(Tabular):
    """What the parts of each set tell, given all samples outside the set; one row per set.

    Attributes:
        common: [q], nats: what each part tells alone, at every query the least of them.
        any_one: [q], nats: at every query the most that one part tells alone.
        jointly: [q], nats: what all parts together tell.
        interaction: [q], nats: Σ (−1)^(|B|+1) I(B) over the unions B of parts, I(B) what is lost
            without B; of two parts that of `pair_information`.
        size: [q], parts in the set.
        sigma: output unit.
    """

    common: Float[np.ndarray, " q"]
    any_one: Float[np.ndarray, " q"]
    jointly: Float[np.ndarray, " q"]
    interaction: Float[np.ndarray, " q"]
    size: Int[np.ndarray, " q"]
    sigma: float

    @property
    def share(self) -> Float[np.ndarray, " q"]:
        """The share common / jointly, [q]: near 1 where any one part stands in for all; 0 of 0."""
        is_positive = self.jointly > 0
        return np.where(is_positive, self.common / np.where(is_positive, self.jointly, 1.0), 0.0)

    @property
    def synergy(self) -> Float[np.ndarray, " q"]:
        """What only several parts together tell, [q], nats; negative where they pull apart."""
        return self.jointly - self.any_one

    def to_table(self) -> pa.Table:
        """Return one row per set: size, common, any_one, jointly, synergy, interaction."""
        names = ("size", "common", "any_one", "jointly", "synergy", "interaction")
        return pa.table({name: getattr(self, name) for name in names})


def nearest_sets(lin: Linearization, size: int = 3, most: int = 20) -> Int[np.ndarray, "q size"]:
    """Return sets of `size` samples that are most alike in the kernel.

    Args:
        lin: the linearisation of n samples.
        size: samples in a set, 2 to 8.
        most: sets, those of the largest cosine first; none twice.

    Returns:
        Positions, ascending in each set.

    Raises:
        SettingError: size is out of range.

    Cost: as `nearest_pairs`.
    Source: ours. A set's cosine is the least of one sample with the others. `pair_information`
    does not see three copies: without two of them the third still says the same.
    """
    require(2 <= size <= MOST_PARTS, "size", f"be from 2 to {MOST_PARTS}", size)
    if size > len(lin):
        return np.empty((0, size), np.int64)
    cosine, nearest = cosines(lin).topk(size - 1, dim=1)
    least_cosine = cosine[:, -1]  # of each sample with its size − 1 nearest
    rows = torch.arange(len(nearest))[:, None]
    sets = torch.cat([rows, nearest], 1).sort(1).values.numpy()
    falling = least_cosine.argsort(descending=True)
    order = falling[least_cosine[falling].isfinite()].tolist()
    distinct = dict.fromkeys(tuple(sets[i].tolist()) for i in order)
    return np.array(list(distinct)[:most], np.int64).reshape(-1, size)


def common_information(
    lin: Linearization,
    sets: Sequence[Sequence[int | ArrayLike]],
    *,
    sigma: float = Smoothing.sigma,
    progress: Progress = silent,
    **run: Unpack[Run],
) -> CommonInformation:
    """Compute how far several samples or groups repeat each other, or inform only jointly.

    a_i(x) = f_{R ∪ i}(x) − f_R(x), R all samples outside the set; I_i(x) = ‖a_i(x)‖²/(2σ²)
    common = mean_x min_i I_i(x);  any_one = mean_x max_i I_i(x);  jointly = mean_x I_{1…s}(x)

    Where common is near jointly any one part stands in for all: the others can go.

    Args:
        lin: the linearisation; its validation inputs are the queries, else its training inputs.
        sets: each of two to eight parts, a part a position or an array of positions.
        sigma: σ of the smoothing noise, output unit.
        progress: called with (step, unions done, unions in all).
        run: lr, steps, weight_decay, reduction and dynamics of `leave_one_out`.

    Returns:
        Nats, one row per set.

    Raises:
        SettingError: a set has fewer than two parts or more than eight, two parts share a sample, a
            set leaves no sample, positions do not exist, or a setting is out of range.

    Cost: one decomposition, shared; per set that of leaving out 2^s − 1 groups (`group_removals`)
    and 2 m b p operations and m k values for each.
    Source: S1 §7 names it as open, with Williams and Beer (2010); I_min and I_max are theirs with
    the query in the place of the target's outcome and S1's information in that of Shannon's, so
    that synergy can be negative. Exact for the linearised network.
    """
    require(np.isfinite(sigma) and sigma > 0, "sigma", "be finite and positive", sigma)
    require(len(sets) > 0, "sets", "hold at least one set", "none")
    set_parts = [_check_parts(parts, len(lin)) for parts in sets]
    training = training_run(lin, **run)
    rows = training.basis.query_rows()
    m = training.basis.n_queries
    unions = [  # a set, and which of its parts
        (q, union)
        for q, parts in enumerate(set_parts)
        for n_parts in range(1, len(parts) + 1)
        for union in combinations(range(len(parts)), n_parts)
    ]
    removed = [torch.cat([set_parts[q][i] for i in union]) for q, union in unions]
    # f − f without each union, [m, k], by set.
    changes: list[dict[tuple[int, ...], Tensor]] = [{} for _ in sets]
    n_done = 0
    for chunk in group_removals(training, removed):
        for position, w in zip(chunk.groups.tolist(), chunk.coordinates.unbind(1), strict=True):
            q, union = unions[position]
            changes[q][union] = (rows @ w).reshape(m, -1)
        n_done += len(chunk.groups)
        progress("common information", n_done, len(unions))
    measures = np.array([_measure_set(set_changes) for set_changes in changes]) / (2 * sigma**2)
    common, any_one, jointly, interaction = measures.T
    size = np.array(list(map(len, set_parts)))
    return CommonInformation(common, any_one, jointly, interaction, size, float(sigma))


def _measure_set(
    changes: dict[tuple[int, ...], Float[Tensor, "m k"]],
) -> tuple[float, float, float, float]:
    """Return common, any_one, jointly and interaction of one set, times 2σ²."""
    # `changes` has f − f without each union of parts, all that are not empty.
    every_part = max(changes, key=len)
    complements = [tuple(j for j in every_part if j != i) for i in every_part]
    # f with part i alone minus f with none: (f − f₋A) − (f − f₋(A∖i)).
    by_parts = [(changes[every_part] - changes[u]).square().sum(1) for u in complements]
    by_part = torch.stack(by_parts)  # [s, m]
    lost = {union: float(change.square().sum(1).mean()) for union, change in changes.items()}
    interaction = sum(
        (-1) ** (len(union) + 1) * lost[union] for union in sorted(lost, key=lambda u: (len(u), u))
    )
    common = float(by_part.amin(0).mean())
    any_one = float(by_part.amax(0).mean())
    return common, any_one, lost[every_part], float(interaction)


def _check_parts(parts: Sequence[int | ArrayLike], n: int) -> list[Int[Tensor, " _"]]:
    """Return the positions of a set's parts; raise if they overlap or leave no sample."""
    require(2 <= len(parts) <= MOST_PARTS, "a set", f"have 2 to {MOST_PARTS} parts", len(parts))
    _, members = named_groups([np.atleast_1d(np.asarray(p)) for p in parts], n)
    merged = torch.cat(members)
    if len(merged.unique()) < len(merged):
        raise SettingError("parts of a set must share no sample; one is in two. Merge the parts.")
    named_groups([merged.numpy()], n)  # raises if the set leaves no sample
    return members
