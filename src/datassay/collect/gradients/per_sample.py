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
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.suitable import keep_activations, plain_attention
from datassay.collect.layers import Factors, join_samples, matrix, tensors_of, weighted_sum
from datassay.errors import ModelError
from datassay.optional import coalesce

# From a batch's values, [b, ...], to the factors that each is multiplied by: [b, ...], one tensor
# a backward pass.
Cotangents = Callable[[Tensor], Iterable[Tensor]]
# Shares by which a sample's gradients in a batch and alone may differ: in float32, in bfloat16.
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
        """Find the layers with factored gradients, and check them on one or two samples."""
        # separable: values that must not depend on other samples, instead of `values`.
        # direct: the tensors to differentiate directly, where blocks must be another object's;
        # None: those whose layers fail the check.
        self.model = model
        self.warnings = []  # filled by the passes
        self.blocks = blocks_of(model, parameters)
        self._can_vectorise = True  # direct tensors, by torch.func
        self._flat: set[str] = set()  # tensors whose gradients are rounding
        self._is_alone = False  # samples are differentiated one at a time
        self._apart = APART  # share by which gradients may differ from autograd's
        self._check_independence(probe, coalesce(separable, values))
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
        *,
        is_known: bool = False,
        as_matrices: bool = False,
    ) -> Iterator[Gradients]:
        """Yield for each cotangent the gradients, by sample, of the sum of cotangent · value."""
        # Gradients are uses by block; their `matrix` is [b, rows, columns]. A cotangent costs a
        # backward pass, and two more if tensors are direct; comparing with autograd, one a batch.
        # is_known: the batch was compared in an earlier pass, which is enough.
        # as_matrices: what comparing forms of convolutions may stand for their factors.
        is_single = batch_size(batch) == 1
        if self._is_alone and not is_single:
            yield from self._loop_gradients(values, batch, cotangents)
            return
        try:
            compares = not is_single and not is_known
            weights, recorded, truth = self._differentiate(
                values, batch, cotangents, compares=compares
            )
        except UnfitError as error:
            if is_single:
                raise
            yield from self._loop_gradients(values, batch, cotangents, error.block.name)
            return
        for index, (weight, gradients) in enumerate(zip(weights, recorded, strict=True)):
            gradients |= self._direct_tensor_gradients(values, batch, weight)
            culprit = None
            if index == 0 and compares:
                for block in self.blocks if as_matrices else ():
                    uses = gradients.get(block.name, [])
                    if any(isinstance(use, Factors) and use.convolution for use in uses):
                        gradients[block.name] = [matrix(uses, block.shape[0])]
                culprit = self._find_culprit(truth, gradients, batch)
            if culprit is not None:
                yield from self._loop_gradients(values, batch, lambda _: weights, culprit[0])
                return
            yield gradients

    def _differentiate(
        self, values: Values, batch: Any, cotangents: Cotangents, *, compares: bool = False
    ) -> tuple[list[Tensor], list[Gradients], dict[str, Tensor]]:
        """Return the cotangents, for each the gradients by known layers, and autograd's sums."""
        # Not while the caller runs: a generator's context would leak into it.
        # compares: whether sums are asked for, of the first cotangent. Tensors are found by name:
        # in another process a network's are not those that were listed beside it.
        names = {p for block in self.blocks for p in block.parameters} if compares else ()
        trained = [t for name, t in self.model.named_parameters() if name in names]
        with (
            require_gradients(list(self.model.parameters()), required=False),
            require_gradients(trained),
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
                record.differentiate(result, weight, keep=compares or index < len(weights) - 1)
                for index, weight in enumerate(weights)
            ]
        if not compares:
            return weights, recorded, {}
        # From the same pass, unless a row that it repeats for each sample made it another.
        reading = values if record.expanded is not None else lambda *_: result
        factors = _random_factors(weights[0])
        truth = sum_gradients(self.model, self.blocks, batch, reading, weights[0] * factors)
        return weights, recorded, truth

    def _find_culprit(
        self, truth: dict[str, Tensor], gradients: Gradients, batch: Any
    ) -> tuple[str, float] | None:
        """Return the name and relative error of a block whose gradients differ from autograd's."""
        # None if there is no such block. Compared are sums over samples with random factors, which
        # tell apart whose gradient is whose.
        factors = _random_factors(torch.empty(batch_size(batch), dtype=torch.float64))
        largest = max(float(slope.norm()) for slope in truth.values())
        for block in self.blocks:
            theirs = truth[block.name]
            ours = torch.zeros_like(theirs)
            if block.name in gradients:
                ours = weighted_sum(gradients[block.name], factors, block.shape[0])
            distance = float((ours - theirs).norm())
            if distance > self._apart * float(theirs.norm()) + NEGLIGIBLE * largest:
                return block.name, distance / max(1e-30, float(theirs.norm()))
        return None

    def _loop_gradients(
        self, values: Values, batch: Any, cotangents: Cotangents, culprit_name: str | None = None
    ) -> Iterator[Gradients]:
        """Yield the same as `gradients`, computed sample by sample; raise if samples interact."""
        # `culprit_name` is the block for whose sake it is done, where there is no warning of it
        # yet.
        self._check_independence(batch, values)
        with torch.no_grad():
            weights = list(cotangents(evaluate(self.model, batch, values)))
        by_weight: list[list[Gradients]] = [[] for _ in weights]  # then by sample
        for i in range(batch_size(batch)):
            sample = _sample(batch, i)
            sample_weights, recorded, _ = self._differentiate(
                values, sample, lambda _, i=i: [w[i : i + 1] for w in weights]
            )
            triples = zip(by_weight, sample_weights, recorded, strict=True)
            for by_sample, weight, gradients in triples:
                by_sample.append(gradients | self._direct_tensor_gradients(values, sample, weight))
        for index, (weight, by_sample) in enumerate(zip(weights, by_weight, strict=True)):
            joined = {}
            for block in self.blocks:
                uses = [gradients.get(block.name, []) for gradients in by_sample]
                if any(uses):
                    joined[block.name] = join_samples(uses, block.shape[0])
            if index == 0:
                factors = _random_factors(weight)
                truth = sum_gradients(self.model, self.blocks, batch, values, weight * factors)
                self._explain(self._find_culprit(truth, joined, batch), culprit_name)
            yield joined

    def _explain(self, culprit: tuple[str, float] | None, culprit_name: str | None) -> None:
        """Raise ModelError if gradients are wrong even sample by sample; else add a warning."""
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

    def _check_independence(self, batch: Any, values: Values) -> None:
        """Raise ModelError where a sample's values depend on other samples in the batch."""
        difference = _compare_batched(self.model, batch, values)
        if difference > APART and not self._is_rounding(batch, values):
            raise ModelError(_explain_mixing(difference))

    def _is_rounding(self, batch: Any, values: Values) -> bool:
        """Return whether samples are independent in float64, so that float32 only rounds."""
        exact = frozen_copy(self.model, torch.float64)
        try:
            difference = _compare_batched(exact, to_model(batch, exact), values, ROUNDING)
        except ModelError:  # a loss of the user's own that takes float32 alone
            return False
        return difference <= APART

    def _find_unsuitable(self, probe: Any, values: Values) -> list[str]:
        """Return names of tensors whose layers' factors do not give their gradients."""
        # Gradients of a whole batch are compared with plain autograd's of each sample. Layers that
        # do not fit leave `blocks`. Adds what a sample's uses hold to `values_held`.
        unsuitable = []
        candidates = [block for block in self.blocks if block.layers]
        while True:
            try:
                (weight,), (gradients,), _ = self._differentiate(values, probe, _ones)
                break
            except UnfitError as error:  # once more, without this layer
                self.blocks = [block for block in self.blocks if block.name != error.block.name]
                unsuitable += error.block.parameters
        gradients |= self._direct_tensor_gradients(values, probe, weight)
        uses = [use for block_uses in gradients.values() for use in block_uses]
        # Norms and activations between convolutions hold about twice as much again.
        n_values = sum(
            t.numel() * (3 if isinstance(use, Factors) and use.convolution else 1)
            for use in uses
            for t in tensors_of(use)
        )
        self.values_held += n_values // batch_size(probe)
        unsuitable += [p for b in candidates if b.name not in gradients for p in b.parameters]
        to_check = [block for block in self.blocks if block.layers and block.name in gradients]
        if not to_check:
            return unsuitable
        for i in range(batch_size(probe)):
            truth = sum_gradients(self.model, to_check, _sample(probe, i), values)
            for block in to_check:
                ours = matrix(gradients[block.name], block.shape[0])[i]
                theirs = truth[block.name]
                # A gradient of 0 says nothing: a unit that no input reaches.
                if (ours - theirs).norm() > APART * theirs.norm().clamp_min(1e-20):
                    unsuitable += block.parameters
        return unsuitable

    def _direct_tensor_gradients(self, values: Values, batch: Any, weight: Tensor) -> Gradients:
        """Return per-sample gradients of tensors that belong to no layer of a known kind."""
        direct = [block for block in self.blocks if not block.layers]
        if not direct:
            return {}
        parameters = dict(self.model.named_parameters())
        tensors = {f"inner.{b.parameters[0]}": parameters[b.parameters[0]].detach() for b in direct}
        summed = _Weighted(self.model, values)
        slopes = None
        if self._can_vectorise and len(weight) > 1:
            try:
                with require_gradients(list(self.model.parameters()), required=False):
                    slopes = _vmap_gradients(summed, tensors, batch, weight)
            except Exception as error:  # noqa: BLE001 whatever torch.func cannot: one at a time
                self._can_vectorise = False
                cause = str(error.__cause__ or error).splitlines()[0][:120]
                self.warnings.append(
                    f"{len(direct)} tensors ({direct[0].name}, ...) are differentiated one sample "
                    f"at a time, since torch.func cannot vectorise the model: {cause} Leave them "
                    "out (parameters=) to be faster."
                )
        if slopes is None:
            with require_gradients(list(self.model.parameters()), required=False):
                slopes = _loop_tensor_gradients(summed, tensors, batch, weight)
        results: Gradients = {}
        for block in direct:
            slope = slopes[f"inner.{block.parameters[0]}"].reshape(-1, *block.shape)
            if block.name in self._flat:
                slope = slope * 0
            results[block.name] = [slope]
        return results


def _random_factors(weight: Tensor) -> Tensor:
    """Return a factor a sample, ±0.5 to ±1.5, as a cotangent [b, ...] takes it: [b, 1, ...]."""
    draws = torch.rand(len(weight), 2, generator=torch.Generator().manual_seed(0))
    signs = (draws[:, 0] < 0.5).double() * 2 - 1
    factors = signs * (0.5 + draws[:, 1])
    return factors.to(weight).view(-1, *[1] * (weight.ndim - 1))


def _compare_batched(model: nn.Module, batch: Any, values: Values, floor: float = 1e-30) -> float:
    """Return by how much values of samples together and alone differ, relative to the largest."""
    # floor: what is divided by at least.
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


def _explain_mixing(difference: float) -> str:
    """Return the message that a sample's values depend on the rest of its batch."""
    if difference < 10:
        amount = f"{difference:.1%}"
    else:
        amount = f"{min(difference, 1e6):,.0f} times their size"
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


def _vmap_gradients(
    model: nn.Module, tensors: dict[str, Tensor], batch: Any, weight: Tensor
) -> dict:
    """Return {name: per-sample gradients [b, *shape]} of these tensors, by torch.func."""
    size = len(weight)

    def is_row(t: Tensor) -> bool:
        return t.ndim > 0 and len(t) == size

    split = map_batch(batch, lambda t: t[:, None] if is_row(t) else t)
    axes = map_batch(batch, lambda t: 0 if is_row(t) else None)
    slope = grad(lambda leaves, part, w: functional_call(model, leaves, (part, w)))
    with plain_attention():
        return vmap(slope, in_dims=(None, axes, 0))(tensors, split, weight[:, None])


def _loop_tensor_gradients(
    model: nn.Module, tensors: dict[str, Tensor], batch: Any, weight: Tensor
) -> dict:
    """Return the same as `_vmap_gradients`, sample by sample with autograd."""
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
