"""Everything one partition found out, gathered for its page, tables and summary."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from datassay.act.partition.blocks import Partition
from datassay.data.samples import SampleSet
from datassay.errors import DataError
from datassay.results import result


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
