"""Texts as samples: each token is predicted once, and losses add up to those of the texts."""

import numpy as np
import pytest
import torch

import datassay as da
from datassay.collect.gradients.criteria import objective
from datassay.collect.gradients.reading import batches
from helpers import language_models as tiny

WORDS = ("cat dog bird " * 40).split()


def of_length(*lengths):
    return [" ".join(WORDS[i : i + n]) for i, n in enumerate(lengths)]


def counted(samples):
    """How often each token of each text has a label that counts, in the texts' order."""
    result = np.zeros(len(samples.tokens), int)
    for (begin, _, end), sample in zip(samples.spans, samples, strict=True):
        np.testing.assert_array_equal(sample["input_ids"], samples.tokens[begin:end])
        assert sample["labels"][0] == -100  # nothing stands before it
        own = sample["labels"] != -100
        np.testing.assert_array_equal(sample["labels"][own], sample["input_ids"][own])
        result[begin:end] += own
    return result


@pytest.mark.parametrize("overlap", [None, 1, 5])
@pytest.mark.parametrize("context", [6, 16])
def test_each_token_counts_once(model, tokenizer, context, overlap):
    lengths = [3, 16, 17, 1, 40]
    samples = da.lm.token_samples(
        model, tokenizer, of_length(*lengths), context=context, overlap=overlap
    )
    assert max(len(s["input_ids"]) for s in samples) == context
    starts = np.cumsum([0, *lengths[:-1]])
    expected = np.ones(sum(lengths), int)
    expected[starts] = 0
    np.testing.assert_array_equal(counted(samples), expected)
    np.testing.assert_array_equal(samples.counted, np.array(lengths) - 1)
    shared = context // 4 if overlap is None else overlap
    later = [s for s in samples if "[" in str(s["id"])]
    assert later[1]["labels"][shared - 1] == -100 != later[1]["labels"][shared]


def test_windows_of_a_text_are_named_after_it(model, tokenizer):
    texts = of_length(3, 20)
    samples = da.lm.token_samples(model, tokenizer, texts, ids=["a", "b"], context=10, overlap=4)
    assert [s["id"] for s in samples] == ["a", "b[0:10]", "b[10:16]", "b[16:20]"]
    assert samples.text.tolist() == [0, 1, 1, 1]
    assert samples.positions_of([1]).tolist() == [1, 2, 3]
    cut = da.lm.token_samples(model, tokenizer, of_length(20, 4), too_long="truncate")
    assert len(cut) == 2 and cut.counted.tolist() == [15, 3]
    begun = da.lm.token_samples(model, tiny.tokenizer(begin=True), ["cat dog"])
    assert begun[0]["input_ids"].tolist()[0] == 1 and begun.counted.tolist() == [2]


def test_a_packed_text_sees_what_stood_before_it(model, tokenizer):
    lengths = [5, 20, 3, 9]
    samples = da.lm.token_samples(model, tokenizer, of_length(*lengths), pack=True, context=8)
    expected = np.ones(sum(lengths), int)
    expected[::8] = 0  # the first of each sequence
    np.testing.assert_array_equal(counted(samples), expected)
    assert samples.text.tolist() == [0, 1, 1, 1, 1, 2, 3, 3]
    rows = torch.from_numpy(samples.tokens).long()
    whole = sum(loss(model, row[None]) for row in rows.split(8))
    assert losses(model, samples).sum() == pytest.approx(whole, rel=1e-12)


def loss(model, ids):
    with torch.no_grad():
        batch = {"input_ids": ids}
        return float(objective("next_token", model, batch).losses(model, batch).sum())


def losses(model, samples, size=3):
    """Of each sample, in batches that are filled up."""
    with torch.no_grad():
        parts = [
            objective("next_token", model, b).losses(model, b) for _, b in batches(samples, size)
        ]
    return torch.cat(parts).numpy()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_losses_are_those_of_the_texts_alone(model, tokenizer, reduction):
    texts = of_length(3, 9, 16)
    samples = da.lm.token_samples(model, tokenizer, texts, reduction=reduction)
    for text, ours in zip(texts, losses(model, samples), strict=True):
        ids = torch.tensor(tokenizer(text)["input_ids"])[None]
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, :-1]
        truth = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction=reduction)
        assert ours == pytest.approx(float(truth), rel=1e-12)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_unit_turns_their_mean_into_the_training_loss(model, tokenizer, reduction):
    texts = of_length(3, 30)
    samples = da.lm.token_samples(model, tokenizer, texts, context=8, reduction=reduction)
    own = losses(model, samples)
    by_text = np.bincount(samples.text, own)  # of "mean" already over the tokens
    truth = by_text.sum() / samples.counted.sum() if reduction == "sum" else by_text.mean()
    assert own.mean() / samples.unit == pytest.approx(truth, rel=1e-12)


def test_influence_takes_them(model, tokenizer):
    texts = of_length(3, 6, 9, 20)
    samples = da.lm.token_samples(model, tokenizer, texts)
    attribution = da.influence(model, samples, [samples[0]], loss="next_token", measure="loss")
    assert attribution.ids.tolist() == ["0", "1", "2", "3[0:16]", "3[16:20]"]
    assert attribution.effect[0, 0] < 0


REFUSED = {
    "no texts": ({"texts": []}, "texts must hold at least 1 text; got none"),
    "one string": ({"texts": "cat"}, "texts must be a list of strings; got one string"),
    "a number": ({"texts": ["cat", 3]}, "texts must be strings; text 1 is a int"),
    "no list": ({"texts": 3}, "texts must be a list of strings; got a int"),
    "an empty one": ({"texts": ["cat", " \n"]}, "text 1 is empty. Leave it out"),
    "too long": ({"texts": of_length(3, 17), "too_long": "refuse"}, "context of 16 tokens; text 1"),
    "too_long": ({"too_long": "cut"}, "too_long must be one of"),
    "reduction": ({"reduction": "max"}, "reduction must be 'sum' or 'mean'; got 'max'"),
    "context": ({"context": 17}, "context must be at most 16 tokens"),
    "short context": ({"context": 1}, "context must be a whole number of at least 2"),
    "overlap": ({"texts": of_length(20), "overlap": 16}, "overlap must be below the context of 16"),
    "no overlap": ({"overlap": 0}, "overlap must be a whole number of at least 1; got 0"),
    "ids": ({"ids": [1]}, "ids must be one per text, 2; got 1"),
    "ids twice": ({"ids": [1, 1]}, "ids must be unique"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(model, tokenizer, case):
    settings, message = REFUSED[case]
    texts = settings.get("texts", of_length(3, 4))
    others = {name: value for name, value in settings.items() if name != "texts"}
    with pytest.raises(da.DatassayError, match=message):
        da.lm.token_samples(model, tokenizer, texts, **others)
    with pytest.raises(da.DatassayError, match="knows 23 tokens, and the model has embeddings"):
        da.lm.token_samples(tiny.gpt2(rows=9), tokenizer, ["cat"])
    with pytest.raises(da.DatassayError, match="tokenizer must be one of transformers"):
        da.lm.token_samples(model, "gpt2", ["cat"])
