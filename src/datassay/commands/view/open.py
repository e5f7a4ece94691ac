"""The review of a finished run, ready to be served."""

from pathlib import Path

import numpy as np

from datassay.act.review.judged import FILE, Judged, read_judged
from datassay.commands.command import PAGE
from datassay.commands.finished import FinishedRun, check_columns, finished_run, index_rows, sets_of
from datassay.commands.view.finish import Finish
from datassay.commands.view.server import ReviewServer, ServedPage
from datassay.commands.view.session import Session
from datassay.data.samples import SampleSet
from datassay.data.source import reading
from datassay.data.targets import as_given
from datassay.errors import DataError
from datassay.report.review.labels import Reviewed, near_duplicates_of

COLUMNS = (
    "id", "suggested_label", "is_issue", "worth_a_look", "label_issue_score", "wrong_probability",
)  # fmt: skip


def open_review(
    folder: Path, data: str | None = None, port: int = 0, reviewer: str = ""
) -> ReviewServer:
    """Return the server of a run's review, its data now at `data`; it does not serve yet."""
    run = finished_run(folder)
    path = run.folder / PAGE
    with reading(path):
        page = ServedPage(path.read_text(encoding="utf-8"), str(path))
    session = Session(*reviewed_run(run, data), run.folder, reviewer)
    source = str(data or session.reviewed.inputs["data"])
    finish = Finish(session, source, run.summary["facts"].get("Command", ""))
    return ReviewServer(session, page, port, finish)


def reviewed_run(run: FinishedRun, data: str | None) -> tuple[Reviewed, Judged]:
    """Return a run's samples, read now from `data`, and its predictions of their labels."""
    check_columns(run.folder, run.scores, COLUMNS)
    judged = read_judged(run.folder / FILE)
    samples, _ = sets_of(run, data, encode=index_rows)
    if run.scores["id"].to_pylist() != samples.ids.tolist() or len(judged) != len(samples):
        raise DataError(
            f"{run.folder} must hold the scores of its data, one row per sample; the ids differ. "
            "Run again."
        )
    issues = run.summary.get("data_issues") or {}
    near_duplicates = [p for p in issues.get("near_duplicates", ()) if not any(p["in_validation"])]
    pairs = [(str(p["ids"][0]), str(p["ids"][1])) for p in near_duplicates]
    group = np.full(len(samples), -1)
    if "duplicate_group" in run.scores.column_names:
        group = run.scores["duplicate_group"].fill_null(-1).to_numpy()
    return Reviewed(
        samples=samples,
        suggested=_decode_suggestions(samples, run.scores["suggested_label"].to_pylist()),
        probability=run.scores["wrong_probability"].to_numpy(),
        score=run.scores["label_issue_score"].to_numpy(),
        is_issue=np.array(run.scores["is_issue"].to_pylist(), bool),
        worth_a_look=np.array(run.scores["worth_a_look"].to_pylist(), bool),
        digest=run.digest,
        coordinates=judged.coordinates,
        inputs=run.summary["origin"]["inputs"],
        near_duplicates=near_duplicates_of(samples.ids, group, pairs),
    ), judged


def _decode_suggestions(samples: SampleSet, values: list) -> np.ndarray:
    """Return suggested labels as y has them: targets, or indices of classes."""
    if not samples.is_classification:
        return np.array(values, float)
    names = as_given(np.arange(samples.n_classes), samples.class_names, samples.label_type)
    index = {name: i for i, name in enumerate(names.to_pylist())}
    unknown = [value for value in values if value not in index]
    if unknown:
        raise DataError(f"scores.parquet suggests the class {unknown[0]!r}, which is none.")
    return np.array([index[value] for value in values], np.int64)
