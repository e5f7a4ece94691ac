"""The job of `datassay partition`: divide, ask whether inputs tell, gather the findings."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from datassay.act.partition.blocks import Partition, agreement, oracle_agreement
from datassay.act.partition.blocks import partition as divide
from datassay.act.partition.routing import compact, fit_experts
from datassay.collect.curvature.output_loss import task_loss
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.partition.command import PartitionSettings
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.progress import Progress, silent
from datassay.results import result

AS_GIVEN = ("max_blocks", "ridge", "damping", "gate", "seed", "restarts")


@dataclass(frozen=True, slots=True)
class RouterCheck:
    """Whether a router can tell the blocks apart, and what models behind it score.

    Attributes:
        gain: how much more probable the block it names is than the largest one, by
            cross-validation.
        gain_error: its standard error.
        is_informative: whether the gain exceeds two standard errors and the blocks depend on the
            input by held-out likelihood too (where a gate was tried), so that the router is used.
        single: validation accuracy or R² of one linear model of all samples; NaN where there is
            one block or several targets.
        routed: the same of one linear model a block, weighted by the router, or by the blocks'
            shares where the router does not help.
    """

    gain: float = 0.0
    gain_error: float = 0.0
    is_informative: bool = False
    single: float = math.nan
    routed: float = math.nan


@result
class PartitionFindings:
    """One partition, in the order of the training samples.

    Attributes:
        samples: the n training samples.
        validation: for the router's score; no decision sees it.
        partition: the blocks.
        router: whether the inputs tell them apart.
        agreement: adjusted Rand index between blocks and sources; NaN where those are not known.
        oracle: the same for assignment by models of the true blocks; NaN where not known.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    validation: SampleSet
    partition: Partition
    router: RouterCheck
    agreement: float = math.nan
    oracle: float = math.nan
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not np.array_equal(self.partition.ids, self.samples.ids):
            raise DataError(
                "partition must have the samples' ids in the samples' order; they differ. "
                "Divide the same SampleSet that the report shows."
            )

    @property
    def metric(self) -> str:
        """What the router's scores are: "accuracy" or "R²"."""
        return "accuracy" if self.samples.is_classification else "R²"

    @property
    def own_responsibility(self) -> np.ndarray:
        """[n] probability of each sample's own block."""
        return self.partition.responsibility.max(axis=1)

    @property
    def block_names(self) -> list[str]:
        """The blocks as page and table call them, counted from 0."""
        return [f"block {k}" for k in range(self.partition.n_blocks)]


def source_counts(findings: PartitionFindings) -> tuple[list[str], np.ndarray]:
    """Names of the sources, and [K, sources] samples of each; no names where none is known."""
    source, partition = findings.samples.source, findings.partition
    if source is None:
        return [], np.zeros((partition.n_blocks, 0), int)
    names, place = np.unique(source, return_inverse=True)
    counts = np.zeros((partition.n_blocks, len(names)), int)
    np.add.at(counts, (partition.block, place), 1)
    return [str(name) for name in names], counts


def run(
    train: SampleSet, val: SampleSet, settings: PartitionSettings, progress: Progress = silent
) -> PartitionFindings:
    """Everything `datassay partition` computes, without writing anything."""
    started = time.perf_counter()
    settings = replace(settings, model=full_name(settings.model, train, BLOCK_HEAD))
    model = linear_or_named(settings.model, train, settings.seed)
    loss = task_loss(train)
    arguments = {name: getattr(settings, name) for name in AS_GIVEN}
    partition = divide(
        model, train, n_blocks=settings.blocks, loss=loss, progress=progress, **arguments
    )
    progress("compare", 0, 1)
    known: Any = {}
    if train.source is not None and len(np.unique(train.source)) > 1:
        known["agreement"] = agreement(partition, train)
        known["oracle"] = oracle_agreement(
            model, train, loss=loss, ridge=settings.ridge, is_gated=partition.is_gated,
            seed=settings.seed,
        )  # fmt: skip
    may_route = partition.is_gated or settings.gate == "off"
    router = router_check(train, val, partition, may_route=may_route, seed=settings.seed)
    progress("compare", 1, 1)
    facts = _facts(train, val, settings, partition)
    facts |= closing_facts(started, settings.seed, settings.command)
    return PartitionFindings(train, val, partition, router, facts=facts, **known)


def router_check(
    train: SampleSet, val: SampleSet, partition: Partition, *, may_route: bool, seed: int
) -> RouterCheck:
    """Whether the inputs tell the blocks apart, and what models behind a router score.

    Args:
        train: the samples that were divided.
        val: the samples that scores are measured on.
        partition: the blocks.
        may_route: whether a router may be used at all: not where a gate was tried and did not
            help. Its own gain alone is easily led astray, since blocks are assigned by labels.
        seed: of the cross-validation.

    Returns:
        The check; its scores are NaN for one block or several targets a sample.
    """
    if partition.n_blocks == 1 or train.y.ndim > 1:
        return RouterCheck()
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, x_val = (np.asarray(s.x, np.float64).reshape(len(s), -1) for s in (train, val))
    block, responsibility = compact(partition, len(train))
    if responsibility.shape[1] == 1:
        return RouterCheck()
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    one = logistic if train.is_classification else make_pipeline(StandardScaler(), Ridge())
    routed = fit_experts(x, train.y, block, responsibility, one, logistic, seed)
    if not may_route:
        routed = replace(routed, router=None)
    weights = routed.weights(x_val, "soft")
    if train.is_classification:
        chance = np.zeros((len(val), train.n_classes))
        for weight, expert in zip(weights.T, routed.experts, strict=True):
            chance[:, expert.classes_] += weight[:, None] * expert.predict_proba(x_val)
        score = float((chance.argmax(axis=1) == val.y).mean())
    else:
        each = np.stack([expert.predict(x_val) for expert in routed.experts], axis=1)
        error = ((weights * each).sum(axis=1) - val.y) ** 2
        score = float(1 - error.mean() / val.y.var())
    single = float(one.fit(x, train.y).score(x_val, val.y))
    return RouterCheck(routed.gain, routed.gain_error, routed.router is not None, single, score)


def _facts(
    train: SampleSet, val: SampleSet, settings: PartitionSettings, partition: Partition
) -> dict[str, str]:
    return {
        **data_facts(train, val),
        **model_facts(
            settings.model,
            f"{settings.model} in each block, ridge {settings.ridge:g}, damping "
            f"{settings.damping:g}",
        ),
        "Blocks": "chosen by held-out likelihood" if settings.blocks is None else "given",
        "Gate": ("on" if partition.is_gated else "off") + (" (auto)" * (settings.gate == "auto")),
        "Start": f"{partition.start}, {'hard' if partition.is_hard else 'soft'} assignment",
    }
