"""The job of `datassay apply`: decisions → labels → the same kind of data, all of it or none."""

import os
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datassay.act.review.corrections import Corrections, corrections
from datassay.act.review.decisions import (
    FILE,
    RELABEL,
    REMOVE,
    Decision,
    Decisions,
    label_word,
    read_decisions,
    set_word,
)
from datassay.act.review.label_studio import read_label_studio
from datassay.act.review.reviewers import combine, files_in, read_all
from datassay.commands.apply.command import ApplySettings
from datassay.commands.finished import SUMMARY, check_columns, finished_run, read_summary
from datassay.data.back.origin import file_digests, folder_digest, source_digest
from datassay.data.back.original import (
    FILES,
    Changelog,
    Original,
    find_changed_column,
    read_changelog,
)
from datassay.data.format import suffixes
from datassay.data.load import original
from datassay.data.source import reading
from datassay.data.tables.read import OF_SAMPLES, Choices
from datassay.errors import DataError, SettingError
from datassay.optional import inflect, read_entry, text_if
from datassay.report.wording import count, shortened
from datassay.rules import fraction
from datassay.store.atomic import whole_folder
from datassay.store.folders import heal
from datassay.store.outputs import check_outputs, check_writable

READ_BY = ("target", "ids", "source", "task")
MOST_PAIRS = 20


def run(settings: ApplySettings, out: Path, *, overwrite: bool = False) -> list[str]:
    """Write the data as decided; return lines that say what was done."""
    heal(run_of(settings))  # a killed run may have moved files of the reviewed one aside
    decisions = gather_decisions(settings)
    check_target(out, settings.data, settings.decisions, overwrite=overwrite)
    decisions = with_origin(decisions, settings)
    digest = source_digest(settings.data)
    check_digest(decisions, digest, settings)
    typed = {name: getattr(settings, name) for name in READ_BY}
    inputs = decisions.inputs | {name: value for name, value in typed.items() if value is not None}
    target, ids, source, task = (inputs.get(name) for name in READ_BY)
    sample_options: dict[str, Any] = {name: inputs.get(name) for name in OF_SAMPLES}
    choices = Choices(target, ids, source, task=task, **sample_options)
    data = original(settings.data, choices, may_link=not settings.copy)
    if inputs.get("log_target"):
        decisions = without_targets(decisions)
    changes = corrections(
        decisions.decisions, data.ids, data.y, data.class_names, data.target_names
    )
    check_some_stay(changes.keep)
    with fill_folder(out) as folder:
        new_ids = data.write(folder, changes.keep, changes.y)
        check_written(folder, data, changes, new_ids, choices)
        log = changelog(decisions, data, changes, new_ids, digest, folder)
        for name, text in log.texts().items():
            (folder / name).write_text(text, encoding="utf-8")
    return summary(data, changes, out, settings)


def gather_decisions(settings: ApplySettings) -> Decisions:
    """Read the decisions; add suggestions and removals of copies where that is asked for."""
    path = settings.decisions
    limit = settings.accept_suggested
    file = path / FILE if path.is_dir() else path
    if limit is None and not settings.drop_copies:
        folder = run_of(settings)
        is_reviewed = file.exists() or files_in(folder)
        if file == folder / FILE and not is_reviewed and (folder / SUMMARY).is_file():
            raise DataError(
                f"{folder} must hold decisions; nobody has reviewed this run yet. Run datassay "
                f"view {shlex.quote(str(folder))}, or add --accept-suggested 0.9."
            )
        return read_reviews(settings)
    fraction("accept-suggested", limit or 0.0, "[]")
    is_reviewed = file.exists() or (path.is_dir() and files_in(path))
    if is_reviewed:
        decisions = read_reviews(settings)
    else:
        decisions = Decisions(())
    run = finished_run(run_of(settings))
    check_columns(run.folder, run.scores, suggestion_columns(run.scores, settings.drop_copies))
    return add_suggestions(decisions, run.scores, limit, drop_copies=settings.drop_copies)


def check_some_stay(keep: np.ndarray) -> None:
    """Raise if no sample stays."""
    if not keep.any():
        raise DataError("decisions must leave some samples; these remove all of them.")


def suggestion_columns(scores: pa.Table, drop_copies: bool) -> list[str]:
    """Return the names of the columns that `add_suggestions` reads from scores.parquet."""
    label_column = "label"
    if "class_name" in scores.column_names:
        label_column = "class_name"
    names = ["id", "wrong_probability", label_column, "suggested_label"]
    if drop_copies:
        names.append("is_copy")
    return names


def add_suggestions(
    decisions: Decisions, scores: pa.Table, limit: float | None, *, drop_copies: bool
) -> Decisions:
    """Add decisions on what nobody decided about: suggested labels, and copies that go.

    Args:
        decisions: that were made.
        scores: the columns of scores.parquet.
        limit: the probability from which a suggestion is taken; None: none is.
        drop_copies: whether samples that repeat another go.

    Returns:
        The decisions, those that were made first.
    """
    names = suggestion_columns(scores, drop_copies)
    decided_ids = {d.id for d in decisions.decisions}
    now = datetime.now(UTC)
    additions = []
    for sample_id, p, y, suggestion, *is_copy in map(dict.values, scores.select(names).to_pylist()):
        if sample_id in decided_ids:
            continue
        if any(is_copy):
            additions.append(Decision(sample_id, REMOVE, _format_label(y), "", now, p))
        elif limit is not None and p >= limit and y != suggestion:
            labels = (_format_label(y), _format_label(suggestion))
            additions.append(Decision(sample_id, RELABEL, *labels, now, p))
    return replace(decisions, decisions=(*decisions.decisions, *additions))


def _mention_unsuggested(settings: ApplySettings) -> list[str]:
    """Return a line with the number of suspects whose suggestion is their own label; [] if 0."""
    columns = ("wrong_probability", "label", "suggested_label")
    p, label, suggestion = (finished_run(run_of(settings)).scores[c].to_numpy() for c in columns)
    limit = max(0.5, settings.accept_suggested or 0.0)
    n = int(((p >= limit) & (label == suggestion)).sum())
    if not n:
        return []
    words = f"{count(n, 'suspected target')} as before: an input looks wrong instead; "
    return [f"{words}suspects.csv says which"]


def _format_label(label: Any) -> str:  # as decisions have it
    """Return a label of the scores as a word, as a file of decisions writes it."""
    if isinstance(label, float):
        return label_word((), label)
    return str(label)


def read_any(path: Path) -> Decisions:
    """Read decisions of datassay, or of Label Studio, which exports a list of tasks."""
    if path.suffix.lower() == ".json" and path.is_file():
        with reading(path), path.open("rb") as file:
            if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                return read_label_studio(path)
    return read_decisions(path)


def read_reviews(settings: ApplySettings) -> Decisions:
    """Read a file of decisions, or those of all reviewers in the folder of a run."""
    path = settings.decisions
    reviews = []
    if path.is_dir():
        reviews = read_all(path)
    if not reviews:
        return read_any(path / FILE if path.is_dir() else path)
    return combine(reviews, majority=settings.majority)


def with_origin(decisions: Decisions, settings: ApplySettings) -> Decisions:
    """Return decisions that say how to read their data: as they do, else as the run beside them."""
    run = run_of(settings)
    if decisions.inputs or not (run / SUMMARY).is_file():
        return decisions
    content = read_summary(run)
    origin = read_entry(content, "origin")
    if not isinstance(origin, dict) or decisions.digest not in {"", origin.get("digest")}:
        return decisions
    return replace(decisions, digest=origin["digest"], inputs=dict(origin["inputs"]))


def run_of(settings: ApplySettings) -> Path:
    """Return the folder named by --decisions, or that holds the file: the reviewed run's."""
    if settings.decisions.is_dir():
        return settings.decisions
    return settings.decisions.parent


def check_digest(decisions: Decisions, digest: str, settings: ApplySettings) -> None:
    """Raise if decisions are about other data, or about labels that no file has."""
    if decisions.digest not in {"", digest}:
        raise DataError(
            f"{settings.decisions} must hold decisions about {settings.data}; they are about other "
            f"data{text_if(decisions.name, f' ({decisions.name})')}, or these were changed since. "
            "Name the data that were reviewed."
        )
    noise = decisions.inputs.get("noise")
    if noise:
        raise DataError(
            f"{settings.decisions} must hold decisions about the labels of {settings.data}; they "
            f"are about a run with --noise {noise:g}, whose flipped labels are in no file. Review "
            "a run without --noise."
        )


def without_targets(decisions: Decisions) -> Decisions:
    """Return decisions whose given targets are blank, as the file has targets before the log."""
    if any(d.decision == RELABEL for d in decisions.decisions):
        raise DataError(
            "decisions of a run with --log-target must give no new targets, which would be "
            "logarithms. Review a run without it, or remove such samples."
        )
    return replace(decisions, decisions=tuple(replace(d, given="") for d in decisions.decisions))


def check_written(
    folder: Path, data: Original, changes: Corrections, ids: np.ndarray, choices: Choices
) -> None:
    """Load the written folder, and raise if labels or ids differ from what was decided."""
    task = "regression"
    if data.class_names:
        task = "classification"
    try:
        reread = original(folder / data.file, replace(choices, task=task))
    except DataError as error:
        raise DataError(f"what the decisions leave must be readable again; {error}") from error
    decided_words = to_words(changes.y[changes.keep], data)
    decided = dict(zip(map(str, ids.tolist()), decided_words, strict=True))
    result = dict(zip(map(str, reread.ids.tolist()), to_words(reread.y, reread), strict=True))
    diff: Any = sorted(decided.items() ^ result.items())[:3]
    if not diff and data.other_columns is not None and reread.other_columns is not None:
        everything = np.ones(len(reread.ids), dtype=bool)
        diff = find_changed_column(
            data.other_columns(changes.keep), reread.other_columns(everything)
        )
    if diff:
        raise DataError(
            f"data that are given back must read as decided; these do not ({diff}). Nothing was "
            "written; please report it."
        )


def to_words(y: np.ndarray, data: Original) -> list[str]:
    """Return labels as decisions have them; of several targets their names, or numbers."""
    if data.target_names:
        return [set_word(data.target_names, values) for values in y]
    if y.ndim > 1:
        return [str(values) for values in y.tolist()]
    return [label_word(data.class_names, label) for label in y.tolist()]


def changelog(
    decisions: Decisions,
    data: Original,
    changes: Corrections,
    ids: np.ndarray,
    digest: str,
    folder: Path,
) -> Changelog:
    """Return the record of an `apply`: decisions, old id → new id, and a digest of each file."""
    new_ids = np.full(len(data.ids), "", dtype=object)
    new_ids[changes.keep] = [str(name) for name in ids.tolist()]
    rows = tuple(
        {
            "id": str(data.ids[index]),
            "decision": d.decision,
            "given": d.given or to_words(data.y[[index]], data)[0],
            "label": d.label,
            "when": d.when.isoformat(),
            "new_id": new_ids[index],
        }
        for index, d in zip(changes.index.tolist(), decisions.decisions, strict=True)
    )
    files = file_digests(folder)
    return Changelog(rows, digest, folder_digest(files), data.is_numbered, files)


def summary(data: Original, changes: Corrections, out: Path, settings: ApplySettings) -> list[str]:
    """Return the lines printed at the end: labels changed, samples removed, where, what is next."""
    changed = np.flatnonzero(changes.is_new & changes.keep)
    n_removed = int((~changes.keep).sum())
    lines = [f"{count(len(changed), 'label')} changed"]
    if data.class_names or data.target_names:
        labels = to_words(data.y[changed], data)
        new_labels = to_words(changes.y[changed], data)
        pairs = Counter(zip(labels, new_labels, strict=True)).most_common()
        lines += [f"  {n:,}  {shortened(a)} → {shortened(b)}" for (a, b), n in pairs[:MOST_PAIRS]]
        if len(pairs) > MOST_PAIRS:
            lines.append(f"  and {len(pairs) - MOST_PAIRS:,} more pairs")
    n_kept = int(changes.keep.sum())
    if settings.accept_suggested is not None and not data.class_names and data.y.ndim == 1:
        lines += _mention_unsuggested(settings)
    lines += [f"{count(n_removed, 'sample')} removed, {n_kept:,} of {len(changes.keep):,} stay"]
    if data.is_numbered and n_removed:
        lines += [f"rows behind a removed one have new numbers; {FILES[0]} says which were removed"]
    lines += [f"with the same rows: {note}" for note in data.notes if n_removed]
    lines.append(str(out / data.file))
    run = run_of(settings)
    if (run / SUMMARY).is_file() and read_entry(read_summary(run), "origin"):
        out_name = next(n for n in ("after", "gain", "measured") if Path(n) not in {out, run})
        command = shlex.join(["datassay", "run", str(out), "--before", str(run), "--out", out_name])
        lines.append(f"Next: {command}")
    return lines


def check_target(out: Path, data: str, decisions: Path, *, overwrite: bool) -> None:
    """Raise, before any work is done, if the data could not go to the folder `out`."""
    if out.name.lower().endswith(suffixes()) and not out.is_dir():
        raise SettingError(
            f"out must name a folder, in which the data have their own name; got {out}. Give "
            f"--out {out.with_suffix('')}."
        )
    check_outputs(out, (Path(data).name,), (data, decisions), (data,))
    real_out = Path(os.path.realpath(out))
    inside = [p for p in (data, decisions) if real_out in Path(os.path.realpath(p)).parents]
    if inside:
        raise SettingError(
            f"out must not replace what is read; {inside[0]} lies in {out}. Choose another folder."
        )
    check_writable(out, ())
    if not out.is_dir() or not any(out.iterdir()):
        return
    try:
        log = read_changelog(out)
    except DataError:
        log = None
    if log is None:
        raise SettingError(
            f"out must be a new folder, or one that datassay apply made; {out} holds something "
            "else. Choose another folder."
        )
    changes = [] if overwrite else list_changes(out, log)
    if changes:
        raise SettingError(
            f"out must not replace data that were changed since datassay apply made them; in {out} "
            f"{' and '.join(changes)}. Choose another folder, or give --overwrite, which removes "
            "all that is there and writes all of the data again."
        )


def list_changes(out: Path, log: Changelog) -> list[str]:
    """Return lines on files missing, changed or new in `out` since apply wrote it."""
    now = file_digests(out)
    before = log.files
    hidden = {path.name for path in out.iterdir() if path.name.startswith(".")} - {".DS_Store"}
    states = {
        "missing": sorted(before.keys() - now.keys()),
        "changed": [name for name in now.keys() & before.keys() if now[name] != before[name]],
        "new": sorted((now.keys() - before.keys()) | hidden),
    }
    lines = []
    for state, names in states.items():
        if len(names) > 3:
            lines.append(f"{len(names):,} files are {state}, such as {shortened(names[0], 99)}")
        elif names:
            verb = inflect(len(names), "is", "are")
            lines.append(f"{shortened(', '.join(names), 99)} {verb} {state}")
    return lines


@contextmanager
def fill_folder(out: Path) -> Iterator[Path]:
    """Yield a folder to fill, which becomes `out` once it is whole."""
    try:
        with whole_folder(Path(os.path.abspath(out))) as folder:
            yield folder
    except OSError as error:
        raise SettingError(
            f"out must be a folder with room for the data; writing to {out} failed: "
            f"{error.strerror or error}. Free space or choose another folder."
        ) from error
