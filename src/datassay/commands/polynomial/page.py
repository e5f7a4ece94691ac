"""The page of a polynomial surrogate."""

from __future__ import annotations

import numpy as np

from datassay.commands.polynomial import figures
from datassay.commands.polynomial.advice import advice
from datassay.commands.polynomial.explained import explained_cards
from datassay.commands.polynomial.files import FILES
from datassay.commands.polynomial.findings import PolynomialFindings, term_names
from datassay.commands.polynomial.method import notes
from datassay.polynomial.maps import CoefMaps
from datassay.report.drawing import heat_image, heat_limit
from datassay.report.page import (
    Block,
    Code,
    Figure,
    Heading,
    Page,
    Pair,
    Partial,
    Row,
    Section,
    Table,
    Text,
)
from datassay.report.wording import count, number, percent, signed
from datassay.score.compare.robustness import Robustness

N_COEF, MAX_OUTPUTS = 20, 12
SNIPPET = """\
from pathlib import Path

from datassay.polynomial import contributions, load_surrogate

fitted = load_surrogate(Path("polynomial.safetensors"))  # arrays and names: nothing is unpickled
outputs = fitted.outputs(x)  # x as you gave it to datassay, [n, ...] -> [n, q]
parts = contributions(fitted.polynomial, fitted.inputs(x[:1]))
print(fitted.output_names, outputs[0])
print(parts.constant + parts.shares[0].sum(axis=0))  # the same, by input
"""


def page(findings: PolynomialFindings) -> Page:
    """Everything that the command says."""
    scores, facts, pieces = findings.scores, findings.facts, advice(findings)
    p = findings.surrogate.polynomial.monomials.n_features
    sections = [_scores(findings), _fit(findings), _weights(findings), _why(findings)]
    sections += [_robust(findings), _use()]
    return Page(
        brand="datassay polynomial · a surrogate whose weights can be read",
        title=findings.samples.name,
        lead=f"A polynomial of {count(p, 'feature')}, validation {scores.metric} "
        f"{scores.each[-1].mean():.3f}",
        facts=facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=pieces,
        sections=tuple(section for section in sections if section is not None),
        method=notes(findings),
        files=FILES,
        columns=findings.samples.columns,
        answer=(
            f"{facts['Features']}; {facts['Fit']}.",
            *(f"{piece.headline}." for piece in pieces),
        ),
    )


def _scores(findings: PolynomialFindings) -> Section:
    """Simpler models and this one, a row each."""
    scores, rows = findings.scores, []
    for i, name in enumerate(scores.names):
        better, interval = "–", "–"
        if i < len(scores.names) - 1:
            change, half = scores.difference(i)
            better = signed(change, scores.metric)
            low, high = (signed(change + s * half, scores.metric) for s in (-1, 1))
            interval = f"{low} to {high}"
        val, train = (_score(float(values[i].mean())) for values in (scores.each, scores.train))
        rows.append(Row(name, (f"{scores.n_features[i]:,}", val, train, better, interval)))
    unit = ", points" if scores.metric == "accuracy" else ""
    columns = (
        "model", "features", f"validation {scores.metric}", f"training {scores.metric}",
        f"ours better by{unit}", "95 % interval",
    )  # fmt: skip
    return Section("scores", "How good it is", "How good it is", (
        Text("This polynomial beside simpler models, on the same samples."),
        Table("Scores", columns, tuple(rows), in_terminal=True),
    ))  # fmt: skip


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def _fit(findings: PolynomialFindings) -> Section | None:
    fit = findings.fit
    if fit is not None and fit.path is not None:
        note = (
            f"Each ridge's error is measured on {count(fit.path.n_rows, 'training sample')}, each "
            "left out of the fit in turn, in closed form. The validation samples have no say."
        )
        text, drawn = "Leave-one-out error against the ridge", figures.ridge_figure(fit.path)
        return Section("fit", "Fit", "How the ridge was chosen", (
            Text(note), Figure("ridge", drawn, text)
        ))  # fmt: skip
    if fit is None or fit.curve is None:
        return None
    note = (
        "Each batch alone fits its own samples and little else; their average is better on samples "
        "that none of them saw, and fits the training samples less (S3 Figs 3.11 and 3.12)."
    )
    text, drawn = "Score against the number of batches", figures.batch_figure(fit.curve)
    return Section("fit", "Fit", "How the batches add up", (
        Text(note), Figure("batches", drawn, text)
    ))  # fmt: skip


def _weights(findings: PolynomialFindings) -> Section:
    """The coefficients, as maps where there are images, and what each degree adds to outputs."""
    names, spread, maps = findings.surrogate.output_names, findings.degree_spread, findings.maps
    own = "class" if findings.samples.is_classification else "target"
    columns = (own, *(f"degree {t}" for t in range(1, len(spread) + 1)))
    rows = [
        Row(name, tuple(number(float(s)) for s in of_output))
        for name, of_output in zip(names[:MAX_OUTPUTS], spread.T, strict=False)
    ]
    blocks = _coefficients(findings) if maps is None else _maps(maps, names, own)
    blocks += [
        Heading("How much each degree moves the output"),
        Text("Standard deviation over validation samples of the sum of the products of each "
             "degree. Parts can cancel: their sum may vary less than either.", note=True),
        Table("Spread by degree", columns, tuple(rows), wraps=False),
    ]  # fmt: skip
    if maps is None:
        return Section("maps", "Coefficients", "Largest coefficients", tuple(blocks))
    return Section("maps", "What it weighs", "What it weighs where", tuple(blocks))


def _maps(maps: CoefMaps, names: tuple[str, ...], own: str) -> list[Block]:
    """One picture an output and degree; all of a degree have one scale."""
    blocks: list[Block] = [
        Text(f"One map a {own}. Orange raises the output, blue lowers it; all maps of a degree "
             "have one scale.")
    ]  # fmt: skip
    for title, values in (
        ("Degree 1: single pixels", maps.degree_1),
        ("Degree 2: pairs of pixels, at their middle", maps.degree_2),
    ):
        if values is maps.degree_2 and not values.any():
            continue
        limit = heat_limit(values)
        beyond = percent(round(float((np.abs(values) > limit).mean()), 3))
        pictures = [(n, heat_image(v, limit)) for n, v in zip(names, values, strict=True)]
        note = f"The {beyond} of cells beyond ±{number(limit)} have the end colour."
        blocks += [
            Heading(title),
            Partial("maps.html", {"limit": number(limit), "pictures": pictures}),
            Text(note, note=True),
        ]
    return blocks


def _coefficients(findings: PolynomialFindings) -> list[Block]:
    """The constant, then the products with the largest coefficient among the outputs shown."""
    coef = findings.surrogate.polynomial.monomial_coef  # [p, q]
    (p, q), shown = coef.shape, coef[:, :MAX_OUTPUTS]
    names = ["constant", *term_names(findings.surrogate)[1:]]
    order = np.argsort(-np.abs(shown[1:]).max(axis=1), kind="stable")[:N_COEF] + 1
    rows = tuple(Row(names[k], tuple(_coef(float(v)) for v in shown[k])) for k in (0, *order))
    some = f", of the first {MAX_OUTPUTS} of {q} outputs" if q > MAX_OUTPUTS else ""
    scaled = "" if findings.samples.kind != "row" else (
        " Inputs are in standard deviations from their mean: a coefficient is what one standard "
        "deviation of each input in the product adds."
    )  # fmt: skip
    note = (
        f"The {len(order)} largest of {count(p - 1, 'coefficient')} an output{some}; all are in "
        f"coefficients.parquet.{scaled}"
    )
    columns = ("product", *findings.surrogate.output_names[:MAX_OUTPUTS])
    return [Text(note), Table("Coefficients", columns, rows, wraps=False)]


def _coef(value: float) -> str:
    return ("−" if value < 0 else "") + number(abs(value))


def _why(findings: PolynomialFindings) -> Section:
    cards = explained_cards(findings)
    wrong = " Wrong predictions stand first." if any(card.is_wrong for card in cards) else ""
    blocks: list[Block] = [
        Text("Validation samples with their outputs taken apart into products; the parts of an "
             f"output sum to it exactly.{wrong}")
    ]  # fmt: skip
    if findings.maps is not None:
        blocks.append(Text(
            "Maps divide each product equally among its pixels, over the sample in grey: orange "
            "speaks for the class, blue against it. Both maps of a sample have one scale. Bars are "
            "the largest products, as (row, column) from 0.", note=True,
        ))  # fmt: skip
    blocks.append(Partial("apart.html", {"cards": cards}))
    return Section("why", "Why this prediction", "Why this prediction", tuple(blocks))


def _robust(findings: PolynomialFindings) -> Section | None:
    if not findings.robustness:
        return None
    noise, patches = findings.robustness
    return Section("robust", "Robustness", "Robustness", (
        Text("Scores of corrupted validation images, the model as it is. Below each: the share of "
             "its own clean score that a model loses, which is what robustness means (S3 §3.6.2); "
             "lower is better."),
        Pair((
            _levels(noise, "Noise on every pixel"),
            _levels(patches, "A black patch"),
            _levels(noise, "Lost to noise", lost=True),
            _levels(patches, "Lost to a patch", lost=True),
        )),
    ))  # fmt: skip


def _levels(robust: Robustness, title: str, lost: bool = False) -> Figure:
    name = f"{robust.corruption}_drop" if lost else robust.corruption
    what = "Share of the accuracy lost" if lost else "Accuracy"
    text = f"{what} against {figures.LEVELS[robust.corruption]}"
    return Figure(name, figures.level_figure(robust, lost), text, title=title)


def _use() -> Section:
    text = (
        "`polynomial.safetensors` holds the coefficients, the inputs' scale and the names. "
        "`datassay polynomial DATA --model polynomial.safetensors` scores it on other data; in "
        "Python:"
    )
    return Section("use", "Use it", "Use it", (Text(text, code=True), Code(SNIPPET)))
