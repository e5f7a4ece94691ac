"""A GPT of 0.23 million weights that learns movie reviews from nothing; asked for: a text's loss.

Settings are chosen on sentences of the Stanford Sentiment Treebank ("gpt_sst2") and reported on
those of rt-polarity ("gpt"), which are also movie reviews; the two share no sentence. The outcome
of a query is its loss, summed over tokens. Every network starts from the same weights; the seed
decides the order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from attribution_tasks import Batch, Task, data_folder
from torch import Tensor, nn

LENGTH, WORDS, WIDTH, LAYERS = 40, 2000, 64, 2
N_TRAIN, N_QUERIES = 1500, 100
END = "<|endoftext|>"
LAYERS_OF_BLOCKS = [
    f"transformer.h.{i}.{part}"
    for i in range(LAYERS)
    for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
]


@dataclass(frozen=True)
class LanguageTask(Task):
    """Texts as samples; "labels" are the tokens, -100 where there is padding."""

    measure = "loss"

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Mean over the batch's tokens."""
        ids = batch["labels"][:, 1:]
        return nn.functional.cross_entropy(self.logits(model, batch)[:, :-1].mT, ids)

    def outcome(self, model: nn.Module, batch: Batch) -> Tensor:
        """Each text's loss, summed over its tokens: [b]."""
        ids = batch["labels"][:, 1:]
        logits = self.logits(model, batch)[:, :-1].mT
        return nn.functional.cross_entropy(logits, ids, reduction="none").sum(1)


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """[b, tokens, words]. Padding follows a text, whose tokens see only what precedes them."""
    return model(input_ids=batch["input_ids"]).logits


def trimmed(batch: Batch, generator: torch.Generator | None) -> Batch:
    """Without columns that are padding in every row."""
    longest = int((batch["labels"] != -100).sum(1).max())
    return {name: t[:, :longest] for name, t in batch.items()}


def sentences(corpus: str) -> list[str]:
    """All sentences of "sst2" or "rt_polarity"."""
    folder = data_folder() / "text" / corpus
    if corpus == "sst2":
        lines = (folder / "train.tsv").read_text(encoding="utf-8").splitlines()
        return [line.partition("\t")[0].strip() for line in lines]
    files = [folder / f"rt-polarity.{part}" for part in ("pos", "neg")]
    return [li.strip() for f in files for li in f.read_text(encoding="utf-8").splitlines()]


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
    found = words.encode_batch([END + text + END for text in texts])
    ids = torch.tensor([e.ids for e in found])
    mask = torch.tensor([e.attention_mask for e in found])
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
def task(corpus: str, work: Path) -> LanguageTask:
    """All weights train."""
    train, queries = drawn(corpus)
    words = tokens(train)
    return LanguageTask(
        encoded(words, train), encoded(words, queries), np.arange(len(train)), network, logits,
        trimmed, (train, queries), LAYERS_OF_BLOCKS,
    )  # fmt: skip


reported, tuning = partial(task, "rt_polarity"), partial(task, "sst2")
