"""Gradients of many dense networks at once, written out instead of recorded by autograd.

A plain stack of dense layers needs three products a layer; here they are three calls for all
networks together, into buffers that stay. Activations are held as [S, units, samples], so that
the first layers of networks that share their inputs are one product of two matrices.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Num
from torch import Tensor, nn

from datassay.models.networks import Affine
from datassay.results import result
from datassay.train.batches import Batch

ACTIVATIONS: dict[type[nn.Module], str] = {nn.ReLU: "relu", nn.Tanh: "tanh"}
Predict = Callable[[Tensor, int], Tensor]
IDLE = (nn.Identity, nn.Dropout)  # in evaluation mode


@result
class DenseStack:
    """The dense layers and activations that networks of one plain architecture consist of.

    Attributes:
        before: the fixed layers on the inputs, the same in every network.
        layers: of each dense layer, in order, the prefix of its "weight" and "bias": "1.", or "".
        activations: "relu", "tanh" or "" after each dense layer.
        scale_and_shift: of the outputs, fixed, [S, k, 1] each; None where there are none.
    """

    before: nn.Sequential
    layers: tuple[str, ...]
    activations: tuple[str, ...]
    scale_and_shift: tuple[Tensor, Tensor] | None = None


def dense_stack(
    models: Sequence[nn.Module], x: Num[Tensor, "n ..."], *, is_shared: bool = True
) -> DenseStack | None:
    """Return the networks' layers if they are plain dense stacks (ReLU, tanh); else None."""
    # is_shared: whether all networks must share the fixed layers on the inputs; otherwise the
    # first network's are returned, and the caller applies each network's own.
    leaves = list(_list_leaf_modules("", models[0]))
    scale_prefix = leaves.pop()[0] if type(leaves[-1][1]) is Affine else None
    modules = [m for _, m in leaves]
    dense_idx = [i for i, m in enumerate(modules) if type(m) is nn.Linear]
    parameters = [p for i in dense_idx for p in modules[i].parameters()]
    is_tied = len({id(p) for p in parameters}) < len(parameters)
    if not dense_idx or is_tied or not all(p.requires_grad for p in parameters):
        return None
    before = nn.Sequential(*modules[: dense_idx[0]])
    activations = []  # two in a row, or another module, make a name that is none
    for start, end in zip(dense_idx, [*dense_idx[1:], len(modules)], strict=True):
        between = [m for m in modules[start + 1 : end] if type(m) not in IDLE]
        activations.append("".join(ACTIVATIONS.get(type(m), "?") for m in between))
    allowed = {*IDLE, nn.Flatten, Affine}
    if (
        any(type(m) not in allowed or list(m.parameters()) for m in before)
        or not set(activations[:-1]) <= {"", *ACTIVATIONS.values()}
        or activations[-1]
        or any(_has_hooks(m) for m in models[0].modules())
        or (is_shared and not _have_same_buffers(models, scale_prefix))
        or before(x).shape != (1, modules[dense_idx[0]].in_features)
    ):
        return None
    stack = DenseStack(before, tuple(leaves[i][0] for i in dense_idx), tuple(activations))
    if scale_prefix is None:
        return stack
    fixed = [m.get_submodule(scale_prefix.removesuffix(".")) for m in models]
    scale, shift = (
        torch.stack([getattr(m, name).reshape(-1, 1) for m in fixed]) for name in ("scale", "shift")
    )
    return replace(stack, scale_and_shift=(scale, shift))


class DenseGradients:
    """A callable that writes the gradient of Σ_s Σ_i weights[s, i] ℓ(f_s(x_i), y_i) into `.grad`.

    Args:
        stack: the architecture.
        predict: `Loss.predict`; its derivative by the outputs is prediction − target.
        offset: Z(0) of `FunctionSpace`, where the first layer's weights are its coordinates C.

    Cost: 6 parameters · batch · S operations, 4 for the first layer; two buffers of S · batch
    activations, of the first batch's shape, are held.
    """

    def __init__(self, stack: DenseStack, predict: Predict, offset: Tensor | None = None):
        self.stack = stack
        self.predict = predict
        self.offset = offset
        # By layer: w and b its weights, h its outputs and d the loss's derivatives by these before
        # the activation, [S, units, samples].
        self.h: list[Tensor] = []

    @torch.no_grad()
    def __call__(self, weights: dict[str, Tensor], batch: Batch) -> Float[Tensor, "S samples k"]:
        """Write the weights' gradients for a batch; return the outputs. Buffers are reused."""
        if not self.h:
            self._allocate(weights, batch)
        self._compute_outputs(batch)
        end = len(self.w) - 1
        y = batch.y.mT.contiguous()  # read once per network: strided, it costs three times as much
        outputs = self.h[end]  # [S, k, samples]
        affine = self.stack.scale_and_shift
        if affine is not None:
            outputs = outputs * affine[0] + affine[1]
        torch.sub(self.predict(outputs, 1), y, out=self.d[end])
        self.d[end].mul_(batch.weights[:, None])
        if affine is not None:
            self.d[end].mul_(affine[0])
        for i in range(end, -1, -1):
            if i < end:
                torch.bmm(self.w[i + 1].mT, self.d[i + 1], out=self.d[i])
                _backpropagate_activation(self.stack.activations[i], self.h[i], self.d[i])
            bias = self.b[i]
            if bias is not None:
                torch.sum(self.d[i], 2, out=bias.grad)
            if i:
                torch.bmm(self.d[i], self.h[i - 1].mT, out=self.w[i].grad)
        if self.offset is None:
            self._write_first_gradient(batch)
        return outputs.mT

    def _allocate(self, weights: dict[str, Tensor], batch: Batch) -> None:
        """Allocate buffers and gradients, shaped for the first batch and all that follow."""
        self.w = [weights[f"{prefix}weight"] for prefix in self.stack.layers]
        self.b = [weights.get(f"{prefix}bias") for prefix in self.stack.layers]
        for w in weights.values():
            w.grad = torch.empty_like(w, requires_grad=False)
        n_networks, n = batch.weights.shape
        self.h = [batch.weights.new_empty(n_networks, w.shape[1], n) for w in self.w]
        self.d = [torch.empty_like(h) for h in self.h]
        if self.offset is not None:
            assert self.w[0].grad is not None
            self.d[0] = self.w[0].grad  # C's gradient is that of the preactivations

    def _compute_outputs(self, batch: Batch) -> None:
        """Compute each layer's outputs for a batch, in place in `h`."""
        for i, (w, b, h) in enumerate(zip(self.w, self.b, self.h, strict=True)):
            if b is None:
                bias = w.new_zeros(1)
            else:
                bias = b[..., None]
            if i:
                torch.baddbmm(bias, w, self.h[i - 1], out=h)
            elif batch.is_shared:
                if self.offset is None:
                    bias = bias.expand(*h.shape[:2], 1)
                else:
                    bias = self.offset
                torch.addmm(bias.flatten(0, 1), w.flatten(0, 1), batch.x.T, out=h.flatten(0, 1))
            else:
                torch.baddbmm(bias, w, batch.x.mT, out=h)
            if self.stack.activations[i] == "relu":
                h.clamp_(min=0)
            elif self.stack.activations[i] == "tanh":
                h.tanh_()

    def _write_first_gradient(self, batch: Batch) -> None:
        """Write the gradient of the first layer's weights, [S, units, inputs]."""
        grad = self.w[0].grad
        assert grad is not None
        if batch.is_shared:
            torch.mm(self.d[0].flatten(0, 1), batch.x, out=grad.flatten(0, 1))
        else:
            torch.bmm(self.d[0], batch.x, out=grad)


def _backpropagate_activation(kind: str, h: Tensor, d: Tensor) -> None:
    """Turn derivatives d by an activation's outputs h into those by its inputs, in place."""
    if kind == "relu":
        torch.ops.aten.threshold_backward.grad_input(d, h, 0, grad_input=d)
    elif kind == "tanh":
        torch.ops.aten.tanh_backward.grad_input(d, h, grad_input=d)


def _list_leaf_modules(prefix: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield (parameter prefix, module) of the leaves of nested nn.Sequentials, in order."""
    if type(module) is not nn.Sequential:
        yield prefix, module
        return
    for child, m in module._modules.items():  # named_children skips a ReLU that is used twice
        yield from _list_leaf_modules(f"{prefix}{child}.", m)


def _has_hooks(m: nn.Module) -> bool:
    """Return whether a module runs more than its class's `forward`."""
    hooks = m._forward_hooks or m._forward_pre_hooks or m._backward_hooks
    return bool(hooks) or "forward" in vars(m)


def _have_same_buffers(models: Sequence[nn.Module], prefix: str | None) -> bool:
    """Return whether networks share their buffers but those of the layer with a prefix."""
    shared = {
        n: b for n, b in models[0].named_buffers() if prefix is None or not n.startswith(prefix)
    }
    return all(torch.equal(b, m.get_buffer(n)) for m in models[1:] for n, b in shared.items())


@result
class FunctionSpace:
    """Full-batch descent of the first layers, moved from weight space to the samples.

    W₁ − W₁(0) = C X stays in the span of the shared inputs X, and a gradient step on W₁ is one on
    C with the gradient of the preactivations Z. With K = XXᵀ + 1 (the 1 is the bias), Z = Z(0) +
    C K: 2 n² operations a unit and step instead of 4 n·inputs.

    Attributes:
        layer: the prefix of the first layer's "weight" and "bias": "1.", or "".
        start: parameter name → [S, *shape], all starting weights.
        x: [n, inputs].
    """

    layer: str
    start: dict[str, Tensor]
    x: Float[Tensor, "n inputs"]

    def coordinates(self) -> dict[str, Tensor]:
        """Return the starting weights, the first layer's replaced by C = 0, [S, units, n]."""
        weight = self.start[f"{self.layer}weight"]
        c = weight.new_zeros(*weight.shape[:2], len(self.x))
        weights = {n: w for n, w in self.start.items() if n != f"{self.layer}bias"}
        return weights | {f"{self.layer}weight": c}

    def offset(self) -> Float[Tensor, "S units n"]:
        """Return Z(0), the first layer's preactivations at the starting weights."""
        bias = self.start.get(f"{self.layer}bias")
        z = self.start[f"{self.layer}weight"] @ self.x.T
        if bias is None:
            return z
        return z.add_(bias[..., None])

    def kernel(self, batch: Batch) -> Batch:
        """Return the batch with K in place of its inputs."""
        has_bias = f"{self.layer}bias" in self.start
        return replace(batch, x=(self.x @ self.x.T).add_(float(has_bias)))

    def weights(self, coordinates: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the networks' weights from coordinates, the inverse of `coordinates`."""
        weight = f"{self.layer}weight"
        bias = f"{self.layer}bias"
        c = coordinates[weight]
        weights = coordinates | {weight: self.start[weight] + c @ self.x}
        if bias in self.start:
            weights[bias] = self.start[bias] + c.sum(2)
        return {name: weights[name] for name in self.start}
