"""The job of `datassay purify`: remove, compare with plain loss, gather the findings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import nn

from datassay.act.purify.loop import STEP
from datassay.act.purify.loop import purify as remove
from datassay.act.purify.result import Purification
from datassay.collect.curvature.output_loss import predicted_class
from datassay.commands.command import closing_facts
from datassay.commands.purify.findings import PurifyFindings, majority_source
from datassay.data.samples import SampleSet, wrong_labels
from datassay.models.build import linear_or_named
from datassay.progress import Progress, silent
from datassay.report.wording import percent

RIVAL_STEP = "rival: highest loss"


@dataclass(frozen=True, slots=True)
class PurifySettings:
    """What the job can be told; every default is what `datassay purify DATA` does.

    Attributes:
        model: as for `build_model`.
        order: as for `purify`.
        stop: as for `purify`, but that "auto" uses a validation part only where it came with the
            data: one that was split off has the flaws of the training samples.
        ridge: of linear models.
        damping: of the Hessian.
        step: samples a step, or None.
        max_fraction: of the samples, never more are removed.
        min_per_class: a class is never left with fewer.
        beyond: steps to look at beyond the stop.
        rival: whether to remove by loss too, for comparison.
        seed: of weights and batches.
        command: what to print on the page as the command to repeat this.
    """

    model: str = "logistic"
    order: str = "auto"
    stop: str = "auto"
    ridge: float = 1e-4
    damping: float = 0.01
    step: int | None = None
    max_fraction: float = 0.5
    min_per_class: int = 10
    beyond: int = 5
    rival: bool = True
    seed: int = 0
    command: str = ""

    @property
    def removal(self) -> dict[str, Any]:
        """The arguments that `purify` takes as they are."""
        names = ("ridge", "damping", "step", "max_fraction", "min_per_class", "beyond", "seed")
        return {name: getattr(self, name) for name in names}


def run_purify(
    train: SampleSet, val: SampleSet, settings: PurifySettings, progress: Progress = silent
) -> PurifyFindings:
    """Everything `datassay purify` computes, without writing anything.

    Args:
        train: the training samples; true_y set where label noise was added.
        val: the validation samples.
        settings: what to run.
        progress: called with (step, samples removed, most that may be).

    Returns:
        The findings, ready for `write_purification`.

    Raises:
        DatassayError: bad samples or model; one sentence says which.
        SettingError: a setting is outside its rule.
    """
    started = time.perf_counter()
    model = linear_or_named(settings.model, train, settings.seed)
    majority, alone = _majority(train, val)
    how = settings.removal | {"stop": _rule(settings.stop, val), "test": alone}

    def purified(order: str, told: Progress) -> Purification:
        return remove(model, train, val, order=order, progress=told, **how)

    found = _told(purified, settings.order, STEP, progress)
    rival = None
    if settings.rival and found.order != "loss":
        rival = _told(purified, "loss", RIVAL_STEP, progress)
    predicted, chance = _predicted(found.model, train)
    facts = _facts(train, val, settings, found)
    facts |= closing_facts(started, settings.command)
    return PurifyFindings(
        samples=train,
        validation=val,
        found=found,
        rival=rival,
        predicted=predicted,
        chance=chance,
        majority=majority,
        facts=facts,
        warnings=(*found.warnings, *_warnings(val, found)),
    )


def _rule(stop: str, val: SampleSet) -> str:
    if stop != "auto":
        return stop
    return "held_out" if val.split_off else "validation"


def _majority(train: SampleSet, val: SampleSet) -> tuple[str, SampleSet | None]:
    """The source of most samples and its validation samples; empty where labels tell more."""
    name = majority_source(train)
    if not name or wrong_labels(train) is not None or val.source is None:
        return "", None
    inside = val.source == name
    return (name, val.subset(inside)) if inside.any() else ("", None)


def _told(
    purified: Callable[[str, Progress], Purification], order: str, name: str, progress: Progress
) -> Purification:
    """One purification under a name of its own; where it stops early the bar is full too."""
    left = [1]

    def told(step: str, done: int, total: int) -> None:
        left.append(total - done)
        progress(name if step == STEP else f"{name}, {step}", done, total)

    found = purified(order, told)
    if left[-1]:
        looked_at = int(found.trace.removed[-1])
        progress(name, looked_at, looked_at)
    return found


def _predicted(model: nn.Module, train: SampleSet) -> tuple[np.ndarray, np.ndarray]:
    """Label or target by the model, and the probability that it gives the given label."""
    weight = next(model.parameters())
    with torch.no_grad():
        x = torch.as_tensor(train.x).to(weight)
        outputs = torch.cat([model(part) for part in x.split(1024)]).double()
    none = np.full(len(train), np.nan)
    if not train.is_classification:
        return outputs.numpy().reshape(train.y.shape), none
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 1)
    chance = outputs.softmax(1)[torch.arange(len(train)), torch.as_tensor(train.y)]
    return predicted_class(outputs.numpy()), chance.numpy()


def _facts(
    train: SampleSet, val: SampleSet, settings: PurifySettings, found: Purification
) -> dict[str, str]:
    part = "split off" if val.split_off else "given"
    facts = {
        "Data": f"{train.name}: {len(train):,} training, {len(val):,} validation samples ({part})",
        "Model": f"{settings.model}, ridge {settings.ridge:g}, damping {settings.damping:g}",
        "Order of removal": found.order + (" (auto)" if settings.order == "auto" else ""),
        "Stopping rule": found.rule + (" (auto)" if settings.stop == "auto" else ""),
        "Limits": f"at most {percent(settings.max_fraction)} go, {settings.min_per_class} of each "
        "class stay",
    }
    wrong = wrong_labels(train)
    if wrong is not None:
        facts["Label noise"] = f"{int(wrong.sum()):,} labels were flipped on purpose"
    return facts | {"Seed": str(settings.seed), "Version": version("datassay")}


def _warnings(val: SampleSet, found: Purification) -> tuple[str, ...]:
    if found.rule != "validation" or not val.split_off:
        return ()
    return (
        "the validation part that decided when to stop was split off the same data and has the "
        "same flaws; give a clean one (x_val, y_val), or use --stop held_out.",
    )
