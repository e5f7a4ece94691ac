"""Ground truth for the leave-one-out scores: train the real network again without each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.collection import check_sets
from datassay.collect.fingerprint import frozen_fingerprint, model_fingerprint
from datassay.collect.jacobian.inputs import network_inputs
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.suitable import one_output
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, part_of, silent
from datassay.results import Tabular, result
from datassay.rules import one_of
from datassay.store.manifest import digest
from datassay.store.results import ResultStore
from datassay.train.recipe import Descent, Recipe
from datassay.train.training import TrainedNetworks, train_networks, with_loss

# Networks train side by side while their activations for all samples take less than this, which
# stays near the processor; a network that fills it alone gains nothing from company.
BATCH_BYTES = 2**23
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
STEP = "retrain without each sample"


@result
class Retrained(Tabular):
    """Measured changes when the network is trained without each of s samples.

    Attributes:
        removed: [s], positions of the samples left out, one network each.
        ids: [s], their ids.
        outputs: f(x_j), [m, k], of the network trained on all samples, on the queries: the
            validation inputs, or the training inputs without any (`on_training_inputs`).
        outputs_without: f₋ᵢ(x_j), [s, m, k], on the same inputs.
        held_out: f₋ᵢ(x_i), [s, k].
        prediction_change: Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖², [s], output unit squared.
        weight_change: ‖w − w₋ᵢ‖², [s], weight unit squared.
        on_training_inputs: whether the queries are the training inputs.
        recipe: how the networks were trained.
    """

    removed: Int[np.ndarray, " s"]
    ids: np.ndarray
    outputs: Float[np.ndarray, "m k"]
    outputs_without: Float[np.ndarray, "s m k"]
    held_out: Float[np.ndarray, "s k"]
    prediction_change: Float[np.ndarray, " s"]
    weight_change: Float[np.ndarray, " s"]
    on_training_inputs: bool
    recipe: Recipe

    def to_table(self) -> pa.Table:
        """One row per sample left out: id, prediction_change, weight_change, held_out."""
        return pa.table({
            "id": self.ids,
            "prediction_change": self.prediction_change,
            "weight_change": self.weight_change,
            "held_out": self.held_out.tolist(),
        })


@checks_arguments
def retrain(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    lr: float,
    steps: int = Descent.steps,
    weight_decay: float = Descent.weight_decay,
    reduction: str = "mean",
    loss: str = "auto",
    removed: Sequence[int] | np.ndarray | None = None,
    precision: str = "float32",
    store: str | Path | None = None,
    progress: Progress = silent,
) -> Retrained:
    """Train on all samples, and again without each of some, by full-batch gradient descent.

    w₋ᵢ ← w₋ᵢ − η (Σ_{j≠i} ∇ℓ_j + λ (w₋ᵢ − w₀)), with `leave_one_out`'s η and λ, so that the same
    lr, steps, weight_decay and reduction describe the same run there (dynamics="descent").

    Args:
        model: at the weights to start from; copied, run in evaluation mode; frozen weights stay.
        train: n samples.
        val: the queries; None takes the training inputs.
        lr: learning rate of the loss as reduced.
        steps: full-batch updates.
        weight_decay: of the loss as reduced: (weight_decay/2)‖w − w₀‖².
        reduction: "sum", or "mean": η = lr/n, λ = n·weight_decay, and lr/(n−1) with the same λ
            without a sample, as S1's code does.
        loss: "mse" (½ squared error, S1; what `leave_one_out` describes), "cross_entropy", "bce" of
            several labels per sample, or "auto": by the task.
        removed: positions of the samples to leave out; None is every one.
        precision: "float32" or "float64".
        store: folder that keeps every finished network's results, so that a second call with the
            same data, model and settings only trains what is missing; None keeps nothing.
        progress: called with (step, network updates done, network updates in all).

    Returns:
        The changes, in the order of `removed`.

    Raises:
        DataError: too few samples, one class only, or train and val do not belong together.
        ModelError: outputs do not fit the targets, or the model cannot run for many networks.
        SettingError: a setting is out of range, a position is not in train, or the store belongs
            to another model, data or settings; the message names what differs.

    Cost: 6 parameters · n operations an update and network (dense layers); networks train in
    batches whose activations fit 8 MiB, and weights and gradients of one batch are held.
    Source: S1 §6, "ground truth". float32 rounds differences of weights: changes below about
    1e-12 of ‖w‖² are noise; float64 takes longer.
    """
    check_sets(train, val)
    loss = with_loss(Recipe(loss=loss), train).loss
    chosen = positions(removed, len(train))
    full, without = _recipes(len(train), lr, steps, weight_decay, reduction, loss, precision)
    kept = ResultStore(store, fingerprint(model, train, val, full))
    missing = [i for i in chosen if f"without-{i}" not in kept]
    total = steps * (len(missing) + ("all" not in kept))
    if "all" not in kept:
        networks = _train(model, train, [None], full, part_of(progress, STEP, 0, total))
        outputs = _outputs(networks, (train if val is None else val).x)[0]
        kept.put("all", {"outputs": outputs, "weights": _flat(networks)[0].numpy()})
    reference = kept.get("all")
    done = total - steps * len(missing)
    size = networks_at_a_time(model, train)
    for part in (missing[start : start + size] for start in range(0, len(missing), size)):
        report = _many(part_of(progress, STEP, done, total), len(part))
        networks = _train(model, train, part, without, report)
        results = _without(networks, part, train, train if val is None else val, reference)
        for i, arrays in zip(part, results, strict=True):
            kept.put(f"without-{i}", arrays)
        done += steps * len(part)
    rows = [kept.get(f"without-{i}") for i in chosen]
    outputs = np.stack([row["outputs"] for row in rows])
    return Retrained(
        removed=np.array(chosen),
        ids=train.ids[chosen],
        outputs=reference["outputs"],
        outputs_without=outputs,
        held_out=np.stack([row["held_out"] for row in rows]),
        prediction_change=np.square(reference["outputs"] - outputs).sum((1, 2)),
        weight_change=np.array([float(row["weight_change"]) for row in rows]),
        on_training_inputs=val is None,
        recipe=full,
    )


def positions(removed: Sequence[int] | np.ndarray | None, n: int) -> list[int]:
    """The samples to leave out."""
    given = np.arange(n) if removed is None else np.atleast_1d(np.asarray(removed))
    chosen = given.ravel().tolist()
    whole = given.dtype.kind in "iu"
    if not chosen or not whole or not all(0 <= i < n for i in chosen):
        got = ", ".join(map(repr, chosen[:5])) or "none"
        raise SettingError(
            f"removed must hold positions in 0..{n - 1}; got {got}. Pass None for all."
        )
    return chosen


def _recipes(
    n: int, lr: float, steps: int, weight_decay: float, reduction: str, loss: str, precision: str
) -> tuple[Recipe, Recipe]:
    """The runs on n and on n − 1 samples, both as Recipe counts: of the averaged loss."""
    one_of("reduction", reduction, ("sum", "mean"))
    per_sample = n if reduction == "sum" else 1
    full = Recipe("sgd", lr * per_sample, steps, None, loss, weight_decay / per_sample, precision)
    # Sum loss: the step η stays, so the averaged loss steps by η(n−1). Mean loss: it stays as it
    # is. The penalty λ of the sum loss stays in both, and with it λ/(n−1) of the averaged loss.
    shrink = (n - 1) / n if reduction == "sum" else 1.0
    decay = full.weight_decay * n / (n - 1)
    return full, replace(full, lr=full.lr * shrink, weight_decay=decay)


def _train(
    model: nn.Module,
    train: SampleSet,
    left_out: list[int] | list[None],
    recipe: Recipe,
    progress: Progress,
) -> TrainedNetworks:
    every = torch.arange(len(train))
    subsets = torch.stack([every if i is None else every[every != i] for i in left_out])
    return train_networks([model] * len(left_out), train, subsets, recipe, progress=progress)


def _without(
    networks: TrainedNetworks,
    left_out: list[int],
    train: SampleSet,
    queries: SampleSet,
    reference: dict[str, np.ndarray],
) -> list[dict[str, np.ndarray]]:
    outputs = _outputs(networks, queries.x)  # [S, m, k]
    own = _outputs(networks, train.x[left_out])  # [S, S, k]: network s on sample s
    moved = _flat(networks).double() - torch.as_tensor(reference["weights"]).double()
    change = moved.square().sum(1).numpy()
    return [
        {"outputs": outputs[s], "held_out": own[s, s], "weight_change": change[s]}
        for s in range(len(left_out))
    ]


def _outputs(networks: TrainedNetworks, x: np.ndarray) -> Float[np.ndarray, "S m k"]:
    return networks.outputs(x).double().numpy()


def _flat(networks: TrainedNetworks) -> Float[Tensor, "S d"]:
    trained = dict(networks.template.named_parameters())
    return torch.cat([networks.state[name].flatten(1) for name in trained], 1)


def networks_at_a_time(model: nn.Module, train: SampleSet) -> int:
    """How many networks are trained side by side.

    Args:
        model: one of them.
        train: the samples.

    Returns:
        As many as a fixed memory holds; 1 for convolutions: stacked they become grouped ones, which
        are slower.
    """
    frozen = frozen_copy(model, torch.float32)
    if any(isinstance(m, CONVOLUTIONS) for m in frozen.modules()):
        return 1
    x = network_inputs(train.x[:1], frozen, torch.float32)
    sizes: list[int] = []
    for module in frozen.modules():
        if not list(module.children()):
            module.register_forward_hook(lambda _module, _input, out: sizes.append(out.numel()))
    with torch.no_grad():
        one_output(frozen, x)
    return max(1, BATCH_BYTES // (4 * max(1, sum(sizes)) * len(train)))


def _many(progress: Progress, networks: int) -> Progress:
    return lambda step, done, total: progress(step, done * networks, total)


def fingerprint(
    model: nn.Module, train: SampleSet, val: SampleSet | None, recipe: Recipe
) -> dict[str, object]:
    """Everything that determines the results: weights, samples, settings, torch version."""
    return {
        **model_fingerprint(model),
        **frozen_fingerprint(model),
        "training samples": digest({"x": train.x, "y": train.y}),
        "validation inputs": "none" if val is None else digest({"x": val.x}),
        **asdict(recipe),
        "torch": torch.__version__,
    }
