"""One review: the samples of a run, and the decisions, saved whenever one is made."""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
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
    FILE,
    KEEP,
    KINDS,
    RELABEL,
    Decision,
    Decisions,
    journal_line,
    label_word,
    read_decisions,
)
from datassay.act.review.judged import Judged
from datassay.act.review.remaining import BATCH, probe, remaining
from datassay.data.tables.numerals import number_of
from datassay.data.targets import shorten
from datassay.errors import DataError
from datassay.report.review.labels import Reviewed, listing
from datassay.report.review.showcase import Showcase
from datassay.store.atomic import hold_lock, write_whole
from datassay.store.journal import add, journal_of, state

LARGE, SMALL = 640, 160  # pixels of pictures
MOST_CHANGES = 1000
# A share of wrong labels known less closely than this is learned first, from LEAST_SAMPLES on.
WIDE, LEAST_SAMPLES = 0.05, 4 * BATCH


class Refused(Exception):
    """A request that cannot be done."""

    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


def require(holds: Any, status: int, why: str) -> None:
    """Refuse a request of which something does not hold."""
    if not holds:
        raise Refused(status, why)


class Session:
    """The state of a review; safe to be used by several threads."""

    def __init__(self, reviewed: Reviewed, judged: Judged, folder: Path):
        self.reviewed, self.path = reviewed, folder / FILE
        self._judged, self._lock = judged, threading.Lock()
        self._showcase = Showcase(reviewed)
        self._decisions: dict[int, Decision] = {}
        self._listed = listing(reviewed, np.arange(len(reviewed.samples)))
        is_wide = judged.share[1] - judged.share[0] > WIDE and len(judged) >= LEAST_SAMPLES
        self.probe = probe(judged).tolist() if is_wide else []
        with hold_lock(folder):
            self._state = state(self.path)
            if self.path.exists():
                self._decisions = self._earlier(read_decisions(self.path))
        self.unwritable = _unwritable(folder)
        if not self.unwritable:
            for left in folder.glob(f".{FILE}.*.part"):  # of a server that was killed
                if left.is_file():
                    left.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self._decisions)

    def samples(self) -> dict[str, Any]:
        """All samples, and the decisions so far."""
        with self._lock:
            made = [
                {"row": row, "decision": one.decision, "label": one.label,
                 "when": one.when.isoformat(), "seen": one.seen_score}
                for row, one in self._decisions.items()
            ]  # fmt: skip
        about = {"writable": not self.unwritable, "file": self.path.name, "batch": BATCH}
        return self._listed | about | {"decisions": made, "probe": self.probe}

    def pictures(self, rows: list[int]) -> list[dict[str, Any]]:
        """Samples drawn small."""
        return self._showcase.pictures(self._known(rows), SMALL)

    def details(self, rows: list[int]) -> list[dict[str, Any]]:
        """Samples drawn large, with those like them."""
        return self._showcase.details(self._known(rows), LARGE, SMALL)

    def change(self, changes: Any) -> dict[str, Any]:
        """Make, replace or take back decisions, and save all of them."""
        fits = isinstance(changes, list) and 0 < len(changes) <= MOST_CHANGES
        require(fits, 400, f"changes must be a list of 1 to {MOST_CHANGES}.")
        made = [self._made(one) for one in changes]
        with self._lock, self._writing():
            after = dict(self._decisions)
            for row, decision in made:
                after.pop(row, None)  # a new one comes last
                if decision is not None:
                    after[row] = decision
            if self.path.exists():
                add(self.path, journal_line((self._id(row), one) for row, one in made))
            else:
                self._write(after)
            self._decisions = after
            return {"count": len(after)}

    def remaining(self) -> dict[str, Any]:
        """What the decisions teach: the order of what is left, and how many errors it holds."""
        with self._lock:
            decided = dict(self._decisions)
        reviewed = self.reviewed
        samples, classes = reviewed.samples, reviewed.samples.is_classification
        batches = len(decided) // BATCH * BATCH  # coming back finds the order as it was left
        times = Counter(one.when for one in decided.values())
        known = {}  # row → true class; of numbers and several labels whether something was wrong
        for row, one in list(decided.items())[:batches]:
            # What was accepted at once nobody has looked at.
            if times[one.when] == 1 and one.decision == KEEP:
                known[row] = int(samples.y[row]) if classes else 0
            elif times[one.when] == 1 and one.decision == RELABEL:
                known[row] = samples.class_names.index(one.label) if classes else 1
        rest = remaining(self._judged, known, [row for row in decided if row not in known])
        chance = rest.probability
        is_open = np.ones(len(chance), bool)
        is_open[list(decided)] = False
        suggested, suspect = reviewed.suggested, reviewed.worth_a_look
        if rest.learns and classes:
            first = rest.order[np.argsort(-chance[rest.order], kind="stable")]
            look = is_open & (chance > 0.5)
            look[first[: round(rest.errors_left)]] = True
            suggested = np.where(look, rest.suggested, np.where(is_open, samples.y, suggested))
            suspect = np.where(is_open, look, suspect)
        now = replace(
            reviewed,
            suggested=suggested,
            probability=np.where(is_open & rest.learns, chance, reviewed.probability),
            worth_a_look=suspect,
        )
        self._showcase = self._showcase.with_suggestions(now)
        listed = listing(now, np.arange(len(chance)))
        order = [*rest.order.tolist(), *decided]
        columns = {name: listed[name] for name in ("wrong", "suggested", "suspect")}
        return columns | {"order": order, "sentence": rest.sentence, "enough": rest.can_stop}

    def finish(self) -> int:
        """Write the file anew with what its journal has; the number of decisions."""
        with self._lock, suppress(Refused):  # a journal that stays is read with the file
            if journal_of(self.path).exists():
                with self._writing():
                    self._write(self._decisions)
        return len(self._decisions)

    def _known(self, rows: list[Any]) -> np.ndarray:
        for row in rows:
            is_one = type(row) is int and 0 <= row < len(self.reviewed.samples)
            require(is_one, 404, "There is no such sample.")
        return np.array(rows, np.int64)

    def _made(self, change: Any) -> tuple[int, Decision | None]:
        require(isinstance(change, dict), 400, "A change must be an object.")
        row, kind = change.get("row"), change.get("decision")
        self._known([row])
        if kind is None:
            return row, None
        require(kind in KINDS, 400, f"A decision must be one of {', '.join(KINDS)}.")
        label = self._label(change.get("label")) if kind == RELABEL else ""
        seen = change.get("seen")
        seen = float(seen) if isinstance(seen, int | float) and 0 <= seen <= 1 else None
        try:
            when = datetime.fromisoformat(change["when"]).astimezone(UTC)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise Refused(400, "when must be a time in ISO 8601.") from error
        return row, Decision(self._id(row), kind, self._word(row), label, when, seen)

    def _id(self, row: int) -> Any:
        one = self.reviewed.samples.ids[row]
        return one.item() if hasattr(one, "item") else one

    def _label(self, label: Any) -> str:
        """A new label that is one."""
        names, can = self.reviewed.samples.class_names, self.reviewed.relabels
        require(can, 400, "These samples cannot be given another label here.")
        if names:
            require(label in names, 400, "A new label must be a class of the data.")
            return str(label)
        try:
            return label_word((), number_of(label))
        except ValueError as error:
            raise Refused(400, f"A new target must be a number: {error}.") from error

    def _word(self, row: int) -> str:
        names, given = self.reviewed.samples.class_names, self._listed["given"][row]
        return names[given] if names else str(given)

    def _earlier(self, decisions: Decisions) -> dict[int, Decision]:
        """Decisions of the folder, by row."""
        if decisions.digest != self.reviewed.digest:
            raise DataError(
                f"{self.path} must be about the data of this run; it is about other data"
                f"{f', {decisions.name}' if decisions.name else ''}. Move it to another folder."
            )
        ids, names = self.reviewed.samples.ids.tolist(), self.reviewed.samples.class_names
        position, known = {one: row for row, one in enumerate(ids)}, {"", *names}
        words = [self._word(row) for row in range(len(ids))]
        for one in decisions.decisions:
            if names and one.label not in known:
                raise DataError(
                    f"{self.path} must name classes of the data, {shorten(names)}; its id {one.id} "
                    f"has the new label {one.label!r}. Correct that row."
                )
            if one.id not in position or one.given != words[position[one.id]]:
                what = "has another label" if one.id in position else "is not among its samples"
                raise DataError(
                    f"{self.path} must be about the labels of this run; its id {one.id} {what}. "
                    "Move it to another folder."
                )
        return {position[one.id]: one for one in decisions.decisions}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One lock around the check that the files are as we left them and what changes them."""
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

    def _write(self, made: dict[int, Decision]) -> None:
        """The whole file beside itself, which then replaces that, and no journal any more."""
        reviewed = self.reviewed
        whole = Decisions(
            tuple(made.values()), reviewed.digest, reviewed.samples.name,
            reviewed.samples.class_names, dict(reviewed.inputs),
        )  # fmt: skip
        if not self.path.exists():  # a journal without its file tells nobody anything
            journal_of(self.path).unlink(missing_ok=True)
        write_whole(self.path, partial(pq.write_table, whole.to_table()))
        journal_of(self.path).unlink(missing_ok=True)


def _unwritable(folder: Path) -> str:
    """Why no file can be written there; empty where one can."""
    try:  # trying is the only honest test
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)
