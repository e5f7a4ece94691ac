"""From an index: the effects that it keeps, texts' tokens that add up to them, and refusals."""

import numpy as np
import pytest
import torch

import datassay as da
from helpers import language_models as tiny
from helpers.transformers_models import imported

ASKED = {"prompt": "the cat ", "answer": "sat under the red tree"}
TEXTS = [*tiny.sentences(7), " ".join(tiny.sentences(4, seed=1))]
EXACT = {"precision": "float64", "bytes_per_sample": 2**20}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Model, tokenizer and an index of all coordinates."""
    torch.manual_seed(0)
    model, tokenizer = tiny.gpt2().double().eval(), tiny.tokenizer()
    samples = da.lm.token_samples(model, tokenizer, TEXTS)
    path = tmp_path_factory.mktemp("index") / "ix"
    return model, tokenizer, da.index(model, samples, path, **EXACT)


def ask(made, texts=TEXTS, index=None, **settings):
    model, tokenizer, kept = made
    given = {"index": kept if index is None else index, "baselines": False, "top": 3}
    return da.lm.influence(model, tokenizer, texts, **{**given, **ASKED, **settings})


def test_effects_are_those_that_it_keeps(made, tmp_path):
    result = ask(made)
    model, tokenizer, kept = made
    ids = tokenizer("".join(ASKED.values()))["input_ids"]
    last = [{"input_ids": ids, "labels": [-100] * (len(ids) - 1) + ids[-1:]}]
    own = kept.query(last, measure="loss", top=None).effect[:, 0]
    samples = da.lm.token_samples(model, tokenizer, TEXTS)
    truth = -np.bincount(samples.text, own)
    np.testing.assert_allclose(result.effect[:, -1], truth, rtol=1e-4, atol=1e-6)
    assert result.attribution.method.startswith("index")
    assert result.ids.tolist() == list(range(len(TEXTS)))  # windows are added up
    for part in result.parts:
        apart = np.abs(part.effect.sum(0) - result.effect[part.text]).max()
        assert apart < 1e-5 * np.abs(result.effect).max()


def test_it_opens_with_the_model_loaded_in_another_process(tokenizer, tmp_path):
    torch.manual_seed(0)
    tiny.gpt2().save_pretrained(tmp_path / "model")

    def loaded():
        return imported("transformers").AutoModelForCausalLM.from_pretrained(tmp_path / "model")

    model = loaded()
    samples = da.lm.token_samples(model, tokenizer, TEXTS[:4])
    da.index(model, samples, tmp_path / "ix")
    other = loaded()  # what transformers hashes there is another number in each process
    other.generation_config._original_object_hash += 1
    index = da.open_index(tmp_path / "ix", other)
    attribution = da.lm.influence(
        other, tokenizer, TEXTS[:4], index=index, baselines=False, top=1, **ASKED
    )
    assert attribution.effect.shape == (4, 5)


OTHER = list(reversed(TEXTS[:7]))
REFUSED = {
    "fewer": ({"texts": TEXTS[:-1]}, "index must be of these texts' samples"),
    "other settings": ({"context": 6}, "index must be of these texts' samples"),
    "swapped texts": ({"texts": [TEXTS[1], TEXTS[0], *TEXTS[2:]], "top": 0}, "these very texts"),
    "another model": ({}, "the model must be the one that"),
    "other texts": ({"texts": [*OTHER, TEXTS[7]], "top": 8}, "index must be of these very texts"),
    "no index": ({"index": "ix/"}, "index must be a Index; got 'ix/'"),
    "its own": ({"damping": 0.1, "parameters": "wte"}, "its own damping, parameters; give index"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(made, case):
    settings, message = REFUSED[case]
    torch.manual_seed(1)  # that of the index was drawn with 0
    made = (tiny.gpt2().double().eval(), *made[1:]) if case == "another model" else made
    with pytest.raises(da.DatassayError, match=message):
        ask(made, **settings)
