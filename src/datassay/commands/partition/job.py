"""The job of `datassay partition`: divide, ask whether inputs tell, gather the findings."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from datassay.act.partition.agreement import agreement, oracle_agreement
from datassay.act.partition.blocks import Partition
from datassay.act.partition.blocks import partition as divide
from datassay.act.partition.routing import router_check
from datassay.collect.curvature.output_loss import task_loss
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.frame import SampleFindings, check_ids
from datassay.commands.partition.command import PartitionSettings
from datassay.data.samples import SampleSet
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.progress import Progress, silent
from datassay.results import result

AS_GIVEN = ("max_blocks", "ridge", "damping", "gate", "seed", "restarts")


@result
class PartitionFindings(SampleFindings):
    """One partition."""

    partition: Partition
    router: dict[str, float]  # whether the inputs tell the blocks apart
    # Adjusted Rand index between blocks and sources, and for assignment by models of the true
    # blocks; NaN where sources are not known.
    agreement: float = math.nan
    oracle: float = math.nan

    def __post_init__(self) -> None:
        check_ids(self.samples, "Divide", partition=self.partition)

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
    started, seed = time.perf_counter(), settings.seed
    settings = replace(settings, model=full_name(settings.model, train, BLOCK_HEAD))
    model, loss = linear_or_named(settings.model, train, seed), task_loss(train)
    arguments = {name: getattr(settings, name) for name in AS_GIVEN}
    partition = divide(
        model, train, n_blocks=settings.blocks, loss=loss, progress=progress, **arguments
    )
    progress("compare", 0, 1)
    gated, found = partition.is_gated, {}
    if train.source is not None and len(np.unique(train.source)) > 1:
        found["agreement"] = agreement(partition, train)
        found["oracle"] = oracle_agreement(
            model, train, loss=loss, ridge=settings.ridge, is_gated=gated, seed=seed
        )
    may_route = gated or settings.gate == "off"
    router = router_check(train, val, partition, may_route=may_route, seed=seed)
    progress("compare", 1, 1)
    penalties = f"ridge {settings.ridge:g}, damping {settings.damping:g}"
    facts = {
        **data_facts(train, val),
        **model_facts(settings.model, f"{settings.model} in each block, {penalties}"),
        "Blocks": "chosen by held-out likelihood" if settings.blocks is None else "given",
        "Gate": ("on" if gated else "off") + (" (auto)" * (settings.gate == "auto")),
        "Start": f"{partition.start}, {'hard' if partition.is_hard else 'soft'} assignment",
        **closing_facts(started, seed, settings.command),
    }
    return PartitionFindings(train, val, partition, router, facts=facts, **found)
