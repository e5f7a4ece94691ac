"""What is left of a review, and what decisions make of labels, stays.

PYTHONPATH=src:tests python tests/act/review/test_figures.py    # writes it anew
"""

from dataclasses import fields
from datetime import UTC, datetime
from functools import partial

import numpy as np

from datassay.act.review.corrections import corrections
from datassay.act.review.decisions import Decision
from datassay.act.review.judged import Judged
from datassay.act.review.remaining import probe, remaining
from datassay.errors import DataError
from helpers.figures import freeze, frozen_test


def of_review(seed, n_known, *, n=150, k=3, rate=0.15, share=None, drawn=False, passed=3):
    """What is left after so many decisions, of the most suspect or of those that are drawn."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(max(k, 2), size=n)
    wrong = rng.random(n) < rate
    labels = np.where(wrong, (truth + 1) % max(k, 2), truth)
    odds = rng.normal(-2.5, 1, n) + 3 * wrong
    logits = rng.normal(size=(n, k))
    log_posterior = logits - np.log(np.exp(logits).sum(1, keepdims=True) + 1e-30)
    parts = (log_posterior, odds, rng.normal(size=(n, 3)) / 2)
    shares = () if share is None else (share,)
    parts = labels if k else np.full(n, -1), *(part.astype(np.float32) for part in parts)
    judged = Judged(*parts, *shares)
    order = probe(judged) if drawn else np.argsort(-judged.log_odds, kind="stable")
    known = {int(i): int(truth[i] if k else wrong[i]) for i in order[:n_known]}
    left = remaining(judged, known, order[n_known : n_known + passed].tolist())
    found = {f.name: getattr(left, f.name) for f in fields(left)}
    return found, left.outcome, left.expected_precision(20)


def of_decisions(y, class_names, *rows):
    """Labels after decisions, or the error that they are."""
    when, ids = datetime(2026, 1, 1, tzinfo=UTC), np.array([*"abcdef"])
    decided = [Decision(i, kind, given, label, when) for i, kind, given, label in rows]
    try:
        return corrections(decided, ids, np.asarray(y), class_names)
    except DataError as error:
        return str(error).partition(". ")[0]


CLASSES, NAMES, WHOLE = [0, 1, 2, 0, 1, 2], ("no", "yes", "or"), [5, 6, 7, 8, 9, 2**60]
CASES = {
    "the start": partial(of_review, 0, 0),
    "ten": partial(of_review, 1, 10),
    "sixty": partial(of_review, 2, 60, share=(0.1, 0.2)),
    "hundred of few errors": partial(of_review, 3, 100, rate=0.03),
    "few are expected": partial(of_review, 4, 60, n=400, rate=0.01, share=(0.0, 0.05)),
    "none is left": partial(of_review, 5, 147),
    "drawn": partial(of_review, 6, 24, drawn=True, passed=0),
    "drawn of two": partial(of_review, 7, 22, k=2, drawn=True, passed=2, rate=0.3),
    "drawn of few": partial(of_review, 8, 20, n=24, drawn=True, passed=4),
    "numbers": partial(of_review, 9, 30, k=0),
    "numbers, none is left": partial(of_review, 10, 150, k=0, passed=0),
    "classes": lambda: [
        of_decisions(CLASSES, NAMES, *rows)
        for rows in (
            [("f", "relabel", "or", "no"), ("a", "relabel", "no", "or"), ("b", "remove", "", "")],
            [("f", "keep", "or", ""), ("a", "unsure", "", ""), ("c", "relabel", "or", "or")],
            [("f", "keep", "no", "")], [("x", "keep", "no", "")], [("a", "relabel", "no", "none")],
            [(name, "keep", "", "") for name in "uvwxyz"], [("a", "keep", "", "")] * 2,
            [("a", "relabel", "no", f"{c}{c * (79 + i)}") for i, c in enumerate("pqrstu")], [],
        )
    ],
    "numbers, decided": lambda: [
        of_decisions(y, (), *rows)
        for y in (np.array(WHOLE), np.array([*WHOLE[:5], 1.23456]), np.zeros((6, 2)))
        for rows in (
            [("a", "relabel", "5", "6"), ("d", "remove", "8", "")],
            [("a", "relabel", "5.004", "6.5")], [("a", "keep", "5.006", "")],
            [("a", "relabel", "", str(2**63 - 1))], [("a", "relabel", "", str(2**63))],
            [("a", "relabel", "", "nan")], [("a", "relabel", "", "x")], [("a", "remove", "x", "")],
            [("f", "keep", "1.2346", "")], [("f", "keep", "1.2334", "")],
        )
    ],
}  # fmt: skip
test_what_is_left_and_what_becomes_of_labels_stays = frozen_test("review.json", CASES)

if __name__ == "__main__":
    freeze("review.json", CASES)
