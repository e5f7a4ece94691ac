"""The last section of a partition's page: equations, where they are from, what we decided."""

from __future__ import annotations

from datassay.commands.partition.findings import PartitionFindings

BLOCKS = (
    "p(y|x) = Σ_k π_k p_k(y|x): every block has a share π_k and a linear model p_k of its own, "
    "softmax for classes or a normal density for targets. S4 (Fig. 1) names the task and leaves it "
    "open; the fit is expectation–maximisation (Dempster, Laird and Rubin, 1977)."
)
COUNT = (
    "The smallest K whose held-out log-likelihood is within one standard error of the best tried, "
    "and a block more must gain at least 0.05 nats a sample; K stops rising once it no longer "
    "helps. Samples are held out in stratified folds."
)
FIXED = (
    (
        "Router",
        "A logistic regression from input to block. Its gain is how much more probable, given "
        "input and label, the block it names is than the largest block, by five-fold "
        "cross-validation. It is used above two standard errors and where the gate helps too: the "
        "gate is judged on labels it has not seen, while the router alone can see where one "
        "block's rule is the surer one. Where inputs say nothing about the block, no method can "
        "route a new sample.",
    ),
    (
        "Responsibility",
        "The probability of each block given input and label, π_k p_k(y|x) over its sum. A sample "
        "stands in its most probable block.",
    ),
    (
        "V",
        "The variance of pair influence X(z, z′) = −∇L(z′)ᵀ H⁻¹ ∇L(z) within a block, under a "
        "model of that block alone, at the same damping as V together (S4, §3).",
    ),
    ("Entropy", "−Σ p log p of the blocks' shares: 0 for one block, log K for an even mix."),
)
AGREEMENT = (
    "Of all pairs of samples, how often blocks and sources agree on together or apart, corrected "
    "for chance (Hubert and Arabie, 1985). Beside it the index of an oracle: models fitted on the "
    "true blocks, without the sample they assign."
)


def notes(findings: PartitionFindings) -> tuple[tuple[str, str], ...]:
    """(term, meaning) pairs of this run."""
    chosen = len(findings.partition.held_out) > 1
    notes = [
        ("Blocks", BLOCKS),
        ("Two starts", _starts(findings)),
        ("Number of blocks", COUNT if chosen else "It was given and not chosen."),
        ("Gate", _gate(findings)),
        *FIXED,
    ]
    if findings.samples.source is not None:
        notes.append(("Adjusted Rand index", AGREEMENT))
    return tuple(notes)


def _starts(findings: PartitionFindings) -> str:
    partition = findings.partition
    began = {
        "influence": "from blocks found by repeated purification",
        "random": "from random responsibilities",
    }[partition.start]
    how = "every sample wholly to its block" if partition.is_hard else "by probability"
    return (
        "The fit begins at several random responsibilities, and at blocks found by removing what "
        "raises the variance of influence, purifying the rest in turn, and reassigning every "
        "sample to the model that explains it best. The better by held-out likelihood is kept: "
        f"here it began {began} and assigns {how}."
    )


def _gate(findings: PartitionFindings) -> str:
    return (
        "With a gate the share π_k depends on the input, as a linear softmax of it (Jordan and "
        "Jacobs, 1994); without one it is the same everywhere. --gate auto keeps the gate where it "
        "explains held-out samples clearly better: here it is "
        f"{'kept' if findings.partition.is_gated else 'left out'}."
    )
