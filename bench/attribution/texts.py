"""A tiny BERT on sentences of the Stanford Sentiment Treebank, fine-tuned whole or by LoRA.

No weights are downloaded: the encoder learns on the treebank's other sentences first, once a
folder. The classifier then starts anew, from the same weights in every run; the seed decides order
and dropout.
"""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from bench.attribution.problems import Batch, Problem
from bench.data import lines_of, work
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

LENGTH, WORDS = 48, 4000
N_TRAIN, N_QUERIES = 1000, 200


def config(**settings):
    """Two layers of width 64."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=128, max_position_embeddings=LENGTH, num_labels=2, **settings,
    )  # fmt: skip


def sentences() -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    parts = []
    for name in ("train", "dev"):
        pairs = (line.split("\t") for line in lines_of("sst2", f"{name}.tsv"))
        parts.append([(text, int(label)) for text, label in pairs])
    return parts[0], parts[1]


@cache
def tokens():
    """WordPieces of the training sentences."""
    from tokenizers import BertWordPieceTokenizer

    file = work() / "bert_words.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        made = BertWordPieceTokenizer()
        texts = [text for text, _ in sentences()[0]]
        made.train_from_iterator(texts, vocab_size=WORDS, min_frequency=2, show_progress=False)
        file.write_text(json.dumps(made.get_vocab()), encoding="utf-8")
    words = BertWordPieceTokenizer(json.loads(file.read_text(encoding="utf-8")))
    words.enable_truncation(LENGTH)
    words.enable_padding(length=LENGTH)
    return words


def encoded(lines: list[tuple[str, int]]) -> Batch:
    """input_ids and attention_mask [n, LENGTH], labels [n]."""
    result = tokens().encode_batch([text for text, _ in lines])
    return {
        "input_ids": torch.tensor([e.ids for e in result]),
        "attention_mask": torch.tensor([e.attention_mask for e in result]),
        "labels": torch.tensor([label for _, label in lines]),
    }


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """[b, 2]; the mask as encoders need it under vmap: [b, 1, 1, length], 0 or very low."""
    hidden = (1.0 - batch["attention_mask"][:, None, None, :].float()) * -1e9
    return model(input_ids=batch["input_ids"], attention_mask=hidden).logits


def trimmed(batch: Batch, generator: torch.Generator | None) -> Batch:
    """Without columns that are padding in every row."""
    longest = int(batch["attention_mask"].sum(1).max())
    return {name: t[:, :longest] if t.ndim > 1 else t for name, t in batch.items()}


def classifier(seed: int = 0) -> nn.Module:
    from transformers import BertForSequenceClassification

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return BertForSequenceClassification(config())


@cache
def encoder() -> dict[str, Tensor]:
    """Weights before fine-tuning, from a file or learnt: three epochs of the other sentences."""
    file = work() / "bert_start.safetensors"
    if not file.exists():
        _, others, _ = drawn()
        batch = encoded(others)
        torch.manual_seed(0)
        model, n = classifier().train(), len(others)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3 * (n // 32))
        for _ in range(3):
            for rows in torch.randperm(n)[: n // 32 * 32].split(32):
                part = trimmed({name: t[rows] for name, t in batch.items()}, None)
                loss = nn.functional.cross_entropy(logits(model, part), part["labels"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        anew = classifier(1).state_dict()
        head = {name: t for name, t in anew.items() if name.startswith("classifier")}
        save_file({**model.state_dict(), **head}, file)
    return load_file(file)


def drawn():
    rng = np.random.default_rng(0)
    train, dev = sentences()
    order = rng.permutation(len(train))
    kept, rest = np.sort(order[:N_TRAIN]), np.sort(order[N_TRAIN:])
    wanted = np.sort(rng.permutation(len(dev))[:N_QUERIES])
    return [train[i] for i in kept], [train[i] for i in rest], [dev[i] for i in wanted]


@cache
def whole() -> Problem:
    train, _, queries = drawn()
    start = encoder()

    def build(seed: int) -> nn.Module:
        model = classifier()
        model.load_state_dict(start)
        return model

    texts = ([text for text, _ in train], [text for text, _ in queries])
    return Problem(encoded(train), encoded(queries), build, logits, trimmed, texts)


@cache
def adapted() -> Problem:
    """Only LoRA matrices of rank 4 on queries and values, and the classifier, train."""
    problem = whole()

    def build(seed: int) -> nn.Module:
        from peft import LoraConfig, TaskType, get_peft_model

        lora = LoraConfig(
            task_type=TaskType.SEQ_CLS, r=4, lora_alpha=8, target_modules=["query", "value"]
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return get_peft_model(problem.build(seed), lora)

    trained = [n.rpartition(".")[0] for n, w in build(0).named_parameters() if w.requires_grad]
    return replace(problem, build=build, tracked=list(dict.fromkeys(trained)))
