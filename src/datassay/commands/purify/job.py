"""The job of `datassay purify`: remove, compare with plain loss, gather the findings."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from datassay.act.purify.loop import STEP
from datassay.act.purify.loop import purify as remove
from datassay.act.purify.result import Purification
from datassay.collect.curvature.output_loss import predicted_class
from datassay.collect.jacobian.inputs import network_inputs
from datassay.commands.facts import closing_facts, data_facts, model_facts, noise_facts
from datassay.commands.purify.findings import PurifyFindings, majority_source
from datassay.commands.purify.settings import PurifySettings
from datassay.data.samples import SampleSet, wrong_labels
from datassay.models.build import linear_or_named
from datassay.models.names import BLOCK_HEAD, full_name
from datassay.progress import Progress, silent
from datassay.report.wording import percent

RIVAL_STEP = "rival: highest loss"
AS_GIVEN = ("ridge", "damping", "step", "max_fraction", "min_per_class", "beyond", "seed")


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
        warnings=(*ours.warnings, *_warnings(val, ours)),
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


def _warnings(val: SampleSet, ours: Purification) -> tuple[str, ...]:
    if ours.rule != "validation" or not val.split_off:
        return ()
    return (
        "the validation part that decided when to stop was split off the same data and has the "
        "same flaws; give a clean one (x_val, y_val), or use --stop held_out.",
    )
