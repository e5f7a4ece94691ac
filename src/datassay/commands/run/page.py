"""The page of a run; its text stands in `report/text/run.md.j2`."""

from dataclasses import replace
from typing import Any

import numpy as np

from datassay.act.actions.relabel import TOO_FEW
from datassay.act.choose.action import RELABEL
from datassay.act.choose.compare import ENDED
from datassay.commands.run import figures, gallery, tables
from datassay.commands.run.files import FILES, NO_EFFECTS
from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import confusions, noise_share, to_check
from datassay.commands.run.steps.budget import BUDGET
from datassay.commands.run.steps.projection import PROJECTION_FACTS
from datassay.commands.run.suspects import suspects_shown
from datassay.commands.run.table import score_section
from datassay.commands.run.verdict import Verdict, verdict
from datassay.data.samples import wrong_labels
from datassay.models.tabular import TABLE_MODELS
from datassay.report.compose import compose
from datassay.report.page import Gallery, Page
from datassay.report.predictions import effect_words, picker
from datassay.report.result_plots import (
    INSTEAD,
    advice_text,
    beyond,
    figure_of,
    gains_title,
    issue_figure,
)
from datassay.report.review.showcase import review_block
from datassay.report.wording import number, score_text
from datassay.score.information.bounds import (
    ENOUGH,
    OF_OUTPUTS,
    WITH_SIGMA,
    membership,
    membership_sigma,
    overfitting_bound,
)
from datassay.score.registry import scores_with_sections
from datassay.score.sample_information import SampleInformation
from datassay.score.settings import OF_SGD

MAX_P = 0.01  # p value above which groups do not differ in information


def page(findings: Findings, out: str = "") -> Page:
    """Return the page of `datassay run` and `datassay score`; `out` is the folder of its files."""
    samples = findings.samples
    positions = to_check(findings)
    run_verdict = verdict(findings, out)
    page = compose(
        "run",
        _make_blocks(findings, positions),
        _make_numbers(findings, run_verdict),
        facts=findings.facts,
        warnings=findings.warnings,
        files=FILES if findings.attribution is not None else FILES | NO_EFFECTS,
        columns=samples.columns,
    )
    extra_scores = [s for s in scores_with_sections() if findings.scores.get(s.name) is not None]
    sections = [
        replace(score_section(s, samples, findings.scores[s.name]), line=s.help)
        for s in extra_scores
    ]
    button = ""
    first_samples = None
    # After a review in which no label is suspected any more, another one is nobody's first thing.
    if run_verdict.labels.n_review and (run_verdict.labels.n_flagged or findings.before is None):
        button = f"Review {run_verdict.labels.named}"
        first_samples = gallery.first_samples(findings, positions)
    return replace(
        page,
        sections=(*page.sections, *sections),
        verdict=run_verdict.sentence,
        advice=run_verdict.cards,
        commands=run_verdict.commands,
        note=run_verdict.note,
        button=button,
        samples=first_samples,
    )


def _make_blocks(findings: Findings, positions: np.ndarray) -> dict[str, Any]:
    """Return template name → figure, table or cards; a function where it costs to make one."""
    f: Any = findings  # of any type: what may be None is there where the template names its block
    cards = gallery.gallery(f)
    confused = confusions(f)
    is_multi = f.has_several_labels
    redundant, contrary = map(Gallery, gallery.pair_cards(f))
    return {
        "before": lambda: tables.before_table(f.before),
        "before_gain": lambda: figure_of(f.before.gain),
        "relabelled": lambda: tables.relabelled_table(f.before),
        "acts": lambda: figure_of(f.acts),
        "acts_table": lambda: tables.acts_table(f.acts),
        "acts_details": lambda: tables.acts_details(f.acts),
        "review": review_block(gallery.build_review(f), positions),
        "suspects": suspects_shown(f),
        "data_issues": lambda: tables.issues_table(f.data_issues),
        "near_duplicates": lambda: tables.near_table(f.data_issues),
        "information": figures.information_figure(f),
        **{f"totals_{kind}": tables.group_table(f, kind) for kind in f.groups},
        "gallery": cards,
        "alike": redundant,
        "contrary": contrary,
        "why": lambda: picker(gallery.predictions(f), cards.kind),
        "issues": issue_figure(f.issues, wrong_labels(f.samples)),
        "confusions": tables.confusion_table(confused, is_multi=is_multi) if confused else None,
        "sources": lambda: tables.sources_table(f.issues.sources),
        "sources_shares": lambda: figures.sources_figure(f.issues.sources),
        "modes": figure_of(f.learning_curve),
        "removal": lambda: figure_of(f.removal_curve),
    }


def _make_numbers(findings: Findings, run_verdict: Verdict) -> dict[str, Any]:
    """Return template name → number or words that the run's template fills in."""
    f = findings
    curve = findings.removal_curve
    samples = findings.samples
    explained = None
    if f.attribution is not None:
        explained = gallery.predictions(f)
    fact_names = (*PROJECTION_FACTS, BUDGET)
    if f.average is None:
        subset_rank = None
        stand_ins = ()
    else:
        subset_rank, stand_ins = figures.stand_ins(f)
    is_suspect = f.issues.is_issue
    n_top = min(100, max(5, len(samples) // 10))
    top = np.argsort(-f.information.information, kind="stable")[:n_top]
    noise = f.issues.noise
    is_wrong = wrong_labels(samples)
    left_out = ()
    useless = ""
    if f.acts is not None:
        left_out = f.acts.left_out
        if f.acts.is_useless:
            score = number(f.acts.score).replace("-", "−")
            useless = f"with 95 % intervals. {f.acts.metric} is {score} with the data as given, "
            useless += "worse than the mean of the targets would do."
    is_corrected = any(action.kind == RELABEL for action in run_verdict.measured)
    ended_notes = [a.note for a in run_verdict.measured if a.note.startswith(ENDED)]
    return {
        "f": f,
        "v": run_verdict,
        "n": len(samples),
        "metric": (curve or samples).metric,
        "curve": curve,
        "told_facts": {name: f.facts[name] for name in fact_names if name in f.facts},
        "reached": "" if f.acts is None else score_text(f.acts.score, f.acts.metric),
        "useless": useless,
        "n_ended": len(ended_notes),
        "why_ended": "; ".join(dict.fromkeys(n.removeprefix(f"{ENDED}: ") for n in ended_notes)),
        "gains_title": gains_title(f.acts.actions) if f.acts else "",
        "instead": f.acts and INSTEAD in [advice_text(a, f.acts.actions) for a in f.acts.actions],
        "is_chosen": f.acts is not None and f.acts.model in TABLE_MODELS,
        # What one part did not propose, another may have.
        "left_out": [note for note in left_out if note != TOO_FEW or not is_corrected],
        "n_top": len(top),
        "n_top_suspects": int(is_suspect[top].sum()),
        "confused": confusions(f),
        "noise_share": noise_share(f),
        "wrong": is_wrong,
        "hits": 0 if is_wrong is None else int((is_wrong & is_suspect).sum()),
        "noise_gain": noise[0].gain if len(noise) == 1 and np.isfinite(noise[0].gain) else None,
        "max_p": MAX_P,
        "alike": f.pairs is not None and bool((f.pairs.interaction < 0).any()),
        "contrary": f.pairs is not None and bool((f.pairs.interaction > 0).any()),
        "subset_rank": subset_rank,
        "stood": stand_ins,
        "factor": f"{figures.FACTOR:g}",
        "queried": explained and explained.queried,
        "effect_on": explained and effect_words(explained)[0],
        "beyond": beyond(f.issues),
        "of_sgd": OF_SGD,
        "hidden": float(np.mean(f.information.information < f.leave_one_out.outputs.shape[1] / 2)),
        **_bound_inference(f.information, is_classification=samples.is_classification),
    }


def _bound_inference(info: SampleInformation, *, is_classification: bool) -> dict[str, Any]:
    """Return template name → bounds by information: membership inference, and overfitting."""
    accuracy = membership(info)
    highest = float(accuracy.max())
    is_of_outputs = info.smoothing in OF_OUTPUTS
    needs_sigma = highest > ENOUGH and info.smoothing in WITH_SIGMA
    privacy = {
        "of_outputs": is_of_outputs,
        "median": round(float(np.median(accuracy)), 3),
        "most": round(highest, 3),
        "first": info.ids[accuracy.argmax()],  # the most exposed sample
        "sigma": membership_sigma(info) if needs_sigma else 0.0,
        "enough": ENOUGH,
    }
    # Only information of the weights bounds overfitting.
    has_bound = is_classification and not is_of_outputs
    return {"privacy": privacy, "overfit": overfitting_bound(info) if has_bound else None}
