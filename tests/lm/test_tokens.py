"""Tokens and where they stand: byte pairs, words with a sign before them, slow tokenizers."""

import numpy as np
import pytest

import datassay as da
from datassay.lm.tokens import check_tokenizer, question, token_ids, tokens_of
from helpers import language_models as tiny
from helpers.transformers_models import imported

TEXT = "Ünïcode … café\n\n  two  spaces 🙂!"


def made(kind):
    """A tokenizer learnt from a few texts."""
    tf, kit = imported("transformers"), imported("tokenizers")
    pairs = kit.Tokenizer(kit.models.BPE(unk_token=None, byte_fallback=kind == "signs"))
    if kind == "bytes":
        pairs.pre_tokenizer = kit.pre_tokenizers.ByteLevel(add_prefix_space=False)
        pairs.decoder = kit.decoders.ByteLevel()
        alphabet = kit.pre_tokenizers.ByteLevel.alphabet()
    else:
        pairs.pre_tokenizer = kit.pre_tokenizers.Metaspace()
        pairs.decoder = kit.decoders.Metaspace()
        alphabet = sorted(set(TEXT.replace(" ", "▁")))
    learnt = kit.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    pairs.train_from_iterator(["the cat sat on the mat", "café two spaces"] * 5, learnt)
    return tf.PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token="<end>")


class Slow:
    """A tokenizer that does not say where its tokens stand."""

    is_fast = False

    def __init__(self, inner):
        self._inner = inner

    def __call__(self, text, verbose=True, return_offsets_mapping=False):
        assert not return_offsets_mapping
        return self._inner(text)

    def decode(self, ids):
        return self._inner.decode(ids)


@pytest.mark.parametrize("kind", ["bytes", "signs"])
def test_pieces_are_the_text(kind):
    tokenizer = made(kind)
    result = tokens_of(tokenizer, TEXT)
    assert "".join(result.pieces) == TEXT
    assert result.ids.tolist() == tokenizer(TEXT)["input_ids"]
    assert (np.diff(result.spans[:, 1]) >= 0).all()


def test_a_slow_tokenizer_is_taken():
    fast = made("bytes")
    both = [tokens_of(one, "the cat sat on café") for one in (fast, Slow(fast))]
    assert both[0].pieces[:3] == both[1].pieces[:3]
    assert "".join(both[1].pieces) == "the cat sat on café"
    check_tokenizer(Slow(fast), 3)  # it does not say how many it knows


@pytest.mark.parametrize("kind", ["bytes", "signs"])
@pytest.mark.parametrize(("prompt", "answer"), [("the cat", " sat on"), ("the cat ", "sat on")])
def test_the_answer_is_what_ends_in_it(kind, prompt, answer):
    wanted = question(made(kind), prompt, answer, None, None)
    shown = "".join(wanted.tokens.pieces[wanted.first :])
    assert shown.strip() == "sat on" and not wanted.doubts


def test_a_token_of_both_and_unknown_ones_are_told(tokenizer):
    wanted = question(made("bytes"), "the ca", "t sat", None, None)
    assert wanted.doubts[0].startswith("the token ' cat' begins in the prompt and ends in the ans")
    texts, model = tiny.sentences(3), tiny.gpt2()
    attribution = da.lm.influence(model, tokenizer, texts, "sat on", prompt="the cat", top=0)
    assert "begins in the prompt" in attribution.attribution.warnings[0]
    with pytest.raises(da.DatassayError, match="tokens must be below 5, the rows of the model's"):
        token_ids(tokenizer, ["the a cat"], 5)
    with pytest.raises(da.DatassayError, match=r"tokens must be below 5.* the answer has token"):
        question(tokenizer, "the ", "cat", None, 5)
