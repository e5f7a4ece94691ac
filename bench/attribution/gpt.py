"""A GPT of 0.23 million weights that learns movie reviews from nothing; asked for: a text's loss.

Settings are chosen on sentences of the Stanford Sentiment Treebank ("gpt_sst2") and reported on
those of rt-polarity ("gpt"), which are also movie reviews; the two share no sentence. The outcome
of a query is its loss, summed over tokens. Every network starts from the same weights; the seed
decides the order.
"""

import re
from functools import cache, partial

import numpy as np
import torch
from bench.attribution.problems import Batch, Language, bm25
from bench.data import lines_of
from torch import Tensor, nn

import datassay as da

LENGTH, WORDS, WIDTH, LAYERS = 40, 2000, 64, 2
N_TRAIN, N_QUERIES = 1500, 100
END = "<|endoftext|>"
LAYERS_OF_BLOCKS = [
    f"transformer.h.{i}.{part}"
    for i in range(LAYERS)
    for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
]


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """[b, tokens, words]. Padding follows a text, whose tokens see only what precedes them."""
    return model(input_ids=batch["input_ids"]).logits


def trimmed(batch: Batch, generator: torch.Generator | None) -> Batch:
    """Without columns that are padding in every row."""
    longest = int((batch["labels"] != -100).sum(1).max())
    return {name: t[:, :longest] for name, t in batch.items()}


def sentences(corpus: str) -> list[str]:
    if corpus == "sst2":
        return [line.partition("\t")[0].strip() for line in lines_of(corpus, "train.tsv")]
    parts = (lines_of(corpus, f"rt-polarity.{part}") for part in ("pos", "neg"))
    return [line.strip() for part in parts for line in part]


def letters(sentence: str) -> str:
    """What two editions of a sentence have in common."""
    return re.sub("[^a-z]", "", sentence.lower())


@cache
def drawn(corpus: str) -> tuple[list[str], list[str]]:
    """Training sentences and queries, of 6 to 20 words; of rt-polarity none that SST-2 drew."""
    taken = set()
    if corpus == "rt_polarity":
        taken = {letters(sentence) for part in drawn("sst2") for sentence in part}
    by_letters = {letters(s): s for s in sentences(corpus) if 6 <= len(s.split()) <= 20}
    kept = [s for key, s in by_letters.items() if key not in taken]
    order = np.random.default_rng(0).permutation(len(kept))[: N_TRAIN + N_QUERIES]
    return [kept[i] for i in order[:N_TRAIN]], [kept[i] for i in order[N_TRAIN:]]


def tokens(texts: list[str], length: int = LENGTH):
    """Byte pairs of the training sentences; longer texts are cut, shorter ones padded."""
    from tokenizers import ByteLevelBPETokenizer

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(texts, vocab_size=WORDS, special_tokens=[END], show_progress=False)
    made.enable_truncation(length)
    made.enable_padding(length=length, pad_id=0, pad_token=END)
    return made


def encoded(words, texts: list[str]) -> Batch:
    """input_ids and labels, [n, length]; a text stands between two ends."""
    result = words.encode_batch([END + text + END for text in texts])
    ids = torch.tensor([e.ids for e in result])
    mask = torch.tensor([e.attention_mask for e in result])
    return {"input_ids": ids, "labels": ids.masked_fill(mask == 0, -100)}


def network(seed: int, length: int = LENGTH) -> nn.Module:
    """The GPT with its first weights, the same whatever the seed; without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return GPT2LMHeadModel(
            GPT2Config(
                vocab_size=WORDS, n_positions=length, n_embd=WIDTH, n_layer=LAYERS, n_head=2,
                bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            )
        )  # fmt: skip


@cache
def learns(corpus: str) -> Language:
    train, queries = drawn(corpus)
    words = tokens(train)
    return Language(
        encoded(words, train), encoded(words, queries), network, logits, trimmed,
        (train, queries), LAYERS_OF_BLOCKS,
    )  # fmt: skip


reported, tuning = partial(learns, "rt_polarity"), partial(learns, "sst2")


# Effects [n, m] have the sign of the outcome, a loss: a text that helps a query lowers it. --------


def gradient_product(problem: Language, model: nn.Module) -> np.ndarray:
    """TracIn at the trained network: one gradient times the other."""
    train, queries = problem.given("train"), problem.given("queries")
    return np.asarray(da.influence(model, train, queries, method="tracin", measure="loss").effect)


def shared_words(problem: Language, model: nn.Module) -> np.ndarray:
    return -bm25(*problem.texts or ([], []))


def nearness(problem: Language, model: nn.Module) -> np.ndarray:
    """Cosine of the mean of the last layer's states, less that mean over the samples."""
    a, b = (mean_state(model, batch) for batch in (problem.train, problem.queries))
    a, b = (nn.functional.normalize(part - a.mean(0), dim=1) for part in (a, b))
    return -(a @ b.T).numpy()


def mean_state(model: nn.Module, batch: Batch) -> Tensor:
    """What the output layer sees, averaged over a text's tokens: [b, width]."""
    with torch.no_grad():
        seen = model.get_submodule("transformer")(batch["input_ids"]).last_hidden_state
    mask = (batch["labels"] != -100)[..., None]
    return (seen * mask).sum(1) / mask.sum(1)
