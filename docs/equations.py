"""Equations typeset as MathML; sources and docstrings write them as plain text.

    error(n) = a + b n^(−c),   w̄_i = Σ_{j ≠ i} x_j² / (2σ² m)

so that `help()` and a terminal show them too. Browsers draw MathML themselves: no script, no font
to fetch. A paragraph that is mostly an equation is set as one; in others only the indices and the
exponents are raised and lowered.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import NamedTuple

PARAGRAPH = re.compile(r"<p>(?P<text>.*?)</p>", re.S)
BLOCK = r'<div class="(?:language-text )?highlight"><pre><span></span><code>'
INDENTED = re.compile(rf"{BLOCK}(?P<text>.*?)</code></pre></div>", re.S)
UNTOUCHED = re.compile(
    r"(<(?:code|pre|script|math|style|h1|h2|h3)\b.*?</(?:code|pre|script|math|style|h1|h2|h3)>|<[^>]*>)",
    re.S,
)
PROGRAM = re.compile(r"[\w)]\(\)|\w\.\w+\(|^\s*(?:import|from|#)|\w = \w{2,}\(\w+=|\*\*", re.M)
RELATION = re.compile(r"[=≈≤≥∝←]|\bare\b")
MATHS = re.compile(r"[Σ∂∇√‖λησΘΦδεφβαμΔ∝ΠΛℓ^_ᵢᵀ²³⁻½₀]")
KNOWN = {
    "exp",
    "log",
    "min",
    "max",
    "softmax",
    "sqrt",
    "sign",
    "cos",
    "mean",
    "var",
    "argmax",
    "tr",
    "Re",
    "Df",
    "KL",
}
SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉₋₊ᵢⱼₖₙ", "0123456789−+ijkn")
SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᵀⁿᵏⁱ", "0123456789−+Tnki")
CLOSING = {"(": ")", "[": "]", "{": "}", "⟨": "⟩", "⌊": "⌋", "⌈": "⌉", "‖": "‖", "|": "|"}
TOKEN = re.compile(
    r"\s+|\d+(?:\.\d+)?|[A-Za-z]{3,}(?:[_-][a-z]{3,})*|[A-Za-z]{2}(?![a-z])|.[\u0300-\u036f]?", re.S
)
OPERATORS = set("=≈≤≥∝←→+−-±·<>,;:∈~∪∖≠/×") | {"is", "if", "are"}
BIG = set("ΣΠ∫")
LOWERED = re.compile(
    r"(?<![\w`])((?:\w|[ℓ∂∇])[\u0300-\u036f]?|[)\]‖])_(\{[^{}]+\}|[A-Za-zα-ωΑ-Ω\d]{1,3})(?![A-Za-zα-ωΑ-Ω\d_])"
)
CELL = re.compile(r"<td[^>]*>(?P<text>[^<]*)</td>")
ACCENTS = {"\u0302": "^", "\u0303": "~", "\u0304": "¯"}
RAISED = re.compile(r"(?<=[\w)\]‖])\^(\((?:[^()]|\([^()]*\))+\)|\{[^{}]+\}|−?\w+)")


def typeset(page: str) -> str:
    """The page with its equations as MathML, and with indices and exponents in its prose."""
    page = INDENTED.sub(lambda m: _display(m["text"], r"\n") or m[0], page)
    page = PARAGRAPH.sub(lambda m: _display(m["text"], r";\s+|\n(?=[a-z]+:)") or m[0], page)
    page = CELL.sub(_cell, page)
    pieces = UNTOUCHED.split(page)
    return "".join(p if p.startswith("<") else _scripts(p) for p in pieces)


def _scripts(text: str) -> str:
    text = LOWERED.sub(lambda m: f"{m[1]}<sub>{m[2].strip('{}')}</sub>", text)
    return RAISED.sub(lambda m: f"<sup>{_bare(m[1])}</sup>", text)


def _bare(text: str) -> str:
    return text[1:-1] if text[0] in "({" else text


def equation(text: str, clauses: str = r"\n") -> str:
    """An equation in plain text as MathML, a line per clause."""
    lines = map(_line, re.split(clauses, text.strip("\n")))
    return f'<div class="equation">{"".join(lines)}</div>'


def _display(text: str, clauses: str) -> str | None:
    """None where the text is prose or a program."""
    plain = html.unescape(re.sub(r"<[^>]*>", "", text))
    if RELATION.search(plain) and _is_maths(plain) and not PROGRAM.search(plain):
        return equation(plain, clauses)
    return None


def _is_maths(text: str) -> bool:
    words = [w for w in re.findall(r"[A-Za-z]{2,}", text) if w not in KNOWN]
    return bool(MATHS.search(text)) and len(words) < 0.48 * len(text.split())


def _cell(match: re.Match) -> str:
    text = html.unescape(match["text"])
    if len(text) < 8 or not re.search(r"[/^]|Σ_", text) or not _is_maths(text):
        return match[0]
    return match[0].replace(match["text"], _line(text, "inline"))


def _line(text: str, display: str = "block") -> str:
    """One line: clauses of words between commas stay text."""
    body = "".join(map(_clause, _clauses(" ".join(text.split("\n")).strip())))
    return f'<math display="{display}" displaystyle="true">{body}</math>'


def _clauses(text: str) -> list[str]:
    """Split behind commas, colons and full stops outside brackets."""
    parts, depth, start = [], 0, 0
    for i, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sign in ",:." and text[i + 1 : i + 2] in {"", " "}:
            parts.append(text[start : i + 1])
            start = i + 1
    return [*parts, text[start:]]


def _clause(text: str) -> str:
    if re.search(r"[A-Za-z]{2}", text) and not (RELATION.search(text) or MATHS.search(text)):
        words = html.escape(text).replace(" ", "\u00a0")  # spaces at its ends stay
        return f"<mtext>{words}</mtext>"
    return _Reader(text).row()


class _Item(NamedTuple):
    """A piece of a row."""

    kind: str  # "atom", "space", "operator", "big" or "slash"
    markup: str
    inner: str = ""  # of a bracketed atom: what stands between the brackets

    def then(self, markup: str) -> _Item:
        return _Item(self.kind, f"<mrow>{self.markup}{markup}</mrow>")


class _Reader:
    """Reads one clause; juxtaposition is a product, as in the text."""

    def __init__(self, text: str) -> None:
        for run, table, sign in (("₀-₉₋₊ᵢⱼₖₙ", SUB, "_"), ("⁰¹²³⁴-⁹⁻⁺ᵀⁿᵏⁱ", SUPER, "^")):
            text = re.sub(f"[{run}]+", lambda m: f"{sign}{{{m[0].translate(table)}}}", text)  # noqa: B023
        text = unicodedata.normalize("NFD", text)
        self.tokens = TOKEN.findall(text)
        self.at = 0

    def row(self, closing: str = "") -> str:
        """Up to the closing bracket, which is consumed."""
        items: list[_Item] = []
        while self.at < len(self.tokens) and self.tokens[self.at] != closing:
            items.append(self.item())
        self.at += 1
        return "".join(item.markup for item in _fractions(items))

    def item(self) -> _Item:
        token = self.tokens[self.at]
        if token.isspace():
            self.at += 1
            return _Item("space", f'<mspace width="{1.5 if len(token) > 1 else 0.2}em"/>')
        if token in OPERATORS:
            self.at += 1
            sign = "−" if token == "-" else html.escape(token)
            return _Item("slash" if token == "/" else "operator", f"<mo>{sign}</mo>")
        base = self.atom()
        scripts = {"_": "", "^": ""}
        while self.at < len(self.tokens) and (mark := self.tokens[self.at]) in {
            *scripts,
            "′",
            "'",
            "!",
        }:
            self.at += 1
            if mark in scripts:
                scripts[mark] += self.script(nested=mark == "^")
            elif mark == "!":
                return self.scripted(token, base, scripts)._replace(kind="atom").then("<mo>!</mo>")
            else:
                base = base.then("<mo>′</mo>")
        return self.scripted(token, base, scripts)

    def scripted(self, token: str, base: _Item, scripts: dict[str, str]) -> _Item:
        low, high = scripts["_"], scripts["^"]
        # Σ is a sum where something follows it, and a covariance matrix elsewhere.
        follows = "".join(self.tokens[self.at : self.at + 2]).strip()[:1]
        is_sum = token in BIG and bool(low) and follows not in {"", ")", ",", "]", *OPERATORS}
        kind = "big" if is_sum else "atom"
        around = (
            "munder" if kind == "big" else "msubsup" if low and high else "msub" if low else "msup"
        )
        if not low and not high:
            return base
        parts = "".join(f"<mrow>{part}</mrow>" for part in (base.markup, low, high) if part)
        return _Item(kind, f"<{around}>{parts}</{around}>")

    def script(self, *, nested: bool) -> str:
        """What stands below or above: braces, brackets, or a short run of letters."""
        token = self.tokens[self.at]
        self.at += 1
        if token in {"{", "("}:
            return self.row(CLOSING[token])
        if token == "−":
            return "<mo>−</mo>" + self.script(nested=nested)
        text = _letters(token)
        if nested and self.tokens[self.at : self.at + 1] == ["_"]:
            self.at += 1
            return f"<msub><mrow>{text}</mrow><mrow>{self.script(nested=False)}</mrow></msub>"
        return text

    def atom(self) -> _Item:
        token = self.tokens[self.at]
        self.at += 1
        if token in {"√", "sqrt"} and self.at < len(self.tokens):
            inner = self.atom()
            return _Item("atom", f"<msqrt>{inner.inner or inner.markup}</msqrt>")
        if token in CLOSING and self.closes(token):
            inner = self.row(CLOSING[token])
            left, right = html.escape(token), html.escape(CLOSING[token])
            markup = f"<mrow><mo>{left}</mo>{inner}<mo>{right}</mo></mrow>"
            return _Item("atom", markup, inner if token == "(" else "")
        if token[0].isdigit() or token == "½":
            return _Item("atom", f"<mn>{token}</mn>")
        if token[1:] in ACCENTS:
            return _Item(
                "atom",
                f'<mover accent="true"><mi>{token[0]}</mi><mo>{ACCENTS[token[1:]]}</mo></mover>',
            )
        if len(token) > 1 and token[0].isascii():
            return _Item("atom", f"<mi>{html.escape(token)}</mi>")
        if token[0].isalpha() or token in "∂∇ℓ":
            return _Item("atom", f"<mi>{token}</mi>")
        return _Item(
            "big" if token in BIG else "atom", f'<mo stretchy="false">{html.escape(token)}</mo>'
        )

    def closes(self, token: str) -> bool:
        """Whether a bracket, or a bar that touches what follows it, has its partner."""
        rest = self.tokens[self.at :]
        if token not in "‖|":
            return CLOSING[token] in rest
        return bool(rest) and not rest[0].isspace() and token in rest


def _letters(token: str) -> str:
    """Of an index: single letters side by side, or a word."""
    if token.isdigit():
        return f"<mn>{token}</mn>"
    if len(token) <= 2 or not token.isalpha():
        return "".join(f"<mi>{html.escape(sign)}</mi>" for sign in token)
    return f"<mi>{html.escape(token)}</mi>"


def _fractions(items: list[_Item]) -> list[_Item]:
    """With a slash that touches its neighbours, or all products beside a slash with spaces."""
    done: list[_Item] = []
    rest = list(items)
    while rest:
        item = rest.pop(0)
        if item.kind != "slash":
            done.append(item)
            continue
        above: list[_Item] = []
        below: list[_Item] = []
        wide = bool(done) and done[-1].kind == "space"
        while rest and rest[0].kind == "space":
            rest.pop(0)
        while done and done[-1].kind in {"atom", "space"} and (wide or not above):
            above.insert(0, done.pop())
        while (
            rest
            and rest[0].kind in {"atom", "big", *(("space",) if wide else ())}
            and (wide or not below)
        ):
            below.append(rest.pop(0))
        markup = (
            f"<mfrac><mrow>{_unbracketed(above)}</mrow><mrow>{_unbracketed(below)}</mrow></mfrac>"
        )
        done.append(_Item("atom", markup))
    return done


def _unbracketed(items: list[_Item]) -> str:
    solid = [item for item in items if item.kind != "space"]
    if len(solid) == 1 and solid[0].inner:
        return solid[0].inner
    while items and items[0].kind == "space":
        items = items[1:]
    while items and items[-1].kind == "space":
        items = items[:-1]
    return "".join(item.markup for item in items)
