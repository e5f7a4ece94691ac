"""Table of contents: the chapters of the course and their experiments, from course.toml."""

import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datassay.errors import SettingError
from datassay_lab.experiment import Experiment

PROSE = ("statement", "look_for", "question", "expected", "exercise", "source")


def _read_chapters() -> dict[str, tuple[Experiment, ...]]:
    text = Path(__file__).with_name("course.toml").read_text(encoding="utf-8")
    return {
        chapter["title"]: tuple(_experiment(chapter["folder"], e) for e in chapter["experiment"])
        for chapter in tomllib.loads(text)["chapter"]
    }


def _experiment(folder: str, texts: dict[str, Any]) -> Experiment:
    # Lines count in formulas only.
    prose = {k: " ".join(texts[k].split()) for k in PROSE}
    module = f"datassay_lab.{folder}.{texts['name'].replace('-', '_')}"
    return Experiment(**texts | prose, module=module)


# Chapter → its experiments.
CHAPTERS = _read_chapters()


def experiments() -> Iterator[tuple[str, Experiment]]:
    """Return every experiment, in the order of the course, as (chapter, experiment)."""
    return ((chapter, e) for chapter, listed in CHAPTERS.items() for e in listed)


def experiment(name: str) -> Experiment:
    """Find an experiment by the name that `datassay lab` lists; raise SettingError if none."""
    by_name = {e.name: e for _, e in experiments()}
    if name not in by_name:
        similar = difflib.get_close_matches(name, by_name, 3, 0.6)
        hint = f"Did you mean {' or '.join(similar)}? " if similar else ""
        raise SettingError(
            f"experiment must be one of those that `datassay lab` lists, or all; got {name!r}. "
            f"{hint}"
        )
    return by_name[name]
