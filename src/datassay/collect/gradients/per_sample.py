"""Gradients of each sample's own value by blocks of weights, from one pass over a whole batch.

The weights are frozen for the pass, so that autograd computes what layers hand back to each other
and nothing else. At each layer of a known kind, its input and its output's gradient are kept: the
factors of the gradients by its weights. Other tensors are differentiated sample by sample.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from datassay.collect.gradients.autograd import (
    NEGLIGIBLE,
    Values,
    evaluate,
    find_flat,
    require_gradients,
    slopes_of,
    sum_gradients,
)
from datassay.collect.gradients.batches import batch_size, map_batch, rows, to_model
from datassay.collect.gradients.blocks import blocks_of
from datassay.collect.gradients.recording import Gradients, Recording, UnfitError
from datassay.collect.jacobian.suitable import copy_network, keep_activations, plain_attention
from datassay.collect.layers import join_samples, matrix, tensors_of, weighted_sum
from datassay.errors import ModelError
from datassay.optional import coalesce

# From the values to what each is multiplied by, once a pass.
Cotangents = Callable[[Tensor], Iterable[Tensor]]
# A sample's gradients in a batch and alone differ by less than this share; by that of a network
# that computes in bfloat16.
APART, ROUGH = 1e-3, 0.03
# Losses below this are rounding, in float64 too: the square of what float32 rounds at 1.
ROUNDING = float(torch.finfo(torch.float32).eps) ** 2


def _ones(values: Tensor) -> list[Tensor]:
    return [torch.ones_like(values)]


class PerSample:
    """Gradients of a network's values by its `blocks`, sample by sample."""

    def __init__(
        self,
        model: nn.Module,
        parameters: dict[str, nn.Parameter],
        probe: Any,
        values: Values,
        separable: Values | None = None,
        direct: Collection[str] | None = None,
    ):
        """Find the layers that give factors, and check them on a batch of one or two samples."""
        # direct: tensors that no layer may give, where blocks must be those of another object.
        self.model = model
        self.warnings = []  # filled by the passes
        self.blocks = blocks_of(model, parameters)
        self._vectorised = True
        self._flat: set[str] = set()  # tensors whose gradients are rounding
        self._is_alone = False  # samples are differentiated one at a time
        self._apart = APART  # share by which gradients may differ from autograd's
        self._check_apart(probe, coalesce(separable, values))
        # Numbers that a pass holds for each sample, about.
        self.values_held = max(block.size for block in self.blocks)
        unsuitable = frozenset(self._find_unsuitable(probe, values))
        self.direct = unsuitable
        if direct is not None:
            self.direct = frozenset(direct)
        self.blocks = blocks_of(model, parameters, self.direct)
        self._flat = find_flat(model, self.blocks, probe, values)

    def gradients(
        self,
        values: Values,
        batch: Any,
        cotangents: Cotangents = _ones,
    ) -> Iterator[Gradients]:
        """Yield every sample's gradients of Σ over its values, [b, ...], of cotangent · value."""
        # For each cotangent, one backward pass yields each block's uses: their `matrix` is
        # [b, rows, columns]. Tensors without a known layer cost another two passes; the comparison
        # with autograd costs two a batch.
        is_single = batch_size(batch) == 1
        if self._is_alone and not is_single:
            yield from self._one_at_a_time(values, batch, cotangents)
            return
        try:
            weights, recorded = self._differentiate(values, batch, cotangents)
        except UnfitError as error:
            if is_single:
                raise
            yield from self._one_at_a_time(values, batch, cotangents, error.block.name)
            return
        for index, (weight, gradients) in enumerate(zip(weights, recorded, strict=True)):
            gradients |= self._direct_gradients(values, batch, weight)
            is_checked = index == 0 and not is_single
            if is_checked and (culprit := self._find_culprit(values, batch, weight, gradients)):
                yield from self._one_at_a_time(values, batch, lambda _: weights, culprit[0])
                return
            yield gradients

    def _differentiate(
        self, values: Values, batch: Any, cotangents: Cotangents
    ) -> tuple[list[Tensor], list[Gradients]]:
        """Return the cotangents, and for each the gradients by known layers."""
        # Not while the caller runs: a generator's context would leak into it.
        with (
            require_gradients(list(self.model.parameters()), required=False),
            Recording(self.model, self.blocks, batch_size(batch)) as record,
        ):
            try:
                with torch.enable_grad():
                    result = evaluate(self.model, batch, values)
            except ModelError as error:
                if record.expanded is None:
                    raise
                # The network repeats that row itself, for several choices of a sample, say.
                raise UnfitError(record.expanded) from error
            if not torch.isfinite(result).all():
                raise ModelError(
                    "the network's losses and measures must be finite; got NaN or infinity. Check "
                    "the weights and the scale of the inputs."
                )
            weights = [w.to(result) for w in cotangents(result.detach())]
            recorded = [
                record.differentiate(result, weight, keep=index < len(weights) - 1)
                for index, weight in enumerate(weights)
            ]
        return weights, recorded

    def _find_culprit(
        self, values: Values, batch: Any, weight: Tensor, gradients: Gradients
    ) -> tuple[str, float] | None:
        """Return the block whose gradients, summed by random weights, are not autograd's."""
        # Weights that differ tell apart whose gradient is whose.
        draws = torch.rand(batch_size(batch), 2, generator=torch.Generator().manual_seed(0))
        drawn = ((draws[:, 0] < 0.5).double() * 2 - 1) * (0.5 + draws[:, 1])
        shaped = drawn.to(weight).view(-1, *[1] * (weight.ndim - 1))
        truth = sum_gradients(self.model, self.blocks, batch, values, weight * shaped)
        largest = max(float(slope.norm()) for slope in truth.values())
        for block in self.blocks:
            theirs = truth[block.name]
            ours = torch.zeros_like(theirs)
            if block.name in gradients:
                ours = weighted_sum(gradients[block.name], drawn, block.shape[0])
            distance = float((ours - theirs).norm())
            if distance > self._apart * float(theirs.norm()) + NEGLIGIBLE * largest:
                return block.name, distance / max(1e-30, float(theirs.norm()))
        return None

    def _one_at_a_time(
        self, values: Values, batch: Any, cotangents: Cotangents, culprit_name: str | None = None
    ) -> Iterator[Gradients]:
        """Yield the same from passes over single samples; raise if samples are not independent."""
        # culprit_name: the block for whose sake it is done, where that is news.
        self._check_apart(batch, values)
        with torch.no_grad():
            weights = list(cotangents(evaluate(self.model, batch, values)))
        results: list[list[Gradients]] = [[] for _ in weights]
        for i in range(batch_size(batch)):
            sample = _sample(batch, i)
            slopes, recorded = self._differentiate(
                values, sample, lambda _, i=i: [w[i : i + 1] for w in weights]
            )
            for of_weight, slope, gradients in zip(results, slopes, recorded, strict=True):
                of_weight.append(gradients | self._direct_gradients(values, sample, slope))
        for index, (weight, grads) in enumerate(zip(weights, results, strict=True)):
            blocks = [b for b in self.blocks if any(b.name in gradients for gradients in grads)]
            joined = {
                b.name: join_samples([g.get(b.name, []) for g in grads], b.shape[0]) for b in blocks
            }
            if index == 0:
                self._explain(self._find_culprit(values, batch, weight, joined), culprit_name)
            yield joined

    def _explain(self, culprit: tuple[str, float] | None, culprit_name: str | None) -> None:
        """Raise where gradients of single samples are not autograd's either; else warn once."""
        if culprit and culprit[1] > ROUGH:
            raise ModelError(
                f"gradients by {culprit[0]} are not autograd's: the network uses its weights "
                "elsewhere, in ways that the first samples did not show. Leave it out "
                "(parameters=)."
            )
        if culprit:  # the network rounds, and that of batches is as good
            self._apart = ROUGH
            self.warnings.append(
                f"gradients by {culprit[0]} and autograd's differ by {culprit[1]:.1%}: the "
                "network computes in less than float32, by autocast say."
            )
        elif culprit_name:
            self._is_alone = True
            self.warnings.append(
                f"samples are differentiated one at a time, since {culprit_name} gets tensors "
                "whose first axis does not count them. Give it [samples, ...] to be faster."
            )

    def _check_apart(self, batch: Any, values: Values) -> None:
        change = _change(self.model, batch, values)
        if change > APART and not self._only_rounds(batch, values):
            raise ModelError(_explain_mixing(change))

    def _only_rounds(self, batch: Any, values: Values) -> bool:
        """Return whether samples are independent in float64: float32 only rounds a loss near 0."""
        exact = copy_network(self.model).double()
        try:
            change = _change(exact, to_model(batch, exact), values, ROUNDING)
        except ModelError:  # a loss of the user's own that takes float32 alone
            return False
        return change <= APART

    def _find_unsuitable(self, probe: Any, values: Values) -> list[str]:
        """Return tensors whose factors are not the gradient: used elsewhere, or with other axes."""
        unsuitable = []
        candidates = [block for block in self.blocks if block.layers]
        while True:
            try:
                (weight,), (gradients,) = self._differentiate(values, probe, _ones)
                break
            except UnfitError as error:  # this layer directly, and again
                self.blocks = [block for block in self.blocks if block.name != error.block.name]
                unsuitable += error.block.parameters
        gradients |= self._direct_gradients(values, probe, weight)
        uses = [use for result in gradients.values() for use in result]
        self.values_held += sum(t.numel() for use in uses for t in tensors_of(use)) // batch_size(
            probe
        )
        checked = [block for block in self.blocks if block.layers and block.name in gradients]
        unsuitable += [p for b in candidates if b.name not in gradients for p in b.parameters]
        for i in range(batch_size(probe) if checked else 0):
            truth = sum_gradients(self.model, checked, _sample(probe, i), values)
            for block in checked:
                ours = matrix(gradients[block.name], block.shape[0])[i]
                theirs = truth[block.name]
                # A gradient of 0 says nothing: a unit that no input reaches.
                if (ours - theirs).norm() > APART * theirs.norm().clamp_min(1e-20):
                    unsuitable += block.parameters
        return unsuitable

    def _direct_gradients(self, values: Values, batch: Any, weight: Tensor) -> Gradients:
        """Return gradients by tensors outside the known kinds of layer, sample by sample."""
        direct = [block for block in self.blocks if not block.layers]
        if not direct:
            return {}
        parameters = dict(self.model.named_parameters())
        tensors = {f"inner.{b.parameters[0]}": parameters[b.parameters[0]].detach() for b in direct}
        summed = _Weighted(self.model, values)
        slopes = None
        if self._vectorised and len(weight) > 1:
            try:
                with require_gradients(list(self.model.parameters()), required=False):
                    slopes = _vmap_slopes(summed, tensors, batch, weight)
            except Exception as error:  # noqa: BLE001 whatever torch.func cannot: one at a time
                self._vectorised = False
                self.warnings.append(
                    f"{len(direct)} tensors ({direct[0].name}, ...) are differentiated one sample "
                    "at a time, since torch.func cannot vectorise the model: "
                    f"{str(error).splitlines()[0][:120]} Leave them out (parameters=) to be "
                    "faster."
                )
        if slopes is None:
            with require_gradients(list(self.model.parameters()), required=False):
                slopes = _loop_slopes(summed, tensors, batch, weight)
        results: Gradients = {}
        for block in direct:
            slope = slopes[f"inner.{block.parameters[0]}"].reshape(-1, *block.shape)
            results[block.name] = [slope * 0 if block.name in self._flat else slope]
        return results


def _change(model: nn.Module, batch: Any, values: Values, floor: float = 1e-30) -> float:
    """Return how far values of samples together are from those of each alone, over the largest."""
    with torch.no_grad():
        joint = evaluate(model, batch, values)
        singles = (evaluate(model, _sample(batch, i), values) for i in range(batch_size(batch)))
        separate = torch.cat(list(singles))
    if joint.shape != separate.shape:
        shape = list(joint.shape)
        n = batch_size(batch)
        raise ModelError(
            f"losses and measures must have one row per sample; {n} samples give {shape}. Take "
            "reduction='none' in the loss, and no mean over the batch."
        )
    return float((joint - separate).abs().max() / separate.abs().max().clamp_min(floor))


def _explain_mixing(change: float) -> str:
    """Explain that samples are not independent, whose values together differ by such a share."""
    if change < 10:
        amount = f"{change:.1%}"
    else:
        amount = f"{min(change, 1e6):,.0f} times their size"
    return (
        "each sample's loss must depend on that sample alone; samples together differ "
        f"by {amount} from each alone. Take out what mixes the batch or draws at random: "
        "statistics over the batch (batch norm without running ones), attention across samples, "
        "noise."
    )


class _Weighted(nn.Module):
    """The weighted sum of a batch's values, which torch.func differentiates."""

    def __init__(self, inner: nn.Module, values: Values):
        super().__init__()
        self.inner = inner
        self._values = values

    def forward(self, batch: Any, weight: Tensor) -> Tensor:
        with keep_activations():
            return (self._values(self.inner, batch) * weight).sum()


def _vmap_slopes(model: nn.Module, tensors: dict[str, Tensor], batch: Any, weight: Tensor) -> dict:
    size = len(weight)

    def is_row(t: Tensor) -> bool:
        return t.ndim > 0 and len(t) == size

    split = map_batch(batch, lambda t: t[:, None] if is_row(t) else t)
    axes = map_batch(batch, lambda t: 0 if is_row(t) else None)
    slope = grad(lambda leaves, part, w: functional_call(model, leaves, (part, w)))
    with plain_attention():
        return vmap(slope, in_dims=(None, axes, 0))(tensors, split, weight[:, None])


def _loop_slopes(model: nn.Module, tensors: dict[str, Tensor], batch: Any, weight: Tensor) -> dict:
    results = []
    for i in range(len(weight)):
        leaves = {name: t.clone().requires_grad_() for name, t in tensors.items()}
        with torch.enable_grad():
            value = functional_call(model, leaves, (_sample(batch, i), weight[i : i + 1]))
        slopes = slopes_of(value, list(leaves.values()))
        results.append(dict(zip(leaves, slopes, strict=True)))
    return {name: torch.stack([sample[name] for sample in results]) for name in tensors}


def _sample(batch: Any, i: int) -> Any:
    return rows(batch, slice(i, i + 1))
