"""The job of `datassay index`: the network, its index, and samples that are appended."""

import time
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.table import Column, Table
from torch import nn

from datassay.collect.engine.processes import engine_named
from datassay.collect.jacobian.inputs import check_device
from datassay.commands.frame import type_command
from datassay.commands.index.command import IndexSettings
from datassay.commands.terminal import block_table, plain_text, warning_lines
from datassay.commands.trained import INITIAL, loss_of, networks, start_seconds
from datassay.data.samples import SampleSet
from datassay.models.names import full_name
from datassay.models.weights import weights_choice
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.report.wording import count, percent
from datassay.score.index.build import index
from datassay.score.index.opened import Index
from datassay.score.index.opening import open_index
from datassay.score.index.plan import index_plan
from datassay.store.location import file_system, redact

QUERIES = 1000  # number of queries whose time the plan gives
GOOD = 0.95  # correlation with exact effects that an index should reach
# Settings that an index is made with; what is appended takes them over.
SETTLED = (
    *("loss", "curvature", "damping", "temperature", "weight_decay", "parameters"),
    *("bytes_per_sample", "precision"),
)


@dataclass(frozen=True, slots=True)
class Built:
    """A finished index, and how it was made."""

    index: Index  # open
    added: int  # samples that this call appended
    seconds: float  # that the call took
    left_out: int  # samples that were split off DATA, which the index does not have
    warnings: tuple[str, ...] = ()  # what the user must know of the weights


def run(
    train: SampleSet, val: SampleSet | None, settings: IndexSettings, progress: Progress = silent
) -> Built:
    """Make the index of `train`, or append `val` to it where the settings say so."""
    started = time.perf_counter()
    check_settings(settings)
    assert settings.weights is not None, "checked"
    model = _load_network(settings, train)
    choice = weights_choice(settings.weights, model)
    engine = engine_named(settings.engine, workers=settings.workers, address=settings.address)
    if settings.append is not None:
        assert val is not None, "what is to be appended was read"
        opened = open_index(settings.location, model, device=settings.device)
        opened.append(val, engine=engine, progress=progress)
        return Built(opened, len(val), time.perf_counter() - started, 0, choice)
    options = _select_options(settings, train)
    new_index = index(model, train, settings.location, engine=engine, progress=progress, **options)
    left_out = 0
    if val is not None and val.split_off:
        left_out = len(val)
    return Built(new_index, 0, time.perf_counter() - started, left_out, choice)


def _select_options(settings: IndexSettings, train: SampleSet) -> dict[str, Any]:
    """Return the settings that are arguments of both `index` and `index_plan`, and the loss."""
    names = (*SETTLED, "device", "seed")
    options = {name: getattr(settings, name) for name in names}
    return options | {"loss": loss_of(settings.loss, train)}


def plan_lines(train: SampleSet, settings: IndexSettings) -> list[RenderableType]:
    """Return what `run` would compute and keep: a table, the largest blocks, and sentences."""
    loading = start_seconds(train)
    plan = index_plan(_load_network(settings, train), train, **_select_options(settings, train))
    on_disk = [f"{size / 1e6:,.1f} MB" for size in plan.bytes]
    columns = {"curvature": plan.kind.tolist(), "on disk": on_disk}
    fits = "fits" if plan.fits else "does NOT fit"
    initial = INITIAL.format(text_if(plan.fidelity, "; what rows keep may"))
    shares = [f"{size:,} bytes {share:.3f}" for size, share in plan.fidelity.items()]
    fidelity = []
    if shares:
        fidelity = [
            f"Correlation with exact effects, the share of their use that is kept: "
            f"{', '.join(shares)} (--bytes-per-sample)."
        ]
    return [
        *block_table(plan.block, plan.size, columns),
        f"{count(plan.n_samples, 'sample')} of {plan.bytes_per_sample:,} bytes: "
        f"{plan.row_bytes / 1e6:,.1f} MB of rows, "
        f"{plan.curvature_bytes / 1e6:,.1f} MB of curvature; {plan.scratch_bytes / 1e6:,.1f} MB "
        "more on disk while it is fitted.",
        f"{plan.passes:,} passes of a sample. About {loading + plan.seconds:.3g} s to make, "
        f"{loading:.1f} s of them to start and to read the data, then "
        f"{plan.query_seconds(QUERIES):.2g} s for {QUERIES:,} queries; "
        f"{plan.peak_bytes / 1e9:.2f} GB besides the program, which {fits} in the "
        f"{plan.free_bytes / 1e9:.1f} GB free. Nothing was written.",
        *fidelity,
        *([initial] if settings.weights is None else []),
    ]


def check_settings(settings: IndexSettings) -> None:
    """Check the settings before anything is loaded; a plan needs no weights."""
    check_device(settings.device)


def _load_network(settings: IndexSettings, train: SampleSet) -> nn.Module:
    """Return the network at its trained weights, or as initialised where a plan has none."""
    files = ()
    if settings.weights is not None:
        files = (settings.weights,)
    (network,) = networks(full_name(settings.model, train), files, train, settings.seed)
    return network


def answer_lines(built: Built, settings: IndexSettings) -> list[RenderableType]:
    """Return what is printed at the end: verdict, figures of the index, warnings, next step."""
    opened = built.index
    interval = opened.fidelity
    rows = {}
    if opened.appended:
        rows["came after the curvature was fitted"] = percent(round(opened.appended, 3))
    files, root = file_system(opened.location)
    rows |= {
        "bytes per sample": f"{opened.bytes_per_sample:,}",
        "MB in all": f"{sum(files.sizes(files.find(root))) / 1e6:,.1f}",
        "seconds": f"{built.seconds:.1f}",
    }
    table = Table("what", Column("how much", justify="right"), show_header=False)
    for name, figure in rows.items():
        table.add_row(name, figure)
    notes = []
    if built.left_out:
        notes = [plain_text(
            f"{count(built.left_out, 'further sample')} of DATA are held out, as queries for "
            "datassay explain; --val-fraction 0 keeps them in."
        )]  # fmt: skip
    warnings = list(built.warnings)
    if interval is not None and interval["high"] < GOOD:
        warnings.append(
            f"its effects follow exact ones at {interval['mean']:.2f} only; a larger "
            "--bytes-per-sample keeps more, and --plan says how much."
        )
    options = ("--model", settings.model, "--weights", str(settings.weights))
    options += ("--index", redact(opened.location))
    explain = type_command({"Command": settings.command}, "explain", *options)
    return [
        _summarize(built), table, *notes, *warning_lines([*warnings, *opened.warnings]),
        f"Index: {redact(opened.location)}", *([f"Next: {explain}"] if explain else []),
    ]  # fmt: skip


def _summarize(built: Built) -> str:
    """Return a sentence: for how many samples effects are stored, and how exact they are."""
    interval = built.index.fidelity
    content = f"The index answers for {count(len(built.index), 'sample')}"
    if built.added:
        content += f", {built.added:,} of them new"
    if interval is None:
        return f"{content}; too few to tell whether its estimates match exact ones."
    roughly = text_if(interval["high"] < GOOD, "roughly ")
    mean, low, high = (f"{interval[name]:.3f}" for name in ("mean", "low", "high"))
    words = f"{mean}, {low} to {high}"
    if low == "1.000":
        words = "above 0.9995"
    content += f"; its estimates of influence {roughly}match exact ones on "
    return f"{content}{count(int(interval['queries']), 'query', 'queries')} (correlation {words})."
