"""A review: the samples of a run, and the decisions, saved whenever one is made."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from datassay.act.review.decisions import (
    KINDS,
    RELABEL,
    Decision,
    Decisions,
    journal_line,
    label_word,
    read_decisions,
    read_set,
)
from datassay.act.review.judged import Judged
from datassay.act.review.remaining import BATCH, Remaining, probe, remaining_after
from datassay.act.review.reviewers import NOBODY, file_of, files_in, opinion
from datassay.data.tables.numerals import number_of
from datassay.data.targets import shorten
from datassay.errors import DataError
from datassay.optional import text_if
from datassay.report.review.labels import Reviewed, listing
from datassay.report.review.showcase import Showcase
from datassay.store.atomic import hold_lock, write_whole
from datassay.store.journal import add, journal_of, state

LARGE, SMALL = 640, 160  # pixels of pictures
MOST_CHANGES = 1000
# If the share of wrong labels has a wider interval, a few random samples are reviewed first; not in
# sets smaller than LEAST_SAMPLES.
WIDE, LEAST_SAMPLES = 0.05, 4 * BATCH


class Refused(Exception):
    """The refusal of a request, with its HTTP status."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def require(holds: Any, status: int, why: str) -> None:
    """Raise Refused with an HTTP status and a reason unless a condition holds."""
    if not holds:
        raise Refused(status, why)


class Session:
    """The state of a review; safe to be used by several threads."""

    def __init__(self, reviewed: Reviewed, judged: Judged, folder: Path, reviewer: str = ""):
        self.reviewed = reviewed
        self.path = folder / file_of(reviewer)
        self.reviewer = reviewer
        self._judged = judged
        self._lock = threading.Lock()
        self._showcase = Showcase(reviewed)
        self._decisions: dict[int, Decision] = {}
        self._changed: list[int] = []  # rows, by every change since the start
        self._learnt: tuple[list[tuple[int, Decision]], Remaining] | None = None
        self._listing = listing(reviewed, np.arange(len(reviewed.samples)))
        low, high = judged.share
        self.probe = []
        if high - low > WIDE and len(judged) >= LEAST_SAMPLES:
            self.probe = probe(judged).tolist()
        with hold_lock(folder):
            self._state = state(self.path)
            if self.path.exists():
                self._decisions = self._index_decisions(read_decisions(self.path))
        self.unwritable = _find_obstacle(folder)
        if not self.unwritable:
            # Of a server that was killed.
            for part_file in folder.glob(f".{self.path.name}.*.part"):
                if part_file.is_file():
                    part_file.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._decisions)

    def samples(self) -> dict[str, Any]:
        """Return all samples, and the decisions so far."""
        with self._lock:
            decisions = [_to_json(row, decision) for row, decision in self._decisions.items()]
            version = len(self._changed)
        header = {"writable": not self.unwritable, "file": self.path.name, "batch": BATCH}
        header |= {"reviewer": self.reviewer, "version": version, "others": self.read_others()}
        return self._listing | header | {"decisions": decisions, "probe": self.probe}

    def changes_since(self, version: int) -> dict[str, Any]:
        """Return decisions made since a version (a count of changes), in any browser window."""
        with self._lock:
            rows = dict.fromkeys(self._changed[version:])
            decisions = [_to_json(row, self._decisions.get(row)) for row in rows]
            return {"version": len(self._changed), "decisions": decisions}

    def read_others(self) -> dict[int, list[str]]:
        """Return what other reviewers of the run decided about each row, in words."""
        by_row: dict[int, list[str]] = {}
        for path in files_in(self.path.parent):
            if path == self.path:
                continue
            for row, d in self._index_decisions(read_decisions(path), path).items():
                by_row.setdefault(row, []).append(f"{d.reviewer or NOBODY} {opinion(d)}")
        return by_row

    def pictures(self, rows: list[int]) -> list[dict[str, Any]]:
        """Return samples drawn small."""
        return self._showcase.pictures(self._check_rows(rows), SMALL)

    def details(self, rows: list[int]) -> list[dict[str, Any]]:
        """Return samples drawn large, with those most like them."""
        return self._showcase.details(self._check_rows(rows), LARGE, SMALL)

    def change(self, changes: Any) -> dict[str, Any]:
        """Add, replace or withdraw decisions and save them; return how many there are now."""
        fits = isinstance(changes, list) and 0 < len(changes) <= MOST_CHANGES
        require(fits, 400, f"changes must be a list of 1 to {MOST_CHANGES}.")
        edits = [self._read_change(change) for change in changes]
        with self._lock, self._writing():
            decisions = dict(self._decisions)
            for row, decision in edits:
                decisions.pop(row, None)  # a new one comes last
                if decision is not None:
                    decisions[row] = decision
            if self.path.exists():
                add(
                    self.path,
                    journal_line((self._sample_id(row), decision) for row, decision in edits),
                )
            else:
                self._write(decisions)
            self._decisions = decisions
            self._changed += [row for row, _ in edits]
            return {"count": len(decisions)}

    def remaining(self) -> dict[str, Any]:
        """Return the parts of the page that decisions change: suspicion, order, labels left."""
        # learned: decisions that the order knows. finds: suspect rows that the run's list lacks.
        with self._lock:
            decisions = dict(self._decisions)
        reviewed = self.reviewed
        samples = reviewed.samples
        # The order follows whole batches of decisions, so that coming back finds it as it was left;
        # how many labels are wrong follows every decision.
        n_learnt = len(decisions) // BATCH * BATCH
        learnt = self._fit_to_decisions(decisions, n_learnt)
        current = learnt
        if len(decisions) > n_learnt:
            current = self._fit_to_decisions(decisions, len(decisions))
        chance = learnt.probability  # [n], that the label is wrong
        is_open = np.ones(len(chance), bool)
        is_open[list(decisions)] = False
        order = learnt.order[is_open[learnt.order]]
        suggested = reviewed.suggested
        is_suspect = np.zeros(len(chance), bool)  # by what was learnt
        if learnt.learns and samples.is_classification and n_learnt:
            by_chance = order[np.argsort(-chance[order], kind="stable")]
            is_suspect = is_open & (chance > 0.5)
            is_suspect[by_chance[: round(learnt.errors_left)]] = True
            # Open samples get new suggestions: another label if suspected, else the given one.
            is_relabelled = is_suspect | (is_open & reviewed.worth_a_look)
            open_labels = np.where(is_relabelled, learnt.suggested, samples.y)
            suggested = np.where(is_open, open_labels, suggested)
        updated = replace(
            reviewed,
            suggested=suggested,
            probability=np.where(is_open & learnt.learns, chance, reviewed.probability),
        )
        self._showcase = self._showcase.with_suggestions(updated)
        all_columns = listing(updated, np.arange(len(chance)))
        columns = {name: all_columns[name] for name in ("wrong", "suggested")}
        is_new = is_suspect & ~reviewed.worth_a_look
        return columns | {
            "order": [*order.tolist(), *decisions],
            "learned": n_learnt,
            "finds": np.flatnonzero(is_new).tolist(),
            "sentence": current.sentence,
            "outcome": current.outcome,
            "enough": current.can_stop,
        }

    def _fit_to_decisions(self, decisions: dict[int, Decision], n: int) -> Remaining:
        """Return scores fitted to the first n decisions; kept from the last call if the same."""
        pairs = list(decisions.items())[:n]
        if self._learnt is not None and self._learnt[0] == pairs:
            return self._learnt[1]
        result = remaining_after(self._judged, decisions, self.reviewed.samples, n)
        if n % BATCH == 0:
            self._learnt = pairs, result
        return result

    def finish(self) -> int:
        """Write the file anew with what its journal has; return the number of decisions."""
        with self._lock, suppress(Refused):  # a journal that stays is read with the file
            if journal_of(self.path).exists():
                with self._writing():
                    self._write(self._decisions)
        return len(self._decisions)

    def _check_rows(self, rows: list[Any]) -> np.ndarray:
        """Return row numbers as an array; raise Refused where one is none."""
        for row in rows:
            is_row = type(row) is int and 0 <= row < len(self.reviewed.samples)
            require(is_row, 404, "There is no such sample.")
        return np.array(rows, np.int64)

    def _read_change(self, change: Any) -> tuple[int, Decision | None]:
        """Return a change's row and its decision, None if it is taken back; raise Refused."""
        require(isinstance(change, dict), 400, "A change must be an object.")
        row = change.get("row")
        kind = change.get("decision")
        self._check_rows([row])
        if kind is None:
            return row, None
        require(kind in KINDS, 400, f"A decision must be one of {', '.join(KINDS)}.")
        label = ""
        if kind == RELABEL:
            label = self._check_label(change.get("label"))
        score = change.get("seen")
        if isinstance(score, int | float) and 0 <= score <= 1:
            score = float(score)
        else:
            score = None
        try:
            when = datetime.fromisoformat(change["when"]).astimezone(UTC)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise Refused(400, "when must be a time in ISO 8601.") from error
        word = self._word_given(row)
        return row, Decision(self._sample_id(row), kind, word, label, when, score, self.reviewer)

    def _sample_id(self, row: int) -> Any:
        """Return a row's id as a Python value."""
        sample_id = self.reviewed.samples.ids[row]
        if hasattr(sample_id, "item"):
            return sample_id.item()
        return sample_id

    def _check_label(self, label: Any) -> str:
        """Return a new label as a word; raise Refused if it is no class or number."""
        names = self.reviewed.samples.class_names
        require(self.reviewed.relabels, 400, "These samples cannot be given another label here.")
        if names:
            require(label in names, 400, "A new label must be a class of the data.")
            return str(label)
        if self.reviewed.relabels == "set":
            is_set = read_set(self.reviewed.samples.target_names, str(label)) is not None
            require(is_set, 400, "New labels must be targets of the data, joined by ' + '.")
            return str(label)
        try:
            return label_word((), number_of(label))
        except ValueError as error:
            raise Refused(400, f"A new target must be a number: {error}.") from error

    def _word_given(self, row: int) -> str:
        """Return the given label of a row as a word."""
        names = self.reviewed.samples.class_names
        label = self._listing["given"][row]
        if names:
            return names[label]
        return str(label)

    def _index_decisions(
        self, decisions: Decisions, path: Path | None = None
    ) -> dict[int, Decision]:
        """Return the decisions of a file by row; raise if they are about other data or labels."""
        path = path or self.path
        if decisions.digest != self.reviewed.digest:
            raise DataError(
                f"{path} must be about the data of this run; it is about other data"
                f"{text_if(decisions.name, f', {decisions.name}')}. Move it to another folder."
            )
        ids = self.reviewed.samples.ids.tolist()
        names = self.reviewed.samples.class_names
        row_of_id = {name: row for row, name in enumerate(ids)}
        labels = {"", *names}
        words = [self._word_given(row) for row in range(len(ids))]
        for d in decisions.decisions:
            if names and d.label not in labels:
                raise DataError(
                    f"{path} must name classes of the data, {shorten(names)}; its id {d.id} "
                    f"has the new label {d.label!r}. Correct that row."
                )
            if d.id not in row_of_id or d.given != words[row_of_id[d.id]]:
                problem = "is not among its samples"
                if d.id in row_of_id:
                    problem = "has another label"
                raise DataError(
                    f"{path} must be about the labels of this run; its id {d.id} {problem}. "
                    "Move it to another folder."
                )
        return {row_of_id[d.id]: d for d in decisions.decisions}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Lock the folder, and raise Refused if another program changed the file since."""
        with hold_lock(self.path.parent):
            is_ours = not self.path.exists() or state(self.path) == self._state
            require(
                is_ours, 409,
                f"another program has written {self.path.name} since; download the decisions, then "
                "start datassay view again.",
            )  # fmt: skip
            try:
                yield
            except OSError as error:
                why = error.strerror or error
                raise Refused(507, f"{self.path} cannot be written: {why}.") from error
            finally:  # a journal begun or cut short by what failed is ours as well
                self._state = state(self.path)

    def _write(self, decisions: dict[int, Decision]) -> None:
        """Write a new file of decisions, replace the old one by it, and delete the journal."""
        reviewed = self.reviewed
        content = Decisions(
            tuple(decisions.values()), reviewed.digest, reviewed.samples.name,
            reviewed.samples.class_names, dict(reviewed.inputs),
        )  # fmt: skip
        if not self.path.exists():  # a journal without its file tells nobody anything
            journal_of(self.path).unlink(missing_ok=True)
        write_whole(self.path, partial(pq.write_table, content.to_table()))
        journal_of(self.path).unlink(missing_ok=True)


def _to_json(row: int, decision: Decision | None) -> dict[str, Any]:
    """Return a decision as the page has it; of one that was taken back only the row."""
    if decision is None:
        return {"row": row, "decision": None}
    return {
        "row": row,
        "decision": decision.decision,
        "label": decision.label,
        "when": decision.when.isoformat(),
        "seen": decision.seen_score,
    }


def _find_obstacle(folder: Path) -> str:
    """Return why no file can be written in a folder, by trying; "" if one can."""
    try:  # trying is the only honest test
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)
