"""Command lines about a run's own data, as they can be typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from datassay.commands.inputs import DataInputs, NoiseInputs
from datassay.commands.run.findings import Findings
from datassay.setting import default_of, settings_of

# Commands that can flip labels as the run did; others would read other labels.
FLIPS = {"run", "score", "weigh", "purify", "summarize"}
OUT = {"run": "report", "score": "scores"}


class Typed:
    """Command lines on the data of a run; empty where they cannot be read again.

    Args:
        findings: of the run.
        out: folder of its files; empty: as the command named it.
    """

    def __init__(self, findings: Findings, out: str = ""):
        self._inputs = None if findings.origin is None else findings.origin.inputs
        self._noise = 0.0 if findings.origin is None else findings.origin.noise
        self._is_spoiled = findings.adversarial is not None
        self.is_known = self._inputs is not None
        self.out = out or _named(shlex.split(findings.facts.get("Command", "")))

    def line(self, command: str, **options: str) -> str:
        """A command on the run's data with these options; of `view` on the run's folder."""
        if self._inputs is None or self._is_spoiled:
            return ""
        if command == "view":
            return shlex.join(["datassay", "view", self.out])
        if self._noise and command not in FLIPS:
            return ""
        words = ["datassay", command, _shown(str(self._inputs["data"]))]
        words += _options(self._inputs, {*options, "data", "data_option"})
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", value]
        return shlex.join(words)

    def apply(self) -> str:
        """The command that gives the data back as decided; of flipped labels there is none."""
        if self._inputs is None or self._is_spoiled or self._noise:
            return ""
        data = _shown(str(self._inputs["data"]))
        decisions = os.path.join(self.out, "decisions.parquet")
        return shlex.join(["datassay", "apply", data, decisions, "--out", "clean"])


def _options(inputs: Mapping[str, Any], given: set[str]) -> list[str]:
    """What the run was told of its data, where that differs from the defaults."""
    words: list[str] = []
    for cls in (DataInputs, NoiseInputs):
        for name in (f.name for f in fields(cls) if f.name in settings_of(cls)):
            value = inputs.get(name)
            if name in given or value is None or value == default_of(cls, name):
                continue
            option = f"--{settings_of(cls)[name].name or name.replace('_', '-')}"
            words += [option] if value is True else [option, str(value)]
    return words


def _shown(data: str) -> str:
    """A path below the current folder without it."""
    here = os.getcwd() + os.sep
    return data.removeprefix(here) if os.path.isabs(data) else data


def _named(words: list[str]) -> str:
    """The folder that a command line names, else the default."""
    for k, word in enumerate(words):
        if word == "--out" and k + 1 < len(words):
            return words[k + 1]
        if word.startswith("--out="):
            return word.removeprefix("--out=")
    return OUT.get(words[1], "report") if len(words) > 1 else "report"
