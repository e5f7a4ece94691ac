"""The job of `datassay purify`: remove, compare with plain loss, gather the findings."""

from __future__ import annotations

import math
import time
from dataclasses import field, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import nn

from datassay.act.purify.loop import STEP, Purification
from datassay.act.purify.loop import purify as remove
from datassay.collect.curvature.output_loss import predicted_class
from datassay.collect.jacobian.inputs import network_inputs
from datassay.commands.facts import closing_facts, data_facts, model_facts, noise_facts
from datassay.commands.purify.command import PurifySettings
from datassay.data.samples import SampleSet, wrong_labels
from datassay.errors import DataError
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.progress import Progress, silent
from datassay.report.wording import percent
from datassay.results import result

RIVAL_STEP = "rival: highest loss"
AS_GIVEN = ("ridge", "damping", "step", "max_fraction", "min_per_class", "beyond", "seed")


@result
class PurifyFindings:
    """One purification and its rival, in the order of the training samples.

    Attributes:
        samples: the n training samples, as they were given.
        validation: measured at each step; decides only where the rule is "validation".
        purification: what was removed, and the trace.
        rival: the highest training losses removed under the same rule; None where not asked for.
        predicted: [n] or [n, k], label or target by the model fitted to what is kept.
        chance: [n], probability that this model gives the label as given; NaN for a regression.
        majority: the source that most samples come from, whose validation samples alone are the
            trace's test set; empty where no source holds more than half, or a truth is known.
        facts: what was run and on what, name to value, in the order to show.
        warnings: what the reader must know before trusting the figures.
    """

    samples: SampleSet
    validation: SampleSet
    purification: Purification
    rival: Purification | None
    predicted: Int[np.ndarray, " n"] | Float[np.ndarray, "n ..."]
    chance: Float[np.ndarray, " n"]
    majority: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("purification", "rival"):
            one = getattr(self, name)
            if one is not None and not np.array_equal(one.ids, self.samples.ids):
                raise DataError(
                    f"{name} must have the samples' ids in the samples' order; they differ. "
                    "Purify the same SampleSet that the report shows."
                )

    @property
    def metric(self) -> str:
        """What the traces' scores are: "accuracy" or "R²"."""
        return "accuracy" if self.samples.is_classification else "R²"

    @property
    def lost(self) -> tuple[Int[np.ndarray, " classes"], Int[np.ndarray, " classes"]]:
        """Samples of each class, and how many of them are removed."""
        y, n = self.samples.y, self.samples.n_classes
        removed = y[self.purification.removed]
        return np.bincount(y, minlength=n), np.bincount(removed, minlength=n)


@result
class Foreign:
    """Which samples should have been removed, where that is known.

    Attributes:
        mask: [n].
        name: what they are, such as "wrong labels".
    """

    mask: Bool[np.ndarray, " n"]
    name: str

    def precision(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Share of these positions that are foreign; NaN for none."""
        return float(self.mask[removed].mean()) if len(removed) else math.nan

    def recall(self, removed: Int[np.ndarray, " removed"]) -> float:
        """Share of the foreign samples among these positions; NaN for none or nothing foreign."""
        total = int(self.mask.sum())
        return float(self.mask[removed].sum() / total) if total and len(removed) else math.nan


def majority_source(samples: SampleSet) -> str:
    """The source of more than half of the samples; empty where there is none, or only one."""
    if samples.source is None:
        return ""
    names, counts = np.unique(samples.source, return_counts=True)
    largest = counts.argmax()
    return str(names[largest]) if len(names) > 1 and 2 * counts[largest] > len(samples) else ""


def foreign(findings: PurifyFindings) -> Foreign | None:
    """What should have gone: wrong labels, or other sources than the majority's; None: unknown."""
    samples, majority = findings.samples, findings.majority
    wrong = wrong_labels(samples)
    if wrong is not None:
        return Foreign(wrong, "wrong labels")
    if not majority:
        return None
    assert samples.source is not None
    return Foreign(samples.source != majority, f"samples not from {majority}")


def before_and_after(findings: PurifyFindings) -> list[dict[str, float]]:
    """The figures at the start, at our stop and at the rival's.

    Returns:
        Each: `removed`, `variance`, `loss`, `validation`, `majority` (the validation samples of the
        majority's source alone), `precision` and `recall`; NaN where a figure is not known.
    """
    truth, ours, rival = foreign(findings), findings.purification, findings.rival
    stops = [(ours, 0), (ours, ours.steps)]
    if rival is not None:
        stops.append((rival, rival.steps))
    columns = []
    for one, point in stops:
        trace = one.trace
        removed = one.removed[: int(trace.removed[point])]
        columns.append({
            "removed": int(trace.removed[point]),
            "variance": float(trace.variance[point]),
            "loss": float(trace.loss[point]),
            "validation": float(trace.validation[point]),
            "majority": float(trace.test[point]),
            "precision": math.nan if truth is None else truth.precision(removed),
            "recall": math.nan if truth is None else truth.recall(removed),
        })
    return columns


def run(
    train: SampleSet, val: SampleSet, settings: PurifySettings, progress: Progress = silent
) -> PurifyFindings:
    """Everything `datassay purify` computes, without writing anything."""
    started = time.perf_counter()
    settings = replace(settings, model=full_name(settings.model, train, BLOCK_HEAD))
    model = linear_or_named(settings.model, train, settings.seed)
    majority, alone = _majority(train, val)
    arguments = {name: getattr(settings, name) for name in AS_GIVEN}

    def purified(order: str, stop: str, name: str) -> Purification:
        bar = _Bar(name, progress)
        purification = remove(
            model, train, val, test=alone, order=order, stop=stop, progress=bar, **arguments
        )
        bar.fill(int(purification.trace.removed[-1]))
        return purification

    ours = purified(settings.order, settings.rule, STEP)
    with_rival = settings.rival and ours.order != "loss"
    stop = "auto" if ours.rule == "suspects" else settings.rule
    rival = purified("loss", stop, RIVAL_STEP) if with_rival else None
    predicted, chance = _predicted(ours.model, train)
    facts = _facts(train, val, settings, ours)
    return PurifyFindings(
        samples=train,
        validation=val,
        purification=ours,
        rival=rival,
        predicted=predicted,
        chance=chance,
        majority=majority,
        facts=facts | closing_facts(started, settings.seed, settings.command),
        warnings=ours.warnings,
    )


class _Bar:
    """Progress of one purification under a name of its own."""

    def __init__(self, name: str, progress: Progress):
        self._name, self._progress, self._left = name, progress, 1

    def __call__(self, step: str, done: int, total: int) -> None:
        self._left = total - done
        self._progress(self._name if step == STEP else f"{self._name}, {step}", done, total)

    def fill(self, done: int) -> None:
        """Show the bar full where removal stopped early."""
        if self._left:
            self._progress(self._name, done, done)


def _majority(train: SampleSet, val: SampleSet) -> tuple[str, SampleSet | None]:
    """The source of most samples and its validation samples; empty where labels tell more."""
    name = majority_source(train)
    if not name or wrong_labels(train) is not None or val.source is None:
        return "", None
    inside = val.source == name
    return (name, val.subset(inside)) if inside.any() else ("", None)


def _predicted(model: nn.Module, train: SampleSet) -> tuple[np.ndarray, np.ndarray]:
    """Label or target by the model, and the probability that it gives the given label."""
    weight = next(model.parameters())
    with torch.no_grad():
        x = network_inputs(train.x, model, weight.dtype)
        outputs = torch.cat([model(part) for part in x.split(1024)]).double()
    if not train.is_classification:
        return outputs.numpy().reshape(train.y.shape), np.full(len(train), np.nan)
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    chance = outputs.softmax(1)[torch.arange(len(train)), torch.as_tensor(train.y)]
    return predicted_class(outputs.numpy()), chance.numpy()


def _facts(
    train: SampleSet, val: SampleSet, settings: PurifySettings, ours: Purification
) -> dict[str, str]:
    facts = {
        **data_facts(train, val),
        **model_facts(
            settings.model,
            f"{settings.model}, ridge {settings.ridge:g}, damping {settings.damping:g}",
        ),
        "Order of removal": ours.order + " (auto)" * (settings.order == "auto"),
        "Stopping rule": ours.rule + " (auto)" * (settings.rule == "auto"),
        "Limits": f"at most {percent(settings.max_fraction)} go, {settings.min_per_class} of each "
        "class stay",
    }
    return facts | noise_facts(train)
