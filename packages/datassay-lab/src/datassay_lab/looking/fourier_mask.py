"""A learned mask over Fourier coefficients finds the few that a classifier needs."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.models import mlp
from datassay.progress import Progress, part_of, silent
from datassay.train import Recipe
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, pictures, theory
from datassay_lab.fits import accuracy, digit_images, fit_network

SIDE = 8  # of the digits, pixels
TRAINED, MASKED = 900, 400  # digits that fit the network, and the mask; the others test
DRAWS = 20  # random masks of each size
KEPT = 0.1  # of the largest entry: smaller ones count as gone


@dataclass(frozen=True, slots=True)
class FourierMask:
    """The mask, and accuracy with only its leading frequencies.

    Frequencies come in pairs ±k, which a real image shares; sizes count pairs.
    """

    mask: Float[np.ndarray, "8 8"]  # learned, frequency 0 in the middle
    kept: int  # pairs whose entry exceeds a tenth of the largest
    sizes: Float[np.ndarray, " s"]  # pairs kept, of 34
    learned: Float[np.ndarray, " s"]  # test accuracy with the largest entries of the mask only
    energy: Float[np.ndarray, " s"]  # with the pairs of the most energy in the images
    random: Float[np.ndarray, " s"]  # mean over random masks
    full: float  # with all of them
    kept_accuracy: float  # with the kept pairs
    random_accuracy: float  # with as many random pairs, mean
    images: Float[np.ndarray, "6 8 8"]  # three digits, then what the kept frequencies leave of them

    @property
    def agreement(self) -> Agreement:
        """The advantage of the kept pairs over as many random ones."""
        gain = self.kept_accuracy - self.random_accuracy
        return Agreement("gain of accuracy over as many random pairs", gain, 0.2, "at least")


@check_args
def fourier_mask(
    *,
    penalty: Annotated[float, positive()] = 0.03,
    power: float = 1.0,
    steps: Annotated[int, whole()] = 600,
    seed: int = 0,
    progress: Progress = silent,
) -> FourierMask:
    """Fit a mask for a fixed classifier of digits and keep its largest entries only.

    M = argmin Σ_x e^{[ℓ(Φ(x̄), y) − ℓ(Φ(x), y)]²} + λ ‖M‖_p,   x̄ = F⁻¹(M ⊙ F x)

    Args:
        penalty: λ, beside the mean over images.
        power: p ≥ 1 of Σ |M|^p, which stands for the norm.
        steps: of Adam on M, from M = 1.
        seed: of the digits, the classifier and the random masks.
        progress: called with the updates done.

    Returns:
        The mask and accuracies.

    Cost: steps passes of a small network over 400 images; a few seconds.
    Source: S2 class 5, "How does a network make a decision? Fourier important features". Deviates:
    the mean over images instead of the sum (λ scales with n), M ≥ 0 with M(k) = M(−k), so that
    masked images are real, and gaps ℓ − ℓ taken as at most 5 nats, beyond which e^{gap²} would
    overflow.
    """
    refuse_if(
        not power >= 1, f"power must be at least 1, where the penalty is convex; got {power}."
    )
    rng = np.random.default_rng(seed)
    x, y = digit_images(seed)
    sets = np.split(np.arange(len(y)), [TRAINED, TRAINED + MASKED])
    recipe = Recipe(lr=2e-3, steps=600)
    model = fit_network(_network, x[sets[0]], y[sets[0]], recipe, seed=seed)
    entries = _fit(model, x[sets[1]], y[sets[1]], (penalty, power, steps), progress)
    test, labels = x[sets[2]], y[sets[2]]
    pairs = _pairs()

    def score_with(kept_pairs: np.ndarray) -> float:
        return accuracy(model, _apply_mask(test, np.isin(pairs, kept_pairs)), labels)

    ranks = np.argsort(-entries)
    power_spectrum = np.square(np.abs(np.fft.fft2(x[sets[1]]))).mean(axis=0).ravel()
    energy = np.argsort(-np.bincount(pairs.ravel(), power_spectrum))
    sizes = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 17, 20, 24, 29, 34]
    n_kept = int((entries > KEPT * entries.max()).sum())

    def random_accuracy(m: int) -> float:
        return float(np.mean([score_with(rng.permutation(len(ranks))[:m]) for _ in range(DRAWS)]))

    examples = np.concatenate([test[:3], _apply_mask(test[:3], np.isin(pairs, ranks[:n_kept]))])
    return FourierMask(
        np.fft.fftshift(entries[pairs]), n_kept, np.array(sizes, float),
        np.array([score_with(ranks[:m]) for m in sizes]),
        np.array([score_with(energy[:m]) for m in sizes]),
        np.array([random_accuracy(m) for m in sizes]), accuracy(model, test, labels),
        score_with(ranks[:n_kept]), random_accuracy(n_kept), examples,
    )  # fmt: skip


@add_titles
def fourier_mask_plots(result: FourierMask) -> Figures:
    """Draw accuracy by the number of frequencies, the mask, and what it leaves."""
    figure = axes("pairs of frequencies kept, of 34", "test accuracy")
    add_data(figure, result.sizes, result.learned, "learned mask")
    add_data(figure, result.sizes, result.energy, "most energy", series=2)
    add_data(figure, result.sizes, result.random, "random, mean", series=1)
    theory(figure, result.sizes, np.full(len(result.sizes), result.full), "all of them")
    titles = ["image"] * 3 + [f"{result.kept} pairs"] * 3
    examples = pictures(result.images, titles, columns=6, shared=False)
    return figure, pictures(result.mask[None], [""], side=240), examples


def _network() -> nn.Module:
    return mlp((1, SIDE, SIDE), 10, width=64)


def _pairs() -> Int[np.ndarray, "8 8"]:
    """Return the number of the pair ±k that each coefficient belongs to."""
    k = np.arange(SIDE)
    position = k[:, None] * SIDE + k
    partner = (-k % SIDE)[:, None] * SIDE + (-k % SIDE)
    return np.unique(np.minimum(position, partner), return_inverse=True)[1].reshape(SIDE, SIDE)


def _apply_mask(x: np.ndarray, mask: np.ndarray) -> Float[np.ndarray, "n 8 8"]:
    return np.fft.ifft2(mask * np.fft.fft2(x)).real


def _fit(
    model: nn.Module,
    x: np.ndarray,
    y: np.ndarray,
    setting: tuple[float, float, int],
    progress: Progress,
) -> Float[np.ndarray, " pairs"]:
    penalty, power, steps = setting
    spectra = torch.fft.fft2(torch.tensor(x, dtype=torch.float32))
    pairs, labels = torch.tensor(_pairs()), torch.tensor(y)
    entries = torch.ones(int(pairs.max()) + 1, requires_grad=True)

    def losses(spectrum: Tensor) -> Float[Tensor, " n"]:
        outputs = model(torch.fft.ifft2(spectrum).real[:, None])
        return nn.functional.cross_entropy(outputs, labels, reduction="none")

    unmasked = losses(spectra)
    optimizer = torch.optim.Adam([entries], lr=0.02)
    report = part_of(progress, "fit the mask", 0, steps)
    for step in range(steps):
        gap = losses(entries[pairs] * spectra) - unmasked
        # Beyond 5 nats the exponential would swamp everything else and overflow soon.
        mask_norm = entries[pairs].abs().pow(power).sum()
        loss = gap.clamp(-5, 5).square().exp().mean() + penalty * mask_norm
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            entries.clamp_(min=0)
        report("fit the mask", step + 1, steps)
    return entries.detach().double().numpy()
