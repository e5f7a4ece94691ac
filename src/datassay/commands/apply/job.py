"""The job of `datassay apply`: decisions → labels → the same kind of data, all of it or none."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from datassay.act.review.corrections import Corrections, corrections
from datassay.act.review.decisions import (
    FILE,
    RELABEL,
    REMOVE,
    Decision,
    Decisions,
    label_word,
    read_decisions,
)
from datassay.act.review.label_studio import read_label_studio
from datassay.commands.apply.command import ApplySettings
from datassay.commands.finished import SUMMARY, check_columns, finished_run, read_summary
from datassay.data.back.origin import source_digest
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
from datassay.report.wording import count, shortened
from datassay.rules import fraction
from datassay.store.atomic import whole_folder
from datassay.store.outputs import check_outputs, check_writable

READ_BY = ("target", "ids", "source", "task")
MOST_PAIRS = 20


def run(settings: ApplySettings, out: Path, *, overwrite: bool = False) -> list[str]:
    """Write the data as decided, and say in lines what was done."""
    decisions = decided(settings)
    check_target(out, settings.data, settings.decisions, overwrite=overwrite)
    decisions = with_origin(decisions, settings)
    digest = source_digest(settings.data)
    check_digest(decisions, digest, settings)
    inputs = decisions.inputs | {
        name: value for name in READ_BY if (value := getattr(settings, name)) is not None
    }
    target, ids, source, task = (inputs.get(name) for name in READ_BY)
    asides: dict[str, Any] = {name: inputs.get(name) for name in OF_SAMPLES}
    chosen = Choices(target, ids, source, task=task, **asides)
    given = original(settings.data, chosen, link=not settings.copy)
    if inputs.get("log_target"):
        decisions = without_targets(decisions)
    changes = corrections(decisions.decisions, given.ids, given.y, given.class_names)
    if not changes.keep.any():
        raise DataError("decisions must leave some samples; these remove all of them.")
    with placed(out) as folder:
        after = given.write(folder, changes.keep, changes.y)
        check_written(folder, given, changes, after, chosen)
        log = changelog(decisions, given, changes, after, (digest, source_digest(folder)))
        for name, text in log.texts().items():
            (folder / name).write_text(text, encoding="utf-8")
    return summary(given, changes, out, settings)


def decided(settings: ApplySettings) -> Decisions:
    """What a file or a run's folder holds, with the suggestions and removals that are asked for."""
    given, least = settings.decisions, settings.accept_suggested
    file = given / FILE if given.is_dir() else given
    if least is None and not settings.drop_copies:
        return read_any(file)
    fraction("accept-suggested", least or 0.0, "[]")
    made = read_any(file) if file.exists() else Decisions(())
    run = finished_run(run_of(settings))
    scores = run.scores
    seen = "class_name" if "class_name" in scores.column_names else "label"
    names = ["id", "wrong_probability", seen, "suggested_label"]
    names += ["is_copy"] * settings.drop_copies
    check_columns(run.folder, scores, names)
    known, now, further = {one.id for one in made.decisions}, datetime.now(UTC), []
    for name, p, y, new, *is_copy in map(dict.values, scores.select(names).to_pylist()):
        if name not in known and any(is_copy):
            further.append(Decision(name, REMOVE, _word(y), "", now, p))
        elif name not in known and least is not None and p >= least and y != new:
            further.append(Decision(name, RELABEL, _word(y), _word(new), now, p))
    return replace(made, decisions=(*made.decisions, *further))


def _unsuggested(settings: ApplySettings) -> list[str]:
    """Return a line on targets that are as wrong as accepted ones, and have no other value."""
    columns = ("wrong_probability", "label", "suggested_label")
    p, label, new = (finished_run(run_of(settings)).scores[c].to_numpy() for c in columns)
    n = int(((p >= max(0.5, settings.accept_suggested or 0.0)) & (label == new)).sum())
    words = f"{count(n, 'suspected target')} as before: an input looks wrong instead; "
    return [f"{words}suspects.csv says which"] * bool(n)


def _word(label: Any) -> str:
    return label_word((), label) if isinstance(label, float) else str(label)


def read_any(path: Path) -> Decisions:
    """Decisions of ours or of Label Studio, which exports a list of tasks."""
    if path.suffix.lower() == ".json" and path.is_file():
        with reading(path), path.open("rb") as file:
            if file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                return read_label_studio(path)
    return read_decisions(path)


def with_origin(decisions: Decisions, settings: ApplySettings) -> Decisions:
    """Decisions that know how their data were read: as they say, or by the run beside them."""
    run = run_of(settings)
    if decisions.inputs or not (run / SUMMARY).is_file():
        return decisions
    whole = read_summary(run)
    origin = whole.get("origin") if isinstance(whole, dict) else None
    if not isinstance(origin, dict) or decisions.digest not in {"", origin.get("digest")}:
        return decisions
    return replace(decisions, digest=origin["digest"], inputs=dict(origin["inputs"]))


def run_of(settings: ApplySettings) -> Path:
    """The folder that may hold the run that was reviewed."""
    return settings.decisions if settings.decisions.is_dir() else settings.decisions.parent


def check_digest(decisions: Decisions, digest: str, settings: ApplySettings) -> None:
    """Refuse decisions about other data, and about labels that no file has."""
    if decisions.digest not in {"", digest}:
        raise DataError(
            f"{settings.decisions} must hold decisions about {settings.data}; they are about other "
            f"data{f' ({decisions.name})' if decisions.name else ''}, or these were changed since. "
            "Name the data that were reviewed."
        )
    if noise := decisions.inputs.get("noise"):
        raise DataError(
            f"{settings.decisions} must hold decisions about the labels of {settings.data}; they "
            f"are about a run with --noise {noise:g}, whose flipped labels are in no file. Review "
            "a run without --noise."
        )


def without_targets(decisions: Decisions) -> Decisions:
    """Decisions about logarithms of targets: none can be given another."""
    if any(d.decision == RELABEL for d in decisions.decisions):
        raise DataError(
            "decisions of a run with --log-target must give no new targets, which would be "
            "logarithms. Review a run without it, or remove such samples."
        )
    return replace(decisions, decisions=tuple(replace(d, given="") for d in decisions.decisions))


def check_written(
    folder: Path, given: Original, changes: Corrections, ids: np.ndarray, chosen: Choices
) -> None:
    """Read what was written again: it must be what was decided."""
    task = "classification" if given.class_names else "regression"
    try:
        again = original(folder / given.file if given.file else folder, replace(chosen, task=task))
    except DataError as error:
        raise DataError(f"what the decisions leave must be readable again; {error}") from error
    before = dict(zip(map(str, ids.tolist()), words(changes.y[changes.keep], given), strict=True))
    after = dict(zip(map(str, again.ids.tolist()), words(again.y, again), strict=True))
    wrong: Any = sorted(before.items() ^ after.items())[:3]
    if not wrong and given.other_columns is not None and again.other_columns is not None:
        everything = np.ones(len(again.ids), dtype=bool)
        wrong = find_changed_column(
            given.other_columns(changes.keep), again.other_columns(everything)
        )
    if wrong:
        raise DataError(
            f"data that are given back must read as decided; these do not ({wrong}). Nothing was "
            "written; please report it."
        )


def words(y: np.ndarray, of: Original) -> list[str]:
    """Labels as decisions have them; of several targets their numbers."""
    if y.ndim > 1:
        return [str(one) for one in y.tolist()]
    return [label_word(of.class_names, one) for one in y.tolist()]


def changelog(
    decisions: Decisions,
    given: Original,
    changes: Corrections,
    ids: np.ndarray,
    digests: tuple[str, str],
) -> Changelog:
    """What was decided, with the ids before and after."""
    after = np.full(len(given.ids), "", dtype=object)
    after[changes.keep] = [str(name) for name in ids.tolist()]
    rows = tuple(
        {
            "id": str(given.ids[index]),
            "decision": d.decision,
            "given": d.given or words(given.y[[index]], given)[0],
            "label": d.label,
            "when": d.when.isoformat(),
            "new_id": after[index],
        }
        for index, d in zip(changes.index.tolist(), decisions.decisions, strict=True)
    )
    return Changelog(rows, *digests, given.is_numbered)


def summary(given: Original, changes: Corrections, out: Path, settings: ApplySettings) -> list[str]:
    """What was done, in lines."""
    changed, n_removed = np.flatnonzero(changes.is_new & changes.keep), int((~changes.keep).sum())
    lines = [f"{count(len(changed), 'label')} changed"]
    if given.class_names:
        old, new = words(given.y[changed], given), words(changes.y[changed], given)
        pairs = Counter(zip(old, new, strict=True)).most_common()
        lines += [f"  {n:,}  {shortened(a)} → {shortened(b)}" for (a, b), n in pairs[:MOST_PAIRS]]
        lines += [f"  and {len(pairs) - MOST_PAIRS:,} more pairs"] * (len(pairs) > MOST_PAIRS)
    stay = int(changes.keep.sum())
    if settings.accept_suggested is not None and not given.class_names and given.y.ndim == 1:
        lines += _unsuggested(settings)
    lines += [f"{count(n_removed, 'sample')} removed, {stay:,} of {len(changes.keep):,} stay"]
    if given.is_numbered and n_removed:
        lines += [f"rows behind a removed one have new numbers; {FILES[0]} says which were removed"]
    lines += [f"with the same rows: {note}" for note in given.notes if n_removed]
    where = out / given.file if given.file else out
    run = run_of(settings)
    again = f"datassay run {out} --before {run}" if (run / SUMMARY).is_file() else ""
    return [*lines, str(where), *([f"what that gains: {again}"] if again else [])]


def check_target(out: Path, data: str, decisions: Path, *, overwrite: bool) -> None:
    """Refuse, before any work is done, a folder that the data could not go to."""
    if out.name.lower().endswith(suffixes()) and not out.is_dir():
        raise SettingError(
            f"out must name a folder, in which the data have their own name; got {out}. Give "
            f"--out {out.with_suffix('')}."
        )
    check_outputs(out, (Path(data).name,), (data, decisions), (data,))
    real = Path(os.path.realpath(out))
    if lost := [p for p in (data, decisions) if real in Path(os.path.realpath(p)).parents]:
        raise SettingError(
            f"out must not replace what is read; {lost[0]} lies in {out}. Choose another folder."
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
    if not overwrite and source_digest(out) != log.digest_after:
        raise SettingError(
            f"out must not replace data that were changed since datassay apply made them; {out} "
            "holds such. Choose another folder, or give --overwrite."
        )


@contextmanager
def placed(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` once it is whole."""
    try:
        with whole_folder(Path(os.path.abspath(out))) as folder:
            yield folder
    except OSError as error:
        raise SettingError(
            f"out must be a folder with room for the data; writing to {out} failed: "
            f"{error.strerror or error}. Free space or choose another folder."
        ) from error
