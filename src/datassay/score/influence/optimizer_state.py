"""What an optimiser made of gradients, from its state: w ← w − lr (D ∘ ∇L + λ w).

Adam: D = 1 / (√v̂ + ε), v̂ its second moments, free of their bias. Gradient descent with momentum
μ: D = 1 / (1 − μ), what a gradient moves in the end. λ: decoupled weight decay, or λ D of a
penalty.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect.gradients.blocks import Block, as_matrix
from datassay.collect.jacobian.suitable import unwrap
from datassay.errors import ModelError, SettingError
from datassay.models.checkpoints import plain_values, stand_in_names

FILE = "optimizer.pt"
# States of `_match_by_shape`'s search that are held at most; with more the match is ambiguous
# anyway.
MOST_WAYS = 4096


class UnknownOptimizerError(SettingError):
    """Neither of Adam's kind nor gradient descent."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How the weights of a block moved, D and Λ.

    Attributes:
        steps: D, at least 0: how far each weight goes per unit of gradient and lr.
        decay: Λ, how fast it decays by itself.
    """

    steps: Float[Tensor, "rows columns"]
    decay: Float[Tensor, "rows columns"]

    def factors(self) -> tuple[Float[Tensor, "rows 1"], Float[Tensor, "1 columns"]]:
        """Return positive a and b with log(a bᵀ) nearest to log D, D the step sizes."""
        log_steps = self.steps.clamp_min(1e-30).log()
        log_rows = log_steps.mean(1, keepdim=True)
        log_columns = log_steps.mean(0, keepdim=True) - log_steps.mean()
        return log_rows.exp(), log_columns.exp()

    def split(self, has_left: bool, has_right: bool) -> tuple[Tensor, Tensor]:
        """Return the parts of a bᵀ inside and outside a Kronecker basis, each [rows, columns]."""
        # has_left: the basis has a row side, which takes a in. has_right: a column side, for b.
        rows, columns = self.factors()
        inside = torch.ones_like(self.steps)
        outside = inside
        if has_left:
            inside = inside * rows
        else:
            outside = outside * rows
        if has_right:
            return inside * columns, outside
        return inside, outside * columns


@dataclass(frozen=True, slots=True)
class Update:
    """How an optimiser turned gradients into steps.

    Attributes:
        name: "Adam" or "gradient descent".
        lr: of its first group of weights, when the state was stored.
        step_sizes: weight → D, of its shape, times its own group's lr over the first's.
        decay: weight → λ, likewise.
    """

    name: str
    lr: float
    step_sizes: Mapping[str, Tensor]
    decay: Mapping[str, Tensor]

    def of_block(self, block: Block, penalty: float = 0.0) -> Metric:
        """Return step sizes D and decay Λ of a block's weights; Λ includes `penalty` · D."""
        missing = [name for name in block.parameters if name not in self.step_sizes]
        if missing:
            raise SettingError(
                f"the optimiser's state must hold the weights attributed to; {missing[0]} is not "
                "among those that it trained. Choose others: parameters=."
            )
        sizes = as_matrix(block, [self.step_sizes[name].double() for name in block.parameters])
        decay = as_matrix(block, [self.decay[name].double() for name in block.parameters])
        return Metric(sizes, decay + penalty * sizes)


def update_of(source: Any, model: nn.Module) -> Update:
    """Return step sizes and decay by weight name, from an optimiser, its state dict or file."""
    if isinstance(source, Update):
        return source
    state = _state_dict(source)
    names = _name_weights(state, model)
    parameters = dict(unwrap(model).named_parameters())
    first_lr = float(state["param_groups"][0]["lr"])
    step_sizes = {}
    decay = {}
    kinds = set()
    for group in state["param_groups"]:
        lr_ratio = 1.0
        if first_lr:
            lr_ratio = float(group["lr"]) / first_lr
        penalty = float(group.get("weight_decay", 0.0))
        for index in group["params"]:
            name = names[index]
            kind, size = _step_size(state["state"].get(index, {}), group, parameters[name])
            size = lr_ratio * size
            step_sizes[name] = size
            kinds.add(kind)
            # Before the key was there, AdamW could not be told from Adam; few penalise in Adam.
            if kind == "Adam" and group.get("decoupled_weight_decay", True):
                decay[name] = torch.full_like(size, lr_ratio * penalty)
            else:
                decay[name] = penalty * size
    kind = "Adam" if "Adam" in kinds else "gradient descent"
    return Update(kind, first_lr, step_sizes, decay)


def _state_dict(source: Any) -> Mapping[str, Any]:
    """Return an optimiser's state dict; source: the optimiser, the dict, a file or a folder."""
    if isinstance(source, torch.optim.Optimizer):
        source = source.state_dict()
    location = "optimizer"
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        location = str(path / FILE if path.is_dir() else path)
        source = plain_values(Path(location))
    for candidate in _list_dictionaries(source):
        if {"state", "param_groups"} <= candidate.keys() and candidate["param_groups"]:
            if names := stand_in_names(candidate):
                raise ModelError(
                    f"{location} must hold tensors and plain numbers; it holds more than tensors "
                    f"({names[0]}). Save optimizer.state_dict() with numbers of Python."
                )
            return candidate
    raise SettingError(
        f"{location} must be the state of an optimiser, as optimizer.state_dict() has it; got "
        f"{type(source).__name__}."
    )


def _list_dictionaries(value: Any) -> Iterable[Mapping[str, Any]]:
    """Yield a dictionary and those among its values; nothing of other values."""
    if isinstance(value, Mapping):
        yield value
        yield from (entry for entry in value.values() if isinstance(entry, Mapping))


def _step_size(
    state: Mapping[str, Any], group: Mapping[str, Any], weight: Tensor
) -> tuple[str, Tensor]:
    """Return "Adam" or "gradient descent", and one weight's step sizes D in units of lr."""
    zeros = torch.zeros(weight.shape)
    if "betas" in group:
        if not state:  # it never had a gradient
            return "Adam", zeros
        squares = state.get("max_exp_avg_sq", state.get("exp_avg_sq"))
        if isinstance(squares, Tensor) and squares.shape == weight.shape:
            squares = squares.detach().to("cpu", torch.float32)
            if bool(torch.isfinite(squares).all()) and bool((squares >= 0).all()):
                mean_square = squares / (1 - float(group["betas"][1]) ** float(state["step"]))
                return "Adam", 1 / (mean_square.sqrt() + float(group["eps"]))
    elif "momentum" in group and "dampening" in group:
        summed_step = (1 - float(group["dampening"])) / (1 - float(group["momentum"]))
        return "gradient descent", torch.full_like(zeros, summed_step if group["momentum"] else 1.0)
    raise UnknownOptimizerError(
        "the optimiser must be Adam, AdamW or SGD, with finite second moments of the weights' "
        f"shapes; its state has {', '.join(sorted(map(str, state))) or 'nothing'} and its settings "
        f"{', '.join(sorted(map(str, group))[:6])}. Give lr= and steps= instead."
    )


def _name_weights(state: Mapping[str, Any], model: nn.Module) -> dict[int, str]:
    """Return {index in the optimiser's state: weight name}; raise where that is not certain."""
    groups = [list(group["params"]) for group in state["param_groups"]]
    parameters = dict(unwrap(model).named_parameters())
    stored_names = [name for g in state["param_groups"] for name in g.get("param_names") or ()]
    indices = [index for group in groups for index in group]
    if len(stored_names) == len(indices) and parameters.keys() >= set(stored_names):
        return dict(zip(indices, stored_names, strict=True))
    trained_names = [name for name, weight in parameters.items() if weight.requires_grad]
    for names in (trained_names, list(parameters)):
        if len(names) == len(indices):
            weights = {name: tuple(parameters[name].shape) for name in names}
            matches = _match_by_shape(groups, _state_shapes(state), weights)
            if matches:
                return matches
    raise SettingError(
        f"the optimiser's state must be of this network's weights; its {len(indices)} tensors do "
        f"not follow the order and shapes of the network's {len(parameters)}. Was it another "
        "network's? An optimiser made with model.named_parameters() says whose each is."
    )


def _state_shapes(state: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """Return {state index: shape} of the optimiser's moments, where it keeps any."""
    shapes = {}
    for index, values in state["state"].items():
        moments = values.get("exp_avg_sq", values.get("momentum_buffer"))
        if isinstance(moments, Tensor):
            shapes[index] = tuple(moments.shape)
    return shapes


def _match_by_shape(
    groups: Sequence[Sequence[int]],
    shapes: Mapping[int, tuple[int, ...]],
    weights: Mapping[str, tuple[int, ...]],
) -> dict[int, str]:
    """Return {state index: weight name} by order and shapes; empty where not certain."""
    # Certain are shapes that agree in the order of indices, or in the only way to deal the weights
    # out to the groups that keeps each group's order. groups: state indices of each. shapes: of
    # states, as far as they say them. weights: name → shape, in the model's order.

    def fits(index: int, shape: tuple[int, ...]) -> bool:
        return shapes.get(index, shape) == shape

    flat = [index for group in groups for index in group]
    if all(fits(i, shape) for i, shape in zip(flat, weights.values(), strict=True)):
        return dict(zip(flat, weights, strict=True))
    # As the Trainer has it: weights that decay, then those that do not, each in the model's order.
    # ways: how many indices of each group are dealt out → the indices in order, two ways at most.
    ways: dict[tuple[int, ...], list[tuple[int, ...]]] = {(0,) * len(groups): [()]}
    for shape in weights.values():
        next_ways: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for counts, prefixes in ways.items():
            for g, group in enumerate(groups):
                if counts[g] < len(group) and fits(group[counts[g]], shape):
                    next_counts = (*counts[:g], counts[g] + 1, *counts[g + 1 :])
                    longer = [(*prefix, group[counts[g]]) for prefix in prefixes]
                    next_ways[next_counts] = (next_ways.get(next_counts, []) + longer)[:2]
        if len(next_ways) > MOST_WAYS:
            return {}
        ways = next_ways
    complete = [indices for way in ways.values() for indices in way]
    if len(complete) != 1:
        return {}
    return dict(zip(complete[0], weights, strict=True))
