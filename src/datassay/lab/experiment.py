"""What an experiment is: a statement, what measures it, and one number that judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well theory and measurement agree, as one number with a limit.

    Attributes:
        what: the number measures, with its unit; no full stop.
        value: of this run.
        limit: that it must keep for the statement to hold.
        kind: "at most" for errors, "at least" for correlations, shares and margins.
    """

    what: str
    value: float
    limit: float
    kind: Literal["at most", "at least"] = "at most"

    @property
    def holds(self) -> bool:
        """Whether the value keeps the limit; NaN does not."""
        return self.value <= self.limit if self.kind == "at most" else self.value >= self.limit


class Result(Protocol):
    """What every experiment returns: a frozen dataclass of arrays, numbers and texts."""

    @property
    def agreement(self) -> Agreement:
        """The number that judges this result."""
        ...


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure.

    Attributes:
        title: above it; a few words.
        figure: plotly's, with axes, units, and theory dashed over what was measured.
        text: what it shows, for who cannot see it.
        wide: across the page instead of beside the next one.
    """

    title: str
    figure: Figure
    text: str
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Experiment:
    """One statement of the course, made to run.

    Attributes:
        name: as the command line knows it: the file's name with hyphens.
        statement: what must come out, in one sentence.
        formula: the equation, one line each, in Unicode.
        look_for: what the figures show when the statement holds, and what would break it.
        source: the class of S2, and the paper behind it.
        run: keyword parameters with defaults, `seed` and `progress` among them → a Result.
        plots: that result → its figures.
        extra: the extra of this package that it needs, or "".
    """

    name: str
    statement: str
    formula: str
    look_for: str
    source: str
    run: Callable[..., Any]
    plots: Callable[[Any], tuple[Plot, ...]]
    extra: str = ""
