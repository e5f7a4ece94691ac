"""The job of `datassay summarize`, which chooses the samples to keep, its files, and its page."""

from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.act.remove.summarize import LEAST_SHARE, KeepSet, summarize
from datassay.commands.facts import data_facts, weights_facts
from datassay.commands.run.job import collect_run
from datassay.commands.run.labels import suspected_classes
from datassay.commands.run.settings import KeepSettings, RunSettings
from datassay.commands.run.steps.scores import issues_of
from datassay.commands.run.steps.settings import check_settings as check_run
from datassay.commands.run.steps.settings import with_network
from datassay.data.samples import SampleSet
from datassay.errors import hide_credentials
from datassay.models.build import build_model
from datassay.optional import text_if
from datassay.progress import Progress, silent
from datassay.report.page import Page, Row, Section, Table
from datassay.report.tables import standard_json
from datassay.report.wording import percent, shortened
from datassay.results import result
from datassay.score.label_issues import LabelIssues

FILES = {"keep.parquet": "the samples to keep", "keep.json": "what was run"}


@result
class Kept:
    """The samples to keep."""

    train: SampleSet  # all training samples
    keep: KeepSet  # which of them to keep, and which not
    facts: dict[str, Any]  # what was run and on what, for keep.json


def run(
    train: SampleSet,
    val: SampleSet | None,
    training: RunSettings,
    settings: KeepSettings,
    progress: Progress = silent,
) -> Kept:
    """Compute everything that `datassay summarize` shows, without writing anything."""
    check_run(training, len(train))
    training = with_network(training, train)
    model = build_model(training.model, train, weights=training.weights, seed=training.seed)
    lin = collect_run(model, train, val, training, progress)
    issues = None
    if settings.drop_suspects:
        issues = issues_of(lin, train, training, progress)
    keep = summarize(
        lin, settings.fraction, rule=settings.rule, iterative=settings.iterative, issues=issues,
        seed=training.seed, progress=progress, **training.dynamics_settings,
    )  # fmt: skip
    return Kept(
        train,
        keep,
        {
            "command": training.command,
            "data": hide_credentials(train.name),
            "facts": data_facts(train, val) | weights_facts(model),
            "train": len(train),
            "kept": len(keep.keep),
            "fraction": settings.fraction,
            "rule": keep.rule,
            "held_out": dict(zip(keep.tried, keep.held_out.tolist(), strict=True)),
            "iterative": settings.iterative,
            "least_class_share": LEAST_SHARE if train.is_classification else None,
            "suspects_dropped": 0 if issues is None else int(issues.to_try[keep.removed].sum()),
            "seed": training.seed,
            "version": version("datassay"),
            "warnings": [*lin.warnings, *_warn_of_classes(train, issues, keep)],
        },
    )


def _warn_of_classes(train: SampleSet, issues: LabelIssues | None, keep: KeepSet) -> list[str]:
    """Return a warning for each class with more than a third of its labels suspected."""
    if issues is None or not train.is_classification:
        return []
    warnings = []
    for c in suspected_classes(train.y, issues):
        is_suspect = issues.to_try & (train.y == c)
        n = int((train.y == c).sum())
        n_suspects = int(is_suspect.sum())
        n_kept = int(is_suspect[keep.keep].sum())
        warnings.append(
            f"of class {shortened(train.class_names[c])} {n_suspects:,} of {n:,} labels are "
            f"suspected, more than a third; {n_kept:,} of them are kept so that the class keeps at "
            f"least {percent(LEAST_SHARE)} of its share. Such a class is rather hard than wrong."
        )
    return warnings


def files(results: Kept, page: Page) -> dict[str, pa.Table | str]:
    """Return the table of the samples to keep, and what was run, by file name."""
    return {"keep.parquet": results.keep.to_table(), "keep.json": standard_json(results.facts)}


def page(results: Kept) -> Page:
    """Return a page of how many samples are kept, in all and of each class, to be printed."""
    keep = results.keep
    train = results.train
    tables = []
    answer = f"Keep {len(keep.keep):,} of {len(train):,} samples."
    if keep.tried:  # what each rule reached on held-out samples, the chosen one first
        scores = sorted(zip(keep.held_out, keep.tried, strict=True), reverse=True)
        scores.sort(key=lambda pair: pair[1] != keep.rule)
        rows = tuple(
            Row(n, (f"{value:.3f}", text_if(n == keep.rule, "chosen"))) for value, n in scores
        )
        columns = ("rule", f"held-out {train.metric}", "")
        tables += [Table("Which samples stay", columns, rows, in_terminal=True)]
    if train.is_classification:
        counts = [np.bincount(y, minlength=train.n_classes) for y in (train.y, train.y[keep.keep])]
        rows = tuple(
            Row(name, (f"{n:,}", f"{n_kept:,}"))
            for name, n, n_kept in zip(train.class_names, *counts, strict=True)
            if n
        )
        columns = ("class", "samples", "to keep")
        tables += [Table("Samples to keep by class", columns, rows, in_terminal=True)]
    return Page(
        brand="datassay summarize · which samples to keep",
        title=train.name,
        lead=answer,
        facts={},
        warnings=tuple(results.facts["warnings"]),
        sections=(Section("kept", "Kept", "Samples to keep", tuple(tables)),),
        answer=(answer,),
    )
