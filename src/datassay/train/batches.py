"""The samples of each update: all samples, each network's own subset, or minibatches."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from datassay.errors import SettingError
from datassay.optional import text_if
from datassay.results import result

# Full-batch networks whose subsets hold at least this share of the samples share one pass over all
# of them, with weight 0 where a network lacks one: no copies, and one product for first layers.
SHARED_FROM = 0.8


@result
class Batch:
    """The samples of one update of S networks.

    Attributes:
        x: inputs, [n, ...] (shared by all networks) or [S, batch, ...].
        y: targets, the same leading axes.
        weights: [S, n] or [S, batch]: of each sample in its network's loss, summing to 1.
        positions: [S, n] or [S, batch]: each sample's position among all n.
        is_shared: whether all networks share x and y.
    """

    x: Tensor
    y: Tensor
    weights: Float[Tensor, "S samples"]
    positions: Int[Tensor, "S samples"]
    is_shared: bool = False


def batches(
    x: Num[Tensor, "n ..."],
    y: Tensor,
    subsets: Int[Tensor, "S kept"],
    steps: int,
    batch_size: int | None,
    seed: int,
    dtype: torch.dtype,
) -> Iterator[Batch]:
    """Yield a batch per update for S networks; network s draws from subsets[s]."""
    # Batches lie where x does; their order is drawn in main memory, alike for every device.
    # Cost: S · batch inputs gathered an update; full batches are gathered once, or never when the
    # subsets hold most samples (then S n instead of S kept samples pass through the networks).
    if batch_size is None:
        full_batch = _full_batch(x, y, subsets, dtype)
        for _ in range(steps):
            yield full_batch
        return
    size = min(batch_size, subsets.shape[1])
    weights = torch.full((len(subsets), size), 1 / size, dtype=dtype, device=x.device)
    seeds = [stream(seed, s) for s in range(len(subsets))]
    for idx in _shuffle(x, subsets, steps, size, seeds):
        yield Batch(_rows(x, idx), _rows(y, idx), weights, idx)


def stream(seed: int, network: int) -> int:
    """Return the seed of the order in which network number `network` sees its samples."""
    return 1_000_003 * seed + network


def ragged_batches(
    x: Num[Tensor, "n ..."],
    y: Tensor,
    subsets: Sequence[Int[Tensor, " _"]],
    *,
    steps: int,
    size: int,
    streams: Sequence[int],
    versions: Sequence[int],
    weights: Float[Tensor, "S n"] | None,
    dtype: torch.dtype,
) -> Iterator[Batch]:
    """Yield minibatches of networks whose subsets differ in size, each as `batches` draws them."""
    # y: the n targets of each version of the labels, one version after the other. versions: which
    # one each network learns from. size: of a batch, at most the smallest subset. streams: seed of
    # each network's order. weights: mean 1 over each network's subset; None: all equal.
    uniform = torch.full((len(subsets), size), 1 / size, dtype=dtype, device=x.device)
    version_start = torch.as_tensor(versions, device=x.device)[:, None] * len(x)
    if weights is not None:
        weights = weights.to(x.device)
    orders = [
        _shuffle(x, rows[None], steps, size, [seed])
        for rows, seed in zip(subsets, streams, strict=True)
    ]
    for rows in zip(*orders, strict=True):
        idx = torch.cat(rows)
        batch_weights = uniform
        if weights is not None:
            batch_weights = uniform * weights.gather(1, idx)
        yield Batch(_rows(x, idx), _rows(y, idx + version_start), batch_weights, idx)


def multiply_weights(
    batches: Iterator[Batch],
    subsets: Int[Tensor, "S kept"],
    sample_weight: Tensor | Callable[[Tensor], Tensor],
) -> Iterator[Batch]:
    """Yield the batches with weights times `sample_weight` (array or function of positions)."""
    if not callable(sample_weight):
        weight = _scale_to_mean_one(sample_weight, subsets)
        for batch in batches:
            weight = weight.to(batch.positions.device)
            factor = weight.gather(1, batch.positions).to(batch.weights.dtype)
            yield replace(batch, weights=batch.weights * factor)
        return
    for batch in batches:
        factor = sample_weight(batch.positions.cpu())
        if factor.shape != batch.positions.shape or not _are_valid_weights(factor):
            raise SettingError(
                "sample_weight must give a finite weight of at least 0 for every position, "
                f"{list(batch.positions.shape)}; got shape {list(factor.shape)}"
                f"{text_if(not _are_valid_weights(factor), ' with others')}."
            )
        yield replace(batch, weights=batch.weights * factor.to(batch.weights))


def _are_valid_weights(weight: Tensor) -> bool:
    return bool(((weight >= 0) & weight.isfinite()).all())


def _scale_to_mean_one(weight: Tensor, subsets: Int[Tensor, "S kept"]) -> Float[Tensor, "S n"]:
    """Return weights scaled to mean 1 over each network's subset, [S, n]."""
    if weight.ndim not in {1, 2} or (weight.ndim == 2 and len(weight) != len(subsets)):
        raise SettingError(
            f"sample_weight must be [n] or [networks, n], {len(subsets)} networks; got shape "
            f"{list(weight.shape)}."
        )
    if weight.shape[-1] <= int(subsets.max()) or not _are_valid_weights(weight):
        raise SettingError(
            "sample_weight must hold a finite weight of at least 0 for every sample; got "
            f"{weight.shape[-1]} weights, {int((~(weight >= 0)).sum())} of them negative or NaN."
        )
    weight = weight.double().expand(len(subsets), -1)
    mean = weight.gather(1, subsets).mean(1, keepdim=True)
    if not bool((mean > 0).all()):
        raise SettingError("sample_weight must be positive somewhere in every subset; got all 0.")
    return weight / mean


def _rows(t: Tensor, positions: Int[Tensor, "S size"]) -> Tensor:
    """Return t[positions] five times faster, as whole rows are copied."""
    return t.index_select(0, positions.flatten()).unflatten(0, positions.shape)


def _full_batch(x: Tensor, y: Tensor, subsets: Int[Tensor, "S kept"], dtype: torch.dtype) -> Batch:
    """Return one batch of each network's whole subset, or of all n samples with weights."""
    n_networks, subset_size = subsets.shape
    subsets = subsets.to(x.device)
    options = {"dtype": dtype, "device": x.device}
    if subset_size < SHARED_FROM * len(x):
        weights = torch.full((n_networks, subset_size), 1 / subset_size, **options)
        return Batch(x[subsets], y[subsets], weights, subsets)
    weights = torch.zeros(n_networks, len(x), **options)
    weights.scatter_add_(1, subsets, torch.full(subsets.shape, 1 / subset_size, **options))
    positions = torch.arange(len(x), device=x.device)
    return Batch(x, y, weights, positions.expand(n_networks, -1), is_shared=True)


def _shuffle(
    x: Tensor, subsets: Int[Tensor, "S kept"], steps: int, size: int, seeds: Sequence[int]
) -> Iterator[Int[Tensor, "S size"]]:
    """Yield positions of each update's samples; each network reshuffles every epoch."""
    subset_size = subsets.shape[1]
    streams = [torch.Generator().manual_seed(seed) for seed in seeds]
    order = subsets
    n_used = subset_size  # so that the first update shuffles
    for _ in range(steps):
        if n_used + size > subset_size:
            order = torch.stack([
                row[torch.randperm(subset_size, generator=g)]
                for row, g in zip(subsets, streams, strict=True)
            ]).to(x.device)
            n_used = 0
        yield order[:, n_used : n_used + size]
        n_used += size
