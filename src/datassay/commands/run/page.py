"""The page of a run: what it says stands in `report/text/run.md.j2`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from datassay.act.choose.compare import RETRAINED
from datassay.commands.run import figures, tables
from datassay.commands.run.files import FILES, NO_EFFECTS
from datassay.commands.run.findings import ISSUES_FIRST, RANDOM, Findings, redundancy
from datassay.commands.run.gallery import gallery, pair_cards, predictions, reviewed
from datassay.commands.run.labels import confusions, suspected_classes, to_check
from datassay.commands.run.steps.budget import BUDGET
from datassay.commands.run.steps.projection import PROJECTION_FACTS
from datassay.commands.run.suspects import suspects_shown
from datassay.commands.run.table import score_section
from datassay.data.samples import wrong_labels
from datassay.report.advice import N_CHECK_FIRST
from datassay.report.compose import compose
from datassay.report.page import Gallery, Page, Pair
from datassay.report.predictions import effect_words, picker
from datassay.report.review.showcase import review_block
from datassay.report.wording import count
from datassay.results import result
from datassay.score.label_issues import FEWEST
from datassay.score.registry import further_scores
from datassay.score.sample_information import OF_SGD
from datassay.stats import BETTER, PERHAPS, TOLERATED

MAX_P, MIN_RATIO = 0.01, 1.5  # of a class that stands out in information
ROLES = ("target", "ids", "source", "left out")
# Facts for who checks the method, not for who wants to know what is wrong with the data.
INTERNALS = (
    "Data SHA-256", "Weights SHA-256", "Linearised training", "Step size", "Jacobian",
    "Same Jacobian", "Scores", "Influence", "Information", "Retraining", "Store", "Seed",
)  # fmt: skip


@result
class UnusualClass:
    """A class whose samples carry more information than those of the others."""

    name: str  # of the class
    ratio: float  # its median information over that of the rest; infinite where theirs is 0
    p: float  # one-sided Mann–Whitney U test against the rest, Bonferroni over classes


def page(findings: Findings) -> Page:
    """Everything that `datassay run` and `datassay score` say."""
    samples, first = findings.samples, to_check(findings)
    ids = tuple(str(i) for i in samples.ids[first[:N_CHECK_FIRST]])
    blocks = _blocks(findings, first)
    numbers = _numbers(findings) | _of_labels(findings) | {
        "n_first": len(ids), "suspects": blocks["suspects"] is not None,
    }  # fmt: skip
    page = compose(
        "run",
        blocks,
        numbers,
        ids={"label errors": ids} if len(samples) >= FEWEST else {},
        facts=_table_facts(findings) | findings.facts,
        warnings=samples.warnings + findings.warnings,
        files=FILES if findings.attribution is not None else FILES | NO_EFFECTS,
        columns=samples.columns,
        internals=INTERNALS,
    )
    further = [one for one in further_scores() if findings.scores.get(one.name) is not None]
    sections = [score_section(one, samples, findings.scores[one.name]) for one in further]
    return replace(page, sections=(*page.sections, *sections))


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
        "review": review_block(reviewed(f), first),
        "suspects": suspects_shown(f),
        "data_issues": lambda: tables.issues_table(f.data_issues),
        "near_duplicates": lambda: tables.near_table(f.data_issues),
        "information": figures.information_figure(f),
        "sources": lambda: figures.comparison_figure(information, figures.source_groups(f)),
        **{f"totals_{by}": tables.group_table(f, by) for by in f.groups},
        "spoiled": lambda: figures.comparison_figure(information, figures.spoiled_groups(f)),
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
        "spectrum": figures.spectrum_figure(f),
        "modes": figures.modes_figure(f),
        "removal": lambda: figures.removal_figure(f.removal_curve),
        "gain": lambda: figures.gain_figure(f.removal_curve),
        "contests": lambda: Pair(tuple(map(tables.contest_table, f.contests))),
        "check": lambda: figures.check_figure(f.check),
        "projection": lambda: figures.projection_figure(f.projection_quality),
    }


def _numbers(findings: Findings) -> dict[str, Any]:
    """What the template names beside the findings themselves."""
    f, curve = findings, findings.removal_curve
    redundant = redundancy(curve)
    acts = () if f.acts is None else f.acts.actions
    best = None if f.acts is None else f.acts.best
    unusual = unusual_classes(f)
    explained = None if f.attribution is None else predictions(f)
    shown = (*PROJECTION_FACTS, BUDGET)
    subset_rank, stood = (None, ()) if f.average is None else figures.stand_ins(f)
    return {
        "f": f,
        "n": len(f.samples),
        "metric": curve.metric if curve else "accuracy" if f.samples.is_classification else "R²",
        "curve": curve,
        "quality": f.projection_quality,
        "told_facts": {name: f.facts[name] for name in shown if name in f.facts},
        "best": best,
        "also_better": [a for a in acts if a.verdict == BETTER and a is not best],
        "perhaps": [a for a in acts if a.verdict == PERHAPS],
        "tried": [a for a in acts if a.how == RETRAINED],
        # The largest gain that an interval leaves open.
        "most_open": max((a.high for a in acts if a.how == RETRAINED), default=0.0),
        "in_depth": () if f.acts is None else tables.in_depth(f.acts),
        "redundant": redundant,
        "tolerated": TOLERATED,
        "n_redundant": 0 if redundant is None else round(redundant.fraction * len(f.samples)),
        "unusual": unusual,
        "also_unusual": [one for one in unusual[1:] if np.isfinite(one.ratio)],
        "max_p": MAX_P,
        "min_ratio": MIN_RATIO,
        "inf": float("inf"),
        "spoiled": bool(figures.spoiled_groups(f)),
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


def _of_labels(findings: Findings) -> dict[str, Any]:
    """How many labels are suspected, how right that is, and why to doubt it."""
    samples, issues, n = findings.samples, findings.issues, len(findings.samples)
    wrong, suspect = wrong_labels(samples), issues.is_issue
    n_top = min(100, max(5, n // 10))
    top = np.argsort(-findings.information.information, kind="stable")[:n_top]
    # Where retraining was tried without the suspects, and removing as many at random did better.
    tried = [c for c in findings.contests if c.rankings[0] == ISSUES_FIRST]
    pairs = [(c.values[0], c.values[c.rankings.index(RANDOM)]) for c in tried]
    classes = suspected_classes(samples.y, issues) if samples.is_classification else []
    in_class = [(c, samples.y == c) for c in classes]
    noise = issues.noise
    uniform = [1 - np.diagonal(one.transition).mean() for one in noise]
    has_gain = len(noise) == 1 and np.isfinite(noise[0].gain)
    return {
        "fewest": FEWEST,
        "n_suspects": int(suspect.sum()),
        "n_top": len(top),
        "n_top_suspects": int(suspect[top].sum()),
        "lost": [(ours, random) for ours, random in pairs if ours < random],
        "hard_classes": [
            (samples.class_names[c], int(suspect[own].sum()), int(own.sum())) for c, own in in_class
        ],
        "wrong": wrong,
        "n_wrong": 0 if wrong is None else int(wrong.sum()),
        "hits": 0 if wrong is None else int((wrong & suspect).sum()),
        "confused": confusions(findings),
        "noise_share": float(np.mean(uniform)) if uniform else 0.0,
        "noise_gain": noise[0].gain if has_gain else None,
    }


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
