"""The last section of a purification's page: equations, where they are from, what we decided."""

from __future__ import annotations

import math

from datassay.commands.purify.findings import PurifyFindings
from datassay.report.wording import count, number

RULE_WORDS = {
    "held_out": (
        "The batch just removed is a held-out sample of the model refitted without it. While that "
        "model finds its labels less likely than half a blind guess would (a quarter for networks "
        "with hidden layers), the batch was foreign; once the mean surprise of three batches falls "
        "below that threshold, the last step is undone "
        "and removal stops. The points beyond the stop were only looked at."
    ),
    "validation": (
        "Removal goes on to its limit; the step is kept whose validation score, averaged over "
        "three steps, is highest. The score at the stop is therefore optimistic."
    ),
    "inflection": (
        "Removal goes on to its limit; the step is kept where the fall of log V slows down most, "
        "over windows of three steps (S4 notes that accuracy peaks near the inflection of V)."
    ),
    "suspects": (
        "All samples go whose label is more likely wrong than right by label_issues, which finds "
        "the noise's own rates; no refit decides."
    ),
    "none": "Removal goes on to its limit, max-fraction of the samples.",
}
ORDER_WORDS = {
    "fixed": "with the model held as it is",
    "adjoint": (
        "with the change of the model to first order, through one backward pass of V for all "
        "samples, and the Hessian without the sample exactly"
    ),
    "step": "with one Newton step of the model for each sample",
    "retrain": "with the model retrained without each sample",
}
FIRST = (
    (
        "Influence of a pair",
        "X(z, z′) = −∇L(z′)ᵀ H⁻¹ ∇L(z): how far weighting z up moves the loss on z′ (Koh and "
        "Liang, 2017). H is the Hessian of the mean loss with its ridge, plus the damping.",
    ),
    (
        "V",
        "The variance of X over all pairs of different samples. Mixed data pull a model in several "
        "directions, so some pairs help and others harm each other strongly and V is high; it is "
        "lowest for a pure set (S4, Fig. 5). It has a closed form in the sums of the whitened "
        "gradients, so no n × n matrix is formed.",
    ),
)
LIMITS = (
    (
        "Validation",
        "A validation part that came with the data decides when to stop; one that datassay split "
        "off has the flaws of the training samples and decides nothing unless --stop validation "
        "asks for it. --noise flips training labels only.",
    ),
    (
        "Limits",
        "A class never falls below the minimum of --min-per-class samples (or below what it has), "
        "and no more than --max-fraction of the samples go. Without a majority to keep, no removal "
        "helps: datassay partition divides such data instead.",
    ),
)
RIVAL = (
    "The rival",
    "The samples of highest training loss are removed, with the same batches, refits, protected "
    "classes and stopping rule. Where it does as well, influence has not earned its cost here.",
)
SUGGESTED = (
    "Suggested label",
    "The most probable label under the model fitted to what is kept, which has not seen the "
    "removed samples.",
)


def notes(findings: PurifyFindings) -> tuple[tuple[str, str], ...]:
    """(term, meaning) pairs of this run."""
    rule = findings.purification.rule
    notes = [*FIRST, ("Order of removal", _order(findings)), ("Stopping rule", RULE_WORDS[rule])]
    if rule == "held_out":
        notes.append(("Threshold", _threshold(findings)))
    notes += LIMITS
    if findings.rival is not None:
        notes.append(RIVAL)
    if findings.samples.is_classification:
        notes.append(SUGGESTED)
    return tuple(notes)


def _order(findings: PurifyFindings) -> str:
    ours = findings.purification
    if ours.order in {"loss", "random"}:
        return f"The rival {ours.order!r} was asked for: no influence enters the order."
    if ours.order == "label_issues":
        return (
            "Networks that classify are ranked once, by the odds that a label is wrong, from the "
            "network linearised at its starting weights (label_issues). On noise of one class at a "
            "time it finds far more wrong labels than influence or loss at trained weights do."
        )
    edges = ours.trace.removed
    size = int(edges[1]) if len(edges) > 1 else max(1, len(findings.samples) // 100)
    return (
        f"δ(z) = V[Z] − V[Z∖z], the fall of V when z goes (S4 §4), {ORDER_WORDS[ours.order]}. "
        f"The {count(size, 'sample')} of largest δ are removed, the model is refitted, and so on. "
        "--order auto takes, of linear models, adjoint with at least 4 samples a weight, else "
        "fixed, which then purifies better. The orders and the stopping rules are ours; S4 "
        "recomputes V for every sample and stops by eye."
    )


def _threshold(findings: PurifyFindings) -> str:
    k, threshold = findings.samples.n_classes, findings.purification.threshold
    if not k:
        return (
            f"{number(threshold)} nats: the surprise of a residual of 3.5 standard deviations, as "
            "estimated from the median residual of the kept samples. In a pure set the first "
            "batches lie below, so that nothing is removed from it."
        )
    times, share = (2, "half") if threshold < math.log(3 * k) else (4, "a quarter of")
    text = (
        f"log {times}K = {number(math.log(times * k))} nats for K = {k} classes: the refitted "
        f"model gives the removed labels, in the geometric mean, {share} the chance of a blind "
        "guess (log K). In a pure set the first three batches are hard but more likely than that, "
        "so that nothing is removed from it. It lies above a blind guess since on samples that are "
        "merely hard a model can be sure and wrong, which no guess is."
    )
    if times == 2:
        return text
    return text + (
        " Networks are surer than they are right: each refit leaves out a random tenth of what is "
        "kept, and its logits are divided by the temperature that suits that tenth."
    )
