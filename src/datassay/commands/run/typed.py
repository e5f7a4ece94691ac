"""Command lines about a run's own data, as they can be typed."""

import os
import shlex
from typing import Any

from datassay.act.review.decisions import FILE
from datassay.commands.frame import split_words
from datassay.commands.inputs import MODEL, DataInputs, NoiseInputs
from datassay.setting import default_of, settings_of

# Commands that can flip labels as the run did; others would read other labels.
FLIPS = {"run", "score", "weigh", "purify", "summarize"}
MODELS = {"run", "score", "check", "summarize", "complexity"}  # commands with the model of a run
OUT = {"run": "report", "score": "scores", "check": "check"}  # command → its default folder


class Typed:
    """Command lines on the data of a run; "" where its data cannot be read again.

    Args:
        findings: of the run, or of a purification.
        out: folder of its files; empty: as the command named it.
    """

    def __init__(self, findings: Any, out: str = ""):
        origin = findings.origin
        words = split_words(findings.facts.get("Command", ""))
        default_out = "report"
        if len(words) > 1:
            default_out = {"purify": "purified", **OUT}.get(words[1], "report")
        self.out = out or (words[words.index("--out") + 1] if "--out" in words else default_out)
        model = ""
        if "--model" in words:
            model = words[words.index("--model") + 1]
        self._model = []
        if model and model != MODEL:
            self._model = ["--model", model]
        self.is_known = origin is not None and getattr(findings, "adversarial", None) is None
        self._inputs = {}
        self._noise = 0.0
        if origin is not None:
            self._inputs = origin.inputs
            self._noise = origin.noise
        # A path below the current folder is shown without it.
        self._data = str(self._inputs.get("data")).removeprefix(os.getcwd() + os.sep)

    def line(self, command: str, **options: str) -> str:
        """Return a command on the run's data with these options; `view` is on the run's folder.

        The command may have options of its own, as "weigh --method self_paced".
        """
        command, *own_words = command.split()
        if not self.is_known or (self._noise and command not in {*FLIPS, "view"}):
            return ""
        if command == "view":
            return shlex.join(["datassay", "view", self.out])
        words = ["datassay", command, self._data]
        skipped = {*options, "data"}
        dropped = self._inputs.get("drop")
        if "drop" in options and dropped:
            options["drop"] = f"{dropped},{options['drop']}"
        # Other commands than these must hold samples out.
        holds_nothing_out = self._inputs.get("val_fraction") == 0
        must_hold_out = command not in {*OUT, "summarize"}
        if self._inputs.get("held_out") or (holds_nothing_out and must_hold_out):
            skipped |= {"val_fraction"}
        for cls in (DataInputs, NoiseInputs):
            for name, spec in settings_of(cls).items():
                value = self._inputs.get(name)
                if value in (None, default_of(cls, name)) or name in skipped:
                    continue
                option = spec.flag(name)
                if value is True:
                    words += [option]
                else:
                    words += [option, str(value)]
        words += self._model if command in MODELS else []
        option_words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return shlex.join([*words, *own_words, *option_words])

    def apply(self, *options: str, file: str = "") -> str:
        """Return the command that gives the data back as decided; "" where it cannot be typed.

        Labels that were flipped on purpose are in no file; before a review there are no decisions.
        A file of decisions that is named is about to be written.
        """
        decisions = self.out
        if not options:
            decisions = os.path.join(self.out, file or FILE)
        is_decided = options or file or os.path.exists(decisions)
        if not self.is_known or self._noise or not is_decided:
            return ""
        data = os.path.realpath(self._data)
        clean = os.path.realpath("clean")
        out = "clean"
        if f"{data}/".startswith(f"{clean}/"):  # which is read, and must stay as it is
            out = "cleaned"
        return shlex.join(["datassay", "apply", self._data, decisions, *options, "--out", out])
