"""Advice: what to do next, and how urgent it is."""

from dataclasses import dataclass
from typing import Literal

N_CHECK_FIRST = 10  # ids that an advice names


Severity = Literal["act", "look", "fine"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do, or one thing that needs nothing done."""

    kind: str  # what it is about, such as "label errors", "data" or "action"
    severity: Severity  # "act" on it, "look" at it, or all is "fine"
    headline: str  # the finding in a few words
    sentence: str  # the finding with its figures, plain text
    # the samples to start with, most urgent first; empty where none are named
    ids: tuple[str, ...] = ()
    code: str = ""  # lines of Python that do it; may be empty
    command: str = ""  # a shell command that does it, as it can be typed; may be empty
