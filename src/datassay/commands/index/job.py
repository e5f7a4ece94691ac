"""The job of `datassay index`: the network, its index, and what was added to it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from rich.console import RenderableType
from rich.table import Table
from torch import nn

from datassay.collect.engine.processes import check_engine, engine_named
from datassay.collect.gradients.criteria import LOSSES
from datassay.collect.jacobian.inputs import check_device
from datassay.commands.index.command import IndexSettings
from datassay.commands.terminal import block_table, plain_text, warned
from datassay.commands.trained import INITIAL, check_left_to_index, check_weights, loss_of, networks
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.names import full_name
from datassay.models.weights import weights_choice
from datassay.progress import Progress, silent
from datassay.report.wording import count, percent
from datassay.score.index.build import index
from datassay.score.index.opened import Index
from datassay.score.index.opening import open_index
from datassay.score.index.plan import index_plan
from datassay.store.location import shown

QUERIES = 1000  # that the plan tells the time of
GOOD = 0.95  # rank correlation that an index should reach
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


def plan_lines(train: SampleSet, settings: IndexSettings) -> list[RenderableType]:
    """What `run` would compute and keep: a table, the largest blocks of many, and sentences."""
    if settings.append is not None:
        raise SettingError(
            "plan counts what making an index takes; appending takes a gradient a sample. Leave "
            "out --plan or --append."
        )
    plan = index_plan(
        _network(settings, train), train, loss=loss_of(settings.loss, train),
        curvature=settings.curvature, damping=settings.damping, temperature=settings.temperature,
        weight_decay=settings.weight_decay, parameters=settings.parameters, share=settings.share,
        width=settings.width, keep=settings.keep_as, precision=settings.precision,
        device=settings.device, seed=settings.seed,
    )  # fmt: skip
    table = block_table(
        plan.block,
        plan.size,
        {
            "curvature": plan.kind.tolist(),
            "on disk": [f"{size / 1e6:,.1f} MB" for size in plan.bytes],
        },
    )
    fits = "fits" if plan.fits else "does NOT fit"
    width = f"{'up to ' * plan.is_most}{count(plan.width, 'number')} in {plan.keep}"
    return [
        *table,
        f"{count(plan.n_samples, 'sample')} of {width}: {plan.row_bytes / 1e6:,.1f} MB of rows, "
        f"{plan.curvature_bytes / 1e6:,.1f} MB of curvature; {plan.scratch_bytes / 1e6:,.1f} MB "
        "more on disk while it is fitted.",
        f"{plan.passes:,} passes of a sample. About {plan.seconds:.3g} s to make, then "
        f"{plan.query_seconds(QUERIES):.2g} s for {QUERIES:,} queries; "
        f"{plan.peak_bytes / 1e9:.2f} GB beside the program, which {fits} in the "
        f"{plan.free_bytes / 1e9:.1f} GB free. Nothing was written.",
        *(
            []
            if settings.weights is not None
            else [INITIAL.format("" if plan.is_most else "; the width may")]
        ),
    ]


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


def answer_lines(built: Built) -> list[RenderableType]:
    """The index as a table of two columns, and sentences, for the terminal."""
    found = built.index
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how much", justify="right")
    for what, figure in figures(built):
        table.add_row(what, figure)
    said = []
    if built.left_out:
        said.append(
            f"Without {count(built.left_out, 'sample')} split off DATA, which datassay explain "
            "asks about; --val-fraction 0 keeps them in."
        )
    return [
        table,
        *map(plain_text, said),
        *warned(built.warnings + _warnings(found)),
        shown(found.location),
    ]


def _warnings(found: Index) -> tuple[str, ...]:
    """What to know before the index is asked."""
    told = found.rank_correlation
    if told is None or told["high"] >= GOOD:
        return found.warnings
    narrow = (
        f"its effects follow those of all coordinates at {told['mean']:.2f} only; a larger --width "
        "or --share holds more, in more bytes."
    )
    return (narrow, *found.warnings)


def figures(built: Built) -> list[tuple[str, str]]:
    """(what, how much) of an index."""
    found = built.index
    rows = [("samples", f"{len(found):,}")]
    if built.added:
        rows.append(("appended now", f"{built.added:,}"))
    if found.appended:
        share = percent(round(found.appended, 3))
        rows.append(("came after the curvature was fitted", share))
    return [
        *rows,
        ("numbers a sample", f"{found.width:,} in {found.kept['keep']}"),
        ("bytes a sample", f"{found.bytes_per_sample:,.0f}"),
        ("share of the effects", f"{found.share:.1%}"),
        ("rank correlation with all coordinates", correlation(found)),
        ("seconds", f"{built.seconds:.1f}"),
    ]


def correlation(found: Index) -> str:
    """How far its effects follow those of all coordinates, with the interval."""
    told = found.rank_correlation
    if told is None:
        return "too few samples to tell"
    return f"{told['mean']:.3f} ({told['low']:.3f} to {told['high']:.3f})"
