"""The job and page of `datassay bench DATA`; its text stands in `text/trust.md.j2`."""

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from datassay.commands.bench.command import TrustSettings
from datassay.commands.facts import closing_facts, data_facts, model_facts
from datassay.commands.frame import SampleFindings, compose_page, table
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.models.build import build_model
from datassay.models.estimators import checked_estimator, is_estimator, named_estimator
from datassay.models.names import full_name
from datassay.models.reference import is_reference
from datassay.models.weights import weights_choice
from datassay.progress import Progress, silent
from datassay.report.page import Page
from datassay.report.plots import chart, level, marks
from datassay.report.style import BLUE, GREY, VERMILION
from datassay.report.tables import standard_json
from datassay.report.wording import number, percent
from datassay.results import result
from datassay.rules import in_interval
from datassay.score.compare.halves import FEWEST, retrained_halves
from datassay.score.compare.scores import standard_scores
from datassay.score.compare.trust import (
    CARE,
    DISTRUST,
    ENOUGH,
    LITTLE,
    LOWEST_CEILING,
    PREDICTIONS,
    SAMPLES,
    TRUST,
    TrustCheck,
    trust_check,
)
from datassay.setting import default_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FILES = {"bench.parquet": "every score", "summary.json": "the figures above"}
MOST_HALVES = 10_000
COLUMNS = ("score", "correlation", "of the ceiling", "ahead of free scores", "verdict")
# Question → its name among the blocks, and its title; and as the heading asks it.
ASKED = {
    PREDICTIONS: ("predictions", "Which samples caused a prediction"),
    SAMPLES: ("samples", "Which samples matter by themselves"),
}
ANSWERS = {PREDICTIONS: "what caused a prediction", SAMPLES: "which samples matter"}
ADVICE = {TRUST: "Trust {}", CARE: "Take {} with care"}
COLOURS = {TRUST: BLUE, CARE: "#b8860b", DISTRUST: VERMILION}
FREE = "free"  # the verdict of what is known from training
Rows = list[dict[str, Any]]  # one a score, as `TrustCheck.to_table` has it


@result
class TrustFindings(SampleFindings):
    """A trust check; `validation` are the held-out queries whose predictions are scored."""

    model: str  # as the user named it
    check: TrustCheck
    fit: float  # accuracy of the trained networks on the queries, or R²
    seconds: float  # of retraining


def run(
    train: SampleSet, val: SampleSet, settings: TrustSettings, progress: Progress = silent
) -> TrustFindings:
    """Compute everything that `datassay bench DATA` shows, without writing anything."""
    started = time.perf_counter()
    check_settings(settings)
    settings = replace(settings, model=full_name(settings.model, train))
    make = model_of(train, settings)
    queries = draw_queries(val, settings)
    scores = standard_scores(
        make, train, queries, recipe=settings.recipe, seed=settings.seed, progress=progress
    )
    halves = retrained_halves(
        make, train, queries, recipe=settings.recipe, halves=settings.halves,
        seconds=60 * settings.minutes, seed=settings.seed, store=settings.store, progress=progress,
    )  # fmt: skip
    check = trust_check(halves, scores, seed=settings.seed)
    findings = TrustFindings(train, queries, settings.model, check, scores.fit, halves.seconds)
    fit = percent(round(findings.fit, 3)) + " of the queries right"
    facts = {
        **data_facts(train, queries),
        "Fit": fit if train.is_classification else f"R² {number(findings.fit)} on the queries",
        "Retraining": f"{check.n_halves} random halves, two fits each, in "
        f"{findings.seconds:.0f} s; --halves {check.n_halves} repeats them",
        **_describe_model(make, settings),
        **closing_facts(started, settings.seed, settings.command),
    }
    choice = ()
    if settings.weights is not None:
        choice = weights_choice(settings.weights, make(0))
    return replace(findings, facts=facts, warnings=choice)


def check_settings(settings: TrustSettings) -> None:
    """Raise if the number of halves is too small or large, before anything is loaded."""
    if settings.halves is not None:
        why = ", so that intervals mean something"
        in_interval("halves", settings.halves, FEWEST, MOST_HALVES, why=why)


def model_of(train: SampleSet, settings: TrustSettings) -> Any:
    """Return the estimator that `model` names, or else a function: seed → untrained network."""
    estimator = None
    if is_reference(settings.model):
        estimator = named_estimator(settings.model)
    if estimator is None:
        return lambda seed: build_model(settings.model, train, weights=settings.weights, seed=seed)
    for name in ("weights", "optimizer", "lr", "steps", "batch_size", "weight_decay"):
        if getattr(settings, name) != default_of(TrustSettings, name):
            raise SettingError(
                f"{name.replace('_', '-')} is of networks; {settings.model} is a scikit-learn "
                "estimator. Leave it out."
            )
    return checked_estimator(estimator, is_classification=train.is_classification)


def draw_queries(val: SampleSet, settings: TrustSettings) -> SampleSet:
    """Return at most `n_queries` held-out samples, drawn at random, in their order."""
    if len(val) <= settings.n_queries:
        return val
    drawn = np.random.default_rng(settings.seed).permutation(len(val))[: settings.n_queries]
    return val.subset(np.sort(drawn))


def _describe_model(make: Any, settings: TrustSettings) -> dict[str, str]:
    """Return fact → text on the page: what the model is, and the recipe it is trained by."""
    if is_estimator(make):
        return model_facts(settings.model, f"{type(make).__name__}, fitted anew") | {
            "Scores": "labels are judged by your model; effects, information and left-out loss are "
            "of the default network, linearised, as in datassay run"
        }
    recipe = settings.recipe
    batch = "all samples"
    if recipe.batch_size is not None:
        batch = f"{recipe.batch_size} samples"
    start = "drawn anew"
    if settings.weights is not None:
        start = f"those of {settings.weights.name}"
    return model_facts(settings.model, f"{settings.model}, first weights {start}") | {
        "Training": f"{recipe.optimizer}, step size {recipe.lr:g}, {recipe.steps:,} updates of "
        f"{batch}, weight decay {recipe.weight_decay:g}"
    }


def page(findings: TrustFindings) -> Page:
    """Return the page: the answer, the scores of both questions, and how they were judged."""
    check = findings.check
    blocks: dict[str, object] = {}
    for question, (name, title) in ASKED.items():
        rows = _rank_scores(check, question)
        blocks[name] = _plot_correlations(rows)
        blocks[f"table_{name}"] = table(title, COLUMNS, map(_format_row, rows), in_terminal=True)
    of_samples = _rank_scores(check, SAMPLES)
    of_predictions = _find_best_score(_rank_scores(check, PREDICTIONS))
    template_values = {
        "heads": [headline(check, question) for question in dict.fromkeys(check.question)],
        "questions": dict(ASKED.values()),
        "best": _find_best_score(of_samples),
        "traces": of_predictions["verdict"] == TRUST and "influence" in of_predictions["score"],
        "free": next((row["score"] for row in of_samples if row["trivial"]), "loss"),
        "is_refused": "information" in [r["score"] for r in of_samples if r["verdict"] == DISTRUST],
        "issues": next((_format_interval(r) for r in of_samples if _is_trusted_issue(r)), ""),
        "beaten": {
            name: [r["score"] for r in _rank_scores(check, question) if _is_beaten(r)]
            for question, (name, _) in ASKED.items()
        },
        "enough": ENOUGH,
        "little": LITTLE,
        "lowest_ceiling": LOWEST_CEILING,
    }
    return compose_page("trust", findings, blocks, template_values, FILES)


def headline(check: TrustCheck, question: str) -> str:
    """Return which score answers a question, or that none or a free one does."""
    rows = _rank_scores(check, question)
    baseline = next((row for row in rows if row["trivial"]), None)
    ours = _find_best_score(rows)
    answer = ANSWERS[question]
    name = ours["score"].replace(", ", " of ")  # "influence, 3 networks"
    figure = f"correlation {_format_interval(ours)}"
    refused = [row for row in rows if row["verdict"] == DISTRUST and not row["trivial"]]
    is_ahead = baseline is None or ours["ahead_low"] > 0
    if ours in refused and (is_ahead or baseline["verdict"] == DISTRUST):
        return f"Trust no score for {answer}: the best, {name}, has {figure}."
    if baseline is not None and not is_ahead:
        figure = f"correlation {_format_interval(baseline)}"
        return f"For {answer} the {baseline['score']} is as good as any, and free ({figure})."
    return f"{ADVICE[ours['verdict']].format(name)} for {answer} ({figure})."


def _rank_scores(check: TrustCheck, question: str) -> Rows:
    """Return the rows of a question's scores, the best first."""
    rows = (row for row in check.to_table().to_pylist() if row["question"] == question)
    return sorted(rows, key=lambda row: -row["correlation"])


def _find_best_score(rows: Rows) -> dict[str, Any]:
    """Return the best row that costs something; its one-network row, if inside its interval."""
    row = next(row for row in rows if not row["trivial"])
    name = row["score"].partition(", ")[0]
    return next((r for r in rows if r["score"] == name and r["correlation"] > row["low"]), row)


def _is_beaten(row: dict[str, Any]) -> bool:
    """Return whether a score costs something and a free one does clearly better."""
    return not row["trivial"] and row["ahead_high"] < 0


def _is_trusted_issue(row: dict[str, Any]) -> bool:
    """Return whether a row is of the score by which `datassay run` orders labels, and trusted."""
    return row["score"] == "label issue score" and row["verdict"] == TRUST


def _format_row(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a score's cells: name, correlation, share of the ceiling, lead, verdict."""
    share = np.nan
    if row["ceiling"]:
        share = row["correlation"] / row["ceiling"]
    lead = "–"
    if not row["trivial"]:
        lead = "{ahead:+.2f} ({ahead_low:+.2f} to {ahead_high:+.2f})".format(**row).replace(
            "-", "−"
        )
    return row["score"], _format_interval(row), number(share), lead, _verdict(row)


def _verdict(row: dict[str, Any]) -> str:
    """Return a score's verdict as picture and table say it: of a free score that it is free."""
    if row["trivial"]:
        return FREE
    return row["verdict"]


def _format_interval(row: dict[str, Any]) -> str:
    """Return a correlation with half the width of its interval, such as "0.41 ± 0.05"."""
    value = row["correlation"]
    half = max(row["high"] - value, value - row["low"])  # one end may be cut at 1
    return f"{value:.2f} ± {half:.2f}".replace("-", "−")


def _plot_correlations(rows: Rows) -> "Figure":
    """Plot each score's correlation and interval, coloured by verdict; the ceiling as a line."""
    rows = rows[::-1]
    figure = chart("correlation with retraining", height=130 + 34 * len(rows), showlegend=True)
    for group, colour in (*COLOURS.items(), (FREE, GREY)):
        items = [r for r in rows if group == _verdict(r)]
        if not items:
            continue
        value, low, high = (np.array([r[k] for r in items]) for k in ("correlation", "low", "high"))
        bar = {"type": "data", "symmetric": False, "color": colour, "thickness": 2}
        bar |= {"array": high - value, "arrayminus": value - low}
        hover = "%{y}: %{x:.3f}<extra></extra>"
        names = [r["score"] for r in items]
        marks(figure, value, names, group, colour, hover, size=11, error_x=bar)
    if rows:
        level(figure, x=rows[0]["ceiling"], text="ceiling", position="top", xanchor="right")
    figure.update_yaxes(categoryorder="array", categoryarray=[row["score"] for row in rows])
    lowest = min(0.0, float(np.nanmin([row["low"] for row in rows])))
    figure.update_xaxes(range=[lowest - 0.03, 1.03], showgrid=True)
    return figure


def files(findings: TrustFindings, page: Page) -> dict[str, pa.Table | str]:
    """Return the files written with the page, by name."""
    check = findings.check
    table = findings.check.to_table()
    smooth = check.smoothness
    summary = standard_json({
        **page.head,
        "scores": table.to_pylist(),
        "ceiling": asdict(check.ceiling),
        "reliability": asdict(check.reliability),
        "halves": check.n_halves,
        "queries": check.n_queries,
        "smoothness": smooth and {**smooth.means, "agreement": smooth.agreement},
    })
    return {"bench.parquet": table, "summary.json": summary}
