"""The job of `datassay partition`: divide, ask whether inputs tell, gather the findings."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from datassay.act.partition.agreement import agreement, oracle_agreement
from datassay.act.partition.blocks import Partition
from datassay.act.partition.blocks import partition as divide
from datassay.act.partition.routing import compact, fit_experts
from datassay.collect.curvature.output_loss import task_loss
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.partition.findings import PartitionFindings, RouterCheck
from datassay.commands.partition.settings import PartitionSettings
from datassay.data.samples import SampleSet
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.progress import Progress, silent

AS_GIVEN = ("max_blocks", "ridge", "damping", "gate", "seed", "restarts")


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
    known: dict[str, float] = {}
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
    warnings = _warnings(partition)
    return PartitionFindings(train, val, partition, router, facts=facts, warnings=warnings, **known)


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


def _warnings(partition: Partition) -> tuple[str, ...]:
    notes = []
    if not partition.mixture.converged:
        notes.append("the mixture had not come to rest when its iterations ended.")
    if (partition.sizes == 0).any():
        notes.append("a block holds no sample as its most probable one; ask for fewer blocks.")
    return tuple(notes)
