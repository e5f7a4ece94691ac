"""The last section of a weighting's page: equations, where they are from, what we decided."""

from __future__ import annotations

from datassay.commands.weigh.findings import WeighFindings
from datassay.report.wording import number

LOCAL = (
    (
        "Local variance",
        "Df²(x_i) = 1/(k − 1) Σ_{j ∈ kNN(i)} ‖y_j − ȳ‖², over the k nearest samples, the sample "
        "itself among them; classes as one-hot columns, whose variances are added (S0, eq. 4). "
        "For a smooth f and neighbours drawn around x_i with variance ε it tends to ε‖∇f‖² + "
        "½ε²‖∇²f‖²_F: it is large where the function to learn is steep.",
    ),
    (
        "Weight",
        "w_i = 1 + (m − 1) Df²(x_i) / max Df², divided by the sum (S0, Algorithm 1). S0's text "
        "scales the smallest variance to 1, the code that made its numbers scales 0 to 1, as here; "
        "neither divides. Where neighbours never disagree all weights are equal.",
    ),
)
RIVALS = {
    "class-balanced": (
        "Class-balanced",
        "w_i ∝ (1 − β) / (1 − β^n_c) for n_c samples of the class: the effective number of samples "
        "(Cui et al., 2019), the usual rival.",
    ),
    "self-paced": (
        "Self-paced",
        "Easy samples count first: weights fall with the loss of a network trained on all of them "
        "(Kumar et al., 2010).",
    ),
    "Active Bias": (
        "Active Bias",
        "w_i ∝ the standard deviation of the probability of the given label over the visits of the "
        "training (Chang et al., 2017): uncertain samples count more.",
    ),
}


def notes(findings: WeighFindings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this run."""
    named = {findings.method, *(findings.gain.names if findings.gain is not None else ())}
    notes = [*(LOCAL if "local variance" in named else LOCAL[:1]), _space(findings)]
    notes += [note for name, note in RIVALS.items() if name in named]
    if "density_clip" in findings.weights.details:
        clip = number(float(findings.weights.details["density_clip"]))
        notes.append((
            "Density",
            "Df² is divided by p̂ ∝ r^−d, r the distance of the kth neighbour and d the columns, "
            f"kept within a factor of {clip} of its median. Uniform density is the default.",
        ))  # fmt: skip
    notes.append((
        "Sample weight",
        "The column sample_weight has mean 1, so that its sum is the number of samples and a "
        "learning rate or a penalty keeps its meaning. local_variance_weights in Python sums to 1.",
    ))  # fmt: skip
    if findings.gain is not None:
        notes.append(_interval(findings))
    notes.append((
        "Effective size",
        "(Σ w)² / Σ w²: as many equally weighted samples give a mean of the same variance.",
    ))  # fmt: skip
    return tuple(notes)


def _space(findings: WeighFindings) -> tuple[str, str]:
    near = findings.local.neighbors
    note = (
        f"k = {near.index.shape[1]} nearest by Euclidean distance in {findings.space}; the share "
        "of neighbours with the same label leaves the sample itself out."
    )
    if findings.in_last_layer:
        note += (
            " S0 §4.3: distances among many columns or pixels mean little, those of a trained "
            "network's features more. The network was trained without weights."
        )
    return "Neighbours", note


def _interval(findings: WeighFindings) -> tuple[str, str]:
    assert findings.gain is not None
    n_seeds, n_val = findings.gain.score.shape[0], findings.gain.each.shape[1]
    return (
        "Interval",
        "Both trainings of a seed start alike and see the same batches, so differences are paired. "
        f"The variance of the mean over {n_seeds} seeds and that over {n_val:,} validation samples "
        "are added (a little too wide: what both share counts twice), with Student's "
        "quantile by Welch's degrees of freedom. Over seeds alone a sample that is "
        "always decided otherwise would pass for a sure gain.",
    )
