"""Damping and temperature of a network of classes, chosen by training it again, linearised.

Trained on halves of the samples, it tells which setting predicts best what becomes of the samples
of the other half.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from datassay.collect.gradients.batches import IGNORED, outputs_of, to_model
from datassay.collect.gradients.blocks import Block
from datassay.collect.gradients.recording import Gradients
from datassay.collect.loss import MOST_SUMMED
from datassay.optional import drop_none
from datassay.score.effects import outcome
from datassay.score.influence.block_basis import (
    BlockBasis,
    first_sums,
    kronecker_bases,
    square_sums,
)
from datassay.score.influence.exact_blocks import Penalty, damping_of, exact_rule
from datassay.score.influence.linearized.training import (
    Runs,
    linearize,
    output_slopes,
    retrain,
    training_seconds,
)
from datassay.score.influence.trained_network import TrainedNetwork

SHARES = (10.0, 1.0, 0.1)  # dampings that are compared, of a block's mean eigenvalue
# As many samples are drawn as give JACOBIAN_VALUES, but at least FEWEST, up to MOST_VALUES.
JACOBIAN_VALUES = 2**22
MOST_VALUES = 2**24
FEWEST = 80
QUERIES = 128  # of the samples, whose margins are predicted
PAIRS = 8  # of halves, each of all samples that the other leaves out


@dataclass(frozen=True, slots=True)
class Choice:
    """The setting by which effects agree best with the linearised network trained on halves.

    Attributes:
        damping: share of each block's mean eigenvalue.
        temperature: T.
        correlation: of predicted with retrained margins over the halves without a sample, mean over
            samples.
    """

    damping: float
    temperature: float
    correlation: float

    def __str__(self) -> str:
        return f" chosen by linearised training (correlation {self.correlation:.2f})"


def choose(
    network: TrainedNetwork, curvature: str, weight_decay: float, seed: int
) -> Choice | None:
    """Return the damping and temperature that best predict retraining on halves of the samples."""
    # None where the network is too large, or has no single class per sample.
    subsample = _draw_samples(network, seed)
    if subsample is None:
        return None
    jacobian, f, y = linearize(subsample)
    has_target = y != IGNORED
    n = len(y)
    generator = np.random.default_rng(seed)
    halves = np.array([generator.permutation(n) < n // 2 for _ in range(PAIRS)])
    is_in_half = torch.from_numpy(np.concatenate([halves, ~halves])).to(f.device) & has_target
    shares = torch.cat([has_target[None], is_in_half]).to(f)
    shares = shares / shares.sum(1, keepdim=True)
    training_loss = replace(network.loss, temperature=1.0)
    outputs = retrain(Runs(jacobian.flatten(0, 1), f, y, shares[:1], training_loss), shares[1:])
    if outputs is None:
        return None
    targets = nn.functional.one_hot(y.clamp_min(0), f.shape[1]).to(f)
    margin = outcome("margin", "cross_entropy", f, targets, is_classification=True)
    half_margins = torch.stack([margin(half) for half in outputs])[:, :QUERIES]  # [halves, q]
    leaf = f.double().requires_grad_()
    margin_slopes = torch.autograd.grad(margin(leaf).sum(), leaf)[0].to(f)
    q_gradients = torch.einsum("qk,qkp->qp", margin_slopes[:QUERIES], jacobian[:QUERIES])
    is_absent = (~is_in_half & has_target)[:, :QUERIES]
    losses = drop_none(network.loss, network.self_influence_loss)
    slopes = torch.cat([output_slopes(loss, f, y) for loss in losses])
    gradients = torch.einsum("ank,nkp->anp", slopes.view(-1, *f.shape), jacobian).flatten(0, 1)
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.cat([*network.loss.roots(f[:, None], y[:, None], generator)], 1)  # [n, r, k]
    roots = torch.einsum("nrk,nkp->nrp", vectors, jacobian).flatten(0, 1)
    is_exact = exact_rule(curvature, n, subsample.per_sample.blocks)
    penalties = [Penalty(share * network.n / n, float(weight_decay)) for share in SHARES]
    products = _apply_inverse(subsample, roots, is_exact, penalties, gradients, q_gradients, seed)
    choices = []
    for share, by_loss in zip(
        SHARES, products.view(len(SHARES), -1, n, len(q_gradients)), strict=True
    ):
        for loss, effects in zip(losses, -by_loss, strict=True):
            predicted = is_in_half.to(effects) @ effects
            correlation = _mean_correlation(predicted, half_margins, is_absent)
            choices.append(Choice(share, loss.temperature, correlation))
    return max(choices, key=lambda choice: choice.correlation)


def choice_samples(network: TrainedNetwork, seed: int) -> tuple[int, float]:
    """Return how many samples `choose` would linearise, and the seconds of training on halves.

    Args:
        network: the trained one.
        seed: of the draw.

    Returns:
        n and seconds; 0 and 0 where nothing would be chosen.

    Cost: memory for the Jacobian of these samples, a few passes over it.
    """
    subsample = _draw_samples(network, seed)
    if subsample is None:
        return 0, 0.0
    n = subsample.n
    k = network.n_outputs or 1
    p = sum(block.size for block in network.per_sample.blocks)
    weight = next(network.model.parameters())
    outputs = weight.new_ones(n, k)
    runs = Runs(
        weight.new_full((n * k, p), 0.01), outputs, outputs[:, 0].long() * 0,
        outputs.new_full((1, n), 1 / n), replace(network.loss, temperature=1.0),
    )  # fmt: skip
    return n, training_seconds(runs, 2 * PAIRS)


def _draw_samples(network: TrainedNetwork, seed: int) -> TrainedNetwork | None:
    """Return the network on a subsample to linearise; None where too few samples fit."""
    loss = network.loss
    train = network.train
    k = network.n_outputs
    is_plain = train.subset is not None and train.weights is None and not train.is_streamed
    if loss.name != "cross_entropy" or k is None or k < 2 or not is_plain:
        return None
    sample_values = k * sum(block.size for block in network.per_sample.blocks)
    n = min(network.n, max(FEWEST, JACOBIAN_VALUES // sample_values))
    if n < FEWEST or n * sample_values > MOST_VALUES:
        return None
    assert train.subset is not None
    order = np.random.default_rng(seed).permutation(network.n)[:n]
    subset = train.subset(order.tolist())
    batch = to_model(next(iter(subset))[1], network.model)
    with torch.no_grad():
        f, y = loss.align(outputs_of(network.model, batch), loss.targets(batch))
    if f.shape[1] != 1 or y.is_floating_point():  # several places, or probabilities
        return None
    return replace(network, train=subset, n=n, removed=None, vectors=MOST_SUMMED)


def _apply_inverse(
    network: TrainedNetwork,
    roots: Float[Tensor, "r p"],
    is_exact: Callable[[Block], bool],
    penalties: list[Penalty],
    gradients: Float[Tensor, "a p"],
    queries: Float[Tensor, "q p"],
    seed: int,
) -> Float[Tensor, "penalties a q"]:
    """Return gradientsᵀ P queries for each penalty, P the inverse of the damped Hessian by blocks.

    Roots R are those of exact blocks, RᵀR = n H. Cost: of these, with s the smaller and l the
    larger of r and size, 2 s² l operations and s³ / 3 a penalty. Others take two passes over the
    network's samples.
    """
    blocks = network.per_sample.blocks
    bases = _fit_factored_bases(network, {b.name: b for b in blocks if not is_exact(b)}, seed)
    shape = len(penalties), len(gradients), len(queries)
    total = gradients.new_zeros(shape, dtype=torch.float64)
    start = 0
    for block in blocks:
        columns = slice(start, start + block.size)
        start += block.size
        factors = gradients[:, columns], queries[:, columns]
        if is_exact(block):
            total += _multiply_by_exact_inverse(roots[:, columns], network.n, penalties, *factors)
        elif block.name in bases:
            total += _multiply_by_factored_inverse(bases[block.name], penalties, *factors)
    return total


def _fit_factored_bases(
    network: TrainedNetwork, blocks: dict[str, Block], seed: int
) -> dict[str, BlockBasis]:
    """Return {name: Kronecker basis} of these blocks, with the mean loss's eigenvalues."""
    if not blocks:
        return {}

    def roots() -> Iterator[Gradients]:
        for gradients in network.roots(seed, "choose damping"):
            yield {name: uses for name, uses in gradients.items() if name in blocks}

    some_blocks = list(blocks.values())
    bases = kronecker_bases(some_blocks, first_sums(some_blocks, roots(), set()), network.dtype)
    for (name, _), squares in square_sums(bases, roots()).items():
        bases[name].eigenvalues = squares / network.n
    return bases


def _multiply_by_exact_inverse(
    roots: Float[Tensor, "r size"],
    n: int,
    penalties: list[Penalty],
    gradients: Float[Tensor, "a size"],
    queries: Float[Tensor, "q size"],
) -> Float[Tensor, "penalties a q"]:
    """Return gradientsᵀ (RᵀR / n + damping)⁻¹ queries, by Woodbury's identity where r < size."""
    mean_eigenvalue = roots.double().square().sum() / (n * roots.shape[1])
    is_wide = len(roots) < roots.shape[1]
    if is_wide:
        hessian = (roots @ roots.T).double() / n
        inner_gradients = (gradients @ roots.T).double() / n
        inner_queries = (roots @ queries.T).double()
    else:
        hessian = (roots.T @ roots).double() / n
        inner_gradients = gradients.double()
        inner_queries = queries.T.double()
    raw_products = (gradients @ queries.T).double()
    products = []
    for penalty in penalties:
        damping = damping_of(mean_eigenvalue, penalty)
        if not damping:  # no curvature, no decay: the block is left out
            products.append(torch.zeros_like(raw_products))
            continue
        damped_hessian = hessian + damping * torch.eye(len(hessian)).to(hessian)
        product = inner_gradients @ torch.cholesky_solve(
            inner_queries, torch.linalg.cholesky(damped_hessian)
        )
        products.append((raw_products - product) / damping if is_wide else product)
    return torch.stack(products)


def _multiply_by_factored_inverse(
    basis: BlockBasis,
    penalties: list[Penalty],
    gradients: Float[Tensor, "a size"],
    queries: Float[Tensor, "q size"],
) -> Float[Tensor, "penalties a q"]:
    """Return gradientsᵀ P queries for each penalty, P the damped inverse in a Kronecker basis."""
    rotated_gradients = basis.to_basis(gradients)
    rotated_queries = basis.to_basis(queries)
    products = []
    for penalty in penalties:
        damped_basis = replace(basis, damping=damping_of(basis.eigenvalues, penalty))
        products.append(
            rotated_gradients @ (rotated_queries * damped_basis.inverse().to(queries)).T
        )
    return torch.stack(products).double()


def _mean_correlation(
    a: Float[Tensor, "halves q"], b: Float[Tensor, "halves q"], mask: Bool[Tensor, "halves q"]
) -> float:
    """Return the mean over queries of the Pearson correlation of a and b over masked halves.

    Queries for which a or b is constant are left out; 0 if that leaves none.
    """
    weight = mask / mask.sum(0).clamp_min(1)
    a = (a - (a * weight).sum(0)) * mask
    b = (b - (b * weight).sum(0)) * mask
    lengths = (a.square().sum(0) * b.square().sum(0)).sqrt()
    varies = lengths > 0
    if not varies.any():
        return 0.0
    return float(((a * b).sum(0)[varies] / lengths[varies]).mean())
