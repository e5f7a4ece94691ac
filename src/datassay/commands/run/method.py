"""The page's last section: what each figure means and how it was obtained."""

from __future__ import annotations

from math import isfinite, isnan

from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import OVERLOOKED
from datassay.report.wording import number
from datassay.score.sample_information import OF_SGD

TRUST = (
    "How well information and effects predict what retraining shows depends on data, network and "
    "training. datassay bench DATA --model MODEL measures it on the same samples in minutes, with "
    "intervals, beside loss alone and the best that any score could do."
)


def notes(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Terms and what they mean in this run, as plain text."""
    curve = findings.learning_curve
    return (
        ("Information", _information(findings)),
        (
            "Linearised training",
            "The network is replaced by its first-order expansion at the weights it starts "
            "from. Its training, and its training without any one sample, then have closed "
            "forms, so no network is retrained for the scores.",
        ),
        (
            "Loss",
            "Half the squared difference between outputs and targets, summed (not averaged) "
            f"over samples and outputs. The step size of the learning curve, {number(curve.lr)}, "
            "is for that sum.",
        ),
        (
            "Held out",
            _held_out(findings),
        ),
        ("Effect on a prediction", _effect(findings)),
        *_influence(findings),
        *_average(findings),
        ("Trust", TRUST),
        ("Validation samples", _validation(findings)),
        (
            "Redundant",
            "Networks retrained without the samples of lowest information score as well as on "
            "the full set, to within one standard error of its mean or 0.005 (0.5 points), "
            "whichever is larger. This holds for this model and this validation set.",
        ),
        (
            "Suspected label error",
            _suspected(findings),
        ),
    )


def _held_out(findings: Findings) -> str:
    issues = findings.issues
    if isnan(issues.ridge):
        return (
            f"A sample's held-out output is that of {issues.judge}: a fit that has not seen the "
            "label it judges."
        )
    return (
        "A sample's held-out output is that of the fit to all the other samples: it has not "
        f"seen the label it judges. The fit's ridge, {number(issues.ridge)}, was chosen by "
        "leave-one-out error."
    )


def _suspected(findings: Findings) -> str:
    look = "It is a reason to look, not a proof: rare and ambiguous samples are suspected too."
    if findings.issues.posterior is None:
        return (
            "A target that is more likely wrong than right: right ones deviate from their held-out "
            "output as Student's t, wrong ones lie anywhere in the range of the targets. The label "
            "issue score is the residual's modified z-score minus 3.5, another unit; without "
            f"clear outliers no target is suspected. {look}"
        )
    whole = "any of the labels" if findings.has_several_labels else "the given label"
    return (
        f"The probability that {whole} is wrong is above 1/2; the label issue score is its log "
        "odds, ln p/(1 − p). Held-out outputs are calibrated to probabilities together with the "
        "noise that explains the given labels best, by maximum likelihood: one rate for all, or, "
        f"where the Bayesian information criterion asks for it, rates that depend on the class."
        f"{_evidence(findings)} {OVERLOOKED} {look}"
    )


def _evidence(findings: Findings) -> str:
    noise = findings.issues.noise
    if len(noise) != 1 or not isfinite(noise[0].gain):
        return ""
    gain = f"{number(noise[0].gain)} nats a sample".replace("-", "−")
    return f" Here the latter gain {gain}, the price of their parameters taken off."


def _effect(findings: Findings) -> str:
    alone = "Effects of several samples do not add up exactly: each is of removing one alone."
    if findings.attribution is not None and findings.attribution_at == "trained":
        return (
            "One Newton step from the trained weights to those without the sample, to first order "
            f"in its weight ({findings.attribution.method}); nothing is retrained for it. {alone}"
        )
    return (
        f"The value with a training sample minus the value without it, both in closed form. {alone}"
    )


def _influence(findings: Findings) -> tuple[tuple[str, str], ...]:
    influence = findings.influence
    if influence is None:
        return ()
    everyone = influence.total_variance_error == 0
    partners = "all others" if everyone else f"{influence.n_partners:,} others"
    text = (
        "How much more weight on one sample changes the squared error of another, per unit of "
        "weight, at the linearised network's ridge fit. The table holds each sample's mean over "
        f"all others and its variance, skewness and kurtosis over {partners}."
    )
    return (("Influence", text),)


def _average(findings: Findings) -> tuple[tuple[str, str], ...]:
    if findings.average is None:
        return ()
    text = (
        "The same information with the sample left out of a random subset of the others instead of "
        "all of them, averaged over subsets (S1 §7, after data Shapley). All sizes count alike, "
        "and every size takes the step size of the full set."
    )
    return (("Beside fewer samples", text),)


def _information(findings: Findings) -> str:
    information = findings.information
    inputs = "validation" if findings.validation is not None else "training"
    measure = {
        "functional": f"the squared change of its outputs, averaged over the {inputs} inputs",
        "isotropic": "the squared change of its weights",
        "fisher": f"the change of its weights, weighed by the Fisher matrix of the {inputs} inputs",
        "sgd": "the change of its weights beside the noise that SGD leaves in them",
        "kl": "the divergence of its weights, noise of SGD included, from those without the sample",
    }[information.smoothing]
    scale = f", divided by 2σ² with σ = {number(information.sigma)}"
    scale = "" if information.smoothing in OF_SGD else scale
    return (
        "How far the network trained with a sample is from the one trained without it, in nats "
        f"(natural-log units): {measure}{scale}. High "
        "information is not the same as good: a wrong label is informative too."
    )


def _validation(findings: Findings) -> str:
    if findings.validation is None:
        return (
            "There are none: changes of the outputs are measured on the training inputs, which "
            "favours the samples themselves."
        )
    return (
        "Their inputs, not their labels, enter the information: it asks what a sample changes "
        "there. Scores of retrained networks are measured on the same samples, so confirm a "
        "decision that matters on data that this page has not seen."
    )
