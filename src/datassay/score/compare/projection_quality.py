"""How well scores from projected Jacobians rank the samples, and the smallest p that suffices.

Some samples are scored exactly, one kernel row per output, and again from the features that a run
over all samples would collect: same coordinates, same signs, for growing p.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from datassay.collect.choose_form import choose_form, coordinates_for
from datassay.collect.collection import collect, plan_collection, sample_layers
from datassay.collect.form import LARGEST_EIGENPROBLEM, Form
from datassay.collect.jacobian.blocks import named_tensors
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.jacobian.projection import projector
from datassay.collect.jacobian_pass import JacobianPass
from datassay.collect.layers import Layers
from datassay.collect.linearization import Linearization
from datassay.data.arguments import checks_arguments
from datassay.data.samples import SampleSet
from datassay.errors import DataError, SettingError
from datassay.machine import available_memory
from datassay.optional import coalesce
from datassay.progress import Progress, silent
from datassay.ranks import rank_correlation
from datassay.results import result
from datassay.score.influence.linear import linear_influence
from datassay.score.label_issues import label_issues
from datassay.score.leave_one_out import leave_one_out
from datassay.score.settings import check_correlation

MOST_ROWS = 3 * LARGEST_EIGENPROBLEM  # of the exact kernel
N_FEATURES = (512, 1024, 2048, 4096, 8192)  # p, tried by default
SCORES = ("information", "label_issues", "influence_mean")
# Samples scored both ways; fewer say little about a rank correlation.
N_SAMPLES, FEWEST_SAMPLES = 400, 30
DRAWS = 3
RESAMPLES = 200


@result
class ProjectionQuality:
    """Rank correlations of projected with exact scores, one row per projection, p ascending.

    Attributes:
        projection: [q], coordinates per tensor, as `collect` takes them.
        n_features: [q], p, features in all.
        correlation: score → [q, draws], Spearman's, unitless; NaN where a score is the same for all
            samples.
        low: score → [q], lower end of the 95 % interval of the mean over the draws.
        high: score → [q], its upper end.
        unprojected: score → correlation of exact scores that treat outputs as the features do. 1
            for joint outputs; for averaged ones a limit that no p exceeds by much.
        n_samples: training samples scored, and as many queries or fewer.
        outputs: how the features treat the outputs, "joint" or "averaged".
        reference: the exact kernel compared with, "joint" or "averaged".
    """

    projection: tuple[int, ...]
    n_features: Int[np.ndarray, " q"]
    correlation: Mapping[str, Float[np.ndarray, "q draws"]]
    low: Mapping[str, Float[np.ndarray, " q"]]
    high: Mapping[str, Float[np.ndarray, " q"]]
    unprojected: Mapping[str, float]
    n_samples: int
    outputs: str
    reference: str

    def smallest(self, target: float, score: str = "information") -> int | None:
        """Return the row of the smallest projection whose mean correlation reaches `target`."""
        check_correlation(target)
        if score not in self.correlation:
            raise SettingError(f"score must be one of {', '.join(SCORES)}; got {score!r}.")
        reached = self.correlation[score].mean(1) >= target
        if not reached.any():
            return None
        return int(reached.argmax())


@checks_arguments
def projection_quality(
    model: nn.Module,
    train: SampleSet,
    val: SampleSet | None = None,
    *,
    n_features: Sequence[int] = N_FEATURES,
    outputs: str = "auto",
    projection_kind: str = "coordinates",
    memory: float | None = None,
    reference: str = "joint",
    n_samples: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress = silent,
    **training: Any,
) -> ProjectionQuality:
    """Score some samples exactly and from features, and compare the ranks as p grows.

    Args:
        model: as for `collect`.
        train: all n samples of the run; some of them are scored.
        val: its validation samples, or None; as many of them are the queries.
        n_features: totals p to try; those whose run over all samples exceeds the memory are
            skipped. Empty: only `unprojected` is measured.
        outputs: as for `collect`; "auto": its choice for all samples.
        projection_kind: of projection, as for `collect`.
        memory: limit of the run over all samples, bytes; None: what is free.
        reference: exact kernel to compare with: "joint", or "averaged", which ignores the effect of
            sharing one row among the outputs and allows more samples.
        n_samples: to score; None: 400, fewer where 400 k kernel rows are too many.
        draws: number of projections, with seeds seed, seed + 1, ...
        seed: of the run's projection, and of the samples drawn.
        progress: called with (step, scorings done, in all).
        **training: lr, steps, weight_decay, reduction, dynamics, as for `leave_one_out`.

    Returns:
        The correlations, with 95 % intervals from resampling samples and draws.

    Raises:
        DataError: as `collect` raises.
        ModelError: as `collect` raises.
        SettingError: a setting is out of range, or too few samples can be scored.

    Cost: one decomposition of n_samples k rows (20 s at 4000), one of n_samples rows per draw and p
    for averaged outputs, of n_samples k rows for joint ones.
    Source: the measure is Spearman's; METHODS §2 for the scores. It holds for this number of
    samples: more samples differ in finer directions, and the same p may rank them worse.
    """
    if reference not in ("joint", "averaged"):
        raise SettingError(f"reference must be joint or averaged; got {reference!r}.")
    if draws < 1 or not all(p >= 1 for p in n_features):
        raise SettingError(f"draws and n_features must be at least 1; got {draws}, {n_features}.")
    planned = plan_collection(model, train, val, outputs=outputs, memory=memory)
    rows_per_sample = 1
    if reference == "joint":
        rows_per_sample = planned.n_outputs
    scored, queries = _draw_subsets(train, val, n_samples, rows_per_sample, seed)
    exact = collect(model, scored, queries, outputs=reference, projection=None, allow_trained=True)
    truth = _compute_scores(exact, training)
    sizes = (len(train), len(val or ()), planned.n_outputs)
    settings = {"outputs": planned.outputs, "projection_kind": projection_kind, "memory": memory}
    forms = _choose_forms(sample_layers(model, scored), sizes, n_features, settings)
    scores = np.empty((len(forms), draws, len(SCORES), len(scored)))
    for q, form in enumerate(forms):
        for draw in range(draws):
            lin = _project(model, exact, {"train": scored, "val": queries}, form, seed + draw)
            scores[q, draw] = _compute_scores(lin, training)
            progress("compare projections", q * draws + draw + 1, len(forms) * draws)
    if planned.outputs == "averaged":
        limits = _compute_scores(exact.average_outputs(), training)
    else:
        limits = truth
    return _compare_with_exact(truth, limits, scores, forms, (planned.outputs, reference))


def _draw_subsets(
    train: SampleSet, val: SampleSet | None, n_samples: int | None, rows_per_sample: int, seed: int
) -> tuple[SampleSet, SampleSet | None]:
    """Return random subsets of training samples and of queries to compare scores on."""
    limit = min(len(train), MOST_ROWS // rows_per_sample)
    n = coalesce(n_samples, min(N_SAMPLES, limit))
    if not FEWEST_SAMPLES <= n <= limit:
        raise SettingError(
            f"n_samples must be {FEWEST_SAMPLES} to {limit:,}, for {rows_per_sample} kernel rows "
            f"per sample; got {n}. Set the projection without comparing, or compare with "
            "reference='averaged'."
        )
    rng = np.random.default_rng(seed)
    scored, queries = (
        None if s is None else s.subset(np.sort(rng.permutation(len(s))[:n])) for s in (train, val)
    )
    assert scored is not None
    return scored, queries


def _choose_forms(
    layers: Layers, sizes: tuple[int, int, int], n_features: Sequence[int], settings: dict[str, Any]
) -> list[Form]:
    """Return a projected form per number of features, ascending, that fits the memory.

    At least one is returned. sizes: of training samples, queries, outputs.
    """
    memory = settings["memory"] or available_memory()
    limits = dict.fromkeys(coordinates_for(layers, p) for p in sorted(n_features))
    forms = [choose_form(layers, sizes, projection=limit, **settings) for limit in limits]
    return [form for form in forms if form.peak_bytes <= memory] or forms[:1]


def _project(
    model: nn.Module,
    exact: Linearization,
    sets: Mapping[str, SampleSet | None],
    form: Form,
    seed: int,
) -> Linearization:
    """Return the scored samples' linearisation in a form's random projection."""
    frozen = frozen_copy(model, getattr(torch, form.precision))
    present = {role: samples for role, samples in sets.items() if samples is not None}
    layers = sample_layers(model, present["train"])
    matrix = projector(layers, form.projection, form.kind, seed, averaged=form.mixes_outputs)
    # Collected as features also where the run would multiply them into a kernel.
    work = JacobianPass(frozen, layers, present, replace(form, representation="features"), matrix)
    (name,) = named_tensors(work.template()[1])  # of the one array that a chunk's rows are in
    rows: dict[str, Tensor] = {}
    for role in present:
        chunks = [work.arrays(c) for c in work.chunks if c.split == role]
        rows[role] = torch.cat([arrays[name] for arrays in chunks]).flatten(0, 1)
    outputs = "joint"
    if form.mixes_outputs:
        outputs = "averaged"
    features = replace(form, representation="features", outputs=outputs, n_rows=len(rows["train"]))
    lin = replace(
        exact,
        kernel=None,
        val_kernel=None,
        features=rows["train"],
        val_features=rows.get("val"),
        form=features,
    )
    if form.outputs != outputs:
        return lin.average_outputs()
    if outputs == "joint" or len(rows["train"]) > form.n_features:
        return lin
    # As a kernel if that is smaller than p x p systems of features.
    train, val = (None if r is None else r.double() for r in (rows["train"], rows.get("val")))
    assert train is not None
    return replace(
        lin,
        kernel=train @ train.T,
        val_kernel=None if val is None else val @ train.T,
        features=None,
        val_features=None,
        form=replace(features, representation="kernel"),
    )


def _compute_scores(lin: Linearization, training: dict[str, Any]) -> Float[np.ndarray, "scores n"]:
    """Return each sample's scores in the order of SCORES, [scores, n]."""
    information = leave_one_out(lin, **training).prediction_change
    issues = label_issues(lin)
    try:
        influence = linear_influence(lin, ridge=issues.ridge).mean
    except DataError:  # labels are fitted without error: no influence is defined
        influence = np.full(len(lin), np.nan)
    return np.stack([information, issues.score, influence])


def _compare_with_exact(
    truth: Float[np.ndarray, "scores n"],
    limits: Float[np.ndarray, "scores n"],
    scores: Float[np.ndarray, "q draws scores n"],
    forms: Sequence[Form],
    outputs: tuple[str, str],
) -> ProjectionQuality:
    """Return rank correlations of projected with exact scores, with intervals.

    limits: exact scores with outputs as the features have them. outputs: those of the features, and
    of the exact kernel.
    """
    rng = np.random.default_rng(0)
    n = truth.shape[1]
    q, draws = scores.shape[:2]
    correlation = {}
    low = {}
    high = {}
    for s, name in enumerate(SCORES):
        correlation[name] = rank_correlation(truth[s], scores[:, :, s])
        means = np.empty((RESAMPLES, q))
        for r in range(RESAMPLES):
            rows = rng.integers(n, size=n)
            drawn = rng.integers(draws, size=draws)
            means[r] = rank_correlation(truth[s, rows], scores[:, drawn, s][..., rows]).mean(1)
        low[name], high[name] = np.quantile(means, (0.025, 0.975), axis=0)
    return ProjectionQuality(
        projection=tuple(cast(int, form.projection) for form in forms),
        n_features=np.array([form.n_features for form in forms], dtype=np.int64),
        correlation=correlation,
        low=low,
        high=high,
        unprojected=dict(zip(SCORES, rank_correlation(truth, limits).tolist(), strict=True)),
        n_samples=n,
        outputs=outputs[0],
        reference=outputs[1],
    )
