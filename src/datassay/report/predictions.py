"""A picker of predictions: each with the training samples that raised and lowered it."""

from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from datassay.collect.curvature.output_loss import margins, predicted_class
from datassay.data.samples import SampleSet
from datassay.optional import text_if
from datassay.report.drawing import Drawing, draw
from datassay.report.html import markup, script_json
from datassay.report.page import Block, Partial, Text
from datassay.report.wording import count, label_text, number
from datassay.results import result
from datassay.score.effects import Attribution

N_QUERIES = 60
# Of these, at most this many are wrong, and this many of the right ones nearly wrong.
N_WRONG, N_CLOSE = 30, 15
N_OUTPUTS = 10
N_SAMPLES = 5
PICTURE_SIDE = 48


@result
class Predictions:
    """What is predicted of m queries, and what the training samples do to it."""

    # the n training samples; fewer where the attribution has further ones, which are shown by id
    samples: SampleSet
    queries: SampleSet  # m samples
    kind: str  # "validation", "training" or "queried": which samples these are, in a word
    # [m, k], what is predicted: probabilities of classes, or targets; None: several tokens a
    # sample, which are not shown
    outputs: Float[np.ndarray, "m k"] | None
    attribution: Attribution  # of the queries to the samples; measure "output", "margin" or "loss"
    is_logit: bool  # whether outputs and margins are measured before they become probabilities
    suspects: Bool[np.ndarray, " n"] | None = None  # [n], whose cards say `flag`; None: nobody's
    flag: str = "suspect label"

    @property
    def queried(self) -> str:
        """What one query is."""
        return f"{self.kind} sample"

    @property
    def margin(self) -> Float[np.ndarray, " m"]:
        """How far each prediction is right: the given label's lead, negative if wrong.

        Of a regression minus the largest absolute error; of tokens the measure, a loss negative.
        """
        if self.outputs is not None:
            return margins(self.outputs, self.queries)
        outcome = self.attribution.outcome
        if self.attribution.measure == "loss":
            return -outcome
        return outcome


def picker(predictions: Predictions, style: str) -> tuple[Block, ...]:
    """Return blocks in which a reader picks a prediction and sees what raised and lowered it."""
    _, raised, lowered = effect_words(predictions)
    context = {
        "queries": markup(script_json(query_data(predictions))),
        "queried": predictions.queried.capitalize(),
        "raised": raised,
        "lowered": lowered,
        "kind": style,
    }
    partial = Partial("queries.html", context, script=("elements.js", "explain.js"))
    return Text(query_note(predictions), note=True), partial


def chosen_queries(predictions: Predictions) -> Int[np.ndarray, " q"]:
    """Return positions of 60 queries to pick from: most wrong, then close, then random, [q]."""
    margin = predictions.margin
    order = np.argsort(margin, kind="stable")
    leading = order[:N_WRONG]
    if predictions.samples.is_classification:
        n_wrong = int((margin < 0).sum())
        leading = np.concatenate([order[:n_wrong][:N_WRONG], order[n_wrong:][:N_CLOSE]])
    candidates = np.setdiff1d(order, leading)
    drawn = np.random.default_rng(0).permutation(candidates)[: N_QUERIES - len(leading)]
    return np.concatenate([leading, drawn]).astype(np.int64)


def query_data(predictions: Predictions) -> dict[str, object]:
    """Return what the picker's script shows: each query's top samples, and their cards."""
    query_rows = chosen_queries(predictions)
    top = predictions.attribution.top
    n_shown = min(N_SAMPLES, top.raising.shape[1])
    sides = {
        "raised": (top.raising[query_rows, :n_shown], top.raising_effect[query_rows, :n_shown]),
        "lowered": (top.lowering[query_rows, :n_shown], top.lowering_effect[query_rows, :n_shown]),
    }
    # A small set has fewer than five samples on a side: one that raises lowers nothing.
    by_query = [  # of each query: side → (sample, effect)
        {
            name: [
                (int(i), float(e))
                for i, e in zip(rows[q], effect[q], strict=True)
                if (e > 0 if name == "raised" else e < 0)
            ]
            for name, (rows, effect) in sides.items()
        }
        for q in range(len(query_rows))
    ]
    sample_rows = np.unique([i for row in by_query for side in row.values() for i, _ in side])
    card_of = {int(i): k for k, i in enumerate(sample_rows.astype(np.int64))}
    drawings = draw(predictions.queries, query_rows, PICTURE_SIDE)
    queries = [
        _describe_query(predictions, int(i))
        | {"drawing": _compact(drawing)}
        | {name: [[card_of[j], _effect(e)] for j, e in side] for name, side in query_sides.items()}
        for i, drawing, query_sides in zip(query_rows, drawings, by_query, strict=True)
    ]
    samples = _make_cards(predictions, sample_rows.astype(np.int64))
    return {
        "queries": queries,
        "samples": samples,
        "kind": predictions.kind,
        "flag": predictions.flag,
    }


def _describe_query(predictions: Predictions, i: int) -> dict[str, object]:
    """Return a query's id, label and predicted outputs, as JSON values."""
    queries = predictions.queries
    outputs = predictions.outputs
    names = queries.class_names
    entry: dict[str, object] = {"id": str(queries.ids[i]), "label": label_text(names, queries.y[i])}
    if outputs is None:
        return entry | {"predicted": "", "wrong": False, "outputs": []}
    if not names:
        predicted = outputs[i]
    else:
        predicted = predicted_class(outputs[i : i + 1])[0]
    return entry | {
        "predicted": label_text(names, predicted),
        "wrong": bool(names) and bool(predictions.margin[i] < 0),
        "outputs": _list_outputs(names, outputs[i]),
    }


def _list_outputs(names: tuple[str, ...], outputs: np.ndarray) -> list[list[object]]:
    """Return a row per output: name, value as text, bar length over the longest one's.

    Of many outputs the N_OUTPUTS largest, in falling order. A single number has none.
    """
    if len(names) == 2 and len(outputs) == 1:  # targets 0 and 1
        outputs = np.array([1 - outputs[0], outputs[0]])
    elif len(outputs) == 1:  # the prediction itself
        return []
    order = np.arange(len(outputs))
    if len(outputs) > N_OUTPUTS:
        order = np.argsort(-outputs, kind="stable")[:N_OUTPUTS]
    labels = names or tuple(f"target {j}" for j in range(len(outputs)))
    largest = float(np.abs(outputs).max()) or 1.0

    def text(value: float) -> str:  # of a class three decimals are enough, and no minus before 0
        if names:
            return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")
        return _effect(value)

    rows = [(labels[j], float(outputs[j])) for j in order]
    return [[name, text(value), round(max(0.0, value) / largest, 3)] for name, value in rows]


def _make_cards(predictions: Predictions, positions: np.ndarray) -> list[dict[str, object]]:
    """Return a card for each position (ascending); of samples not loaded the id alone."""
    samples = predictions.samples
    suspects = predictions.suspects
    drawable = positions[positions < len(samples)]
    cards: list[dict[str, object]] = [
        {
            "id": str(samples.ids[i]),
            "label": label_text(samples.class_names, samples.y[i]),
            "suspect": suspects is not None and bool(suspects[i]),
            "drawing": _compact(drawing),
        }
        for i, drawing in zip(drawable, draw(samples, drawable, PICTURE_SIDE), strict=True)
    ]
    for i in positions[len(drawable) :]:
        sample_id = str(predictions.attribution.ids[i])
        cards.append({"id": sample_id, "label": "", "suspect": False, "drawing": None})
    return cards


def _compact(drawing: Drawing) -> dict[str, Any]:
    return {name: value for name, value in asdict(drawing).items() if value}


def _effect(value: float) -> str:
    return number(value).replace("-", "−")


def query_note(predictions: Predictions) -> str:
    """Return a sentence on which predictions can be picked."""
    n_shown = len(chosen_queries(predictions))
    n = len(predictions.queries)
    number_shown = "All"
    if n_shown != n:
        number_shown = f"{n_shown} of"
    scope = f"{number_shown} {count(n, predictions.queried)} can be picked"
    if not predictions.samples.is_classification:
        by_error = f"the {N_WRONG} of largest error first, then others at random (seed 0)"
        return f"{scope}: {by_error if n > N_WRONG else 'those of largest error first'}."
    n_wrong = int((predictions.margin < 0).sum())
    n_close = min(N_CLOSE, n - n_wrong)
    if n_wrong > N_WRONG:
        worst = f"the {N_WRONG} furthest off of {n_wrong}"
    else:
        worst = f"all {n_wrong}"
    wrong_clause = text_if(n_wrong, f"{worst} predicted wrongly (given → predicted), then ")
    has_random = n_shown > min(n_wrong, N_WRONG) + n_close
    random_clause = text_if(has_random, ", then others at random (seed 0)")
    close = f"the {n_close} of smallest margin among those predicted rightly"
    note = f"{scope}: {wrong_clause}{close}{random_clause}."
    if n_wrong:
        return note
    return f"{note} None is predicted wrongly."


def effect_words(predictions: Predictions) -> tuple[str, str, str]:
    """Return what effects are measured on, and headings for samples that raise and lower it."""
    names = predictions.samples.class_names
    is_logit = predictions.is_logit
    if predictions.attribution.measure == "loss":
        target = f"the loss of the given {'label' if names else 'target'}"
        return target, "Raised the loss", "Lowered the loss"
    if predictions.attribution.measure == "margin":
        target = f"the given label's lead{text_if(is_logit, ' in logits')} (its margin)"
        return target, "Raised the margin", "Lowered the margin"
    outputs = predictions.outputs
    if len(names) == 2 and outputs is not None and outputs.shape[1] == 1:
        target = f"the network's output (0 is {names[0]}, 1 is {names[1]})"
        if is_logit:
            target = f"the network's logit (above 0 is {names[1]})"
        return target, f"Pushed towards {names[1]}", f"Pushed towards {names[0]}"
    if names:
        target = f"the {'logit' if is_logit else 'output'} of the predicted class"
        return target, "Supports the predicted class", "Opposes it"
    return "the predicted value", "Raised the prediction", "Lowered the prediction"
