"""What a run knows of its labels, stored so that a review can go on from there."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from datassay.collect.linearization import Linearization
from datassay.data.source import reading
from datassay.errors import DataError
from datassay.results import result
from datassay.score.label_issues import LabelIssues
from datassay.score.linear.eigenbasis import eigenbasis

FILE = "review.npz"
COORDINATES = 16  # coordinates per sample: 2 MB of 60 000
SMALLEST = 1e-30  # probability; also eigenvalue and norm
ROUNDING = 1e-15
FIELDS = ("labels", "log_posterior", "log_odds", "coordinates")
MATRICES = ("log_posterior", "coordinates")


@result
class Judged:
    """How a run scored n labels, before any review.

    Attributes:
        labels: given, [n]; −1 of numbers and of several labels per sample.
        log_posterior: log probability of each true class, nats, [n, k]; k = 0 of numbers and of
            several labels.
        log_odds: that the given label is wrong, nats, [n].
        coordinates: of each sample to the network, [n, r] with r ≤ COORDINATES; inner products say
            how alike two samples are, 1 for a sample and itself.
        share: of wrong labels, at least and at most.
    """

    labels: Int[np.ndarray, " n"]
    log_posterior: Float[np.ndarray, "n k"]
    log_odds: Float[np.ndarray, " n"]
    coordinates: Float[np.ndarray, "n r"]
    share: tuple[float, float] = (0.0, 1.0)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_of_classes(self) -> bool:
        """Whether each sample has one label of k classes."""
        return self.log_posterior.shape[1] > 0

    def write(self, path: str | Path) -> None:
        """Write the arrays to an npz file; 5 MB of 60 000 samples of 10 classes.

        Args:
            path: of the file, with its ending.
        """
        np.savez(path, **{name: getattr(self, name) for name in FIELDS}, share=self.share)


def judged(lin: Linearization, issues: LabelIssues) -> Judged:
    """Return what a review needs of a run: labels, posteriors, log odds and coordinates.

    Args:
        lin: the linearisation.
        issues: of the same samples.

    Returns:
        All that a review needs: float32, coordinates float16.
    """
    n = len(lin)
    labels = issues.given_label
    posterior = issues.posterior
    log_odds = issues.score
    if posterior is None:  # of numbers the score is a z-score; it orders those of probability 0
        p = issues.probability.clip(SMALLEST, 1 - ROUNDING)
        z_score = issues.score
        order = np.where(p > SMALLEST, 0.0, np.nan_to_num(z_score / (1 + np.abs(z_score))))
        log_odds = np.log(p) - np.log1p(-p) + order
    if lin.labels is None or posterior is None:
        labels = np.full(n, -1)
        posterior = np.zeros((n, 0))
    return Judged(
        labels=labels.astype(np.int64),
        log_posterior=np.log(posterior.clip(SMALLEST)).astype(np.float32),
        log_odds=log_odds.astype(np.float32),
        coordinates=coordinates(lin).astype(np.float16),
        share=issues.share_wrong,
    )


def read_judged(path: str | Path) -> Judged:
    """Read the run's label scores from the file that `Judged.write` wrote.

    Args:
        path: of review.npz in the run's folder.

    Returns:
        The label scores.

    Raises:
        DataError: there is no such file, or it holds something else.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path} must be a file of a run; there is none. Run again to get it.")
    with reading(path), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in FIELDS if name in file.files}
        share = file["share"] if "share" in file.files else np.empty(0)
    shapes = {name: array.shape for name, array in arrays.items()}
    is_valid = shapes.keys() == set(FIELDS) and all(
        shape[:1] == shapes["labels"] and len(shape) == 1 + (name in MATRICES)
        for name, shape in shapes.items()
    )
    is_valid &= share.shape == (2,) and bool(0 <= share[0] <= share[1] <= 1)
    if not is_valid:
        raise DataError(
            f"{path} must hold {', '.join(FIELDS)}, one row per sample, and share; got {shapes}. "
            "Take the file that datassay run wrote."
        )
    return Judged(**arrays, share=(float(share[0]), float(share[1])))


def coordinates(lin: Linearization) -> Float[np.ndarray, "n r"]:
    """Return each sample's coordinates along the kernel's leading eigenvectors, unit length."""
    # With Θ = QℓQᵀ, row i ∝ (ℓ_p^¼ Q_ip) over the COORDINATES largest modes p: half way between the
    # kernel itself (ℓ_p^½), which one mode can rule, and all modes alike (ℓ_p^0).
    basis = eigenbasis(lin)
    rows = basis.leading(COORDINATES)
    scale = basis.eigenvalues.flip(0)[:COORDINATES].clamp_min(SMALLEST) ** 0.25
    rows = (rows / scale).flatten(1)  # [n, b r]
    if rows.shape[1] > COORDINATES:
        rows = rows @ torch.linalg.eigh(rows.T @ rows).eigenvectors[:, -COORDINATES:]
    return (rows / rows.norm(dim=1, keepdim=True).clamp_min(SMALLEST)).numpy()
