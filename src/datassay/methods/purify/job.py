"""The job of `datassay purify`: remove samples, compare with plain loss, gather the findings."""

import math
import time
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import nn

from datassay.collect.curvature.output_loss import predicted_class
from datassay.collect.jacobian.inputs import network_inputs
from datassay.commands.facts import closing_facts, data_facts, model_facts, noise_facts
from datassay.commands.frame import SampleFindings
from datassay.data.back.origin import Origin
from datassay.data.samples import SampleSet, wrong_labels
from datassay.methods.purify.command import PurifySettings
from datassay.methods.purify.loop import STEP, Purification
from datassay.methods.purify.loop import purify as remove
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.report.wording import percent
from datassay.results import result
from datassay.stats import Interval, interval

BASELINE_STEP = "baseline: highest loss"
OURS = {
    "loss": "by loss", "random": "at random", "label_issues": "by label issues",
    "cross_fit": "by cross-fitting",
}  # fmt: skip
AS_GIVEN = ("ridge", "damping", "step", "max_fraction", "min_per_class", "beyond", "seed")


@result
class PurifyFindings(SampleFindings):
    """A purification and its baseline."""

    purification: Purification
    baseline: Purification | None  # the highest training losses removed under the same rule
    # Label or target by the model fitted to what is kept, and its probability of the given label;
    # NaN for a regression.
    predicted: Int[np.ndarray, " n"] | Float[np.ndarray, "n ..."]
    chance: Float[np.ndarray, " n"]
    # The source that most samples come from, whose validation samples alone are the trace's test
    # set; empty where no source holds more than half, or a truth is known.
    majority: str = ""
    origin: Origin | None = None  # how the samples were read; None: not known


@result
class Foreign:
    """The samples that should have been removed, and their name, such as "wrong labels"."""

    mask: Bool[np.ndarray, " n"]
    name: str

    def precision(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Return the share of these positions that are foreign; NaN for none."""
        if len(removed):
            return float(self.mask[removed].mean())
        return math.nan

    def recall(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Return the share of foreign samples that these positions hold; NaN where undefined."""
        total = int(self.mask.sum())
        if total and len(removed):
            return float(self.mask[removed].sum() / total)
        return math.nan


def majority_source(samples: SampleSet) -> str:
    """Return the source of more than half of the samples; "" if there is none."""
    if samples.source is None:
        return ""
    names, counts = np.unique(samples.source, return_counts=True)
    largest = counts.argmax()
    if len(names) > 1 and 2 * counts[largest] > len(samples):
        return str(names[largest])
    return ""


def foreign(findings: PurifyFindings) -> Foreign | None:
    """Return the samples that should go: wrong labels or minority sources; None if unknown."""
    samples = findings.samples
    majority = findings.majority
    is_wrong = wrong_labels(samples)
    if is_wrong is not None:
        return Foreign(is_wrong, "wrong labels")
    if not majority:
        return None
    return Foreign(np.asarray(samples.source != majority), f"samples not from {majority}")


def before_and_after(findings: PurifyFindings) -> list[dict[str, float]]:
    """Return the figures at the start, at our stop and at the baseline's; NaN if unknown."""
    truth = foreign(findings)
    ours = findings.purification
    baseline = findings.baseline
    stops = [(ours, 0), (ours, ours.steps)]  # points of the traces
    if baseline is not None:
        stops.append((baseline, baseline.steps))
    columns = []
    for purification, point in stops:
        trace = purification.trace
        n = int(trace.removed[point])
        columns.append({
            "removed": n,
            "variance": float(trace.variance[point]),
            "loss": float(trace.loss[point]),
            "validation": float(trace.validation[point]),
            "majority": float(trace.test[point]),  # validation samples of its source alone
            "precision": math.nan if truth is None else truth.precision(purification.removed[:n]),
            "recall": math.nan if truth is None else truth.recall(purification.removed[:n]),
        })
    return columns


def _compute_error(findings: PurifyFindings, score: float) -> float:
    """Return the standard error of a validation accuracy; inf for R², whose error is unknown."""
    if not findings.samples.is_classification:
        return math.inf
    return math.sqrt(score * (1 - score) / len(findings.validation))


def score_change(findings: PurifyFindings) -> Interval:
    """Return the score's change by the removal, with interval: cross-fitted or on validation."""
    ours = findings.purification
    crossed = ours.cross_fit
    if crossed is not None and math.isfinite(crossed.gain):
        return interval(crossed.gain, crossed.error)
    return _measure_change(findings, ours)


def _measure_change(findings: PurifyFindings, purification: Purification) -> Interval:
    """Return the validation score's change from all samples to those kept, with interval."""
    scores = purification.trace.validation
    gain = float(scores[purification.steps] - scores[0])
    return interval(gain, _compute_error(findings, float(scores[0])))


def changes_by_order(findings: PurifyFindings) -> list[tuple[str, Interval]]:
    """Return (name, change of the score) of our removal and the baseline's; or []."""
    ours = findings.purification
    crossed = ours.cross_fit
    baseline = findings.baseline
    n = len(ours.removed)
    name = OURS.get(ours.order, "by influence")
    if crossed is not None:
        n = crossed.n_suspects
        name = "suspects"
    rows = []
    if findings.samples.is_classification and n:
        rows.append((f"{n:,} {name}", score_change(findings)))
        # Cross-fitting is judged on other samples than the baseline: no comparison.
        if crossed is None and baseline is not None and len(baseline.removed):
            name = f"instead the {len(baseline.removed):,} of highest loss"
            rows.append((name, _measure_change(findings, baseline)))
    return rows


def run(
    train: SampleSet, val: SampleSet, settings: PurifySettings, progress: Progress = silent,
    *, origin: Origin | None = None,
) -> PurifyFindings:  # fmt: skip
    """Compute everything that `datassay purify` shows, without writing anything."""
    started = time.perf_counter()
    settings = replace(settings, model=full_name(settings.model, train, BLOCK_HEAD))
    model = linear_or_named(settings.model, train, settings.seed)
    majority = majority_source(train)
    test_set = None
    if majority and wrong_labels(train) is None and val.source is not None:
        is_majority = val.source == majority
        if is_majority.any():
            test_set = val.subset(is_majority)
    arguments = {name: getattr(settings, name) for name in AS_GIVEN}

    def remove_by(order: str, stop: str, name: str) -> Purification:  # name: of the progress
        """Return the removal by an order and a stopping rule, with its own progress bar."""

        def report(step: str, done: int, total: int) -> None:
            progress(name if step == STEP else f"{name}, {step}", done, total)

        purification = remove(
            model, train, val, test=test_set, order=order, stop=stop, progress=report, **arguments
        )
        n_removed = int(purification.trace.removed[-1])
        if n_removed:
            progress(name, n_removed, n_removed)  # the bar is full where removal stopped early, too
        return purification

    ours = remove_by(settings.order, settings.rule, STEP)
    with_baseline = settings.baseline and ours.order != "loss"
    # Plain loss finds no suspects: it stops by what "auto" is for it.
    baseline_stop = "auto" if ours.rule == "suspects" else settings.rule
    predicted, chance = _predict(ours.model, train)
    model_text = f"{settings.model}, ridge {ours.ridge:g}, damping {settings.damping:g}"
    facts = {
        **data_facts(train, val),
        **model_facts(settings.model, model_text),
        "Order of removal": ours.order + text_if(settings.order == "auto", " (auto)"),
        "Stopping rule": ours.rule + text_if(settings.rule == "auto", " (auto)"),
        "Limits": f"at most {percent(settings.max_fraction)} go, {settings.min_per_class} of each "
        "class stay",
        **noise_facts(train),
    }
    return PurifyFindings(
        samples=train,
        validation=val,
        purification=ours,
        baseline=remove_by("loss", baseline_stop, BASELINE_STEP) if with_baseline else None,
        predicted=predicted,
        chance=chance,
        majority=text_if(test_set is not None, majority),
        origin=origin,
        facts=facts | closing_facts(started, settings.seed, settings.command),
        warnings=ours.warnings,
    )


def _predict(model: nn.Module, train: SampleSet) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted labels or targets, [n], and probabilities of the given labels."""
    weight = next(model.parameters())
    with torch.no_grad():
        x = network_inputs(train.x, model, weight.dtype)
        outputs = torch.cat([model(batch) for batch in x.split(1024)]).double()
    if not train.is_classification:
        return outputs.numpy().reshape(train.y.shape), np.full(len(train), np.nan)
    if outputs.shape[1] == 1:  # of two classes one logit, that of the second
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    chance = outputs.softmax(1)[torch.arange(len(train)), torch.as_tensor(train.y)]
    return predicted_class(outputs.numpy()), chance.numpy()
