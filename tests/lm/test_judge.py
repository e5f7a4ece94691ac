"""Training again: falls by hand, who won, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.lm.page import page, verdict
from datassay.lm.results import JudgedTexts
from datassay.report.html import render
from helpers import language_models as tiny

ASKED = {"prompt": "the cat ", "answer": "sat under the red tree"}
TEXTS = [*tiny.sentences(7), "the cat sat under the red tree"]


@pytest.fixture(scope="module")
def train(tokenizer):
    def train(texts, seed):
        torch.manual_seed(seed)
        return tiny.train(tiny.gpt2(), tokenizer, texts, steps=40)

    return train


@pytest.fixture(scope="module")
def found(tokenizer, train):
    return da.lm.influence(train(TEXTS, 0), tokenizer, TEXTS, **ASKED)


@pytest.mark.slow
def test_falls_are_those_of_training_again(found, train, tokenizer):
    wanted = []
    judged = da.lm.judge(
        found, TEXTS, lambda texts, seed: wanted.append((texts, seed)) or train(texts, seed),
        removed=1, repeats=2, seed=3,
    ).judged  # fmt: skip
    assert judged.methods == ("influence", "BM25", "embedding", "random")
    assert [seed for _, seed in wanted] == [3] * 5 + [4] * 5
    assert wanted[0][0] == TEXTS and wanted[1][0] == TEXTS[:7]  # influence finds it

    def log_probability(model):
        ids = torch.tensor(tokenizer("".join(ASKED.values()))["input_ids"])
        with torch.no_grad():
            rows = model(input_ids=ids[None]).logits[0, 1:-1].log_softmax(-1)
        return float(rows.gather(1, ids[2:, None]).sum())

    whole, without = (log_probability(train(texts, 3)) for texts in (TEXTS, TEXTS[:7]))
    assert judged.whole[0] == pytest.approx(whole, abs=1e-4)
    assert judged.fall[0, 0] == pytest.approx(whole - without, abs=1e-4)
    assert judged.fall[0].mean() > 2 > abs(judged.fall[3]).min()


@pytest.mark.parametrize(
    ("fall", "winner", "words"),
    [
        ([[3.0, 3.1], [1.0, 1.2], [0.0, 0.1]], "influence", "Influence does better than BM25"),
        ([[1.0, 1.2], [3.0, 3.1], [0.0, 0.1]], "BM25", "BM25 does better than influence"),
        ([[1.0, 3.0], [2.0, 1.0], [0.0, 0.1]], None, "No difference is shown between influence"),
        ([[3.0], [1.0], [0.0]], None, "One training each"),
    ],
)
def test_who_won(found, fall, winner, words):
    assert "nothing here says which of these methods is right" in render(page(found))
    values = np.array(fall)
    judged = JudgedTexts(("influence", "BM25", "random"), values, np.zeros(values.shape[1]), 5)
    assert verdict(judged)[0] == winner
    html = render(page(replace(found, judged=judged)))
    assert words in html and "5 texts that each names" in html
    assert html.count('<span class="badge">best</span>') == (winner is not None)


REFUSED = {
    "texts": ({"texts": TEXTS[1:]}, "texts must be those of the result, 8; got 7"),
    "removed": ({"removed": 8}, "removed must be below the 8 texts; got 8"),
    "repeats": ({"repeats": 0}, "repeats must be a whole number of at least 1; got 0"),
    "train": ({"train": lambda texts: None}, r"train must give a model for \(texts, seed\)"),
    "no model": ({"train": lambda texts, seed: None}, "must be a causal language model"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(found, train, case):
    settings, message = REFUSED[case]
    given = {"texts": TEXTS, "train": train, "removed": 1, **settings}
    with pytest.raises(da.DatassayError, match=message):
        da.lm.judge(found, **given)
