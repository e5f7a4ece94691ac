"""Which validation samples the page explains, and the training samples behind each."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from jaxtyping import Float, Int

from datassay.collect.curvature.output_loss import margins, predicted_class
from datassay.commands.run.findings import Findings
from datassay.report.drawing import draw
from datassay.report.html import markup, script_json
from datassay.report.page import Partial, Section, Text
from datassay.report.wording import count, label_text, number
from datassay.results import result

N_QUERIES = 60
# Of these, at most this many are wrong, and this many of the right ones nearly wrong.
N_WRONG, N_CLOSE = 30, 15
N_OUTPUTS = 10
N_SAMPLES = 5
PICTURE_SIDE = 48


@result
class Chosen:
    """The validation samples to explain, the most telling first.

    Attributes:
        positions: [q], in the validation set.
        margin: [m], of all validation samples: by how much the given label leads the outputs, below
            0 where another is predicted; of a regression minus the largest absolute error.
    """

    positions: Int[np.ndarray, " q"]
    margin: Float[np.ndarray, " m"]


def section(findings: Findings, kind: str) -> tuple[Section, ...]:
    """The query picker, with cards drawn as `kind`; nothing where there was no attribution."""
    if findings.attribution is None:
        return ()
    what, raised, lowered = effect_words(findings)
    text = (
        f"Pick a {_queried(findings)}: the training samples below it changed "
        f"{what} most. {effect_sentence(findings)}{_self_sentence(findings)}"
    )
    data = markup(script_json(query_data(findings)))
    context = {"queries": data, "raised": raised, "lowered": lowered, "kind": kind}
    title = "Which training samples made the model say this?"
    return (Section("why", "Why this prediction", title, (
        Text(text),
        Text(query_note(findings), note=True),
        Partial("queries.html", context, script="explain.js"),
    )),)  # fmt: skip


def chosen_queries(findings: Findings) -> Chosen:
    """Wrong predictions first, then the closest right ones, then some at random.

    Returns:
        At most 60 samples: up to 30 wrong ones, the furthest off first, up to 15 right ones of
        smallest margin, and the rest drawn with the seed 0. A regression has no wrong ones: up to
        30 of largest error, then the rest.
    """
    outputs = findings.query_outputs
    assert outputs is not None
    margin = margins(outputs, findings.queries)
    order = np.argsort(margin, kind="stable")
    if findings.samples.is_classification:
        n_wrong = int((margin < 0).sum())
        first = np.concatenate([order[:n_wrong][:N_WRONG], order[n_wrong:][:N_CLOSE]])
    else:
        first = order[:N_WRONG]
    rest = np.setdiff1d(order, first)
    some = np.random.default_rng(0).permutation(rest)[: N_QUERIES - len(first)]
    return Chosen(np.concatenate([first, some]).astype(np.int64), margin)


def query_data(findings: Findings) -> dict[str, list[dict[str, object]]]:
    """Everything that the page's script shows, texts plain.

    Returns:
        `queries`, each with its drawing, labels, outputs and its samples' places and effects; and
        `samples`, every training sample that any of them names, drawn once.
    """
    attribution = findings.attribution
    assert attribution is not None
    chosen = chosen_queries(findings)
    top = attribution.top
    few = min(N_SAMPLES, top.raising.shape[1])
    sides = (
        (top.raising, top.raising_effect, 1.0),
        (top.lowering, top.lowering_effect, -1.0),
    )
    # A small set has fewer than five samples on a side: one that raises lowers nothing.
    pairs = [
        [_signed(who[i, :few], effect[i, :few], sign) for who, effect, sign in sides]
        for i in chosen.positions
    ]
    used = np.unique([p for both in pairs for side in both for p, _ in side]).astype(np.int64)
    place = {int(p): k for k, p in enumerate(used)}
    drawings = draw(findings.queries, chosen.positions, PICTURE_SIDE)
    queries = [
        _query(findings, int(i), float(chosen.margin[i]))
        | {"drawing": _compact(asdict(drawing))}
        | {
            name: [[place[p], _effect(e)] for p, e in side]
            for name, side in zip(("raised", "lowered"), both, strict=True)
        }
        for i, drawing, both in zip(chosen.positions, drawings, pairs, strict=True)
    ]
    return {"queries": queries, "samples": _samples(findings, used)}


def _signed(who: np.ndarray, effect: np.ndarray, sign: float) -> list[tuple[int, float]]:
    return [(int(p), float(e)) for p, e in zip(who, effect, strict=True) if sign * e > 0]


def _query(findings: Findings, i: int, margin: float) -> dict[str, object]:
    val, outputs = findings.queries, findings.query_outputs
    assert outputs is not None
    names = val.class_names
    predicted = outputs[i] if not names else predicted_class(outputs[i : i + 1])[0]
    return {
        "id": str(val.ids[i]),
        "label": label_text(names, val.y[i]),
        "predicted": label_text(names, predicted),
        "wrong": bool(names) and margin < 0,
        "outputs": _outputs(names, outputs[i]),
    }


def _outputs(names: tuple[str, ...], outputs: np.ndarray) -> list[list[object]]:
    """(name, value as text, share of a full bar), the largest first where there are many."""
    if len(names) == 2 and len(outputs) == 1:  # targets 0 and 1
        outputs = np.array([1 - outputs[0], outputs[0]])
    elif len(outputs) == 1:  # the prediction itself
        return []
    order = np.arange(len(outputs))
    if len(outputs) > N_OUTPUTS:
        order = np.argsort(-outputs, kind="stable")[:N_OUTPUTS]
    labels = names or tuple(f"target {j}" for j in range(len(outputs)))
    full = float(np.abs(outputs).max()) or 1.0
    return [
        [labels[j], _effect(float(outputs[j])), round(max(0.0, float(outputs[j])) / full, 3)]
        for j in order
    ]


def _samples(findings: Findings, used: np.ndarray) -> list[dict[str, object]]:
    samples, issues = findings.samples, findings.issues
    return [
        {
            "id": str(samples.ids[i]),
            "label": label_text(samples.class_names, samples.y[i]),
            "suspect": bool(issues.is_issue[i]),
            "drawing": _compact(asdict(drawing)),
        }
        for i, drawing in zip(used, draw(samples, used, PICTURE_SIDE), strict=True)
    ]


def _compact(drawing: dict) -> dict:
    return {name: value for name, value in drawing.items() if value}


def _effect(value: float) -> str:
    return number(value).replace("-", "−")


def query_note(findings: Findings) -> str:
    """Which samples can be picked, in words."""
    chosen = chosen_queries(findings)
    shown, n = len(chosen.positions), len(chosen.margin)
    number_shown = "All" if shown == n else f"{shown} of"
    scope = f"{number_shown} {count(n, _queried(findings))} can be picked"
    if not findings.samples.is_classification:
        rule = f"the {min(N_WRONG, n)} of largest error first, then others at random (seed 0)"
        return f"{scope}: {rule}."
    n_wrong = int((chosen.margin < 0).sum())
    n_close = min(N_CLOSE, n - n_wrong)
    which = f"the {N_WRONG} furthest off of {n_wrong}" if n_wrong > N_WRONG else f"all {n_wrong}"
    first = f"{which} that are predicted wrongly, then " if n_wrong else ""
    rest = ", then others at random (seed 0)" if shown > min(n_wrong, N_WRONG) + n_close else ""
    close = f"the {n_close} of smallest margin among those predicted rightly"
    none = "" if n_wrong else " None is predicted wrongly."
    return f"{scope}: {first}{close}{rest}.{none}"


def _queried(findings: Findings) -> str:
    return "training sample" if findings.validation is None else "validation sample"


def _self_sentence(findings: Findings) -> str:
    if findings.validation is not None:
        return ""
    return " None was held out, so that network has seen it; what it does to itself is not listed."


def effect_words(findings: Findings) -> tuple[str, str, str]:
    """What the effects are on, and the headings of those that raise and lower it."""
    attribution, outputs = findings.attribution, findings.query_outputs
    assert attribution is not None and outputs is not None
    names, trained = findings.samples.class_names, findings.attribution_at == "trained"
    if attribution.measure == "loss":
        return "the loss of the given label", "Raised the loss", "Lowered the loss"
    if attribution.measure == "margin":
        what = f"the margin by which {'the logit of ' if trained else ''}the given label leads"
        return what, "Raised the margin", "Lowered the margin"
    if len(names) == 2 and outputs.shape[1] == 1:
        what = f"the network's one output, which is 0 for {names[0]} and 1 for {names[1]}"
        if trained:
            what = f"the networks' one logit, which is positive for {names[1]}"
        return what, f"Pushed towards {names[1]}", f"Pushed towards {names[0]}"
    if names:
        what = f"the {'logit' if trained else 'output'} of the predicted class"
        return what, "Spoke for the predicted class", "Spoke against it"
    return "the predicted value", "Raised the prediction", "Lowered the prediction"


def effect_sentence(findings: Findings) -> str:
    """Of which networks each effect is the difference."""
    if findings.attribution_at == "trained":
        return (
            "Each effect is its value in the networks trained on all samples minus its value "
            "without that sample, to second order, averaged over the networks."
        )
    return (
        "Each effect is its value in the linearised network minus its value in the one that never "
        "saw that sample."
    )
