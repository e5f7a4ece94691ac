"""SGD with small batches ends in flatter places than full-batch descent."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from datassay.collect import LossAt, hessian_products, loss_at
from datassay.data import SampleSet, load
from datassay.models import mlp, seeded
from datassay.progress import Progress, silent
from datassay.score import rank_correlation
from datassay.train import Recipe, TrainedNetworks, sample_losses, train_networks
from datassay_lab.checks import Agreement, check_args, positive, refuse_if, rising_whole, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.fits import track

PROBES = 30  # random signs a trace: its relative error is about 2 %
POWER_STEPS = 20  # products with the Hessian for its largest eigenvalue


@dataclass(frozen=True, slots=True)
class FlatMinima:
    """Sharpness where SGD ends, by batch size, at one learning rate and number of updates."""

    batch_sizes: Float[np.ndarray, " b"]  # increasing; the last is the whole training set
    trace: Float[np.ndarray, "b s"]  # of the Hessian of the training loss, one per seed
    top: Float[np.ndarray, "b s"]  # its largest eigenvalue
    loss: Float[np.ndarray, "b s"]  # training loss, ½ squared error
    accuracy: Float[np.ndarray, "b s"]  # on held-out samples with clean labels
    edge: float  # 2 / learning rate, the sharpest minimum at which descent is stable
    correlation: float  # Spearman's, between batch size and trace

    @property
    def agreement(self) -> Agreement:
        """Rank correlation between batch size and sharpness."""
        measure = "rank correlation of batch size and Hessian trace"
        return Agreement(measure, self.correlation, 0.6, "at least")


@check_args
def flat_minima(
    *,
    batch_sizes: Annotated[tuple[int, ...], rising_whole(1)] = (4, 8, 16, 32, 64),
    n_samples: Annotated[int, whole(10)] = 200,
    width: Annotated[int, whole()] = 32,
    learning_rate: Annotated[float, positive()] = 0.1,
    updates: Annotated[int, whole()] = 3000,
    label_noise: float = 0.2,
    networks: Annotated[int, whole()] = 5,
    seed: int = 0,
    progress: Progress = silent,
) -> FlatMinima:
    """Train small networks on digits with several batch sizes and measure the Hessian at the end.

    sharpness = tr ∇²L(w_end), by E vᵀ ∇²L v over random signs v

    Args:
        batch_sizes: increasing; the whole training set is added as the last.
        n_samples: digits that are trained on, at most 1437.
        width: hidden units.
        learning_rate: the same for all.
        updates: the same for all batch sizes.
        label_noise: share of the labels that are replaced by random ones, in [0, 1].
        networks: seeds; the same starts for every batch size.
        seed: of samples, labels, starts and batches.
        progress: called after each batch size.

    Returns:
        Sharpness, loss and accuracy at the end.

    Cost: batch sizes · updates batched trainings, and 50 Hessian products each; about ten seconds.
    Source: S2 class 3, "SGD and generalization": "Skip bad local minima, converge to flat minima";
    Keskar et al. (2017), Jastrzębski et al. (2017). Sharpness is not invariant to rescaling the
    weights (Dinh et al. 2017), so it compares networks of one recipe only. S2 says that flat minima
    generalise better; this is not claimed here, and the accuracies are shown.
    """
    refuse_if(
        batch_sizes[-1] >= n_samples or n_samples > 1437 or not 0 <= label_noise <= 1,
        "batch_sizes must stay below n_samples, n_samples <= 1437, label_noise in [0, 1]; got "
        f"{batch_sizes!r}, {n_samples} and {label_noise!r}.",
    )
    samples, held_out = _digits(n_samples, label_noise, seed)
    starts = _starts(samples, width, networks, seed)
    sizes = (*batch_sizes, n_samples)
    rows = torch.arange(n_samples).repeat(networks, 1)
    measures = []
    for size in track(sizes, progress, "batch sizes"):
        recipe = Recipe(
            "sgd", learning_rate, updates, size if size < n_samples else None, "mse",
            precision="float64",
        )  # fmt: skip
        networks_at_end = train_networks(starts, samples, rows, recipe, seed=seed)
        measures.append(_measure(networks_at_end, samples, held_out, recipe, seed))
    trace, top, loss, accuracy = (np.array(values) for values in zip(*measures, strict=True))
    return FlatMinima(
        np.array(sizes, float),
        *(trace, top, loss, accuracy),
        2 / learning_rate,
        float(rank_correlation(np.repeat(np.array(sizes, float), networks), trace.ravel())),
    )


@add_titles
def flat_minima_plots(result: FlatMinima) -> Figures:
    """Draw sharpness, training loss and held-out accuracy by batch size."""
    ends = result.batch_sizes[[0, -1]]
    plots = []
    for unit, values in (
        ("trace of the Hessian", result.trace),
        ("training loss", result.loss),
        ("held-out accuracy", result.accuracy),
    ):
        figure = axes("batch size", unit, log="x")
        for index, row in enumerate(values.T):
            message = "one seed each" if index == 0 else ""
            add_data(figure, result.batch_sizes, row, message, series=7, mode="lines")
        add_data(figure, result.batch_sizes, values.mean(1), "mean of the seeds",
                 spread=values.std(1))  # fmt: skip
        theory(figure, ends, np.full(2, values[-1].mean()), "full batch")
        plots.append(figure)
    return tuple(plots)


def _digits(n_samples: int, label_noise: float, seed: int) -> tuple[SampleSet, SampleSet]:
    rng = np.random.default_rng(seed)
    train, held_out = load("digits", seed=seed)
    train = train.subset(rng.permutation(len(train))[:n_samples])
    labels = np.where(rng.random(n_samples) < label_noise, rng.integers(0, 10, n_samples), train.y)
    return replace(_rows(train), y=labels.astype(train.y.dtype)), _rows(held_out)


def _rows(samples: SampleSet) -> SampleSet:
    """Return the images as centred rows."""
    return replace(samples, x=samples.x.reshape(len(samples), -1) - 0.3, kind="row")


def _starts(samples: SampleSet, width: int, networks: int, seed: int) -> list[nn.Module]:
    with seeded(seed):
        return [mlp(samples.input_shape, samples.n_classes, width) for _ in range(networks)]


def _measure(
    networks: TrainedNetworks, samples: SampleSet, held_out: SampleSet, recipe: Recipe, seed: int
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return the trace, the largest eigenvalue, the loss and the accuracy of every network."""
    _check_finite(networks)
    outputs = networks.outputs(torch.as_tensor(samples.x).double())
    losses = sample_losses(outputs, samples, recipe).mean(1)
    predictions = networks.outputs(torch.as_tensor(held_out.x).double()).argmax(2)
    accuracy = (predictions == torch.as_tensor(held_out.y)).double().mean(1)
    loss = loss_at(networks.template, samples, "mse")
    traces, tops = [], []
    for network in range(len(outputs)):
        loss_at_end = replace(loss, weights={n: networks.state[n][network] for n in loss.weights})
        traces.append(_trace(loss_at_end, seed))
        tops.append(_largest_eigenvalue(loss_at_end, seed))
    return traces, tops, losses.tolist(), accuracy.tolist()


def _signs(loss: LossAt, count: int, seed: int) -> Float[Tensor, "s d"]:
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (count, loss.n_parameters), generator=generator)
    return 2 * signs.double() - 1


def _trace(loss: LossAt, seed: int) -> float:
    probes = _signs(loss, PROBES, seed)
    return float((probes * hessian_products(loss, probes)).sum(1).mean())


def _largest_eigenvalue(loss: LossAt, seed: int) -> float:
    vector = _signs(loss, 1, seed)
    for _ in range(POWER_STEPS):
        vector = hessian_products(loss, vector / vector.norm())
    return float(vector.norm())


def _check_finite(networks: TrainedNetworks) -> None:
    refuse_if(
        not all(torch.isfinite(w).all() for w in networks.state.values()),
        "learning_rate must keep training finite; it diverged. Lower it.",
    )
