"""The end of a review: corrected data, and the run on them that says what that gained."""

import json
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datassay.act.review.gain import GainRow
from datassay.act.review.reviewers import files_in
from datassay.commands.finished import SUMMARY
from datassay.commands.frame import split_words
from datassay.commands.view.session import Session, require
from datassay.report.tables import gain_cells

IDLE, RUNNING, DONE, FAILED = "idle", "running", "done", "failed"
LONGEST = 2000  # characters of a message that a page shows
INHERITED = ("--model", "--weights", "--budget", "--seed")  # of the run that was reviewed


@dataclass
class _State:
    """How far the corrected data and the run on them are, as the page shows it."""

    state: str = IDLE
    stage: str = ""
    seconds: float = 0.0
    message: str = ""
    result: dict[str, Any] = field(default_factory=dict)


class Finish:
    """Writes the corrected data and runs on them, by the commands that anybody can type.

    They are processes of their own: a run takes all cores for minutes, and the review goes on.
    """

    def __init__(self, session: Session, data: str, command: str):
        self.session = session
        folder = session.path.parent.resolve()
        self.clean = folder.with_name(f"{folder.name}-corrected")
        self.after = folder.with_name(f"{folder.name}-after")
        self._data = data
        if Path(data).is_absolute():
            self._data = _make_relative(Path(data))
        self._command = split_words(command)
        self._state = _State()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_stopped = False
        self._n_decided = 0  # when it was started

    @property
    def has_file(self) -> bool:
        """Whether the labels stand in a file that can be corrected, not flipped on purpose."""
        return "--noise" not in self._command

    def lines(self, *, majority: bool = False) -> list[str]:
        """Return the command lines of `apply` and `run --before`; [] if labels are in no file."""
        if not self.has_file:
            return []
        return [shlex.join(["datassay", *words]) for words in self._compose_commands(majority)]

    def _compose_commands(self, majority: bool) -> list[list[str]]:
        """Return the words of two commands: `apply`, and `run --before` on what it writes."""
        path = self.session.path
        if files_in(path.parent) in ([path], []):
            decisions = path
        else:
            decisions = path.parent
        folder, clean, new_run = map(_make_relative, (path.parent, self.clean, self.after))
        words = self._command
        run_options = list[str]()
        for name in INHERITED:
            if name in words:
                run_options += [name, words[words.index(name) + 1]]
        apply_options = ["--majority"] if majority else []
        return [
            ["apply", self._data, _make_relative(decisions), *apply_options, "--out", clean],
            ["run", clean, "--before", folder, *run_options, "--out", new_run],
        ]

    def start(self, *, majority: bool = False) -> dict[str, Any]:
        """Start `apply` and `run --before` in a thread; return the state, as `state` does."""
        with self._lock:
            require(self._state.state != RUNNING, 409, "The comparison is already running.")
            require(len(self.session), 400, "Nothing was decided yet.")
            require(self.has_file, 400, "Labels flipped by --noise stand in no file to correct.")
            self._state = _State(RUNNING, "Writing the corrected data")
        self._n_decided = self.session.finish()
        threading.Thread(target=self._run, args=(majority,), daemon=True).start()
        return self.state()

    def state(self) -> dict[str, Any]:
        """Return how far it is, and at the end the result."""
        with self._lock:
            return dict(vars(self._state))

    def stop(self) -> None:
        """Stop what is running."""
        self._is_stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def _run(self, majority: bool) -> None:
        """Run both commands, and read the result off the new run's summary."""
        started = time.monotonic()
        for words in self._compose_commands(majority):
            output = self._follow(words, started)
            if output is not None:
                return self._set(state=FAILED, message=output[-LONGEST:])
        try:
            summary = json.loads((self.after / SUMMARY).read_text(encoding="utf-8"))
            card = summary["advice"][0]
            result = {
                "decided": self._n_decided,
                "verdict": summary["verdict"],
                "headline": card["headline"],
                "sentence": card["sentence"],
                "rows": _tabulate_comparison(summary["before"]),
                "clean": _make_relative(self.clean),
                "page": _make_relative(self.after / "index.html"),
            }
        except (OSError, ValueError, LookupError) as error:
            return self._set(state=FAILED, message=f"The run wrote no result: {error!r}"[:LONGEST])
        self._set(state=DONE, result=result, seconds=time.monotonic() - started)

    def _follow(self, words: list[str], started: float) -> str | None:
        """Run a command, its last line shown as stage; return its output if it failed, or None."""
        call = [sys.executable, "-m", "datassay", *words]
        lines: list[str] = []
        with subprocess.Popen(
            call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
            errors="replace",
        ) as process:  # fmt: skip
            self._process = process
            if self._is_stopped:
                process.terminate()
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if words[0] == "run" and line.strip():
                    self._set(stage=line.strip()[:200], seconds=time.monotonic() - started)
        if process.returncode:
            return "".join(lines).strip()
        return None

    def _set(self, **changes: Any) -> None:
        with self._lock:
            for name, value in changes.items():
                setattr(self._state, name, value)


def _tabulate_comparison(comparison: dict[str, Any]) -> list[list[str]]:
    """Return rows (what, before, now, change, interval) in words: score, then suspects."""
    gain = comparison["gain"]
    rows = []
    for row in [] if gain is None else gain["rows"][:1]:
        name = f"{gain['metric']}, by {row['n']:,} held-out {row['by']}"
        rows.append([name, *gain_cells(GainRow(**row), gain["metric"])])
    for name, key in (("training samples", "n"), ("suspected labels", "suspects")):
        n, n_now = comparison[key]
        if key == "n" and n == n_now:
            continue
        rows.append([name, f"{n:,}", f"{n_now:,}", f"{n_now - n:+,}".replace("-", "−"), ""])
    return rows


def _make_relative(path: Path) -> str:
    """Return a path as it can be typed here, without the current folder in front."""
    absolute = path.absolute()
    folder = Path.cwd()
    if absolute.is_relative_to(folder):
        return str(absolute.relative_to(folder))
    return str(absolute)
