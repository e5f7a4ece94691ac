"""Cross-entropy of classes, of logits; one output is the logit of class 1 of two."""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from datassay.collect.gradients.batches import IGNORED
from datassay.collect.loss import DRAWS, MOST_SUMMED
from datassay.collect.losses.bce import LOSS as BINARY
from datassay.collect.losses.bce import BinaryCrossEntropy


class CrossEntropy(BinaryCrossEntropy):
    """−log of the label's probability, in nats; targets are classes or probabilities of them."""

    name = "cross_entropy"
    criteria = (nn.CrossEntropyLoss, nn.NLLLoss)  # log-probabilities are their own logits
    has_one_class = True

    def settings_of(self, criterion: Any) -> dict[str, Any]:
        """Return a torch criterion's smoothing, class weights and ignored label."""
        return {
            "smoothing": getattr(criterion, "label_smoothing", 0.0),
            "class_weight": criterion.weight,
            "ignored": criterion.ignore_index,
            "scale": None,
            "averaged": True,
        }

    def predict(self, f: Tensor, dim: int = -1) -> Tensor:
        """Return the classes' probabilities, that of class 1 where there is one output."""
        if f.shape[dim] == 1:
            return super().predict(f)
        return f.softmax(dim)

    def value(self, f: Tensor, y: Tensor) -> Tensor:
        """Return cross-entropy in nats; 0 where the label is ignored."""
        k = f.shape[-1]
        is_soft = y.is_floating_point()
        if k == 1 and is_soft:
            return BINARY.value(f, y.expand_as(f))
        if k == 1:
            return BINARY.value(f, (y == 1).to(f)[..., None]) * (y != IGNORED)
        if is_soft and self.class_weight is None and not self.smoothing:
            return y.sum(-1) * f.logsumexp(-1) - (y * f).sum(-1)
        weight = self.class_weight
        return functional.cross_entropy(
            f.reshape(-1, k),
            y.reshape(-1, k) if is_soft else y.flatten(),
            None if weight is None else weight.to(f),
            reduction="none",
            label_smoothing=self.smoothing,
        ).view(f.shape[:-1])

    def hessian(self, f: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch k k"]:
        """Return diag(p) − ppᵀ."""
        if f.shape[-1] == 1:
            return super().hessian(f)
        p = f.softmax(-1)
        return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]

    def root(self, f: Float[Tensor, "n k"], y: Tensor | None = None) -> Float[Tensor, "n k r"]:
        """Return T, [n, k, k − 1], with T Tᵀ = diag(p) − ppᵀ; a shift of all f changes nothing.

        With s = √p, a unit vector, diag(p) − ppᵀ = diag(s) (I − ssᵀ) diag(s). The Householder
        reflection that takes the first axis to −s has, as its other columns, a basis of the
        complement of s; so T is diag(s) times these columns.
        """
        if f.shape[1] == 1:
            return super().root(f)
        s = f.softmax(1).sqrt()
        identity = torch.eye(f.shape[1], dtype=f.dtype, device=f.device)
        v = s + identity[0]
        reflection = identity - v[:, :, None] * v[:, None] / (1 + s[:, :1, None])  # vᵀv = 2 + 2 s₁
        return s[:, :, None] * reflection[:, :, 1:]

    def roots(
        self,
        f: Float[Tensor, "b places k"],
        y: Tensor,
        weight: Tensor,
        generator: torch.Generator,
        n_wanted: int = MOST_SUMMED,
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Yield vectors as any loss does; of more classes than `n_wanted` the likeliest exactly.

        With classes in the order of their probabilities p and q_j = Σ_{i ≥ j} p_i, diag(p) − ppᵀ is
        the sum of v_j v_jᵀ, v_j = √(p_j q_{j+1} / q_j) (e_j − Σ_{i > j} p_i e_i / q_{j+1}): whether
        a class is j or a later one. What is left after some j is q_{j+1} times the covariance of
        the later classes among themselves, of which one is drawn.
        """
        n_places, k = f.shape[1:]
        if n_places > 1 or k <= min(n_wanted + 1, MOST_SUMMED):
            yield from super().roots(f, y, weight, generator)
            return
        n_exact = (DRAWS if k > MOST_SUMMED else min(n_wanted, DRAWS)) - 1
        p, order = f.softmax(-1).sort(-1, descending=True)
        p = p.clamp_min(torch.finfo(p.dtype).tiny)
        tails = p.flip(-1).cumsum(-1).flip(-1)
        for j in range(n_exact):
            q_next = tails[..., j + 1, None]
            vector = -torch.where(torch.arange(k).to(order) > j, p / q_next, 0.0)
            vector[..., j] = 1
            vector *= (p[..., j, None] * q_next / tails[..., j, None] * weight).sqrt()
            yield torch.zeros_like(f).scatter(-1, order, vector)
        shares = p[..., n_exact:] / tails[..., n_exact, None]
        classes = torch.multinomial(shares.flatten(0, 1).cpu(), 1, generator=generator).to(f.device)
        vector = functional.one_hot(classes, k - n_exact) - shares
        vector = functional.pad(vector, (n_exact, 0)) * (tails[..., n_exact, None] * weight).sqrt()
        yield torch.zeros_like(f).scatter(-1, order, vector)

    def weights(self, f: Tensor, y: Tensor) -> Tensor:
        """Return each label's weight with smoothing, [..., 1]; 0 where it is ignored."""
        counts = torch.ones(*f.shape[:-1], 1).to(f)  # 1, or 0 of an ignored label
        if y.is_floating_point() and f.shape[-1] == 1:
            return counts
        weight = torch.ones(f.shape[-1]).to(f)
        if self.class_weight is not None:
            weight = self.class_weight.to(f)
        if y.is_floating_point():  # probabilities of classes
            label_weight = (y * weight).sum(-1, keepdim=True)
        else:
            counts = counts * (y != IGNORED)[..., None]
            if self.class_weight is None or f.shape[-1] == 1:
                return counts
            label_weight = weight[y.clamp_min(0)][..., None]
        smoothing = self.smoothing
        return counts * ((1 - smoothing) * label_weight + smoothing * weight.mean())

    def draw(
        self, f: Tensor, y: Tensor, draws: int, generator: torch.Generator
    ) -> Iterator[Float[Tensor, "b places k"]]:
        """Yield e_c − p of classes c drawn from p, e_c being one-hot: its covariance is S."""
        if f.shape[-1] == 1:
            yield from super().draw(f, y, draws, generator)
            return
        p = f.softmax(-1)
        classes = torch.multinomial(
            p.flatten(0, 1).cpu(), draws, replacement=draws > 1, generator=generator
        )
        for classes_drawn in classes.to(f.device).unbind(1):
            yield functional.one_hot(classes_drawn.view(f.shape[:2]), f.shape[-1]) - p

    def rival_output(self, f: Float[Tensor, "*batch k"]) -> Float[Tensor, "*batch"]:
        """Return log Σ exp over the other outputs; the label's is −∞."""
        return f.logsumexp(-1)


LOSS = CrossEntropy()
