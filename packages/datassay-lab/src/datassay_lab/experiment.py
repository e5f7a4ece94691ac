"""Experiment: a statement, its measurement, and one number that decides whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of theory and measurement: one number with a limit.

    Attributes:
        what: what the number measures, with its unit; no full stop.
        value: the number in this run.
        limit: limit that it must keep for the statement to hold.
        kind: "at most" for errors, "at least" for correlations, shares and margins.
    """

    what: str
    value: float
    limit: float
    kind: Literal["at most", "at least"] = "at most"

    @property
    def holds(self) -> bool:
        """Whether the value keeps the limit; False for NaN."""
        return self.value <= self.limit if self.kind == "at most" else self.value >= self.limit


class Result(Protocol):
    """Result of an experiment: a frozen dataclass of arrays, numbers and texts."""

    @property
    def agreement(self) -> Agreement:
        """The number that decides whether the statement holds."""
        ...


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure.

    Attributes:
        title: title above the figure; a few words.
        figure: plotly figure with axes and units; theory dashed over measurements.
        text: alt text.
        wide: whether it takes the full width of the page.
    """

    title: str
    figure: Figure
    text: str
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Experiment:
    """One statement of the course, as a runnable experiment.

    Attributes:
        name: name on the command line: the file name with hyphens.
        statement: the statement, in one sentence.
        formula: its equations, one per line, in Unicode.
        look_for: what the figures show when the statement holds, and what breaks it.
        source: class of S2 and original paper.
        run: function of keyword parameters with defaults, including `seed` and `progress`; returns
            a Result.
        plots: function of that result; returns its figures.
        extra: extra of this package that it needs, or "".
    """

    name: str
    statement: str
    formula: str
    look_for: str
    source: str
    run: Callable[..., Any]
    plots: Callable[[Any], tuple[Plot, ...]]
    extra: str = ""
