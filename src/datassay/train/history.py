"""Statistics over training of each sample's predicted probability of its given label."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from datassay.errors import DataError
from datassay.rules import at_least


class PredictionHistory:
    """Count, mean and variance of the probability of the given label over the visits of a sample.

    Two lines in any training loop; the weights then serve its loss or its sampler:

        history = PredictionHistory(n_samples=len(y))
        for epoch in range(20):
            weight = active_bias_weights(history) * len(y)  # mean 1; uniform while warming up
            # or: DataLoader(data, sampler=WeightedRandomSampler(weight, len(y)))
            for positions, x, labels in loader:
                outputs = model(x)
                history.record(positions, outputs, labels)
                losses = cross_entropy(outputs, labels, reduction="none")
                (losses * torch.as_tensor(weight)[positions]).mean().backward()
                ...

    Several networks trained together keep one history each; a position may occur once per batch.

    Attributes:
        visits: [S, n], how often each sample was seen.
        mean: [S, n], of the probability of its label; 0 before the first visit.
        squares: [S, n], summed squared deviations from that mean.
    """

    def __init__(self, n_samples: int, n_networks: int = 1):
        for name, value in (("n_samples", n_samples), ("n_networks", n_networks)):
            at_least(name, value, 1)
        self.visits = torch.zeros(n_networks, n_samples, dtype=torch.int64)
        self.mean = torch.zeros(n_networks, n_samples, dtype=torch.float64)
        self.squares = torch.zeros(n_networks, n_samples, dtype=torch.float64)

    def __len__(self) -> int:
        return self.visits.shape[1]

    @torch.no_grad()
    def record(self, positions: Tensor, outputs: Tensor, y: Tensor) -> None:
        """Add the predictions that a batch had at one visit.

        Args:
            positions: [b] or [S, b], of the samples among all n, each once.
            outputs: [b, k] or [S, b, k], logits; one output (or [b]) is the logit of class 1.
            y: [b] or [S, b], their labels, or the labels of all n samples where b < n.

        Raises:
            DataError: shapes that do not belong together, positions outside 0..n − 1, labels that
                no output stands for, or outputs that are not finite.

        Cost: b k operations per network.
        """
        positions = torch.as_tensor(positions).long().cpu()
        outputs = torch.as_tensor(outputs).detach().double().cpu()
        if outputs.ndim <= positions.ndim:
            outputs = outputs[..., None]
        if positions.ndim == 1:
            positions = positions[None]
            outputs = outputs[None]
        labels = self._check_labels(positions, outputs, torch.as_tensor(y).long().cpu())
        if outputs.shape[2] == 1:
            outputs = torch.cat([torch.zeros_like(outputs), outputs], 2)
        probability = outputs.softmax(2).gather(2, labels[..., None])[..., 0]
        visits = self.visits.gather(1, positions) + 1
        mean = self.mean.gather(1, positions)
        # Welford's update.
        deviation = probability - mean
        step = deviation / visits
        squares = self.squares.gather(1, positions) + deviation * (deviation - step)
        self.visits.scatter_(1, positions, visits)
        self.mean.scatter_(1, positions, mean + step)
        self.squares.scatter_(1, positions, squares)

    def variance(self) -> Float[Tensor, "S n"]:
        """Return the variance of the probability over each sample's visits; 0 without any."""
        return self.squares / self.visits.clamp_min(1)

    def _check_labels(
        self, positions: Int[Tensor, "S b"], outputs: Tensor, y: Tensor
    ) -> Int[Tensor, "S b"]:
        """Return the batch's labels, [S, b]; y holds them, or those of all n samples."""
        n_networks, n = self.visits.shape
        if len(positions) != n_networks or positions.shape != outputs.shape[:2]:
            raise DataError(
                f"positions and outputs must be of the same batch of {n_networks} network(s); got "
                f"shapes {list(positions.shape)} and {list(outputs.shape)}."
            )
        if positions.numel() and not 0 <= int(positions.min()) <= int(positions.max()) < n:
            raise DataError(f"positions must lie in 0..{n - 1}; got {positions.unique().tolist()}.")
        if y.shape not in {positions.shape, positions.shape[1:], (n,)}:
            raise DataError(
                f"y must hold the batch's labels, [{positions.shape[1]}], or all, [{n}]; got shape "
                f"{list(y.shape)}."
            )
        are_all_labels = y.shape == (n,) and positions.shape[1] != n
        if are_all_labels:
            labels = y[positions]
        else:
            labels = y.expand(positions.shape)
        n_classes = max(2, outputs.shape[2])
        if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < n_classes:
            raise DataError(f"y must lie in 0..{n_classes - 1}; got {labels.unique().tolist()}.")
        if not bool(outputs.isfinite().all()):
            raise DataError(
                "outputs must be finite; got NaN or infinite ones. Lower the step size."
            )
        return labels
