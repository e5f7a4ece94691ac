"""From a template in `text/` to a Page: what a page says stands there, code passes the numbers.

A template is Jinja over a few signs of Markdown, read line by line:

    brand: datassay purify · …          title:, lead:, verdict:, and as often as needed answer:,
                                        warning:, command: (an empty one is left out)
    !! act | label errors | Headline    one advice; the paragraph below it is its sentence, and
                                        lines between ``` below that are its code
    ##! anchor | In navigation | Title  a section before the advice
    ## anchor | In navigation | Title   a section; the title may be left out where it is the same
    > one line                          what the section shows: it is folded under this line
    ### Heading
    [[ name ]]                          a block that code passes, by its name
    [[ name | Title | What it shows ]]  a figure with its heading and its text for the blind
    ~ small print                       below a table its note
    - item                              (a line of its own)
    ```                                 lines of code up to the next ```
    ## Method                           then  Term, and on the next line  : its meaning

Blocks in neighbouring lines stand side by side. `backticks` set code. `{% set name | line %}`
collects a text in one line, for several uses.
"""

import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from itertools import count as counter
from pathlib import Path
from typing import Any

from datassay.optional import take_first, text_if
from datassay.report import wording
from datassay.report.advice import Advice
from datassay.report.page import Block, Code, Figure, Heading, Page, Pair, Section, Table, Text
from datassay.stats import sentence

TEXT = Path(__file__).parent / "text"
HEADS = ("brand", "title", "lead", "verdict", "answer", "warning", "command")
MANY = ("answer", "warning", "command")
FUNCTIONS = (
    "count", "fixed", "gain_text", "in_points", "label_text", "number", "p_value", "percent",
    "rough_percent", "score_change", "score_text", "share", "shortened", "thousands",
)  # fmt: skip


def compose(
    template: str | Path,
    blocks: Mapping[str, Any],
    numbers: Mapping[str, object],
    *,
    ids: Mapping[str, tuple[str, ...]] | None = None,
    **fields: Any,
) -> Page:
    """Compose a page from its template.

    Values are put in after the structure is read, so that no text of a user's can become a
    heading, a block or another value.

    Args:
        template: name in `text/` without `.md.j2`, or the path of a template elsewhere.
        blocks: name → Block, figure of plotly's, tuple of blocks, or None (left out); or a function
            that gives one, called where the template names it.
        numbers: what the template may name, besides the functions of `wording` and
            `stats.sentence`.
        ids: kind of an advice → ids of the samples to start with.
        fields: further fields of Page, such as facts, files and columns; `warnings` stand before
            the template's own.

    Returns:
        The page.

    Raises:
        jinja2.UndefinedError: the template names what code does not pass.
        KeyError: it names a block that code does not pass.
    """
    values = _Values()
    _hiding.set(values)
    if isinstance(template, Path):
        path = template
    else:
        path = TEXT / f"{template}.md.j2"
    text = _environment(path.parent).get_template(path.name).render(numbers)
    page = _Reader(blocks, ids or {}, values.reveal).read(text.splitlines())
    warnings = [text[:1].upper() + text[1:] for text in page.pop("warning", ())]
    page["warnings"] = (*fields.pop("warnings", ()), *warnings)
    page["commands"] = tuple(dict.fromkeys(filter(None, page.pop("command", ()))))
    return Page(**page, **fields)


_hiding: "ContextVar[_Values]" = ContextVar("_hiding")


@cache
def _environment(folder: Path) -> Any:
    """Return the Jinja environment of a template folder, compiled once for all pages."""
    import jinja2

    @jinja2.pass_context  # else Jinja computes constants once, with signs of the first page
    def finalize(context: object, value: object) -> str:
        return _hiding.get().hide(value)

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=False,  # a Page holds plain text; escaped where it is written
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )
    functions = {name: getattr(wording, name) for name in FUNCTIONS} | {"sentence": sentence}
    builtins = {"log": math.log, "max": max, "min": min, "round": round}
    environment.globals |= functions | builtins  # pyrefly: ignore[bad-assignment] (any value)
    environment.filters |= functions | {"line": lambda text: " ".join(text.split())}
    return environment


class _Values:
    """Values, each behind a sign; no text holds such a sign, as it is drawn anew for each page."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(8)
        self._number = counter()
        self._values: dict[str, str] = {}
        self._sign = re.compile(f"\ue000{self._nonce}:(\\d+)\ue001")

    def hide(self, value: object) -> str:
        """Keep a value, and return the placeholder that stands for it in the template's text."""
        text = str(value)
        if not text:
            return ""
        key = str(next(self._number))
        # A text with a sign inside is lines of the template that {% set %} collected.
        if self._sign.search(text):
            self._values[key] = " ".join(text.split())
        else:
            self._values[key] = text
        return f"\ue000{self._nonce}:{key}\ue001"

    def reveal(self, text: str) -> str:
        """Return a text with its placeholders replaced by the values kept."""
        while self._sign.search(text):
            text = self._sign.sub(lambda sign: self._values[sign[1]], text)
        return text


class _Reader:
    """Reads a template's lines into the fields of a Page."""

    def __init__(
        self,
        blocks: Mapping[str, Any],
        ids: Mapping[str, tuple[str, ...]],
        reveal: Callable[[str], str],
    ) -> None:
        self._block_by_name = blocks
        self._ids = ids
        self._reveal = reveal
        self._fields: dict[str, Any] = {"advice": (), "opening": (), "sections": (), "method": ()}
        self._blocks: list[Block] | None = None  # of the section that is open
        self._name = ""
        self._in_method = False
        self._advises = False

    def read(self, lines: list[str]) -> dict[str, Any]:
        """Return the fields of a Page by name, read from the lines of a filled template."""
        for kind, group in _split_paragraphs(lines):
            first_line = group[0]
            if kind == "code":
                self._add_code(self._reveal("\n".join(group)))
            elif first_line.startswith("!!"):
                self._read_advice(group)
            elif first_line.startswith(("## ", "##! ")):
                self._open_section(first_line)
            elif self._blocks is None and not self._in_method:
                for line in group:
                    self._read_head(line)
            else:
                self._read_body(group)
        for name in ("opening", "sections"):
            sections = (s for s in self._fields[name] if s.blocks)
            self._fields[name] = tuple(replace(s, blocks=tuple(s.blocks)) for s in sections)
        return self._fields

    def _read_head(self, line: str) -> None:
        """Read one line above the first section: "name: text", or more text of the last field."""
        start = re.match(rf"({'|'.join(HEADS)}): ?(.*)", line)
        if start:
            self._name = start[1]
        is_many = self._name in MANY
        previous = self._fields.get(self._name, ())
        text = self._reveal(start[2].strip() if start else line.strip())
        if start and is_many:
            text = (*previous, text)
        elif is_many:
            text = (*previous[:-1], f"{previous[-1]} {text}")
        elif not start:
            text = f"{previous} {text}"
        self._fields[self._name] = text

    def _read_advice(self, group: list[str]) -> None:
        """Read an advice from a paragraph: severity, kind and headline, then its sentence."""
        severity, kind, headline = self._parts(group[0][2:])
        sentence = self._reveal(" ".join(line.strip() for line in group[1:])).strip()
        advice = Advice(kind, severity, headline, sentence, self._ids.get(kind, ()))  # pyrefly: ignore[bad-argument-type] (templates name one)
        self._fields["advice"] += (advice,)
        self._advises = True

    def _add_code(self, text: str) -> None:
        """Add code to the latest advice where one is open, else as a block."""
        if not self._advises:
            self._add(Code(text))
            return
        *earlier, latest = self._fields["advice"]
        self._fields["advice"] = (*earlier, replace(latest, code=text))

    def _open_section(self, line: str) -> None:
        """Begin a section at its heading, or the list of terms under "Method"."""
        self._advises = False
        self._blocks = None
        names = self._parts(line.lstrip("#!"))
        self._in_method = names == ["Method"]
        if not self._in_method:
            anchor, short, *title = names
            self._blocks = []
            section = Section(anchor, short, take_first(title, short), self._blocks)  # pyrefly: ignore[bad-argument-type] (a tuple once it is read)
            self._fields["opening" if line.startswith("##!") else "sections"] += (section,)

    def _read_body(self, group: list[str]) -> None:
        """Read a paragraph of a section: a term of the method, blocks, a lead or text."""
        if self._in_method:  # a term, and from the next line on what it means
            term, *meaning = group
            text = " ".join(line.strip() for line in meaning).removeprefix(":").strip()
            self._fields["method"] += ((self._reveal(term.strip()), self._reveal(text)),)
        elif group[0].startswith("[["):
            directives = [self._parts(line.strip("[] ")) for line in group]
            blocks = [block for arguments in directives for block in self._find_blocks(*arguments)]
            halves = tuple(block for block in blocks if isinstance(block, Figure | Table))
            self._add(*((Pair(halves),) if len(halves) == len(blocks) > 1 else blocks))
        elif group[0].startswith("> "):  # the line under the section's title
            *earlier, latest = self._fields["sections"]
            line = " ".join(line.strip() for line in group).removeprefix("> ")
            self._fields["sections"] = (*earlier, replace(latest, line=self._reveal(line)))
        elif group[0].startswith("### "):
            self._add(Heading(self._reveal(group[0][4:].strip())))
        else:
            self._add_text(group)

    def _add_text(self, group: list[str]) -> None:
        """Add a paragraph; small print below a table becomes the table's note."""
        is_note = group[0].startswith("~ ")
        text = " ".join(line.strip() for line in group).removeprefix("~ ")
        has_code = "`" in text
        if has_code:  # only the template's own backticks set code, not one in a value
            text = self._reveal(text.replace("`", "\ue002"))
            text = text.replace("`", "ˋ").replace("\ue002", "`")
        else:
            text = self._reveal(text)
        previous = None
        if self._blocks:
            previous = self._blocks[-1]
        if is_note and not has_code and isinstance(previous, Table) and not previous.note:
            assert self._blocks is not None, "it holds the table"
            self._blocks[-1] = replace(previous, note=text)
        else:
            self._add(Text(text, note=is_note, code=has_code))

    def _find_blocks(self, name: str, title: str = "", text: str = "") -> tuple[Block, ...]:
        """Return the blocks that the caller passed under a name; a figure gets title and text."""
        block: Any = self._block_by_name[name]
        if callable(block):
            block = block()
        if block is None:
            return ()
        if isinstance(block, tuple | list):
            return tuple(block)
        if hasattr(block, "to_plotly_json") or isinstance(block, str):
            return (Figure(name, block, text or title, title=text_if(text, title)),)
        if isinstance(block, Figure) and title:
            block = replace(block, title=title, text=text or block.text)
        return (block,)

    def _parts(self, line: str) -> list[str]:
        return [self._reveal(cell.strip()) for cell in line.split("|")]

    def _add(self, *blocks: Block) -> None:
        assert self._blocks is not None, "a block stands before the first section"
        self._blocks += blocks


def _split_paragraphs(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield ("text" or "code", its lines) for each paragraph of a template."""
    group: list[str] = []
    code: list[str] | None = None
    for line in [*lines, ""]:
        is_fence = line.startswith("```")
        if group and (is_fence or not line.strip() or _is_boundary(group[-1], line)):
            yield "text", group
            group = []
        if is_fence and code is not None:
            yield "code", code
        if is_fence:
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif line.strip():
            group.append(line)


def _is_boundary(previous: str, line: str) -> bool:
    """Return whether a paragraph ends between two lines that no empty line separates."""
    single_line = ("## ", "##! ", "### ", "- ")
    return (
        previous.startswith((*single_line, "> "))
        or line.startswith((*single_line, "!!", "~ ", "> "))
        or previous.startswith("[[") != line.startswith("[[")
    )
