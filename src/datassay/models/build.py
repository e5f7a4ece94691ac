"""Build a network by name, or load the user's own module and weights without unpickling."""

import copy
import inspect
from pathlib import Path
from typing import Any

from torch import nn

from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError
from datassay.models.known import check_known
from datassay.models.names import BLOCK_HEAD, full_name, network_on
from datassay.models.networks import NETWORKS, seeded, spread
from datassay.models.reference import import_reference, is_reference
from datassay.models.user_code import user_code
from datassay.models.weights import load_weights


@checks_arguments
def build_model(
    name: str, train: SampleSet, *, weights: str | Path | None = None, seed: int = 0
) -> nn.Module:
    """Build a network for these samples; it scales its inputs (and regression outputs) itself.

    Args:
        name: a built-in name with options, "mlp", "mlp:width=1024,depth=2", "linear", "logistic",
            "cnn", "lenet5"; "features:lite0" or "features:lite0+linear", a network on the
            embeddings that Backbone("lite0") made; "auto", mlp on whatever x is; or
            "package.module:factory", where factory is a module or a function of no required
            arguments that returns one. What is installed goes before the current folder;
            "path/file.py:factory" names a file. The user's own module gets the raw inputs: its
            scaling is its own.
        train: the samples; their inputs set the scaling layer, their classes the output count
            (one output for two classes, as S1 does; one per class beyond).
        weights: a .safetensors file, or a state dict or checkpoint that torch saved (.pt), loaded
            into the network; of several state dicts the one whose names fit, trained weights before
            averaged ones, or the one named: "weights.pt::ema".
        seed: of the initial weights.

    Returns:
        The network, [n, *input_shape] → [n, k], in float32.

    Raises:
        DataError: a column of the inputs or targets that float32 cannot hold apart, as `spread`.
        ModelError: unknown name or option, other embeddings than the name asks for, a module that
            cannot be imported, weights that cannot be read or do not fit.
    """
    name = network_on(full_name(name, train), train)
    with seeded(seed):
        if is_reference(name):
            model = _load_user_module(name)
        else:
            model = _build_named(name, train)
    if weights is not None:
        load_weights(model, Path(weights))
    return model


def linear_or_named(name: str, train: SampleSet, seed: int) -> nn.Module:
    """Return the network of that name; a linear regression without scaled outputs."""
    # On embeddings a name without a head, and "auto", mean a logistic head. Without the layer that
    # scales a regression's outputs back, least squares has a closed form.
    name = network_on(full_name(name, train, BLOCK_HEAD), train)
    model = build_model(name, train, seed=seed)
    if name in {"linear", "logistic"} and not train.is_classification:
        assert isinstance(model, nn.Sequential)
        return model[:-1]
    return model


def n_outputs(train: SampleSet) -> int:
    """Return how many outputs a built-in network has: 1 for two classes, else one per class.

    Args:
        train: the samples.

    Returns:
        k.
    """
    if train.is_classification:
        if train.n_classes == 2:
            return 1
        return train.n_classes
    if train.y.ndim == 1:
        return 1
    return train.y.shape[1]


def _build_named(name: str, train: SampleSet) -> nn.Module:
    """Return a built-in network between layers that scale inputs and regression outputs."""
    base, _, options = name.partition(":")
    if base not in NETWORKS:
        check_known(base)
    factory = NETWORKS[base]
    settings = _parse_options(base, options, list(inspect.signature(factory).parameters)[2:])
    network = factory(train.input_shape, n_outputs(train), **settings)
    scale = spread(train.x)
    if (train.x == train.x[:1]).all():
        raise DataError(
            f"x must differ between samples; all {len(train)} are equal. Check how it was read."
        )
    layers = [scale.removed, network]
    if not train.is_classification:
        # The linearised fit starts at f₀ ≈ mean(y), in the target's own unit.
        layers.append(spread(train.y.reshape(len(train), -1), "y").restored)
    return nn.Sequential(*layers)


def _parse_options(base: str, text: str, allowed: list[str]) -> dict[str, int]:
    """Return name → whole number from the options "name=value,…" of a network's name."""
    settings = {}
    rule = "no options"
    example = base
    if allowed:
        rule = f"positive integers for {', '.join(allowed)}"
        example = f"{base}:{','.join(f'{name}=2' for name in allowed)}"
    for item in filter(None, text.split(",")):
        key, _, value = item.partition("=")
        if key not in allowed or not value.isdecimal() or int(value) < 1:
            raise ModelError(f"{base} takes {rule}; got {item!r}. Write {example}.")
        settings[key] = int(value)
    return settings


def _load_user_module(name: str) -> nn.Module:
    """Return the network that "package.module:factory" or "file.py:factory" names."""
    rule = (
        f"model must be one of {', '.join(NETWORKS)}, or package.module:factory or file.py:factory"
    )
    module = import_reference(name, rule)
    if isinstance(module, nn.Module):
        return module
    return _call_factory(module, repr(name))


def copy_or_build(source: Any, seed: int) -> nn.Module:
    """Return a copy of a network, or the network that a function of the user's returns."""
    # source: a network, or a function of no required arguments that returns one.
    if isinstance(source, nn.Module):
        return copy.deepcopy(source)
    with seeded(seed):
        return _call_factory(source, getattr(source, "__name__", type(source).__name__))


def _call_factory(factory: Any, name: str) -> nn.Module:
    """Return the network that a function of the user's returns."""
    with user_code(
        lambda error: (
            f"model {name} must be a module, or a function that needs no arguments and returns "
            f"one; calling it raised {error} Wrap it in a function without arguments."
        )
    ):
        model = factory()
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"model {name} must give a torch.nn.Module; got {type(model).__name__}. Return the "
            "network itself."
        )
    return model
