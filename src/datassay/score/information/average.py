"""Average information of a sample over random subsets of the others, as in data Shapley."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from datassay.collect.linearization import Linearization
from datassay.errors import SettingError
from datassay.machine import available_memory
from datassay.plan import PlanStep, add_work
from datassay.progress import Progress, silent
from datassay.results import Tabular, column, result, sample_ids
from datassay.rules import require
from datassay.score.attribution import removal_steps
from datassay.score.linear.training_run import training_run
from datassay.score.registry import Context, Score, Sizes
from datassay.score.sample_information import sample_information
from datassay.score.settings import RUN

FRACTIONS = (0.25, 0.5, 0.75)


@result
class AverageInformation(Tabular):
    """Information of each sample given random subsets, one row per sample.

    Attributes:
        information: [n], nats: the mean over draws in which the sample took part, each fraction
            counting equally.
        standard_error: [n], nats, of that mean, the draws taken as independent.
        by_fraction: [f, n], nats: the mean at each fraction.
        n_draws: [f, n], draws in which each sample took part.
        fractions: [f], the sizes of the subsets as shares of n.
        ids: [n], the samples' ids.
        seed: of the subsets.
    """

    information: Float[np.ndarray, " n"] = column(
        "information given random subsets, their mean",
        unit="nats",
        sign="high: more informative",
        name="average_information",
    )
    standard_error: Float[np.ndarray, " n"] = column(
        "standard error of average_information", unit="nats", joint="average_information_error"
    )
    by_fraction: Float[np.ndarray, "f n"]
    n_draws: Int[np.ndarray, "f n"]
    fractions: tuple[float, ...]
    ids: np.ndarray = sample_ids()
    seed: int


def average_information(
    lin: Linearization,
    *,
    fractions: float | Sequence[float] = FRACTIONS,
    draws: int = 10,
    seed: int = 0,
    progress: Progress = silent,
    **settings: Any,
) -> AverageInformation:
    """Estimate each sample's mean information given random subsets of the others.

    A sample with a duplicate adds no information to all others, but some to half of them, which
    `sample_information` alone does not show.

    Args:
        lin: the linearisation.
        fractions: sizes of the subsets as shares of n. Evenly spaced ones weigh all sizes alike, as
            the Shapley value does.
        draws: subsets per fraction. They are balanced: at each fraction the draws per sample differ
            by at most one.
        seed: of the subsets.
        progress: called with (step, draws done, draws in all).
        settings: smoothing, sigma and batch_size of `sample_information`; lr, steps, weight_decay,
            reduction and dynamics of `leave_one_out`. lr="auto" is chosen once, on all samples.

    Returns:
        Nats, with standard errors.

    Raises:
        SettingError: a fraction leaves fewer than two samples or all of them, draws are so few that
            a sample would be drawn less than twice, or a setting is out of range.

    Cost: draws times that of `leave_one_out` on a share f of the samples: with a kernel about f³ of
    its decomposition each.
    Source: S1 §7, which names it as open, after data Shapley (Ghorbani and Zou, 2019). Monte Carlo;
    each draw is exact for the linearised network.
    """
    shares = (fractions,) if isinstance(fractions, float | int) else tuple(fractions)
    sizes = [round(share * len(lin)) for share in shares]
    _check_draws(shares, sizes, draws, len(lin))
    check_memory(draws, len(lin))
    # One learning rate for all subsets, of the loss as reduced.
    training = training_run(lin, **{name: settings[name] for name in settings if name in RUN})
    samples_per_loss = 1 if training.reduction == "sum" else len(lin)
    settings["lr"] = training.run.step * samples_per_loss
    rng = np.random.default_rng(seed)
    means = []  # of each fraction, like the next two
    errors = []
    n_draws = []
    for f, size in enumerate(sizes):
        information = np.full((draws, len(lin)), np.nan)  # nan where a sample is not drawn
        for d, subset in enumerate(_draw_balanced(rng, len(lin), size, draws)):
            scores = sample_information(lin.subset(subset), **settings)
            information[d, subset] = scores.information
            progress("information in random subsets", f * draws + d + 1, draws * len(sizes))
        n_drawn = np.isfinite(information).sum(0)
        means.append(np.nanmean(information, 0))
        errors.append(np.nanstd(information, 0, ddof=1) / np.sqrt(n_drawn))
        n_draws.append(n_drawn)
    return AverageInformation(
        information=np.mean(means, 0),
        standard_error=np.sqrt(np.square(errors).sum(0)) / len(sizes),
        by_fraction=np.stack(means),
        n_draws=np.stack(n_draws),
        fractions=shares,
        ids=lin.ids,
        seed=seed,
    )


def check_memory(draws: int, n: int) -> None:
    """Raise if the results of `draws` subsets of n samples do not fit in memory."""
    needed = 2 * 8 * draws * n
    available = available_memory()
    if needed > available:
        raise SettingError(
            f"draws must fit the memory; {draws:,} subsets of {n:,} samples take "
            f"{needed / 1e9:,.0f} GB, and {available / 1e9:,.1f} GB are free. Take at most "
            f"{int(available / (16 * n)):,}."
        )


def _check_draws(shares: tuple[float, ...], sizes: list[int], draws: int, n: int) -> None:
    """Raise if fractions leave too few samples, or some are drawn only once."""
    require(shares, "fractions", "hold at least one fraction", "none")
    for share, size in zip(shares, sizes, strict=True):
        if not (0 < share < 1 and 2 <= size < n):
            raise SettingError(
                f"fractions must lie between 0 and 1 and leave from 2 to {n - 1} of {n} samples; "
                f"got {share}."
            )
        if draws * size // n < 2:
            needed = ceil(2 * n / size)
            raise SettingError(
                f"draws must be at least {needed} at fraction {share}, so that every sample is "
                f"drawn twice and has a standard error; got {draws}."
            )


def _draw_balanced(
    rng: np.random.Generator, n: int, size: int, draws: int
) -> Iterator[Int[np.ndarray, " size"]]:
    """Yield random subsets in ascending order; the samples drawn least come first."""
    n_drawn = np.zeros(n, int)
    for _ in range(draws):
        subset = np.sort(np.lexsort((rng.random(n), n_drawn))[:size])
        n_drawn[subset] += 1
        yield subset


def _score_run(context: Context) -> AverageInformation | None:
    """Return a run's average information; None unless subsets are asked for."""
    draws = context.options.get("subsets", 0)
    settings = context.select_options("smoothing", "sigma", "batch_size", *RUN)
    settings |= {"seed": context.seed, "progress": context.progress}
    if not draws:
        return None
    return average_information(context.lin, draws=draws, **settings)


def _plan_steps(sizes: Sizes) -> list[PlanStep]:
    """Return the planned work: each subset's decomposition and removals."""
    draws = sizes.options.get("subsets", 0)
    if not draws:
        return []
    options = {**sizes.options, "attribution": "none"}
    steps = []
    for size in (max(2, round(share * sizes.train)) for share in FRACTIONS):
        form = replace(sizes.form, n_rows=size * sizes.rows)
        steps += removal_steps(replace(sizes, form=form, train=size, options=options))
    work = add_work(*(step.work for step in steps), times=draws)
    size_bytes = sizes.form.result_bytes + max(step.bytes for step in steps)
    detail = f"{draws} subsets of each of {len(FRACTIONS)} sizes"
    return [PlanStep("random subsets", detail, size_bytes, work)]


SCORE = Score(
    name="average_information",
    help="How much a sample tells given random subsets of the others, in nats.",
    compute=_score_run,
    is_in_text=True,
    cost=_plan_steps,
)
