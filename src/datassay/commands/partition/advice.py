"""What a partition says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

import math

import numpy as np

from datassay.commands.partition.findings import PartitionFindings
from datassay.report.advice import Advice
from datassay.report.wording import count, number, percent, score_change

# A sample whose own block is less probable than this could belong to another.
SURE = 0.9


def advice(findings: PartitionFindings) -> tuple[Advice, ...]:
    """How many blocks; whether inputs tell them apart; how sure and how right the assignment is."""
    pieces = [_blocks(findings)]
    if findings.partition.n_blocks > 1:
        pieces += [_router(findings), _sureness(findings)]
        if math.isfinite(findings.agreement):
            pieces.append(_agreement(findings))
    return tuple(pieces)


def _blocks(findings: PartitionFindings) -> Advice:
    partition = findings.partition
    k, tried = partition.n_blocks, partition.held_out
    together = number(partition.variance_together)
    if k == 1:
        most = max(tried)
        others = f" ({count(most, 'block')} were tried)" if most > 1 else ""
        sentence = (
            f"One model explains samples that it has not seen as well as several would{others}. "
            f"Its variance of influence is {together}. If some labels may still be wrong, run "
            "datassay purify."
        )
        return Advice("blocks", "fine", "One block: no mixture found", sentence)
    gain = ""
    if 1 in tried and k in tried:
        gain = (
            f" {count(k, 'model')} explain samples that they have not seen better than one by "
            f"{number(tried[k] - tried[1])} nats a sample."
        )
    each = _listed([number(float(v)) for v in partition.variance])
    sizes = _listed([f"{size:,}" for size in partition.sizes])
    return Advice(
        kind="blocks",
        severity="act",
        headline=f"{count(k, 'block')}: the samples follow different rules",
        sentence=(
            f"They hold {sizes} samples.{gain} The variance of influence is {together} under one "
            f"model and {each} in the blocks. Train one model a block (blocks.parquet names the "
            "block of each id), and find out what the blocks are."
        ),
    )


def _listed(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _router(findings: PartitionFindings) -> Advice:
    router, metric = findings.router, findings.metric
    scores = ""
    if math.isfinite(router.routed):
        change = score_change(router.routed - router.single, metric)
        way = "more" if router.routed >= router.single else "less"
        weights = "the router" if router.is_informative else "the blocks' shares"
        scores = (
            f" Linear models, one a block, weighted by {weights}, reach {router.routed:.3f} "
            f"validation {metric}, {change} {way} than one model of all ({router.single:.3f})."
        )
    gain = f"{router.gain:.2f} ± {router.gain_error:.2f}"
    if router.is_informative:
        sentence = (
            "A router that sees only the inputs names a block that is more probable than the "
            f"largest one by {gain} (cross-validated). PartitionedClassifier (or -Regressor) "
            f"sends new samples to the right model.{scores}"
        )
        return Advice("new samples", "act", "The inputs tell the blocks apart", sentence)
    sentence = (
        "Letting a block's share depend on the input does not explain held-out samples better, "
        "or a router that sees only the inputs gains nothing clear over naming the largest "
        f"block ({gain}, cross-validated). New samples cannot be sent to their model by the "
        "inputs at hand. Look for something that tells: who labelled it, when, from where."
        f"{scores}"
    )
    return Advice("new samples", "look", "The inputs do not tell the blocks apart", sentence)


def _sureness(findings: PartitionFindings) -> Advice:
    unsure = float(np.mean(findings.own_responsibility < SURE))
    return Advice(
        kind="assignment",
        severity="look" if unsure > 0.25 else "fine",
        headline=f"{percent(round(unsure, 3))} of the samples could belong to another block",
        sentence=(
            f"Their own block has a probability below {SURE}, given input and label: where the "
            "blocks' rules agree on an input nothing tells them apart. The column responsibility "
            "says how sure each assignment is."
        ),
    )


def _agreement(findings: PartitionFindings) -> Advice:
    ours, oracle = findings.agreement, findings.oracle
    near = ours >= 0.9 * oracle
    beside = f"; models of the true blocks reach {oracle:.2f}" if math.isfinite(oracle) else ""
    if oracle < 0.95:
        beside += ", since a sample that two blocks explain alike cannot be told apart"
    return Advice(
        kind="truth",
        severity="fine" if near else "look",
        headline=f"Agreement with the sources: {ours:.2f}",
        sentence=(
            "The sources of the samples are known here and were not used. The adjusted Rand index "
            f"between blocks and sources is {ours:.2f} (1: the same, 0: chance){beside}. If the "
            "sources are not what divides the data, disagreement is no fault."
        ),
    )
