"""The last linear layer of a network, its inputs, and the network with that layer replaced.

Algorithm 1 of S0 calls the network without that layer M*; its outputs are the features here.
"""

import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.jacobian.inputs import network_inputs, takes_integers
from datassay.collect.jacobian.suitable import unwrap
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.networks import Affine
from datassay.models.user_code import user_code
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.rules import at_least

CHUNK = 512


@result
class Head:
    """A network split into features, one dense layer and, for our own regressions, a fixed scale.

    Attributes:
        model: the user's network, never changed.
        name: of the layer among the network's modules; "" where the network is that layer.
        layer: the layer itself.
        scale: [k]. The network's outputs are the layer's · scale + shift: 1 and 0 but for
            `build_model`'s regressions, whose outputs are in the target's unit.
        shift: [k].
    """

    model: nn.Module
    name: str
    layer: nn.Linear
    scale: Float[Tensor, " k"]
    shift: Float[Tensor, " k"]

    def features(
        self, samples: SampleSet, *, chunk: int = CHUNK, progress: Progress = silent
    ) -> Float[Tensor, "n d"]:
        """Return the layer's input for each sample, from one pass in evaluation mode.

        Args:
            samples: n samples.
            chunk: samples at a time.
            progress: called with (step, samples done, samples in all).

        Returns:
            Features, in the network's precision, on the CPU.

        Raises:
            ModelError: some are not finite.
            SettingError: chunk is not positive.

        Cost: one forward pass; n d values and one chunk's activations.
        """
        at_least("chunk", chunk, 1)
        frozen = copy.deepcopy(self.model).eval()
        integers = takes_integers(frozen, samples.x[:1])
        inputs: list[Tensor] = []
        layer = frozen.get_submodule(self.name)
        layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
        parts: list[Tensor] = []
        for start in range(0, len(samples), chunk):
            with torch.no_grad():
                frozen(_to_inputs(samples.x[start : start + chunk], frozen, integers))
            parts.append(inputs.pop().detach().cpu().clone())
            progress("collect features", min(start + chunk, len(samples)), len(samples))
        features = torch.cat(parts)
        _check_finite(features, samples)
        return features

    def outputs(self, features: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Return the network's outputs from features, without running it again.

        Args:
            features: what enters the layer.

        Returns:
            Logits, or target units.
        """
        weight = self.layer.weight.detach().cpu().to(features.dtype)
        outputs = features @ weight.T
        if self.layer.bias is not None:
            outputs = outputs + self.layer.bias.detach().cpu().to(features.dtype)
        return outputs * self.scale.to(features.dtype) + self.shift.to(features.dtype)

    def with_layer(
        self, weight: Float[Tensor, "k d"], bias: Float[Tensor, " k"] | None
    ) -> nn.Module:
        """Return a copy of the network with these weights in place of the layer's.

        Args:
            weight: W, on any device, in any precision.
            bias: b; None for a layer without one.

        Returns:
            One module of the network's own precision, device and mode. Where the layer shared its
            weights with another, the copy's other one keeps the old.
        """
        model = copy.deepcopy(self.model)
        layer = model.get_submodule(self.name)
        assert isinstance(layer, nn.Linear)
        layer.weight = nn.Parameter(weight.detach().to(layer.weight).clone())
        if bias is not None:
            layer.bias = nn.Parameter(bias.detach().to(layer.weight).clone())
        return model


def split_head(model: nn.Module, train: SampleSet, layer: str | None = None) -> Head:
    """Return a network's last linear layer, found by running it on two samples.

    Args:
        model: any module mapping [n, *input_shape] to [n, k]; left untouched.
        train: at least one sample; the first two are run.
        layer: the layer's name in `model.named_modules()`; None looks for the nn.Linear whose
            output is the network's output.

    Returns:
        The head: it collects features, and puts networks together again.

    Raises:
        ModelError: the network fails on the samples, its output is no [n, k] tensor or comes from
            no nn.Linear, or `layer` names no nn.Linear or one that does not give the output.
    """
    unwrap(model)  # refuses what is no network, or has no weights yet
    frozen = copy.deepcopy(model).eval()
    x = _to_inputs(train.x[:2], frozen)
    calls = _record_calls(frozen)
    with (
        user_code(
            lambda error: (
                f"the model must run on samples of shape {list(train.input_shape)}; "
                f"it raised {error}"
            )
        ),
        torch.no_grad(),
    ):
        outputs = frozen(x)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        if isinstance(outputs, Tensor):
            actual = list(outputs.shape)
        else:
            actual = type(outputs).__name__
        raise ModelError(
            f"the model must return outputs [n, k]; got {actual}. Wrap it in a module that does."
        )
    unscaled, scale, shift = _undo_fixed_scale(outputs, calls)
    matching = [
        name
        for name, module, inputs, output in calls
        if isinstance(module, nn.Linear) and inputs.ndim == 2 and _is_same(output, unscaled)
    ]
    name = _choose_layer(matching, layer, frozen)
    linear = model.get_submodule(name)
    assert isinstance(linear, nn.Linear)
    return Head(model, name, linear, scale, shift)


Call = tuple[str, nn.Module, Tensor, Tensor]  # name, module, input, output


def _record_calls(model: nn.Module) -> list[Call]:
    """Register hooks on dense and scaling layers; return the list they add calls to."""
    calls: list[Call] = []

    def note(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        calls.append((name, module, inputs[0].clone(), output.clone()))

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Affine):
            module.register_forward_hook(partial(note, name))
    return calls


def _undo_fixed_scale(
    outputs: Float[Tensor, "n k"], calls: list[Call]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs before a final `Affine` layer, and its scale and shift, [k]."""
    k = outputs.shape[1]
    for _, module, unscaled, scaled in calls[-1:]:
        if isinstance(module, Affine) and _is_same(scaled, outputs):
            scale = module.scale.cpu().double()
            shift = module.shift.cpu().double()
            return unscaled, scale.expand(k).clone(), shift.expand(k).clone()
    return outputs, torch.ones(k, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)


def _choose_layer(matching: list[str], layer: str | None, model: nn.Module) -> str:
    """Return the linear layer to retrain: `layer`, or the last one that gives the outputs."""
    linear = [n for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    if layer is not None and layer not in linear:
        raise ModelError(
            f"layer must name an nn.Linear of the model; got {layer!r}. It has "
            f"{', '.join(linear) or 'none'}."
        )
    if not linear:
        raise ModelError(
            "the model must have a linear last layer (nn.Linear) to retrain; it has none. End it "
            "with one, or weight its loss directly."
        )
    names = [n for n in matching if layer in {None, n}]
    if not names:
        target = "its last nn.Linear"
        if layer:
            target = f"layer {layer!r}"
        raise ModelError(
            f"the model's output must be that of {target}, on one vector per sample; something "
            "comes after it, such as a softmax. Let the model end with it and return logits."
        )
    return names[-1]


def _is_same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


def _to_inputs(x: np.ndarray, model: nn.Module, as_integers: bool | None = None) -> Tensor:
    """Return inputs on the model's device, in its precision; integers to look up as int64."""
    parameter = next(model.parameters(), torch.zeros(()))
    return network_inputs(x, model, parameter.dtype, as_integers=as_integers)


def _check_finite(features: Tensor, samples: SampleSet) -> None:
    """Raise ModelError, naming up to 3 samples, where features are not finite."""
    bad = ~torch.isfinite(features).all(1).numpy()
    if bad.any():
        names = ", ".join(map(str, samples.ids[bad][:3])) + text_if(bad.sum() > 3, ", ...")
        raise ModelError(
            f"the features must be finite; those of {names} are not. Check the weights and the "
            "scale of the inputs."
        )
