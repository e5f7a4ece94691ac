"""What a notebook shows of an assay: the verdict, warnings, suspects, actions, how to go on."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
from markupsafe import Markup, escape

from datassay.act.choose.gains import RETRAINED
from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import ABOVE_RULE, to_check
from datassay.commands.run.suspects import PROBABLY, suspects_table
from datassay.commands.run.tables import acts_table
from datassay.commands.run.verdict import BUDGET_OVER, NOT_COMPARED, Verdict, verdict
from datassay.data.samples import SampleSet
from datassay.optional import text_if
from datassay.report.drawing import draw
from datassay.report.notebook import short_html
from datassay.report.page import Row, Table
from datassay.report.wording import count, rough_percent, shortened, value_text
from datassay.score.checks.columns import columns_first

MOST_WARNINGS = 3
MOST_SUSPECTS = 10
MOST_COLUMNS = 9
LONGEST, SIDE = 24, 32  # characters of a value, pixels of an image
# At most so many words of a text are marked; each is in so many texts of the suggested class or
# more, and so many times as often there as in the given class.
MOST_MARKED, FEWEST_TEXTS, TIMES = 5, 3, 2.0
MOST_TEXTS = 2000  # of a class, in which words are counted

MARKED = "Yellow: words that tell the suggested label from the given one."
UNMEASURED = "What actions gain was not measured; a larger budget measures it."


def assay_html(findings: Findings, hints: str) -> str:
    """Return what is shown as the value of a cell, as HTML without scripts.

    Args:
        findings: of the run.
        hints: how to go on, in a line.
    """
    run_verdict = verdict(findings)
    warnings = findings.warnings
    lines = [f"Warning: {warning}" for warning in warnings[:MOST_WARNINGS]]
    n_more = len(warnings[MOST_WARNINGS:])
    if n_more:
        lines += [f"{count(n_more, 'more warning')}: .warnings holds all."]
    suspects = suspects_in_short(findings)
    key = [MARKED] if suspects is not None and findings.samples.texts is not None else []
    tables = []
    if findings.acts is not None:
        actions = findings.acts.actions  # of those not measured only what may help
        actions = tuple(a for a in actions if a.how == RETRAINED or a.is_advised)
        tables = [acts_table(replace(findings.acts, actions=actions))] if actions else []
    blocks = [*filter(None, [suspects]), *key, *tables, *_advise(run_verdict)]
    return short_html(run_verdict.sentence, *lines, *blocks, hints)


def _advise(run_verdict: Verdict) -> list[str]:
    """Return a line for each card of the verdict, and one on why no gain is known."""
    lines = [f"{card.headline}. {card.sentence}" for card in run_verdict.cards]
    note = UNMEASURED
    if run_verdict.note not in {NOT_COMPARED, BUDGET_OVER}:
        note = run_verdict.note
    return [*lines, *filter(None, [note])]


def suspects_in_short(findings: Findings) -> Table | None:
    """Return the ten most suspect samples and what they look like; None if there are none."""
    positions = to_check(findings)
    if not len(positions):
        return None
    order = positions[:MOST_SUSPECTS]
    table = suspects_table(findings).slice(0, MOST_SUSPECTS)
    probabilities = table["wrong_probability"].to_pylist()
    chances = ["not clear" if p is None else rough_percent(p) for p in probabilities]
    columns = {"given": table["given"].to_pylist(), "suggested": table["suggested"].to_pylist()}
    columns |= {"likely wrong": chances, **_show_samples(findings, order)}
    rows = zip(table["id"].to_pylist(), zip(*columns.values(), strict=True), strict=True)
    noun = "target"
    if findings.samples.is_classification or findings.has_several_labels:
        noun = "label"
    name = f"{count(len(positions), noun)} to review"
    name += text_if(len(order) < len(positions), f", the {len(order)} most suspect")
    rule = "over 50 %" if noun == "target" else ABOVE_RULE
    n_probable = table["list"].to_pylist().count(PROBABLY)
    if 0 < n_probable < len(order):
        name += f": the first {n_probable} probably wrong ({rule}), the others worth a look"
    return Table(name, ("id", *columns), tuple(Row(str(i), cells) for i, cells in rows))


def _show_samples(findings: Findings, order: np.ndarray) -> dict[str, list[str]]:
    """Return column name → cells [s] that show the samples: pictures, texts or inputs of a row."""
    samples = findings.samples
    drawings = draw(samples, order, SIDE * 2)
    if drawings[0].image:
        form = '<img src="{}" alt="" style="height:{}px;image-rendering:pixelated">'
        return {"image": [Markup(form).format(d.image, SIDE) for d in drawings]}
    if drawings[0].text:
        suggested = findings.issues.suggested_label[order]
        pairs = zip(order, drawings, suggested, strict=True)
        form = Markup('<div style="max-width:44em">{}</div>')
        texts = [mark_words(samples, int(i), d.text, s) for i, d, s in pairs]
        return {"text": [form.format(text) for text in texts]}
    rows = samples.used_rows
    names = columns_first(samples)[:MOST_COLUMNS]
    if rows is None or not names:
        words = [", ".join(f"{n} {v}" for n, v in drawing.values) for drawing in drawings]
        return {"most unusual values": words}
    return {
        f"{name} (data)" if name in {"given", "suggested"} else name: [
            shortened(value_text(rows[name][int(i)].as_py()), LONGEST) for i in order
        ]
        for name in names
    }


def mark_words(samples: SampleSet, position: int, text: str, suggested: object) -> Markup:
    """Return the text as HTML; words typical of the suggested class, not the given one, marked.

    They occur in three texts of that class or more, and twice as often there as in the class that
    is given.
    """
    given_label = samples.y[position]
    if samples.texts is None or not samples.is_classification or suggested == given_label:
        return escape(text)
    words = {word.casefold() for word in re.findall(r"\w{2,}", text)}
    suggested_counts, n_suggested = _count_texts(samples, suggested, words)
    given_counts, n_given = _count_texts(samples, given_label, words)
    ratios = {}
    for word in words:
        suggested_share = (suggested_counts[word] + 1) / (n_suggested + 2)
        given_share = (given_counts[word] + 1) / (n_given + 2)
        if suggested_counts[word] >= FEWEST_TEXTS and suggested_share >= TIMES * given_share:
            ratios[word] = suggested_share / given_share
    marked = sorted(ratios, key=lambda word: -ratios[word])[:MOST_MARKED]
    parts = re.split(r"(\w{2,})", text)
    form = Markup('<mark style="padding:0">{}</mark>')
    return Markup("").join(form.format(p) if p.casefold() in marked else p for p in parts)


def _count_texts(samples: SampleSet, label: object, words: set[str]) -> tuple[Counter[str], int]:
    """Return word → number of texts of a class with it, and the number of those texts."""
    counts: Counter[str] = Counter()
    assert samples.texts is not None
    positions = np.flatnonzero(samples.y == label)[:MOST_TEXTS]
    for i in positions:
        counts.update(words & {*re.findall(r"\w{2,}", str(samples.texts[int(i)]).casefold())})
    return counts, len(positions)
