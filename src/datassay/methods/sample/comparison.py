"""Compare designs of points: the same networks trained on each, in one batched program."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, silent
from datassay.results import result
from datassay.train.recipe import Recipe
from datassay.train.training import TrainedNetworks, train_networks

Design = tuple[Float[np.ndarray, "_ d"], Float[np.ndarray, "_ q"]]


@result
class SamplingComparison:
    """Errors of networks trained on several designs, S networks a design.

    Attributes:
        names: of the D designs.
        root_mean_square: [D, S], over test points and outputs, units of f.
        largest: [D, S], the largest error over test points and outputs, units of f.
        n_points: points in each design.
        n_test: test points.
        networks: all of them, design by design.
        shift: [q], units of f: f is approximated by scale · output + shift.
        scale: [q], units of f.
    """

    names: tuple[str, ...]
    root_mean_square: Float[np.ndarray, "D S"]
    largest: Float[np.ndarray, "D S"]
    n_points: int
    n_test: int
    networks: TrainedNetworks
    shift: Float[np.ndarray, " q"]
    scale: Float[np.ndarray, " q"]

    def outputs(self, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "D S m q"]:
        """Return the outputs of every network at some points, in units of f."""
        outputs = self.networks.outputs_in_parts(x).numpy() * self.scale + self.shift
        return outputs.reshape(len(self.names), -1, *outputs.shape[1:])


def compare_designs(
    designs: Mapping[str, Sequence[Design]],
    test: Design,
    networks: Sequence[nn.Module],
    recipe: Recipe,
    *,
    scale_targets: bool = True,
    seed: int = 0,
    progress: Progress = silent,
) -> SamplingComparison:
    """Return errors on test points of network s trained on repetition s of every design.

    Args:
        designs: name → S repetitions (x, y), all of one number of points.
        test: points and values, which no design has seen.
        networks: S, of one architecture; network s starts from the same weights in every design.
        recipe: its loss must be "mse".
        scale_targets: whether the networks learn (y − mean)/deviation of the test values instead of
            y.
        seed: of the batches.
        progress: called with (step, updates done, updates in all).

    Returns:
        The errors and the networks.

    Raises:
        SettingError: designs differ in their numbers of repetitions or points, or `train_networks`
            does not take the recipe.

    Cost: D S trainings side by side.
    """
    sizes = {len(x) for repetitions in designs.values() for x, _ in repetitions}
    if any(len(r) != len(networks) for r in designs.values()) or len(sizes) != 1:
        raise SettingError(
            f"designs must hold {len(networks)} repetitions each, all of one number of points; got "
            f"{[len(r) for r in designs.values()]} repetitions of {sorted(sizes)} points."
        )
    (n_points,) = sizes
    y_test = test[1]
    shift = np.zeros(y_test.shape[1])
    scale = np.ones(y_test.shape[1])
    if scale_targets:
        shift = y_test.mean(0)
        deviation = y_test.std(0)
        scale = np.where(deviation > 0, deviation, 1.0)
    all_designs = [design for repetitions in designs.values() for design in repetitions]
    x = np.concatenate([x for x, _ in all_designs])
    y = np.concatenate([y for _, y in all_designs])
    pool = SampleSet(x, (y - shift) / scale, np.arange(len(x)))
    subsets = torch.arange(len(x)).reshape(len(all_designs), n_points)
    models = list(networks) * len(designs)
    trained = train_networks(models, pool, subsets, recipe, seed=seed, progress=progress)
    outputs = trained.outputs_in_parts(test[0]).numpy()
    errors = np.abs(outputs * scale + shift - y_test)  # [D S, m, q]
    shape = (len(designs), len(networks))
    return SamplingComparison(
        names=tuple(designs),
        root_mean_square=np.sqrt((errors**2).mean((1, 2))).reshape(shape),
        largest=errors.max((1, 2)).reshape(shape),
        n_points=n_points,
        n_test=len(y_test),
        networks=trained,
        shift=shift,
        scale=scale,
    )
