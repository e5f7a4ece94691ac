"""A page: everything a command has to say, before anything is drawn.

A command builds its Page once. The HTML with its navigation (`html.py`), the head of summary.json
and the tables in the terminal are all read off it. Every text is plain: it is escaped where it is
written, in HTML as in the terminal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from datassay.data.samples import Column
from datassay.errors import hide_credentials
from datassay.optional import text_if
from datassay.report.advice import Advice
from datassay.report.drawing import Drawing

PURPOSES = {"run": "Measure the gain: ", "apply": "Write the corrected data: "}  # after a review
LOOK = "To look at any sample: "  # where nothing is to mend
OTHER_PURPOSES = {
    "run": "Find wrong labels: ",
    "predict": "Predict new rows: ",
    "explain": "Explain predictions: ",
}
SCHEMA = "1.0"  # of summary.json, as summary.schema.json beside this package's folders has it


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph.

    Attributes:
        text: plain text.
        note: whether it is small print.
        code: whether `backticks` set code; only for texts of our own.
    """

    text: str
    note: bool = False
    code: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of code to copy."""

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing by plotly.

    Attributes:
        name: unique on the page.
        figure: what plotly draws, or its JSON; user's texts in it have passed `style.plotly_text`.
        text: what it shows, for readers who cannot see it.
        title: a heading above it; may be empty.
    """

    name: str
    figure: Any  # plotly.graph_objects.Figure, which is imported where it is drawn
    text: str
    title: str = ""

    @property
    def json(self) -> str:
        """What plotly draws, as JSON text."""
        if isinstance(self.figure, str):
            return self.figure
        return str(self.figure.to_json())


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    Attributes:
        name: the row's heading.
        cells: one text a further column.
        best: whether it is marked as the best of its table.
        link: anchor of the section that its name leads to; may be empty.
    """

    name: str
    cells: tuple[str, ...]
    best: bool = False
    link: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        name: what it holds, for readers who cannot see it.
        columns: headings; the first is of the row names.
        rows: its lines.
        caption: a visible caption; may be empty.
        note: a sentence below it; may be empty.
        wraps: whether headings and names wrap; else they stay in a line and the table scrolls.
        in_terminal: whether the command prints it when it is done.
        prose: whether the last column holds sentences, which wrap.
        sortable: whether a click on a heading sorts the rows and a text chooses among them.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    note: str = ""
    wraps: bool = True
    in_terminal: bool = False
    prose: bool = False
    sortable: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """One sample of a gallery."""

    id: str  # the sample's id
    label: str  # its given label
    drawing: Drawing  # the sample itself
    class_index: int = -1  # the given class; -1 for a regression
    suggested: str = ""  # a suggested label; empty where there is none
    truth: str = ""  # the true label; empty where it is the given one or not known
    source: str = ""  # where it came from; empty where that is not shown
    figures: tuple[tuple[str, str], ...] = ()  # (text, what it is) pairs; what it is may be empty
    verdict: str = ""  # a short warning, such as "suspect label"; marks the card
    views: tuple[str, ...] = ()  # the gallery's views that show it
    keys: Mapping[str, float] = field(default_factory=dict)  # what the gallery sorts by


@dataclass(frozen=True, slots=True)
class CardPair:
    """Two samples side by side, and what they are to each other."""

    sides: tuple[Card, Card]
    text: str


@dataclass(frozen=True, slots=True)
class View:
    """A choice of cards."""

    value: str  # as the cards' `views` name it
    label: str  # as the reader sees it
    sort: str = ""  # the key that suits it; empty keeps the present one
    descending: bool = False  # whether largest first suits it


@dataclass(frozen=True, slots=True)
class Gallery:
    """Cards, with controls that choose, order and reveal them."""

    # of samples, in their first order; or pairs, which have no controls
    cards: tuple[Card, ...] | tuple[CardPair, ...]
    views: tuple[View, ...] = ()  # the first is shown at first; none: all cards
    views_name: str = ""  # above a list of views; empty: the views are buttons
    sorts: tuple[tuple[str, str], ...] = ()  # (key, words) pairs
    descending: bool = False  # whether largest first is the first order
    class_names: tuple[str, ...] = ()  # to choose a class by; empty: no such control
    note: str = ""  # what is shown, in words
    # the view in which the samples that an advice names are seen, where no view is called as the
    # advice's kind
    advice_view: str = ""

    @property
    def kind(self) -> str:
        """The style of the cards, by what the first one draws: image, row or text."""
        if not self.cards:
            return "text"
        card = self.cards[0]
        if isinstance(card, CardPair):
            card = card.sides[0]
        if card.drawing.image:
            return "image"
        if card.drawing.values:
            return "row"
        return "text"


@dataclass(frozen=True, slots=True)
class Partial:
    """A block with a template of its own, for what no other block shows.

    Attributes:
        template: file name among the templates.
        context: what it shows.
        script: file names of the JavaScript that it needs, in order; may be empty.
        figures: drawings that it places by name.
    """

    template: str
    context: Mapping[str, Any]
    script: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Blocks side by side, two a line; on a narrow screen one below the other."""

    blocks: tuple[Figure | Table, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are shown when they are asked for."""

    title: str
    blocks: tuple[Text | Figure | Table, ...]


Block = Text | Heading | Code | Figure | Table | Gallery | Partial | Pair | Details


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        anchor: its id.
        short: its name in the navigation; empty: not listed there.
        title: its heading.
        blocks: what it shows, in order; a section without any is left out.
        line: what it shows, in a line; where it is not empty the section is folded under it.
    """

    anchor: str
    short: str
    title: str
    blocks: tuple[Block, ...]
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that a command says.

    Attributes:
        brand: the command and what it answers.
        title: what was looked at.
        lead: the answer in one line.
        facts: what was run and on what, name → value.
        warnings: what the reader must know before trusting the figures.
        advice: what to do next.
        opening: sections before the advice: the answer itself.
        sections: the evidence; folded ones stand behind the others.
        method: (term, meaning) pairs.
        files: file name → what it holds, of the files written with the page.
        answer: lines that the terminal prints below the tables.
        columns: how each column of the data was read; empty where it had none.
        internals: names of facts that stand under Method, not on top.
        verdict: what was found and what to do about it, in a sentence; empty: the page has none.
        commands: what to type next, as it can be typed.
        note: a line below the advice; may be empty.
        button: what is written on the button that leads to the review; empty: there is none.
        samples: the samples that the verdict is about, some of them drawn; None: none.
    """

    brand: str
    title: str
    lead: str
    facts: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    opening: tuple[Section, ...] = ()
    sections: tuple[Section, ...] = ()
    method: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    answer: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    internals: tuple[str, ...] = ()
    verdict: str = ""
    commands: tuple[str, ...] = ()
    note: str = ""
    button: str = ""
    samples: Gallery | None = None

    def __post_init__(self) -> None:
        """Remove credentials from what can name a URL."""
        fields: dict[str, Any] = {
            "title": hide_credentials(self.title),
            "lead": hide_credentials(self.lead),
        }
        fields["facts"] = {name: hide_credentials(value) for name, value in self.facts.items()}
        fields["warnings"] = tuple(hide_credentials(warning) for warning in self.warnings)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def head(self) -> dict[str, object]:
        """What every summary.json begins with."""
        advice = [asdict(item) for item in self.advice]
        columns = [asdict(item) for item in self.columns]
        return {
            "schema": SCHEMA,
            **({"verdict": self.verdict, "commands": self.commands} if self.verdict else {}),
            "facts": self.facts,
            "warnings": self.warnings,
            "advice": advice,
            "columns": columns,
        }

    @property
    def purposes(self) -> tuple[str, ...]:
        """What each command is for, with a colon; "" where its name says it."""
        words = [command.split()[1] for command in self.commands]
        if words[:1] != ["view"]:
            return tuple(OTHER_PURPOSES.get(word, "") for word in words)
        is_calm = any(piece.kind == "nothing" for piece in self.advice)
        return (text_if(is_calm, LOOK), *(PURPOSES.get(word, "") for word in words[1:]))

    @property
    def blocks(self) -> Iterator[Block]:
        """All blocks in their order, those of pairs and details one by one."""
        for section in (*self.opening, *self.sections):
            for block in section.blocks:
                yield from block.blocks if isinstance(block, Pair | Details) else (block,)

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, those of partials too."""
        direct = [b for b in self.blocks if isinstance(b, Figure)]
        return (*direct, *(f for b in self.blocks if isinstance(b, Partial) for f in b.figures))
