"""k small layers make 2ᵏ linear pieces; one layer needs as many units."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from datassay.models import mlp, seeded
from datassay.progress import Progress, part_of, silent
from datassay.train import Recipe, train_networks
from datassay_lab.checks import Agreement, check_args, refuse_if, whole
from datassay_lab.curves import Figures, add_data, add_titles, axes, theory
from datassay_lab.wide_network import regression

GRID = 512  # points of [0, 1]: 8 a piece at most depth
MOST_DEPTH = 6
CLOSE = 0.1  # of the target's standard deviation
DEEP, DEEP_LAYERS = 10, 4  # width and hidden layers of the trained deep network
TRAINED_DEPTH = 5


@dataclass(frozen=True, slots=True)
class DepthCompositionality:
    """Units that deep and shallow networks need for the k-fold composition of a tent."""

    depths: Float[np.ndarray, " k"]  # compositions
    pieces: Float[np.ndarray, " k"]  # linear pieces that the deep network of 2 units per layer has
    deep_error: float  # largest difference of that network from the target, over all depths
    deep_units: Float[np.ndarray, " k"]  # its hidden units
    # lower bound on the units of a network with one hidden layer whose error is a tenth of the
    # target's standard deviation.
    shallow_units: Float[np.ndarray, " k"]
    # errors after training: root mean square error over standard deviation, best of the starts, of
    # a deep narrow and a shallow wide network of equally many parameters, for the first t depths.
    errors: Float[np.ndarray, "two t"]
    n_parameters: tuple[int, ...]  # [2], of these

    @property
    def agreement(self) -> Agreement:
        """How often the units of a shallow network double with each layer of the deep one."""
        doublings = np.polyfit(self.depths[1:], np.log2(self.shallow_units[1:]), 1)[0]
        is_exact = self.deep_error < 1e-9
        measure = "doublings of a shallow network's units per layer of the deep one"
        return Agreement(measure, float(doublings) if is_exact else float("nan"), 0.9, "at least")


@check_args
def depth_compositionality(
    *,
    max_depth: Annotated[int, whole(3)] = MOST_DEPTH,
    slope: float = 2.0,
    starts: Annotated[int, whole()] = 4,
    steps: Annotated[int, whole()] = 3000,
    seed: int = 0,
    progress: Progress = silent,
) -> DepthCompositionality:
    """Build the deep network, bound every shallow one from below, and train both.

    g(x) = s relu(x) − 2 s relu(x − ½),   f_k = g ∘ … ∘ g:   2ᵏ pieces for s = 2

    Args:
        max_depth: k, 3 to 6; the grid is too coarse for more.
        slope: s of the tent, at most 2; up to 1 its compositions are tents again.
        starts: networks of each kind that are trained.
        steps: of Adam on full batches.
        seed: of the starts.
        progress: called after each step of training.

    Returns:
        Units, pieces and errors.

    Cost: k · 512² · pieces comparisons, and 6 · 512 · parameters · starts · steps operations for
    each of up to 5 depths and both kinds; about 12 s.
    Source: S2 classes 2 and 4, "Depth and compositionality", a heading without text; Telgarsky
    (2015, 2016). The bound is the best fit by as many straight pieces, which need not join:
    N units have at most N + 1 pieces. Training is not part of his theorem.
    """
    refuse_if(
        max_depth > MOST_DEPTH,
        f"max_depth must be a whole number <= {MOST_DEPTH}; got {max_depth}.",
    )
    refuse_if(not 0 < slope <= 2, f"slope must be a number in (0, 2]; got {slope!r}.")
    x = (np.arange(GRID) + 0.5) / GRID
    depths = range(1, max_depth + 1)
    compositions = [x]
    for _ in depths:
        compositions.append(slope * np.minimum(compositions[-1], 1 - compositions[-1]))
    targets = np.array(compositions[1:])
    outputs = np.array([_outputs(_deep(slope, k), x) for k in depths])
    # Runs of equal slope over the grid's cells, whose ends are multiples of 1/512.
    ends = np.arange(GRID + 1) / GRID
    slopes = np.diff([_outputs(_deep(slope, k), ends) for k in depths]) * GRID
    pieces = 1.0 + (np.abs(np.diff(slopes)) > 1e-6).sum(axis=1)
    n_pieces = [_fewest_pieces(x, y, 2**MOST_DEPTH) for y in targets]
    count = min(max_depth, TRAINED_DEPTH)
    errors = np.empty((2, count))
    # (width, depth) of the deep network and of the shallow one with as many parameters: 3 a unit,
    # and the output's bias.
    kinds = ((DEEP, DEEP_LAYERS), ((_size(DEEP, DEEP_LAYERS) - 1) // 3, 1))
    for cell in np.ndindex(errors.shape):
        n_done = (cell[0] * count + cell[1]) * steps
        report = part_of(progress, "train networks", n_done, errors.size * steps)
        y = targets[cell[1]]
        errors[cell] = _training_error(x, y, kinds[cell[0]], (starts, steps, seed), report)
    return DepthCompositionality(
        np.array(depths, float), pieces, float(np.abs(outputs - targets).max()),
        2.0 * np.array(depths), np.maximum(np.array(n_pieces) - 1.0, 1), errors,
        tuple(_size(*kind) for kind in kinds),
    )  # fmt: skip


@add_titles
def depth_compositionality_plots(result: DepthCompositionality) -> Figures:
    """Draw the units needed against depth, and what training reached."""
    units = axes("compositions k", "hidden units", log="y")
    add_data(units, result.depths, result.deep_units, "deep, exact", series=0)
    add_data(
        units, result.depths, result.shallow_units, "shallow, at least, for an error of 10 %",
        series=1, mode="markers",
    )  # fmt: skip
    theory(units, result.depths, 2.0**result.depths, "2<sup>k</sup> pieces")
    units.update_xaxes(dtick=1)
    error = axes("compositions k", "error after training / size of target")
    depths = result.depths[: result.errors.shape[1]]
    names = (f"{DEEP_LAYERS} layers of {DEEP}", "one wide layer")
    for index, name in enumerate(names):
        label = f"{name}, {result.n_parameters[index]} parameters"
        add_data(error, depths, result.errors[index], label, series=index)
    theory(error, depths, np.zeros(len(depths)), "deep network as built")
    error.update_xaxes(dtick=1)
    return units, error


def _deep(slope: float, k: int) -> nn.Module:
    """Build two units in each of k layers; each layer reads the tent off the one before."""
    tent, half = [slope, -2 * slope], [0.0, -0.5]
    layers: list[nn.Module] = []
    for index in range(k + 1):
        rows = [tent, tent] if index < k else [tent]
        if index == 0:
            rows = [[1.0], [1.0]]
        dense = nn.utils.skip_init(nn.Linear, len(rows[0]), len(rows), dtype=torch.float64)
        with torch.no_grad():
            dense.get_parameter("weight").copy_(torch.tensor(rows))
            dense.get_parameter("bias").copy_(torch.tensor(half if index < k else [0.0]))
        layers += [dense, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _outputs(model: nn.Module, x: np.ndarray) -> Float[np.ndarray, " n"]:
    with torch.no_grad():
        return model(torch.from_numpy(x)[:, None])[:, 0].numpy()


def _fewest_pieces(x: np.ndarray, y: np.ndarray, maximum: int) -> int:
    """Return the fewest straight pieces, joined or not, that fit closely (dynamic programming)."""
    cost = _line_costs(x, y)
    allowed = CLOSE**2 * ((y - y.mean()) ** 2).sum()
    least_cost = cost[0].copy()  # [end], by one piece
    for pieces in range(1, maximum + 1):
        if least_cost[-1] <= allowed:
            return pieces
        # [start, end]: what came before `start`, and one more piece from there to `end`
        least_cost = np.minimum(least_cost, (least_cost[:-1, None] + cost[1:]).min(axis=0))
    return maximum


def _line_costs(x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "start end"]:
    """Return the squared error of the best line through points start … end; inf if end < start."""
    terms = np.array([np.ones_like(x), x, y, x * x, x * y, y * y])
    sums = np.concatenate([np.zeros((6, 1)), terms.cumsum(axis=1)], axis=1)
    n, sx, sy, sxx, sxy, syy = sums[:, None, 1:] - sums[:, :-1, None]
    n = np.maximum(n, 1)
    vx, vy, cxy = sxx - sx**2 / n, syy - sy**2 / n, sxy - sx * sy / n
    cost = vy - np.where(vx > 1e-12, cxy**2 / np.maximum(vx, 1e-12), 0)
    is_later = np.tri(len(x), dtype=bool).T
    return np.where(is_later, cost.clip(0), np.inf)


def _size(width: int, depth: int) -> int:
    """Count the parameters of `mlp` with one input and one output."""
    return 2 * width + (depth - 1) * (width + 1) * width + width + 1


def _training_error(
    x: np.ndarray,
    y: np.ndarray,
    kind: tuple[int, int],
    training: tuple[int, int, int],
    progress: Progress,
) -> float:
    starts, steps, seed = training
    with seeded(seed):
        models = [mlp((1,), 1, *kind) for _ in range(starts)]
    inputs = 2 * x[:, None] - 1
    recipe = Recipe("adam", 5e-3, steps, None, "mse")
    all_rows = torch.arange(len(x)).expand(starts, -1)
    networks = train_networks(models, regression(inputs, y), all_rows, recipe, progress=progress)
    outputs = networks.outputs(torch.from_numpy(inputs).float())[:, :, 0].double().numpy()
    return float(np.sqrt(((outputs - y) ** 2).mean(axis=1)).min() / y.std())
