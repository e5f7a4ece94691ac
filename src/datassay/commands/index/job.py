"""The job of `datassay index`: the network, its index, and what was added to it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from torch import nn

from datassay.collect.engine.choose import check_engine, engine_named
from datassay.collect.gradients.criteria import LOSSES
from datassay.collect.jacobian.device import check_device
from datassay.commands.index.settings import IndexSettings
from datassay.commands.trained import check_left_to_index, check_weights, loss_of, networks
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.names import full_name
from datassay.models.weights import weights_choice
from datassay.progress import Progress, silent
from datassay.score.index.build import index
from datassay.score.index.opened import Index
from datassay.score.index.opening import open_index
from datassay.score.index.plan import IndexPlan, index_plan

# What is settled when an index is made, and read from it when samples are added.
SETTLED = (
    *("loss", "curvature", "damping", "temperature", "weight_decay", "parameters", "share"),
    *("width", "keep_as", "precision"),
)


@dataclass(frozen=True, slots=True)
class Built:
    """An index that is whole, and how it came about.

    Attributes:
        index: open.
        added: samples that this call appended.
        seconds: that the call took.
        left_out: samples that were split off DATA, which the index does not have.
        warnings: what the user must know of the weights.
    """

    index: Index
    added: int
    seconds: float
    left_out: int
    warnings: tuple[str, ...] = ()


def run(
    train: SampleSet,
    other: SampleSet | None,
    settings: IndexSettings,
    progress: Progress = silent,
) -> Built:
    """Everything `datassay index` computes and keeps.

    Args:
        train: DATA.
        other: samples to append where the settings say so; else held out, and not looked at.
        settings: of the command.
        progress: called with (step, units done, units in all).

    Returns:
        The index.
    """
    started = time.perf_counter()
    check_settings(settings)
    assert settings.weights is not None, "checked"
    model = _network(settings, train)
    choice = weights_choice(settings.weights, model)
    by = engine_named(settings.engine, workers=settings.workers, address=settings.address)
    if settings.append is not None:
        assert other is not None, "what is to be appended was read"
        found = open_index(settings.location, model, device=settings.device)
        found.append(other, engine=by, progress=progress)
        return Built(found, len(other), time.perf_counter() - started, 0, choice)
    found = index(
        model, train, settings.location, loss=loss_of(settings.loss, train),
        curvature=settings.curvature, damping=settings.damping, temperature=settings.temperature,
        weight_decay=settings.weight_decay, parameters=settings.parameters, share=settings.share,
        width=settings.width, keep=settings.keep_as, precision=settings.precision,
        device=settings.device, engine=by, seed=settings.seed, progress=progress,
    )  # fmt: skip
    left_out = len(other) if other is not None and other.split_off else 0
    return Built(found, 0, time.perf_counter() - started, left_out, choice)


def planned(train: SampleSet, settings: IndexSettings) -> IndexPlan:
    """What `run` would compute and keep: bytes, passes and seconds."""
    if settings.append is not None:
        raise SettingError(
            "plan counts what making an index takes; appending takes a gradient a sample. Leave "
            "out --plan or --append."
        )
    return index_plan(
        _network(settings, train), train, loss=loss_of(settings.loss, train),
        curvature=settings.curvature, damping=settings.damping, temperature=settings.temperature,
        weight_decay=settings.weight_decay, parameters=settings.parameters, share=settings.share,
        width=settings.width, keep=settings.keep_as, precision=settings.precision,
        device=settings.device, seed=settings.seed,
    )  # fmt: skip


def check_settings(settings: IndexSettings, *, only_plan: bool = False) -> None:
    """Refuse, before anything is loaded, what cannot be; a plan does without weights."""
    if not only_plan:
        check_weights(() if settings.weights is None else (settings.weights,))
    if settings.loss not in ("auto", *LOSSES):
        raise SettingError(
            f"loss must be one of {', '.join(('auto', *LOSSES))}; got {settings.loss!r}."
        )
    check_device(settings.device)
    check_engine(settings.engine, settings.workers, settings.address)
    if settings.append is not None:
        check_left_to_index(settings, SETTLED, "append")


def _network(settings: IndexSettings, train: SampleSet) -> nn.Module:
    named = replace(settings, model=full_name(settings.model, train))
    files = () if settings.weights is None else (settings.weights,)
    (found,) = networks(named.model, files, train, settings.seed)
    return found
