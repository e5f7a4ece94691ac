"""The pass over the model, in numbered chunks; results do not depend on where a chunk runs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.backends import cudnn

from datassay.collect.form import Form
from datassay.collect.jacobian.blocks import Block, DenseFactors, map_block, named_tensors
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.kernel import Landmarks, landmarks
from datassay.collect.jacobian.per_sample import factored_jacobian, jacobian
from datassay.collect.jacobian.projection import Projector, project
from datassay.collect.layers import Layers
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.optional import inflect, text_if
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.store.chunks import Chunk, chunks_of

OUTPUTS = "outputs"
PROJECTED = "projected"


@result
class JacobianPass:
    """All that is needed to compute any chunk; a chunk's result depends on nothing else."""

    frozen: nn.Module  # from `frozen_copy`, in the form's precision and on its device
    layers: Layers
    sets: Mapping[str, SampleSet]  # by part
    form: Form
    projector: Projector
    landmarks: Landmarks | None = None  # samples from which the kernel is approximated

    @property
    def sizes(self) -> dict[str, int]:
        """The number of samples in each part."""
        return {split: len(samples) for split, samples in self.sets.items()}

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks in order."""
        return chunks_of(self.sizes, self.form.chunk)

    def template(self) -> tuple[Tensor, dict[str, Block]]:
        """Return empty outputs and blocks with the names, shapes and precision of the real ones."""
        n_outputs = self.form.n_outputs
        dtype = getattr(torch, self.form.precision)
        k = self.form.mixtures or n_outputs

        def allocate(*shape: int) -> Tensor:
            return torch.empty(0, *shape, dtype=dtype)

        if not self._keeps_factors:
            rows = k
            if self.form.mixes_outputs or self.form.landmarks:
                rows = 1
            return allocate(n_outputs), {PROJECTED: allocate(rows, self.form.n_features)}
        blocks: dict[str, Block] = {n: allocate(k, size) for n, size in self.layers.direct.items()}
        for name, (n_in, n_out, has_bias) in self.layers.dense.items():
            blocks[name] = DenseFactors(allocate(n_in), allocate(k, n_out), has_bias)
        return allocate(n_outputs), blocks

    def arrays(self, chunk: Chunk) -> dict[str, Tensor]:
        """Return a chunk's outputs and (projected) Jacobian blocks, by name."""
        samples = self.sets[chunk.split]
        dtype = getattr(torch, self.form.precision)
        x = network_inputs(
            samples.x[chunk.samples], self.frozen, dtype, as_integers=self.layers.takes_integers
        )
        # On an accelerator: all bits of float32 in convolutions, and the same ones each time.
        with cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            f0, blocks = self._differentiate(x)
        _check_finite(f0, blocks, samples.ids[chunk.samples])
        arrays = {OUTPUTS: f0, **named_tensors(blocks)}
        return {name: values.cpu() for name, values in arrays.items()}

    def _differentiate(self, x: Tensor) -> tuple[Tensor, dict[str, Block]]:
        """Return outputs [n, k] and the Jacobian blocks that the form asks for."""
        if self.landmarks is not None:
            f0, blocks = jacobian(self.frozen, self.layers, x, self.form.mixtures)
            return f0, {PROJECTED: self.landmarks.features(blocks).to(f0)[:, None]}
        if self._keeps_factors:
            return jacobian(self.frozen, self.layers, x, self.form.mixtures)
        f0, factors = factored_jacobian(self.frozen, self.layers, x)
        return f0, {PROJECTED: project(factors, self.projector)}

    @property
    def _keeps_factors(self) -> bool:
        return self.form.representation == "kernel" and self.form.projection is None


def add_landmarks(work: JacobianPass, positions: Int[np.ndarray, " m"]) -> JacobianPass:
    """Return the pass with landmarks at these positions, whose Jacobians are collected now."""
    # Their Jacobians are collected here and now, by a pass over them alone.
    train = work.sets["train"]
    form = work.form
    products = replace(form.products, in_store=False)
    kernel_form = replace(form, representation="kernel", landmarks=0, products=products)
    subpass = replace(work, form=kernel_form, sets={"train": train.subset(positions)})
    _, blocks = collect_blocks(subpass, lambda _: map(subpass.arrays, subpass.chunks))
    return replace(work, landmarks=landmarks(blocks, device=form.products.device))


def collect_blocks(
    work: JacobianPass,
    arrays: Callable[[Iterable[str]], Iterable[Mapping[str, Tensor]]],
    progress: Progress = silent,
) -> tuple[Float[Tensor, "n k"], dict[str, Block]]:
    """Return outputs f₀ [n, k] and Jacobian blocks of all samples, filled chunk by chunk."""
    # `arrays` yields each chunk's arrays of the names it is called with.
    n_all = sum(work.sizes.values())
    n_done = 0
    outputs, blocks = work.template()
    templates = blocks
    if work.form.products.in_store:
        templates = {}
    results = {
        name: map_block(block, lambda t: torch.empty(n_all, *t.shape[1:], dtype=t.dtype))
        for name, block in templates.items()
    }
    filled = {OUTPUTS: outputs.new_empty(n_all, outputs.shape[1]), **named_tensors(results)}
    for chunk, values_of in zip(work.chunks, arrays(filled), strict=True):
        for name, tensor in filled.items():
            tensor[n_done : n_done + len(chunk)] = values_of[name]
        n_done += len(chunk)
        progress("collect Jacobians", n_done, n_all)
    return filled[OUTPUTS], results


def _check_finite(f0: Float[Tensor, "n k"], blocks: Mapping[str, Block], ids: np.ndarray) -> None:
    """Raise ModelError, naming up to 3 samples, if outputs or derivatives are not finite."""
    for kind, tensors in (("outputs", [f0]), ("derivatives", named_tensors(blocks).values())):
        finite = [torch.isfinite(t).flatten(1).all(1) for t in tensors]
        bad = ~torch.stack(finite).all(0).cpu().numpy()
        if bad.any():
            names = ", ".join(map(str, ids[bad][:3])) + text_if(bad.sum() > 3, ", ...")
            subject = inflect(bad.sum(), f"sample {names} gives", f"samples {names} give")
            raise ModelError(
                f"the model's {kind} must be finite; {subject} NaN or infinity. Check the weights "
                "and the scale of the inputs."
            )
