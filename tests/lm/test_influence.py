"""Influence in language models: against autograd, its sums, what it finds, what it refuses."""

import warnings

import numpy as np
import pytest
import torch

import datassay as da
from helpers import language_models as tiny
from helpers.transformers_models import bert, imported

ASKED = {"prompt": "the cat ", "answer": "sat under the red tree"}


def ask(model, tokenizer, texts, **settings):
    given = {"precision": "float64", "baselines": False, **ASKED, **settings}
    answer = given.pop("answer")
    return da.lm.influence(model, tokenizer, texts, answer, **given)


def log_probabilities(model, ids):
    """Of each token but the first, given all before it."""
    logits = model(input_ids=torch.tensor(ids)[None]).logits[0, :-1].log_softmax(-1)
    return logits.gather(1, torch.tensor(ids)[1:, None])[:, 0]


def gradient(model, value):
    weights = [p for p in model.parameters() if p.requires_grad]
    slopes = torch.autograd.grad(value, weights, retain_graph=True, allow_unused=True)
    return torch.cat([
        (torch.zeros_like(w) if g is None else g).flatten()
        for w, g in zip(weights, slopes, strict=True)
    ])


def test_effects_are_products_of_gradients(model, tokenizer):
    """With P = I: of each text, and of each of its tokens."""
    texts = tiny.sentences(6)
    result = ask(model, tokenizer, texts, method="tracin", top=6)
    ids = tokenizer(ASKED["prompt"] + ASKED["answer"])["input_ids"]
    wanted = log_probabilities(model, ids)[1:]  # the prompt is two tokens
    np.testing.assert_allclose(result.log_probability, wanted.detach(), rtol=1e-12)
    assert result.tokens == (" sat", " under", " the", " red", " tree")
    towards = torch.stack([gradient(model, value) for value in wanted])
    assert [part.text for part in result.parts] == list(range(6))
    for part in result.parts:
        own = log_probabilities(model, tokenizer(texts[part.text])["input_ids"])
        slopes = torch.stack([gradient(model, value) for value in own])
        truth = (slopes @ towards.T).numpy()  # a loss is minus its log-probability
        np.testing.assert_allclose(part.effect[1:], truth, rtol=1e-9, atol=1e-12)
        assert not part.effect[0].any()
        np.testing.assert_allclose(result.effect[part.text], truth.sum(0), rtol=1e-9, atol=1e-12)
        assert "".join(part.tokens.pieces) == part.content == texts[part.text]
    whole = ask(model, tokenizer, texts, method="tracin", per_token=False, top=0)
    np.testing.assert_allclose(whole.effect[:, 0], result.effect.sum(1), rtol=1e-9)
    assert whole.tokens == (" sat under the red tree",)
    assert whole.log_probability[0] == pytest.approx(result.log_probability.sum())
    mean = ask(model, tokenizer, texts, method="tracin", reduction="mean", top=0)
    tokens = [len(tokenizer(text)["input_ids"]) - 1 for text in texts]
    np.testing.assert_allclose(result.effect, mean.effect * np.array(tokens)[:, None], rtol=1e-9)


def test_a_step_on_a_text_raises_what_its_effect_says(model, tokenizer):
    texts = [*tiny.sentences(4), "the cat sat under the red tree"]
    result = ask(model, tokenizer, texts, method="tracin", per_token=False)
    ids = tokenizer(ASKED["prompt"] + ASKED["answer"])["input_ids"]
    for text, effect in zip(texts, result.effect[:, 0], strict=True):
        step = gradient(model, -log_probabilities(model, tokenizer(text)["input_ids"]).sum())
        before = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.nn.utils.vector_to_parameters(before - 1e-7 * step, model.parameters())
        after = log_probabilities(model, ids)[1:].sum().item()
        torch.nn.utils.vector_to_parameters(before, model.parameters())
        assert (after - result.log_probability[0]) / 1e-7 == pytest.approx(effect, rel=1e-3)


def with_adapters():
    peft = imported("peft")
    config = peft.LoraConfig(
        r=2, target_modules=["c_attn"], init_lora_weights=False, fan_in_fan_out=True,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        return peft.get_peft_model(tiny.gpt2(), config)


MODELS = {
    "gpt2": (tiny.gpt2, {}),
    "llama": (tiny.llama, {}),
    "llama with one table": (lambda: tiny.llama(tied=True), {}),
    "adapters": (with_adapters, {"parameters": "lora_"}),
    "ekfac": (tiny.gpt2, {"curvature": "ekfac"}),
    "texts count alike": (tiny.gpt2, {"reduction": "mean"}),
    "packed": (tiny.gpt2, {"pack": True, "context": 9}),
    "windows": (tiny.gpt2, {"context": 4, "overlap": 2}),
    "together": (tiny.gpt2, {"per_token": False}),
}


@pytest.mark.parametrize("case", MODELS)
def test_effects_of_tokens_add_up(tokenizer, case):
    torch.manual_seed(0)
    make, settings = MODELS[case]
    model = make().double()
    texts = tiny.sentences(8)
    result = ask(model, tokenizer, texts, top=8, **settings)
    assert len(result.parts) == 8
    scale = np.abs(result.effect).max()
    for part in result.parts:  # a Llama normalises in float32
        assert np.abs(part.effect.sum(0) - result.effect[part.text]).max() < 1e-6 * scale
    assert result.effect.shape == (8, 1 if "per_token" in settings else 5)
    assert np.isfinite(result.effect).all() and scale > 0


def test_windows_add_up_to_their_text(model, tokenizer):
    texts = [*tiny.sentences(4), " ".join(tiny.sentences(4, seed=1))]
    result = ask(model, tokenizer, texts, method="tracin", context=8, overlap=3)
    samples = da.lm.token_samples(model, tokenizer, texts, context=8, overlap=3)
    towards = gradient(
        model, log_probabilities(model, tokenizer("".join(ASKED.values()))["input_ids"])[1:].sum()
    )
    truth = 0.0
    for position in samples.positions_of([4]):
        begin, first, _ = samples.spans[position]
        own = log_probabilities(model, samples[int(position)]["input_ids"].tolist())
        truth += float(gradient(model, own[max(first - begin - 1, 0) :].sum()) @ towards)
    assert result.effect[4].sum() == pytest.approx(truth, rel=1e-9)
    assert result.attribution.self_influence is None  # no sum over windows


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_learned_text_is_found_by_its_continuation(tokenizer, kind):
    """In float64, and stopped before all is known by heart: gradients there are next to nothing,
    and Adam in float32 ends where rounding leads. The effects hold for each of ten other starts.
    """
    torch.manual_seed(0)
    texts = tiny.sentences(30, shortest=5)
    model = tiny.train(getattr(tiny, kind)().double(), tokenizer, texts, steps=60)
    for position in (3, 17):
        words = texts[position].split()
        start, rest = " ".join(words[:2]) + " ", " ".join(words[2:])
        attribution = da.lm.influence(
            model, tokenizer, texts, rest, prompt=start, top=1, temperature=2.0
        )
        assert attribution.effect.sum(1).argmax() == position
        assert (
            attribution.parts
            and attribution.bm25 is not None
            and attribution.bm25.argmax() == position
        )
        assert attribution.embedding is not None and attribution.embedding.argmax() == position
        ours = next(part for part in attribution.parts if part.text == position)
        assert ours.effect.sum(1).argmax() >= 2  # what is asked about, not its prompt


def test_tables(model, tokenizer):
    texts = tiny.sentences(6)
    attribution = da.lm.influence(model, tokenizer, texts, ids=list("abcdef"), **ASKED)
    table = attribution.to_table()
    assert table.column_names == ["id", "effect", "bm25", "embedding", "effect_by_token"]
    assert table["id"].to_pylist() == list("abcdef")
    np.testing.assert_array_equal(
        np.stack(table["effect_by_token"].to_pylist()), attribution.effect
    )
    rows = attribution.to_token_table()
    first = attribution.parts[0]
    assert rows["token"].to_pylist()[: len(first.tokens.pieces)] == list(first.tokens.pieces)
    assert attribution.attribution.measure == "log_probability"
    assert attribution.attribution.to_table().num_rows


def test_several_models_are_averaged(tokenizer):
    models = []
    for seed in range(2):
        torch.manual_seed(seed)
        models.append(tiny.gpt2().double())
    texts = tiny.sentences(5)
    both = [ask(m, tokenizer, texts, top=5, seed=i) for i, m in enumerate(models)]
    result = ask(models, tokenizer, texts, top=5)
    np.testing.assert_allclose(result.effect, (both[0].effect + both[1].effect) / 2, rtol=1e-9)
    for part in result.parts:
        np.testing.assert_allclose(part.effect.sum(0), result.effect[part.text], rtol=1e-8)


def test_what_the_tokenizer_adds_is_no_part_of_the_answer(model):
    texts = tiny.sentences(5)
    result = ask(model, tiny.tokenizer(begin=True), texts, prompt="", answer="cat ran", top=5)
    assert result.tokens == ("cat", " ran")  # <s> stands before the first
    assert result.parts[0].tokens.pieces[0] == "<s>"
    without = ask(model, tiny.tokenizer(), texts, prompt="", answer="cat ran")
    assert without.tokens == (" ran",)


REFUSED = {
    "empty answer": ({"answer": ""}, "answer must have a token; got an empty string"),
    "first token": ({"answer": "cat", "prompt": ""}, "answer must have a token that follows"),
    "too long": ({"answer": "cat " * 15}, "fit the model's context of 16 tokens; they have 17"),
    "an empty text": ({"texts": ["cat ran", ""]}, "text 1 is empty"),
    "no texts": ({"texts": []}, "texts must hold at least 1 text"),
    "one string": ({"texts": "cat ran"}, "texts must be a list of strings; got one string"),
    "top": ({"top": -1}, "top must be a whole number of at least 0; got -1"),
    "arrays": ({"method": "lissa"}, "method must be 'auto', 'gauss_newton', 'tracin' or 'segm"),
    "whole": ({"curvature": "whole"}, "got 'gauss_newton' with 'whole'"),
    "unknown": ({"method": "magic"}, "method must be one of 'auto'"),
    "setting": ({"depth": 3}, "takes no settings of its own; got depth"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(model, tokenizer, case):
    settings, message = REFUSED[case]
    texts = settings.get("texts", tiny.sentences(4))
    others = {name: value for name, value in settings.items() if name != "texts"}
    with pytest.raises(da.DatassayError, match=message):
        ask(model, tokenizer, texts, **others)


def test_models_that_are_no_causal_language_models(tokenizer):
    tf = imported("transformers")
    config = bert(tf).config
    config.vocab_size = len(tokenizer)
    t5 = tf.T5Config(vocab_size=22, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2,
                     decoder_start_token_id=0)  # fmt: skip
    others = {
        "with a value for each token": bert(tf),
        "depends on tokens after it": tf.BertForMaskedLM(config),
        "encoder with a decoder": tf.T5ForConditionalGeneration(t5),
        "called with input_ids; that raised": torch.nn.Linear(3, 2),
        "a torch.nn.Module; got a str": "gpt2",
    }
    for message, model in others.items():
        with pytest.raises(da.DatassayError, match=message):
            da.lm.influence(model, tokenizer, ["cat ran"], "ran", prompt="cat ")
