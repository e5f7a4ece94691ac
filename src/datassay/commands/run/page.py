"""The page of a run."""

from __future__ import annotations

import numpy as np

from datassay.act.remove.rivals import Contest
from datassay.commands.run.advice import advice
from datassay.commands.run.blocks import (
    acts,
    before,
    checks,
    pairs,
    queries,
    review,
    suspects,
    totals,
)
from datassay.commands.run.blocks.gallery import gallery
from datassay.commands.run.figures.check import check_figure
from datassay.commands.run.figures.labels import MOST_DRAWN, beyond, issue_figure, noise_figure
from datassay.commands.run.figures.projection import projection_figure
from datassay.commands.run.figures.samples import information_figure
from datassay.commands.run.figures.subsets import FACTOR, stand_ins, subset_figure
from datassay.commands.run.figures.training import (
    gain_figure,
    modes_figure,
    removal_figure,
    spectrum_figure,
)
from datassay.commands.run.files import FILES, NO_EFFECTS
from datassay.commands.run.findings import RANDOM, Findings
from datassay.commands.run.labels import OVERLOOKED, confusions, expected_sentence, noise_sentence
from datassay.commands.run.method import notes
from datassay.commands.run.steps.budget import BUDGET
from datassay.commands.run.steps.projection import PROJECTION_FACTS
from datassay.report.page import Figure, Page, Pair, Row, Section, Table, Text
from datassay.report.wording import count, number, percent

MOST_CONFUSIONS = 20
ROLES = ("target", "ids", "source", "left out")
# Facts for who checks the method, not for who wants to know what is wrong with the data.
INTERNALS = (
    "Data SHA-256", "Weights SHA-256", "Linearised training", "Step size", "Jacobian",
    "Same Jacobian", "Scores", "Influence", "Information", "Retraining", "Store", "Seed",
)  # fmt: skip


def page(findings: Findings) -> Page:
    """Everything that `datassay run` and `datassay score` say."""
    labels, *others = advice(findings)
    answer = (*before.gain_advice(findings), *acts.acts_advice(findings), labels)
    facts, cards = findings.facts, gallery(findings)
    return Page(
        brand="datassay · which training samples matter",
        title=findings.samples.name,
        lead=f"{_lead(findings)}. {'. '.join(one.headline for one in answer)}.",
        facts=_table_facts(findings) | facts,
        warnings=findings.samples.warnings + findings.warnings,
        advice=(*answer, *others),
        opening=(*before.section(findings), *acts.section(findings)),
        sections=(
            review.section(findings),
            *suspects.section(findings),
            *checks.section(findings),
            _information(findings),
            *totals.sections(findings),
            Section("gallery", "Gallery", "Gallery", (cards,)),
            *pairs.section(findings),
            *_subsets(findings),
            *queries.section(findings, cards.kind),
            _labels(findings),
            _modes(findings),
            _removal(findings),
            *_contests(findings),
            *_check(findings),
            *_projection(findings),
        ),
        method=notes(findings),
        files=FILES if findings.attribution is not None else FILES | NO_EFFECTS,
        columns=findings.samples.columns,
        internals=INTERNALS,
        answer=(
            *(f"{one.headline}: {one.sentence}" for one in answer[:-1]),
            f"{labels.headline}. {expected_sentence(findings)}",
            *(f"{contest.measure}: {contest.verdict}" for contest in findings.contests),
            *(f"{name}: {facts[name]}" for name in (*PROJECTION_FACTS, BUDGET) if name in facts),
        ),
    )


def _table_facts(findings: Findings) -> dict[str, str]:
    """Of a table: the target, and what became of the columns."""
    columns, samples = findings.samples.columns, findings.samples
    target = next((c.name for c in columns if c.read_as == "target"), None)
    if samples.rows is None or target is None:
        return {}
    what = count(samples.n_classes, "class", "classes") if samples.class_names else "a quantity"
    left = [c.name for c in columns if c.read_as == "left out"]
    used = count(sum(c.read_as not in ROLES for c in columns), "column")
    if left:
        named = ", ".join(left[:3]) + ", …" * (len(left) > 3)
        used += f" used, {len(left):,} left out ({named})"
    missing = sum(c.missing > 0 for c in columns)
    used += f"; {missing:,} with missing values" if missing else ""
    return {"Target": f"{target}, {what}", "Columns": used}


def _lead(findings: Findings) -> str:
    samples = findings.samples
    parts = [count(len(samples), "training sample")]
    if findings.validation is not None:
        parts.append(count(len(findings.validation), "validation sample"))
    if samples.is_classification:
        parts.append(count(samples.n_classes, "class", "classes"))
    elif findings.has_several_labels:
        parts.append(f"{samples.y.shape[1]} labels each")
    else:
        parts.append("regression")
    return ", ".join(parts)


def _information(findings: Findings) -> Section:
    classes = findings.samples.is_classification
    text = "How much each sample tells the trained network, in nats, on a logarithmic axis."
    click = " Click a class in the legend to hide it, double-click to see it alone."
    drawing = information_figure(findings)
    title = f"Information {'by class' if classes else 'of the samples'}"
    return Section("information", "Information", title, (
        Text(text + click * classes),
        Figure("information", drawing, "Histogram of information by class"),
    ))  # fmt: skip


def _subsets(findings: Findings) -> tuple[Section, ...]:
    average = findings.average
    if average is None:
        return ()
    rank, stood = stand_ins(findings)
    sizes = ", ".join(percent(share) for share in average.fractions)
    note = (
        f"Means over {count(int(average.n_draws.max()), 'draw')} a sample at most, of {sizes} of "
        f"the samples. The rank correlation of both is {number(rank)}."
    )
    if len(stood):
        ids = ", ".join(str(i) for i in findings.samples.ids[stood[:5]])
        note += (
            f" {count(len(stood), 'sample')}, first {ids}, gain{'s' if len(stood) == 1 else ''} "
            f"over {FACTOR:g} times as much as the median one: others stand in for them."
        )
    text = (
        "Left out alone, a sample is missed only as far as no other says the same. Beside random "
        "subsets of the others it tells more: the further above the rest a mark lies, the more of "
        "its information others hold too."
    )
    described = "Information beside random subsets against that beside all other samples"
    return (Section("subsets", "Beside fewer", "Information beside fewer samples", (
        Text(text),
        Figure("subsets", subset_figure(findings), described),
        Text(f"{note} Both are columns of scores.parquet.", note=True),
    )),)  # fmt: skip


def _labels(findings: Findings) -> Section:
    if findings.issues.posterior is not None:
        whole = "at least one label" if findings.has_several_labels else "the given label"
        rule = (
            f"How likely {whole} is wrong, by a fit that never saw the sample and by the noise "
            "that explains the given labels best; above 50 % it is suspected."
        )
    else:
        rule = (
            "The score is the modified z-score of the held-out residual minus 3.5. Suspected are "
            "targets that are more likely wrong than right, their residuals too large for those "
            "of the others."
        )
    truth = "The true labels are known here, so the colours show how right it is."
    if findings.samples.true_y is None:
        truth = "Which labels are really wrong is not known here."
    parts = [Text(f"{rule} {truth} {OVERLOOKED}")]
    parts += [Figure("issues", issue_figure(findings), "Histogram of label issue scores")]
    if outside := beyond(findings):
        note = f"{count(outside, 'sample')} beyond the axis {'is' if outside == 1 else 'are'}"
        parts += [Text(f"{note} counted in its outermost bars.", note=True)]
    return Section("labels", "Label errors", "Label errors", (*parts, *_noise(findings)))


def _noise(findings: Findings) -> tuple[Text | Figure | Table, ...]:
    sentence = noise_sentence(findings).strip()
    told, samples = confusions(findings), findings.samples
    if not told:
        return (Text(sentence),) if sentence else ()
    if samples.is_classification and samples.n_classes <= MOST_DRAWN:
        text = "How often a true class is given another label, in per cent"
        return (Text(sentence), Figure("noise", noise_figure(findings), text, title=text))
    columns = ("true class", "given label", "share of the class")
    if findings.has_several_labels:
        columns = ("label", "what is wrong", "share")
    rows = tuple(Row(c.true, (c.given, percent(round(c.share, 3)))) for c in told[:MOST_CONFUSIONS])
    return (Text(sentence), Table("Label noise found", columns, rows))


def _modes(findings: Findings) -> Section:
    text = (
        "Along each mode of the kernel the error decays at a rate set by that mode's eigenvalue, "
        "so the few large ones (broad patterns) are learned first and the long tail (fine detail, "
        "noise) last or never: the spectral bias."
    )
    spectrum = Figure(
        "spectrum", spectrum_figure(findings), "Eigenvalues of the kernel by mode",
        title="Spectrum of the kernel",
    )  # fmt: skip
    modes = Figure(
        "modes", modes_figure(findings), "Predicted residual left against training steps",
        title="Predicted error left, by mode",
    )  # fmt: skip
    title = "What the network learns when"
    return Section("modes", "Learned when", title, (Text(text), Pair((spectrum, modes))))


def _removal(findings: Findings) -> Section:
    curve = findings.removal_curve
    metric = "accuracy" if findings.samples.is_classification else "R²"
    metric = metric if curve is None else curve.metric
    title = f"{metric[:1].upper()}{metric[1:]} against fraction removed"
    if curve is None:
        text = Text("Not measured in this run.")
        return Section("removal", "Removal", title, (text,))
    n_seeds = curve.score.shape[2]
    bars = f"Lines are means, error bars one standard deviation, over {n_seeds} seeds."
    bars = "One seed only, so there are no error bars." if n_seeds == 1 else bars
    text = Text(f"Networks retrained on what each ranking keeps. {bars}")
    described = f"{metric} against fraction removed, by ranking: {', '.join(curve.rankings)}"
    removal = removal_figure(findings)
    if RANDOM not in curve.rankings:
        return Section("removal", "Removal", title, (text, Figure("removal", removal, described)))
    scores = Figure("removal", removal, described, title="Score of the retrained networks")
    gains = Figure(
        "gain", gain_figure(findings), f"gain of {metric} over random removal, by ranking",
        title="Gain over removing as many at random",
    )  # fmt: skip
    return Section("removal", "Removal", title, (text, Pair((scores, gains))))


def _contests(findings: Findings) -> tuple[Section, ...]:
    if not findings.contests:
        return ()
    tables = Pair(tuple(_contest(contest) for contest in findings.contests))
    text = Text("Our rankings beside their one-line rivals, on the same measure.")
    return (Section("contests", "Who won", "Who won here", (text, tables)),)


def _contest(contest: Contest) -> Table:
    best = np.nanmax(contest.values) if np.isfinite(contest.values).any() else None
    rows = []
    for name, value, spread in zip(contest.rankings, contest.values, contest.spreads, strict=True):
        text = number(value) + (f" ± {spread:.2g}" if spread > 0 else "")
        rows.append(Row(name, (text,), best=bool(value == best)))
    columns, measure = ("ranking", "value"), contest.measure
    return Table(measure, columns, tuple(rows), caption=measure, note=contest.verdict)


def _check(findings: Findings) -> tuple[Section, ...]:
    check = findings.check
    if check is None:
        return ()
    low, high = check.interval
    text = (
        f"{len(check.ids)} of the samples, drawn at random: the real network was trained again "
        "without each, from the same weights, by full-batch descent with the same step size and "
        "number of steps. What that changed in its predictions has a correlation of "
        f"{check.pearson:.3f} (95 % interval {low:.3f} to {high:.3f}) with what the linearised "
        f"network says, and a rank correlation of {check.rank:.3f}; changes of the weights "
        f"{check.weights:.3f}. On the dashed line the two agree."
    )
    described = "Change of the predictions by retraining against that of the linearised network"
    drawing = Figure("check", check_figure(check), described)
    return (Section("check", "Checked", "Checked by retraining", (Text(text), drawing)),)


def _projection(findings: Findings) -> tuple[Section, ...]:
    quality = findings.projection_quality
    if quality is None or not quality.projection:
        return ()
    alone = f", which shows what {quality.outputs} outputs alone leave"
    alone = alone if quality.outputs != quality.reference else ""
    text = (
        f"{quality.n_samples} of the samples scored both ways: from the features that this run "
        f"collects, and exactly, by the {quality.reference} kernel. Dashed: the same without any "
        f"projection{alone}. More samples differ by finer directions than so many features keep: "
        "with them the same p may rank less well."
    )
    described = "Rank correlation with exact scores against number of features"
    drawing = Figure("projection", projection_figure(quality), described)
    title = "How many features that takes"
    return (Section("projection", "How many features", title, (Text(text), drawing)),)
