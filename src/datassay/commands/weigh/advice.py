"""What a weighting says to do next: each sentence follows from figures that the page shows."""

from __future__ import annotations

import math

import numpy as np

from datassay.act.weigh.gain import WeightGain
from datassay.commands.weigh.findings import (
    FAR,
    WeighFindings,
    concentration,
    doubtful,
)
from datassay.data.samples import wrong_labels
from datassay.report.advice import N_CHECK_FIRST, Advice, Severity
from datassay.report.wording import count, interval_text, number, percent, score_change

# Doubtful labels are worth a look where they make up this much of the heaviest tenth, or of all
# samples (clean sets measured: up to 1.3 %; ten per cent wrong labels: 8.6 % and more), and are to
# be acted on from twice as much on. With two classes the heaviest, half of whose neighbours have
# each label, are hardly ever doubtful themselves.
NOTABLE_HEAVY, NOTABLE = 0.05, 0.03
DOUBTS = {
    True: (
        "label",
        "a label that fewer than a fifth of their neighbours share, while most agree on another",
    ),
    False: (
        "target",
        f"a target more than {FAR:g} standard deviations from their neighbours' mean",
    ),
}
SEVERITIES: dict[str, Severity] = {"better": "fine", "worse": "act", "no difference": "look"}


def advice(findings: WeighFindings) -> tuple[Advice, ...]:
    """What to do next."""
    pieces = [_weights(findings)]
    if findings.gain is not None:
        pieces.append(_help(findings, findings.gain))
    pieces.append(_labels(findings))
    if findings.gain is not None and len(findings.gain.names) > 2:
        pieces.append(_contest(findings, findings.gain))
    return tuple(pieces)


def _weights(findings: WeighFindings) -> Advice:
    n, uneven = len(findings.samples), concentration(findings)
    k = findings.local.neighbors.index.shape[1]
    tenth = len(findings.heaviest)
    if np.ptp(findings.weights.weight) == 0:
        return Advice(
            "weights", "look", "All weights are equal",
            "The target never varies among neighbours (or the classes are equally frequent): this "
            "weighting has nothing to tell samples apart by.",
        )  # fmt: skip
    own = "label" if findings.samples.is_classification else "target"
    constant = f"For {count(uneven.constant, 'sample')} ({percent(round(uneven.constant / n, 3))})"
    if not uneven.constant:
        constant = "For no sample"
    return Advice(
        kind="weights",
        severity="fine",
        headline=f"The heaviest tenth carries {percent(round(uneven.heaviest_share, 3))} of the "
        "weight",
        sentence=(
            f"{count(tenth, 'sample')} of {n:,}, {percent(round(tenth / n, 3))}; "
            f"{_ratio(uneven.ratio)}. Effective sample size {uneven.effective:,.0f} of {n:,}. "
            f"{constant} all k = {k} neighbours share their "
            f"{own}: local variance 0. weights.parquet holds every weight by id, with mean 1."
        ),
    )


def _ratio(ratio: float) -> str:
    if math.isinf(ratio):
        return "some samples weigh nothing"
    return f"no sample counts more than {ratio:.3g} times another"


def _help(findings: WeighFindings, gain: WeightGain) -> Advice:
    change, half = gain.difference(1)
    n_seeds, n_val = gain.score.shape[0], gain.each.shape[1]
    before, after = (float(gain.score[:, i].mean()) for i in (0, 1))
    verdict = gain.verdict(1)
    headline = {
        "better": f"The weights help here: {score_change(change, gain.metric)} gained",
        "worse": f"The weights hurt here: {score_change(change, gain.metric)} lost",
        "no difference": f"No difference that {n_seeds} seeds and {n_val:,} samples can tell",
    }[verdict]
    remedy = {
        "better": "Train with them, and check it on data of your own that nothing was chosen by.",
        "worse": "Train without them.",
        "no difference": "The interval includes 0: nothing here speaks for or against weighting, "
        "and without weights is simpler.",
    }[verdict]
    return Advice(
        kind="does it help",
        severity=SEVERITIES[verdict],
        headline=headline,
        sentence=(
            f"{_what(findings)} from {n_seeds} seeds has a validation {gain.metric} of "
            f"{before:.3f} without and {after:.3f} with the weights: "
            f"{interval_text(change, half, gain.metric)}, over seeds and "
            f"{count(n_val, 'validation sample')}. {remedy}"
        ),
    )


def _upper(name: str) -> str:
    return name[:1].upper() + name[1:]


def _what(findings: WeighFindings) -> str:
    whole = not findings.in_last_layer
    return "The whole network trained" if whole else "The network's last layer retrained"


def _labels(findings: WeighFindings) -> Advice:
    bad, heavy, samples = doubtful(findings), findings.heaviest, findings.samples
    overall, among = float(bad.mean()), float(bad[heavy].mean())
    own, what = DOUBTS[samples.is_classification]
    if not bad.any():
        text = f"No sample has {what}.{_truth(findings)}"
        return Advice("labels", "fine", f"No heavy {own} looks wrong", text)
    mean = float(findings.sample_weight[bad].mean())
    sentence = (
        f"{percent(round(overall, 3))} of all samples and {percent(round(among, 3))} of the "
        f"heaviest tenth ({int(bad[heavy].sum()):,} of {len(heavy):,}) have {what}. Their mean "
        f"weight is {number(mean)}, that of all samples 1."
    )
    if overall < NOTABLE and not (among >= NOTABLE_HEAVY and among > overall):
        headline = f"Few heavy {own}s look wrong"
        return Advice("labels", "fine", headline, sentence + _truth(findings))
    if findings.weights.method == "local_variance":
        sentence += (
            f" Local variance cannot tell a wrong {own} from a steep spot: the {own}s around "
            "either vary."
        )
    sentence += " Find the wrong ones first: datassay run lists label issues."
    who = "Heavy samples" if among > overall else "Samples"
    urgent = among >= 2 * NOTABLE_HEAVY or overall >= 2 * NOTABLE
    order = findings.order
    return Advice(
        kind="labels",
        severity="act" if urgent else "look",
        headline=f"{who} may have wrong {own}s",
        sentence=sentence + _truth(findings),
        ids=tuple(str(i) for i in samples.ids[order[bad[order]][:N_CHECK_FIRST]]),
    )


def _truth(findings: WeighFindings) -> str:
    wrong = wrong_labels(findings.samples)
    if wrong is None or not wrong.any():
        return ""
    heavy = percent(round(float(wrong[findings.heaviest].mean()), 3))
    mean = number(float(findings.sample_weight[wrong].mean()))
    return (
        f" The truth is known here: {heavy} of the heaviest tenth are wrong, "
        f"{percent(round(float(wrong.mean()), 3))} of all; the wrong ones' mean weight is {mean}."
    )


def _contest(findings: WeighFindings, gain: WeightGain) -> Advice:
    change, half = gain.difference(1, against=2)
    verdict = gain.verdict(1, against=2)
    theirs = interval_text(*gain.difference(2), gain.metric)
    winner = {
        "better": f"{findings.method} does better",
        "worse": f"{findings.method} does worse",
        "no difference": "no clear winner",
    }[verdict]
    return Advice(
        kind="contest",
        severity="look" if verdict == "worse" else "fine",
        headline=f"{_upper(findings.method)} against {gain.names[2]}",
        sentence=(
            f"{_upper(gain.names[2])} weights change validation {gain.metric} by {theirs}. Between "
            f"the two: {interval_text(change, half, gain.metric)}, {winner}."
        ),
    )
