"""Ground truth for the leave-one-out scores: the real network trained again without each sample."""

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
from datassay.optional import coalesce
from datassay.progress import Progress, part_of, silent
from datassay.results import Tabular, result
from datassay.rules import one_of
from datassay.store.digests import digest
from datassay.store.results import ResultStore
from datassay.train.recipe import REDUCTIONS, Descent, Recipe
from datassay.train.training import TrainedNetworks, train_networks, with_loss

# Networks train side by side while their activations for all samples take less than this, which
# fits a cache; a network that fills it alone is no faster beside others.
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
        """Return one row per sample left out: id, prediction_change, weight_change, held_out."""
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
        reduction: "sum", or "mean": η = lr/n, λ = n·weight_decay, and n − 1 in place of n without a
            sample; "mean_same_penalty" keeps λ = n·weight_decay there, as S1's code does.
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
    removed_idx = check_removed(removed, len(train))
    full, reduced = _make_recipes(len(train), lr, steps, weight_decay, reduction, loss, precision)
    stored = ResultStore(store, fingerprint(model, train, val, full))
    missing = [i for i in removed_idx if f"without-{i}" not in stored]
    total = steps * len(missing)
    if "all" not in stored:
        total += steps
        networks = _train(model, train, [None], full, part_of(progress, STEP, 0, total))
        outputs = networks.outputs(coalesce(val, train).x)[0].double().numpy()
        stored.put("all", {"outputs": outputs, "weights": _flatten_weights(networks)[0].numpy()})
    reference = stored.get("all")
    n_done = total - steps * len(missing)
    size = networks_at_a_time(model, train)
    for start in range(0, len(missing), size):
        batch = missing[start : start + size]
        report = _multiply_progress(part_of(progress, STEP, n_done, total), len(batch))
        networks = _train(model, train, batch, reduced, report)
        results = _measure_changes(networks, batch, train, coalesce(val, train), reference)
        for i, arrays in zip(batch, results, strict=True):
            stored.put(f"without-{i}", arrays)
        n_done += steps * len(batch)
    rows = [stored.get(f"without-{i}") for i in removed_idx]
    outputs = np.stack([row["outputs"] for row in rows])
    return Retrained(
        removed=np.array(removed_idx),
        ids=train.ids[removed_idx],
        outputs=reference["outputs"],
        outputs_without=outputs,
        held_out=np.stack([row["held_out"] for row in rows]),
        prediction_change=np.square(reference["outputs"] - outputs).sum((1, 2)),
        weight_change=np.array([float(row["weight_change"]) for row in rows]),
        on_training_inputs=val is None,
        recipe=full,
    )


def check_removed(removed: Sequence[int] | np.ndarray | None, n: int) -> list[int]:
    """Return the positions of the samples to leave out; raise where one is not in 0..n − 1."""
    if removed is None:
        array = np.arange(n)
    else:
        array = np.atleast_1d(np.asarray(removed))
    idx = array.ravel().tolist()
    is_integer = array.dtype.kind in "iu"
    if not idx or not is_integer or not all(0 <= i < n for i in idx):
        values = ", ".join(map(repr, idx[:5])) or "none"
        raise SettingError(
            f"removed must hold positions in 0..{n - 1}; got {values}. Pass None for all."
        )
    return idx


def _make_recipes(
    n: int, lr: float, steps: int, weight_decay: float, reduction: str, loss: str, precision: str
) -> tuple[Recipe, Recipe]:
    """Return the training recipes for all n samples and for n − 1."""
    one_of("reduction", reduction, REDUCTIONS)
    per_sample = n if reduction == "sum" else 1
    full = Recipe("sgd", lr * per_sample, steps, None, loss, weight_decay / per_sample, precision)
    # A recipe is of the averaged loss. Of a sum η and λ stay without a sample, so its average has
    # η(n−1) for ηn and λ/(n−1) for λ/n.
    if reduction == "mean":
        return full, full
    lr_ratio = 1.0
    if reduction == "sum":
        lr_ratio = (n - 1) / n
    decay = full.weight_decay * n / (n - 1)
    return full, replace(full, lr=full.lr * lr_ratio, weight_decay=decay)


def _train(
    model: nn.Module,
    train: SampleSet,
    left_out: list[int] | list[None],
    recipe: Recipe,
    progress: Progress,
) -> TrainedNetworks:
    """Train one network without each sample in `left_out`; None: on all samples."""
    all_idx = torch.arange(len(train))
    subsets = torch.stack([all_idx if i is None else all_idx[all_idx != i] for i in left_out])
    return train_networks([model] * len(left_out), train, subsets, recipe, progress=progress)


def _measure_changes(
    networks: TrainedNetworks,
    left_out: list[int],
    train: SampleSet,
    queries: SampleSet,
    reference: dict[str, np.ndarray],
) -> list[dict[str, np.ndarray]]:
    """Return for each sample left out its outputs, held-out output and weight change."""
    outputs = networks.outputs(queries.x).double().numpy()  # [S, m, k]
    # Network s on the sample that network t lacks, of which s = t is held out, [S, S, k].
    held_out = networks.outputs(train.x[left_out]).double().numpy()
    shift = _flatten_weights(networks).double() - torch.as_tensor(reference["weights"]).double()
    squared_shift = shift.square().sum(1).numpy()  # [S]
    return [
        {"outputs": outputs[s], "held_out": held_out[s, s], "weight_change": squared_shift[s]}
        for s in range(len(left_out))
    ]


def _flatten_weights(networks: TrainedNetworks) -> Float[Tensor, "S d"]:
    names = [name for name, _ in networks.template.named_parameters()]
    return torch.cat([networks.state[name].flatten(1) for name in names], 1).cpu()


def networks_at_a_time(model: nn.Module, train: SampleSet) -> int:
    """Return how many networks are trained side by side.

    Args:
        model: one of them.
        train: the samples.

    Returns:
        As many as `BATCH_BYTES` holds; 1 for convolutions: stacked they become grouped ones, which
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


def _multiply_progress(progress: Progress, n_networks: int) -> Progress:
    """Return a progress callback that counts an update of n networks as n."""
    return lambda step, done, total: progress(step, done * n_networks, total)


def fingerprint(
    model: nn.Module, train: SampleSet, val: SampleSet | None, recipe: Recipe
) -> dict[str, object]:
    """Return all that determines the results, as JSON values, to recognise stored ones."""
    return {
        **model_fingerprint(model),
        **frozen_fingerprint(model),
        "training samples": digest({"x": train.x, "y": train.y}),
        "validation inputs": "none" if val is None else digest({"x": val.x}),
        **asdict(recipe),
        "torch": torch.__version__,
    }
