"""What removing samples costs: networks retrained on what each ranking would keep."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int
from torch import nn

from datassay.collect.collection import check_sets
from datassay.collect.curvature.output_loss import output_score
from datassay.collect.fingerprint import frozen_fingerprint, machine_fingerprint, model_fingerprint
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.progress import Progress, part_of, silent
from datassay.results import Tabular, result
from datassay.store.digests import digest, digest_of_values
from datassay.store.results import ResultStore
from datassay.train.folds import Splits, make_splits
from datassay.train.learner import Estimators
from datassay.train.recipe import Recipe
from datassay.train.together import train_in_stacks
from datassay.train.training import TrainedNetworks, with_loss

# Rankings that runs compare, by what goes first.
LOWEST_FIRST = "lowest information first"
HIGHEST_FIRST = "highest information first"
SUSPECTS_FIRST = "suspects, then lowest information first"
RANDOM = "random"
STEP = "retrain on what is kept"
FRACTIONS = (0.0, 0.25, 0.5, 0.75)


def usable_fractions(n_samples: int) -> list[float]:
    """Return those of `FRACTIONS` that remove a sample and keep 2; from 6 samples on all."""
    return [f for f in FRACTIONS if f == 0 or 1 <= round(f * n_samples) <= n_samples - 2]


@result
class RemovalCurve(Tabular):
    """Validation score of retrained networks against the fraction of samples removed.

    Attributes:
        fractions: [f], fraction of the training samples removed, ascending, starting at 0.
        rankings: [r] names, such as "lowest information first".
        score: [r, f, s], accuracy in [0, 1] (classification) or R² (regression) on the validation
            samples, one value per seed.
        metric: "accuracy" or "R²".
    """

    fractions: Float[np.ndarray, " f"]
    rankings: tuple[str, ...]
    score: Float[np.ndarray, "r f s"]
    metric: str

    def at(self, ranking: str, fraction: float) -> Float[np.ndarray, " s"]:
        """Return the scores of one ranking at one fraction, one per seed."""
        return self.score[self.rankings.index(ranking), list(self.fractions).index(fraction)]

    def to_table(self) -> pa.Table:
        """Return one row per ranking, fraction and seed: ranking, fraction_removed, seed, score."""
        ranking, fraction, seed = np.indices(self.score.shape).reshape(3, -1)
        return pa.table({
            "ranking": np.array(self.rankings)[ranking],
            "fraction_removed": self.fractions[fraction],
            "seed": seed,
            "score": self.score[ranking, fraction, seed],
        })


@checks_arguments
def removal_curve(
    models: Sequence[nn.Module] | Estimators,
    train: SampleSet,
    val: SampleSet | None,
    rankings: Mapping[str, Int[np.ndarray, " n"]],
    *,
    fractions: Sequence[float] = FRACTIONS,
    recipe: Recipe | None = None,
    trained: TrainedNetworks | None = None,
    seed: int = 0,
    store: ResultStore | None = None,
    progress: Progress = silent,
) -> RemovalCurve:
    """Retrain without the first samples of each ranking, or without as many at random.

    Args:
        models: one network per seed, at its starting weights; or estimators, fitted one by one.
        train: n training samples.
        val: samples that networks are scored on; their labels enter no ranking. None: each network
            is scored on another fifth of train (see `make_splits`), and rankings order the rest.
        rankings: name → [n] positions in the order of removal. "random" is added, a fresh order a
            seed.
        fractions: of the samples to remove, in [0, 1); 0 is added where missing.
        recipe: how to train networks; None takes the defaults for the task.
        trained: the networks from which nothing was removed, one per seed, if they are there
            already.
        seed: of the random order and of the batches.
        store: keeps networks' scores of every fraction, so that an interrupted call goes on; None
            keeps nothing.
        progress: called with (step, updates or fits done, of these in all).

    Returns:
        Accuracy (or R²) by ranking, fraction and seed.

    Raises:
        DataError: too few samples, one class only, or train and val do not belong together.
        ModelError: outputs do not fit the targets, or a model cannot run for many networks.
        SettingError: no model, a ranking that is no order of all samples, or a fraction outside
            [0, 1) or too large to keep 2 samples.

    Cost: rankings · fractions · seeds trainings, batched by fraction.
    Source: S1 §6, "Data summarization"; the baselines are ours.
    """
    check_sets(train, val)
    fractions = sorted({0.0, *fractions})
    _check_choices(models, rankings, len(train))
    if isinstance(models, Estimators):
        n_seeds = models.repeats
    else:
        n_seeds = len(models)
    parts = make_splits(train, val, n_seeds, seed)
    n = parts.train_idx.shape[1]
    if not all(0 <= f < 1 and round(f * n) <= n - 2 for f in fractions):
        raise SettingError(f"fractions must lie in [0, 1) and keep 2 samples; got {fractions}.")
    rng = np.random.default_rng(seed)
    seeds = range(n_seeds)
    orders = {name: [parts.order(order, s) for s in seeds] for name, order in rankings.items()}
    orders |= {RANDOM: [parts.order(rng.permutation(len(train)), s) for s in seeds]}
    # By fraction, [rankings, seeds, kept]; nothing is removed at 0: all rankings share one row.
    subsets = [parts.train_idx[None]] + [
        np.array([[np.sort(order[round(f * n) :]) for order in row] for row in orders.values()])
        for f in fractions[1:]
    ]
    if isinstance(models, Estimators):
        results = _score_estimators(models, train, parts, subsets, progress)
    else:
        inputs = {"val": None if val is None else digest({"x": val.x, "y": val.y})}
        recipe = with_loss(recipe or Recipe(), train)
        inputs |= _fingerprint_training(models, train, recipe, seed)
        trained = trained or train_all(models, train, recipe, seed, train_idx=parts.train_idx)
        network_scores = _score_networks(
            models, train, parts, subsets[1:], recipe, seed, store or ResultStore(None, {}), inputs,
            progress,
        )  # fmt: skip
        results = [parts.score(trained)[None], *network_scores]
    score = np.empty((len(orders), len(fractions), n_seeds))
    for f, seed_scores in enumerate(results):
        score[:, f] = seed_scores
    return RemovalCurve(np.array(fractions), tuple(orders), score, train.metric)


def _score_networks(
    models: Sequence[nn.Module],
    train: SampleSet,
    parts: Splits,
    all_subsets: list[np.ndarray],
    recipe: Recipe,
    seed: int,
    store: ResultStore,
    inputs: dict[str, object],
    progress: Progress,
) -> Iterator[Float[np.ndarray, "r s"]]:
    """Yield scores [rankings, seeds] by fraction; all networks of a fraction train together."""
    for f, subsets in enumerate(all_subsets):
        flat = torch.as_tensor(subsets.reshape(-1, subsets.shape[2]))
        report = part_of(progress, STEP, f * recipe.steps, len(all_subsets) * recipe.steps)
        at_once = [*models] * len(subsets)

        def train_and_score(at_once=at_once, flat=flat, report=report) -> dict[str, np.ndarray]:
            networks = train_in_stacks(at_once, train, flat, recipe, seed=seed, progress=report)
            return {"score": parts.score(networks)}

        name = digest_of_values(inputs | {"kept": digest({"subsets": flat.numpy()})})
        yield store.get_or_compute(f"scores-{name}", train_and_score)["score"].reshape(
            len(subsets), -1
        )


def _score_estimators(
    models: Estimators,
    train: SampleSet,
    parts: Splits,
    all_subsets: list[np.ndarray],
    progress: Progress,
) -> Iterator[Float[np.ndarray, "r s"]]:
    """Yield scores [rankings, seeds] by fraction, of estimators fitted to the kept samples."""
    n_done = 0
    total = sum(len(subsets) for subsets in all_subsets) * models.repeats
    for subsets in all_subsets:
        score = np.empty(subsets.shape[:2])
        for r, rows in enumerate(subsets):
            for s, fitted in enumerate(models.fits(train, rows)):
                queries = parts.queries[s]
                n_classes = train.n_classes * train.is_classification
                outputs = torch.as_tensor(models.predictions(fitted, queries, n_classes)[0])
                score[r, s] = output_score(outputs, queries)
                n_done += 1
                progress(STEP, n_done, total)
        yield score


def _check_choices(
    models: Sequence[nn.Module] | Estimators, rankings: Mapping[str, Int[np.ndarray, " n"]], n: int
) -> None:
    """Raise unless models are a list and rankings name orders of all n samples."""
    if isinstance(models, nn.Module) or not models:  # a Sequential would be taken layer by layer
        got = "none"
        if isinstance(models, nn.Module):
            got = f"one {type(models).__name__}"
        raise SettingError(f"models must hold one network per seed; got {got}. Pass a list.")
    if not isinstance(rankings, Mapping):
        got = type(rankings).__name__
        raise SettingError(f"rankings must be a dictionary, name to order; got {got}. Name them.")
    for name, order in rankings.items():
        if not np.array_equal(np.sort(order), np.arange(n)):
            raise SettingError(
                f"rankings must hold an order of all {n} samples, as positions, what goes first in "
                f"front; {name!r} is none. Of scores pass scores.argsort()."
            )


@checks_arguments
def train_all(
    models: Sequence[nn.Module],
    train: SampleSet,
    recipe: Recipe | None = None,
    seed: int = 0,
    progress: Progress = silent,
    store: ResultStore | None = None,
    train_idx: Int[np.ndarray, "S kept"] | None = None,
) -> TrainedNetworks:
    """Train every network on all samples, or each on its row of `train_idx`."""
    recipe = with_loss(recipe or Recipe(), train)
    subsets = torch.arange(len(train)).expand(len(models), -1)
    if train_idx is not None:
        subsets = torch.as_tensor(train_idx)

    def train_now() -> TrainedNetworks:
        return train_in_stacks(models, train, subsets, recipe, seed=seed, progress=progress)

    if store is None:
        return train_now()
    inputs = _fingerprint_training(models, train, recipe, seed)
    if train_idx is not None:
        inputs |= {"kept": digest({"subsets": train_idx})}

    def train_arrays() -> dict[str, np.ndarray]:
        return {name: weight.cpu().numpy() for name, weight in train_now().state.items()}

    arrays = store.get_or_compute(f"weights-{digest_of_values(inputs)}", train_arrays)
    template = frozen_copy(models[0], getattr(torch, recipe.precision))
    device = next(template.parameters()).device
    state = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    return TrainedNetworks(template, state)


def _fingerprint_training(
    models: Sequence[nn.Module], train: SampleSet, recipe: Recipe, seed: int
) -> dict[str, object]:
    """Return everything that determines the trained networks, as plain JSON values."""
    return {
        "models": [model_fingerprint(model) | frozen_fingerprint(model) for model in models],
        **machine_fingerprint(models[0]),
        "threads": torch.get_num_threads(),
        "samples": digest({"x": train.x, "y": train.y}),
        "recipe": asdict(recipe),
        "seed": seed,
    }


def task_recipe(train: SampleSet) -> Recipe:
    """Return the default recipe: cross-entropy for classes, squared error for targets.

    Args:
        train: the training samples.

    Returns:
        Adam, 300 updates of 64 samples.
    """
    return with_loss(Recipe(), train)
