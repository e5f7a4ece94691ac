"""Text baselines: BM25 by its formula, embeddings by their definition."""

import math

import numpy as np
import pytest
import torch

import datassay as da
from helpers import language_models as tiny


def test_bm25_by_hand():
    texts = ["the cat sat", "a dog", "The CAT, the cat!", "birds"]
    result = da.lm.bm25(texts, "cat on the mat")
    lengths, mean = (3, 2, 4, 1), 2.5
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))  # both words stand in two texts

    def part(count, length):
        return idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / mean))

    np.testing.assert_allclose(
        result, [2 * part(1, lengths[0]), 0, 2 * part(2, lengths[2]), 0], rtol=1e-12
    )
    with pytest.raises(da.DatassayError, match="texts must be a list of strings"):
        da.lm.bm25("the cat", "cat")


@pytest.mark.parametrize("longest", [7, 40])
def test_embeddings_are_mean_last_states(longest):
    torch.manual_seed(0)
    model, tokenizer = tiny.llama().double().train(), tiny.tokenizer()
    texts = [*tiny.sentences(5), " ".join(["cat"] * longest)]
    samples = da.lm.token_samples(model, tokenizer, texts, too_long="truncate")
    query = tokenizer("the dog ran")["input_ids"]
    result = da.lm.embedding_similarity(model, samples, query)
    assert model.training  # it is put back

    def mean(ids):
        with torch.no_grad():
            states = model.eval()(input_ids=torch.tensor([ids]), output_hidden_states=True)
        return states.hidden_states[-1][0].mean(0)

    truth = [
        float(torch.cosine_similarity(mean(ids[: tiny.CONTEXT]), mean(query), dim=0))
        for ids in tokenizer(texts)["input_ids"]
    ]
    np.testing.assert_allclose(result, truth, rtol=1e-9)


def test_windows_of_a_text_are_one_mean(model, tokenizer):
    samples = da.lm.token_samples(model, tokenizer, ["cat dog " * 10], context=8, overlap=2)
    query = tokenizer("the dog ran")["input_ids"]

    def last(ids):
        with torch.no_grad():
            outcome = model(input_ids=torch.tensor(ids)[None], output_hidden_states=True)
        return outcome.hidden_states[-1][0]

    states = [
        last(sample["input_ids"])[first - begin : end - begin]
        for (begin, first, end), sample in zip(samples.spans, samples, strict=True)
    ]
    truth = torch.cosine_similarity(torch.cat(states).mean(0), last(query).mean(0), dim=0)
    result = da.lm.embedding_similarity(model, samples, query)
    assert result.tolist() == pytest.approx([float(truth)], rel=1e-9)
