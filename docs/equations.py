"""Equations typeset as MathML; sources and docstrings write them as plain text.

    error(n) = a + b n^(−c),   w̄_i = Σ_{j ≠ i} x_j² / (2σ² m)

so that `help()` and a terminal show them too. Browsers draw MathML themselves: no script, no font
to fetch. A paragraph that is mostly an equation is set as one; in others only the indices and the
exponents are raised and lowered. What is set has the characters of its source, or the build ends.
"""

import html
import re
import unicodedata
from collections.abc import Collection
from typing import NamedTuple

# Where equations may stand: a paragraph, an indented block, a cell without markup.
PARAGRAPH = re.compile(r"<p>(?P<text>.*?)</p>", re.S)
BLOCK = r'<div class="(?:language-text )?highlight"><pre><span></span><code>'
INDENTED = re.compile(rf"{BLOCK}(?P<text>.*?)</code></pre></div>", re.S)
CELL = re.compile(r"(?<=<td>)(?P<text>[^<]{8,})(?=</td>)")
KEPT = "code|pre|script|math|style|h1|h2|h3"
UNTOUCHED = re.compile(rf"(<(?:{KEPT})\b.*?</(?:{KEPT})>|<[^>]*>)", re.S)
# What is an equation.
PROGRAM = re.compile(r"[\w)]\(\)|\w\.\w+\(|^\s*(?:import|from|#)|\w = \w{2,}\(\w+=|\*\*", re.M)
RELATION = re.compile(r"[=≈≤≥∝←]")
MATHS = re.compile(r"[Σ∂∇√‖λησΘΦδεφβαμΔ∝ΠΛℓ^_ᵢᵀ²³⁻½₀]")
KNOWN = {*"exp log min max softmax sqrt sign cos mean var argmax tr Re Df KL".split()}
# In prose.
LETTERS = "A-Za-zα-ωΑ-Ω\\d"
BASE = r"(?<![\w`])((?:\w|[ℓ∂∇])[\u0300-\u036f]?|[)\]‖])"
LOWERED = re.compile(rf"{BASE}_(\{{[^{{}}]+\}}|[{LETTERS}]{{1,3}})(?![{LETTERS}_])")
RAISED = re.compile(
    r"(?<=[\w)\]‖])\^(?:\((?P<in>(?:[^()]|\([^()]*\))+)\)|\{(?P<of>[^{}]+)\}|(?P<as>−?\w+))"
)
# In equations.
SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉₋₊ᵢⱼₖₙ", "0123456789−+ijkn")
SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀⁿᵏⁱ", "0123456789−+Tnki")
PLAIN = SUB | SUPER | str.maketrans("-'", "−′", "^_{}()/√ \n\u00a0")
CLOSING = dict(zip("([{⟨⌊⌈‖|", ")]}⟩⌋⌉‖|", strict=True))
WORD = r"[A-Za-z]{3,}(?:[_-][a-z]{3,})*|[A-Za-z]{2}(?![a-z])"
TOKEN = re.compile(rf"\s+|\d+(?:\.\d+)?|{WORD}|.[\u0300-\u036f]?", re.S)
OPERATORS = {*"=≈≤≥∝←→+−-±·<>,;:∈~∪∖≠/×", "is", "if", "are"}
BIG = {*"ΣΠ∫"}


def typeset(page: str) -> str:
    """The page with its equations as MathML, and with indices and exponents in its prose."""
    page = INDENTED.sub(lambda m: _display(m["text"], r"\n") or m[0], page)
    page = PARAGRAPH.sub(lambda m: _display(m["text"], r";\s+|\n(?=[a-z]+:)") or m[0], page)
    page = CELL.sub(_cell, page)
    return "".join(p if p[:1] == "<" else _scripts(p) for p in UNTOUCHED.split(page))


def equation(text: str, clauses: str = r"\n") -> str:
    """An equation in plain text as MathML, a line per clause."""
    lines = map(_line, re.split(clauses, text.strip("\n")))
    return f'<div class="equation">{"".join(lines)}</div>'


def characters(text: str) -> list[str]:
    """What a reader sees of an equation, apart from brackets and fraction bars."""
    seen = unicodedata.normalize("NFD", text.replace("sqrt", "")).translate(PLAIN)
    return sorted(seen)  # an index stands before an exponent in MathML, wherever it was written


def plain(markup: str) -> str:
    """The text of HTML or MathML."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def _scripts(text: str) -> str:
    text = LOWERED.sub(lambda m: f"{m[1]}<sub>{m[2].strip('{}')}</sub>", text)
    return RAISED.sub(lambda m: f"<sup>{m[m.lastgroup or 0]}</sup>", text)


def _display(text: str, clauses: str) -> str | None:
    """None where the text is prose, has a link or code in it, or is a program."""
    if re.search(r"<(?:a|code|img)\b", text):
        return None
    text = plain(text)
    is_equation = RELATION.search(text) and _is_maths(text) and not PROGRAM.search(text)
    return equation(text, clauses) if is_equation else None


def _is_maths(text: str) -> bool:
    words = [w for w in re.findall(r"[A-Za-z]{2,}", text) if w not in KNOWN]
    return bool(MATHS.search(text)) and len(words) < 0.48 * len(text.split())


def _cell(match: re.Match) -> str:
    text = html.unescape(match["text"])
    return _line(text, "inline") if re.search(r"[/^]|Σ_", text) and _is_maths(text) else match[0]


def _line(text: str, display: str = "block") -> str:
    body = "".join(map(_clause, _clauses(text.replace("\n", " ").strip())))
    set_as = plain(body)
    assert characters(set_as) == characters(text), f"{text!r} would be set as {set_as!r}"
    return f'<math display="{display}" displaystyle="true">{body}</math>'


def _clauses(text: str) -> list[str]:
    """Split behind commas, colons and full stops outside brackets."""
    parts = [""]
    for piece in re.split(r"(?<=[,:.])(?=\s|$)", text):
        opened, closed = (sum(map(parts[-1].count, signs)) for signs in ("([{", ")]}"))
        parts[-1:] = [parts[-1], piece] if opened == closed else [parts[-1] + piece]
    return parts


def _clause(text: str) -> str:
    """Words alone stay text."""
    if re.search(r"[A-Za-z]{2}", text) and not (RELATION.search(text) or MATHS.search(text)):
        return "<mtext>" + html.escape(text).replace(" ", "\u00a0") + "</mtext>"
    return _Reader(text).row()


class _Item(NamedTuple):
    """A piece of a row."""

    kind: str  # "atom", "word", "space", "operator", "big" (a sum with an index) or "slash"
    markup: str
    inner: str = ""  # of an atom in round brackets: what stands between them


def _mark(tag: str, text: str, kind: str = "atom") -> _Item:
    return _Item(kind, f"<{tag}>{html.escape(text)}</{tag}>")


class _Reader:
    """Reads one clause; juxtaposition is a product, as in the text."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"[₀-₉₋₊ᵢⱼₖₙ]+", lambda m: f"_{{{m[0].translate(SUB)}}}", text)
        text = re.sub(r"[⁰¹²³⁴-⁹⁻⁺ᵀⁿᵏⁱ]+", lambda m: f"^{{{m[0].translate(SUPER)}}}", text)
        text = unicodedata.normalize("NFD", re.sub(r"(?<![a-z])-", "−", text).replace("'", "′"))
        self.rest = TOKEN.findall(text)[::-1]

    def sees(self, among: Collection[str]) -> str:
        """The next token where it is one of some, else nothing."""
        return self.rest[-1] if self.rest and self.rest[-1] in among else ""

    def row(self, closing: str = "") -> str:
        """Up to the closing bracket, which is consumed."""
        items: list[_Item] = []
        while self.rest and not self.sees({closing}):
            items.append(self.item())
        self.rest = self.rest[:-1]
        return "".join(item.markup for item in _fractions(items))

    def item(self) -> _Item:
        """A space, an operator, or an atom with what stands below, above and behind it."""
        token = self.rest.pop()
        if token.isspace():
            width = 1.5 if len(token) > 1 else 0.2
            return _Item("space", f'<mspace width="{width}em"/>')
        if token in OPERATORS:
            return _mark("mo", token, "slash" if token == "/" else "operator")
        base, low, high = self.atom(token), "", ""
        while mark := self.sees("_^′"):
            self.rest.pop()
            if mark == "′":
                base = _Item("atom", f"<mrow>{base.markup}<mo>′</mo></mrow>")
            elif mark == "_":
                low += self.script()
            else:
                high += self.script(with_index=True)
        # Σ is a sum where something follows it, and a covariance matrix elsewhere.
        follows = "".join(self.rest[:-3:-1]).strip()[:1]
        is_sum = token in BIG and bool(low) and follows not in {"", ")", "]", *OPERATORS}
        if low or high:
            below, above = ("under", "over") if is_sum else ("sub", "sup")
            tag = "m" + below * bool(low) + above * bool(high)
            parts = "".join(f"<mrow>{part}</mrow>" for part in (base.markup, low, high) if part)
            base = _Item("big" if is_sum else "atom", f"<{tag}>{parts}</{tag}>")
        return base

    def script(self, *, with_index: bool = False) -> str:
        """What stands below or above: braces, brackets, or a short run of letters."""
        token = self.rest.pop()
        if token in {"{", "("}:
            return self.row(CLOSING[token])
        if token == "−":
            return f"<mo>−</mo>{self.script(with_index=with_index)}"
        single = token.isalpha() and len(token) <= 2
        text = "".join(_mark("mi", sign).markup for sign in (token if single else [token]))
        if with_index and self.sees("_"):
            self.rest.pop()
            text = f"<msub><mrow>{text}</mrow><mrow>{self.script()}</mrow></msub>"
        return text

    def atom(self, token: str) -> _Item:
        """A root, a bracket, a number, a letter or a word."""
        if token in {"√", "sqrt"} and self.rest:
            inner = self.atom(self.rest.pop())
            return _Item("atom", f"<msqrt>{inner.inner or inner.markup}</msqrt>")
        closing = CLOSING.get(token, "")
        touches = token not in "‖|" or (self.rest and not self.rest[-1].isspace())
        if closing in self.rest and touches:
            inner = self.row(closing)
            both = (_mark("mo", bracket).markup for bracket in (token, closing))
            return _Item("atom", f"<mrow>{inner.join(both)}</mrow>", inner if token == "(" else "")
        if len(token) == 2 and unicodedata.combining(token[1]):
            return _Item("atom", f'<mi style="font-style: italic">{token}</mi>')
        if token in BIG:
            return _Item("atom", f'<mi mathvariant="normal">{token}</mi>')
        if re.fullmatch(WORD, token) and len(token) > 2 and token not in KNOWN:
            return _mark("mi", token, "word")
        if token[0].isdigit() or token == "½":
            return _mark("mn", token)
        return _mark("mi" if token[0].isalpha() else "mo", token)


def _fractions(items: list[_Item]) -> list[_Item]:
    """With a slash that touches its neighbours, or all products beside a slash with spaces."""
    done: list[_Item] = []
    rest = items[::-1]
    while rest:
        item = rest.pop()
        if item.kind != "slash":
            done.append(item)
            continue
        near = {"atom", "word"}
        if done and done[-1].kind == "space":
            near = {"atom", "word", "space"}
            done.pop()
            rest[-1:] = []
        above: list[_Item] = []
        below: list[_Item] = []
        while done and done[-1].kind in near:
            above.insert(0, done.pop())
        # What touches the slash on its right is one atom: ∂x and f(x) are, 1/(n)x is not.
        near.add("big")
        while rest and rest[-1].kind in near and ("space" in near or _goes_on(below, rest)):
            below.append(rest.pop())
            near.discard("word")  # a later one is prose
        bar = f"<mrow>{_bare(above)}</mrow><mrow>{_bare(below)}</mrow>"
        done.append(_Item("atom", f"<mfrac>{bar}</mfrac>"))
    return done


def _goes_on(taken: list[_Item], rest: list[_Item]) -> bool:
    is_call = bool(taken) and not taken[-1].inner and bool(rest[-1].inner)
    return not taken or is_call or "∂" in taken[-1].markup


def _bare(items: list[_Item]) -> str:
    """Without the brackets around all of it, which the bar replaces."""
    solid = [item for item in items if item.kind != "space"]
    alone = solid[0].inner if len(solid) == 1 else ""
    return alone or "".join(item.markup for item in items)
