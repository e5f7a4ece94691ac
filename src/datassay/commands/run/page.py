"""The page of a run: what it says stands in `report/text/run.md.j2`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from datassay.commands.run import figures, tables
from datassay.commands.run.files import FILES, NO_EFFECTS
from datassay.commands.run.findings import Findings
from datassay.commands.run.gallery import (
    first_samples,
    gallery,
    pair_cards,
    predictions,
    reviewed,
)
from datassay.commands.run.labels import (
    OVERLOOKED,
    confusions,
    noise_sentence,
    to_check,
    truth_sentence,
)
from datassay.commands.run.steps.budget import BUDGET
from datassay.commands.run.steps.projection import PROJECTION_FACTS
from datassay.commands.run.suspects import suspects_shown
from datassay.commands.run.table import score_section
from datassay.commands.run.verdict import Verdict, verdict
from datassay.report.compose import compose
from datassay.report.page import Gallery, Page, Pair
from datassay.report.predictions import effect_words, picker
from datassay.report.review.showcase import review_block
from datassay.report.wording import count, score_text
from datassay.results import result
from datassay.score.registry import further_scores
from datassay.score.sample_information import OF_SGD

MAX_P, MIN_RATIO = 0.01, 1.5  # of a class that stands out in information
ROLES = ("target", "ids", "source", "left out")


@result
class UnusualClass:
    """A class whose samples carry more information than those of the others."""

    name: str  # of the class
    ratio: float  # its median information over that of the rest; infinite where theirs is 0
    p: float  # one-sided Mann–Whitney U test against the rest, Bonferroni over classes


def page(findings: Findings, out: str = "") -> Page:
    """Everything that `datassay run` and `datassay score` say; `out` is the folder of its files."""
    samples, first, said = findings.samples, to_check(findings), verdict(findings, out)
    page = compose(
        "run",
        _blocks(findings, first),
        _numbers(findings, said),
        facts=_table_facts(findings) | findings.facts,
        warnings=samples.warnings + findings.warnings,
        files=FILES if findings.attribution is not None else FILES | NO_EFFECTS,
        columns=samples.columns,
    )
    further = [one for one in further_scores() if findings.scores.get(one.name) is not None]
    sections = [
        replace(score_section(one, samples, findings.scores[one.name]), line=one.help)
        for one in further
    ]
    return replace(
        page,
        sections=(*page.sections, *sections),
        verdict=said.sentence,
        advice=said.cards,
        commands=said.commands,
        note=said.note,
        button=said.labels.review,
        samples=first_samples(findings, first) if said.labels.n_review else None,
    )


def _blocks(findings: Findings, first: np.ndarray) -> dict[str, Any]:
    """Figures, tables and cards, by the name that the template has for them, made where it has."""
    f: Any = findings  # what a block shows is there where the template names it
    cards, information = gallery(findings), findings.information.information
    confused, is_drawn = confusions(f), f.samples.n_classes <= figures.MOST_DRAWN
    is_drawn = is_drawn and f.samples.is_classification
    alike, contrary = map(Gallery, pair_cards(f))
    several = f.has_several_labels
    return {
        "before": lambda: tables.before_table(f.before),
        "relabelled": lambda: tables.relabelled_table(f.before),
        "acts": lambda: figures.acts_figure(f.acts),
        "acts_table": lambda: tables.acts_table(f.acts),
        "acts_details": lambda: tables.acts_details(f.acts),
        "review": review_block(reviewed(f), first),
        "suspects": suspects_shown(f),
        "data_issues": lambda: tables.issues_table(f.data_issues),
        "near_duplicates": lambda: tables.near_table(f.data_issues),
        "information": figures.information_figure(f),
        "sources": lambda: figures.comparison_figure(information, figures.source_groups(f)),
        **{f"totals_{by}": tables.group_table(f, by) for by in f.groups},
        "gallery": cards,
        "alike": alike,
        "contrary": contrary,
        "subsets": lambda: figures.subset_figure(f),
        "why": lambda: picker(predictions(f), cards.kind),
        "issues": figures.issue_figure(f),
        "noise": figures.noise_figure(f) if confused and is_drawn else None,
        "confusions": (
            tables.confusion_table(confused, several=several) if confused and not is_drawn else None
        ),
        "modes": figures.modes_figure(f),
        "removal": lambda: figures.removal_figure(f.removal_curve),
        "contests": lambda: Pair(tuple(map(tables.contest_table, f.contests))),
        "check": lambda: figures.check_figure(f.check),
        "projection": lambda: figures.projection_figure(f.projection_quality),
    }


def _numbers(findings: Findings, said: Verdict) -> dict[str, Any]:
    """What the template names beside the findings themselves."""
    f, curve, samples = findings, findings.removal_curve, findings.samples
    unusual = unusual_classes(f)
    explained = None if f.attribution is None else predictions(f)
    shown = (*PROJECTION_FACTS, BUDGET)
    subset_rank, stood = (None, ()) if f.average is None else figures.stand_ins(f)
    suspect, n_top = f.issues.is_issue, min(100, max(5, len(samples) // 10))
    top = np.argsort(-f.information.information, kind="stable")[:n_top]
    noise = f.issues.noise
    return {
        "f": f,
        "v": said,
        "n": len(samples),
        "metric": curve.metric if curve else "accuracy" if samples.is_classification else "R²",
        "curve": curve,
        "quality": f.projection_quality,
        "told_facts": {name: f.facts[name] for name in shown if name in f.facts},
        "reached": "" if f.acts is None else score_text(f.acts.score, f.acts.metric),
        "is_cut": f.acts is not None and figures.is_cut(f.acts),
        "n_top": len(top),
        "n_top_suspects": int(suspect[top].sum()),
        "truth": truth_sentence(f),
        "noise": noise_sentence(f),
        "confused": confusions(f),
        "overlooked": OVERLOOKED,
        "noise_gain": noise[0].gain if len(noise) == 1 and np.isfinite(noise[0].gain) else None,
        "data_line": _data_line(f),
        "unusual": unusual,
        "unusual_line": _unusual_line(unusual),
        "max_p": MAX_P,
        "alike": f.pairs is not None and bool((f.pairs.interaction < 0).any()),
        "contrary": f.pairs is not None and bool((f.pairs.interaction > 0).any()),
        "subset_rank": subset_rank,
        "stood": stood,
        "factor": f"{figures.FACTOR:g}",
        "queried": explained and explained.queried,
        "effect_on": explained and effect_words(explained)[0],
        "beyond": figures.beyond(f),
        "of_sgd": OF_SGD,
    }


def _data_line(findings: Findings) -> str:
    """What is wrong beside the labels, counted."""
    found = findings.data_issues
    parts = [] if found is None else [f"{one.kind}: {one.count:,}" for one in found.issues]
    return "; ".join([f"{parts[0][0].upper()}{parts[0][1:]}", *parts[1:]]) if parts else ""


def _unusual_line(unusual: list[UnusualClass]) -> str:
    """Which classes inform unusually much, three at most; empty where none does."""
    if not unusual:
        return ""
    first, *others = unusual
    more = [f"; of class {one.name} {one.ratio:.1f} times" for one in others[:2]]
    more += ["; …"] * (len(others) > 2)
    much = f"tells {first.ratio:.1f} times as much as those of the others"
    if not np.isfinite(first.ratio):
        much, more = "tells something, those of the others nothing", []
    return f"The median sample of class {first.name} {much}{''.join(more)}."


def unusual_classes(findings: Findings) -> list[UnusualClass]:
    """Classes whose samples carry unusually much information, the most first."""
    from scipy.stats import mannwhitneyu  # scipy.stats costs 0.5 s to import

    samples, information, unusual = findings.samples, findings.information.information, []
    for index, name in enumerate(samples.class_names):
        inside = samples.y == index
        if inside.all() or not inside.any():
            continue
        ours, rest = information[inside], information[~inside]
        p = float(mannwhitneyu(ours, rest, alternative="greater").pvalue) * samples.n_classes
        low, high = float(np.median(rest)), float(np.median(ours))
        ratio = high / low if low else float("inf") if high > 0 else 1.0
        if p < MAX_P and ratio >= MIN_RATIO:
            unusual.append(UnusualClass(name, ratio, p))
    return sorted(unusual, key=lambda one: -one.ratio)


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
