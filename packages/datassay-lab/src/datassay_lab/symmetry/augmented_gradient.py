"""Augmenting with full orbits makes the gradient equivariant: ∇L(gW) = g ∇L(W)."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from datassay.progress import Progress, silent
from datassay_lab.checks import Agreement, check_args, one_of, share, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import GROUPS, digit_images, pixel_orders, relative_error, track

SIDE = 8  # of the digits, pixels
PARTS = (0.015, 0.06, 0.125, 0.25, 0.5, 0.75, 0.875, 1.0)  # of the orbit, to compare


@dataclass(frozen=True, slots=True)
class AugmentedGradient:
    """‖∇L(gW) − g∇L(W)‖ / ‖∇L(W)‖ for every member g of the group."""

    # parts of the orbit that augmentation used, the last as set (1: all).
    shares: Float[np.ndarray, " s"]
    largest: Float[np.ndarray, " s"]  # the largest error over all members
    errors: Float[np.ndarray, " G"]  # by member, of the share as set
    half: Float[np.ndarray, " G"]  # by member, augmented with half of each orbit, drawn at random
    # by member, augmented with every second member, which form a group too.
    subgroup: Float[np.ndarray, " G"]

    @property
    def agreement(self) -> Agreement:
        """The largest error over the members of the group."""
        error = float(self.errors.max())
        return Agreement("largest relative error of ∇L(gW) = g∇L(W)", error, 1e-12)


@check_args
def augmented_gradient(
    *,
    n_images: Annotated[int, whole()] = 20,
    width: Annotated[int, whole()] = 16,
    group: Annotated[str, one_of(GROUPS)] = "shifts",
    share: Annotated[float, share] = 1.0,
    seed: int = 0,
    progress: Progress = silent,
) -> AugmentedGradient:
    """Compare gradients on augmented digits, at weights W and at moved weights gW.

    L(W) = (1/Q) Σᵢ Σ_j ℓ(vᵀ tanh(W g_j xᵢ), yᵢ),   ∇L(gW) = g ∇L(W) for all g

    Args:
        n_images: digits, labelled even or odd.
        width: M, hidden units. g moves the pixels of every row of W; v is random and stays.
        group: "shifts" (64 cyclic ones) or "rotations" (4).
        share: of the group that augmentation uses, drawn at random where below 1.
        seed: of the images, the weights and the parts of orbits.
        progress: called after each share.

    Returns:
        Errors by share and by member.

    Cost: 5 |G|² gradients of M · 64 weights on n images; about a second.
    Source: S2 class 4, "Equivariance and learned weights", Theorem 1. It needs the group's closure
    and gᵀ = g⁻¹, so pixels that are permuted; nothing is asked of v, σ or ℓ.
    S2's vᵀσ′ stands for one row per unit, v_m σ′_m.
    """
    rng = np.random.default_rng(seed)
    images, labels = digit_images(seed, n_images)
    x, y = images.reshape(n_images, -1), np.where(labels % 2, 1.0, -1.0)
    orders = pixel_orders(group, SIDE)
    w, v = rng.normal(size=(width, SIDE**2)) / SIDE, rng.normal(size=width)

    def errors(members: np.ndarray) -> Float[np.ndarray, " G"]:
        augmented = x[:, orders[members]].reshape(-1, x.shape[1])
        signs = np.repeat(y, len(members))
        gradient = _gradient(w, v, augmented, signs)
        moved = (_gradient(w[:, order], v, augmented, signs) for order in orders)
        pairs = zip(moved, orders, strict=True)
        return np.array([relative_error(g, gradient[:, order]) for g, order in pairs])

    n_members, by_count = len(orders), []
    random_members = rng.permutation(n_members)
    n_used = max(1, round(share * n_members))
    counts = sorted({max(1, round(n_used * fraction)) for fraction in PARTS})
    for count in track(counts, progress, "parts of the orbit"):
        by_count.append(errors(random_members[:count]))
    half = errors(random_members[: n_members // 2])
    return AugmentedGradient(
        np.array(counts) / n_members, np.array([f.max() for f in by_count]), by_count[-1],
        half, errors(np.arange(0, n_members, 2)),
    )  # fmt: skip


@add_titles
def augmented_gradient_plots(result: AugmentedGradient) -> Figures:
    """Draw the error by share of the orbit, and by member."""
    share = axes("share of the orbit used", "largest error of ∇L(gW) = g∇L(W)")
    add_data(share, result.shares, result.largest, "random part of the orbit")
    theory(share, [result.shares[0], 1], [0, 0], "full orbit")
    member = axes("member g of the group, in order", "error of ∇L(gW) = g∇L(W)")
    positions = np.arange(len(result.errors))
    add_data(member, positions, result.half, "random half", series=1, mode="markers")
    add_data(member, positions, result.subgroup, "subgroup: every second", series=2, mode="markers")
    add_data(member, positions, result.errors, "as set", mode="markers")
    theory(member, positions, np.zeros(len(positions)), "full orbit")
    return share, member


def _gradient(
    w: np.ndarray, v: np.ndarray, x: np.ndarray, y: np.ndarray
) -> Float[np.ndarray, "M p"]:
    """Return ∂/∂W of the mean logistic loss of v · tanh(W x)."""
    hidden = np.tanh(x @ w.T)  # [Q, M]
    slope = -y / (1 + np.exp(y * (hidden @ v)))
    return (slope[:, None] * (1 - hidden**2) * v).T @ x / len(x)
