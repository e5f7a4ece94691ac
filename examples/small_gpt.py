"""A small GPT of Hugging Face transformers, trained on real sentences in minutes on two cores.

    pip install "datassay[hf]"
    python examples/small_gpt.py gpt                    # 5000 sentences, 0.5 million weights
    python examples/small_gpt.py gpt --texts my.txt     # sentences of your own, one a line
    python examples/small_gpt.py gpt --explain          # and who made it write what it writes

The folder then holds the model and its tokenizer, which `from_pretrained` reads, and texts.txt: the
sentences that it learnt, one a line, in the order in which an attribution counts them. The same
seed gives the same model. Sentences are those of the file; else the movie reviews of rt-polarity or
SST-2 in the folder named by DATASSAY_DATA; else those of the docstrings of numpy, scipy and
scikit-learn, which everybody has who has datassay.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

END = "<|endoftext|>"  # before and after every text, as in GPT-2
LENGTH = 64  # tokens that the model sees at once; longer texts are cut
DOCUMENTED = ("numpy", "scipy", "sklearn")


def sentences(file: Path | None, most: int, seed: int) -> list[str]:
    """Up to `most` different sentences, drawn by the seed, in their own order."""
    results = list(dict.fromkeys(" ".join(line.split()) for line in source(file)))
    results = [sentence for sentence in results if sentence]
    chosen = random.Random(seed).sample(range(len(results)), min(most, len(results)))
    return [results[i] for i in sorted(chosen)]


def source(file: Path | None) -> Iterable[str]:
    """Lines of the file, of the data folder, or of docstrings."""
    if file is not None:
        return file.read_text(encoding="utf-8").splitlines()
    folder = Path(os.environ.get("DATASSAY_DATA", "no folder")) / "text"
    reviews = [folder / "rt_polarity" / f"rt-polarity.{part}" for part in ("pos", "neg")]
    treebank = folder / "sst2" / "train.tsv"
    if all(review.exists() for review in reviews):
        return [line for r in reviews for line in r.read_text(encoding="utf-8").splitlines()]
    if treebank.exists():
        lines = treebank.read_text(encoding="utf-8").splitlines()
        return [line.partition("\t")[0] for line in lines]
    return docstring_sentences()


def docstring_sentences() -> Iterator[str]:
    """Plain English of installed libraries: their source is read, not run."""
    for package in DOCUMENTED:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for file in sorted(Path(folder).rglob("*.py")):
                if "tests" not in file.parts:
                    yield from _sentences_of(ast.parse(file.read_text(encoding="utf-8")))


def _sentences_of(module: ast.Module) -> Iterator[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(module):
        text = (ast.get_docstring(node) if isinstance(node, documented) else "") or ""
        for paragraph in re.split(r"\n\s*\n", text.replace("`", "")):
            for sentence in re.split(r"(?<=\.)\s+", " ".join(paragraph.split())):
                plain = re.fullmatch(r"[A-Z][A-Za-z0-9 ,;'()-]+\.", sentence)
                if plain and 6 <= len(sentence.split()) <= 40:
                    yield sentence


def new_tokenizer(texts: Sequence[str], words: int) -> PreTrainedTokenizerFast:
    """Byte pairs of these texts. Any text can be written in them; `words` counts bytes too."""
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learnt = trainers.BpeTrainer(
        vocab_size=words, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    pairs.train_from_iterator(texts, learnt)
    return PreTrainedTokenizerFast(
        tokenizer_object=pairs, bos_token=END, eos_token=END, pad_token=END, model_max_length=LENGTH
    )


def new_model(tokenizer: PreTrainedTokenizerFast, width: int, layers: int, seed: int) -> Any:
    """A GPT-2 with its first weights: about words x width + 12 layers x width²."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer),
            n_positions=LENGTH,
            n_embd=width,
            n_layer=layers,
            n_head=max(1, width // 32),
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    model.loss_type = "ForCausalLM"  # transformers finds it too, and warns
    return model


def encoded(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[Tensor]:
    """Token ids of each text between two ends."""
    result = tokenizer([END + text + END for text in texts], truncation=True, max_length=LENGTH)
    return [torch.tensor(ids) for ids in result["input_ids"]]


def padded(rows: Sequence[Tensor]) -> dict[str, Tensor]:
    """A batch: padding is masked and its labels do not count."""
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return {
        "input_ids": ids,
        "attention_mask": mask.long(),
        "labels": ids.masked_fill(~mask, -100),
    }


def train(model: Any, texts: Sequence[Tensor], epochs: int, batch: int, seed: int) -> None:
    """AdamW on the mean loss of a batch's tokens; its step size rises, then falls to 0."""
    torch.manual_seed(seed)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    updates = epochs * -(-len(texts) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, updates, pct_start=0.1)
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        total = 0.0
        parts = torch.randperm(len(texts)).split(batch)
        for part in parts:
            loss = model(**padded([texts[i] for i in part.tolist()])).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        seconds = time.perf_counter() - start
        mean = total / len(parts)
        print(f"epoch {epoch} of {epochs}: {mean:.2f} nats per token, {seconds:.0f} s", flush=True)
    model.eval()


def continued(model: Any, tokenizer: PreTrainedTokenizerFast, start: str, tokens: int = 20) -> str:
    """What the model writes after a start: its likeliest tokens."""
    ids = tokenizer(END + start, return_tensors="pt")
    written = model.generate(
        **ids, max_new_tokens=tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id
    )
    return tokenizer.decode(written[0], skip_special_tokens=True)


def explained(model: Any, tokenizer: PreTrainedTokenizerFast, texts: list[str], out: Path) -> str:
    """Which sentences made the model go on as it does from the start of one; writes a page."""
    import datassay as da

    start = " ".join(texts[len(texts) // 2].split()[:3])
    answer = continued(model, tokenizer, start)[len(start) :]
    attribution = da.lm.influence(
        model,
        tokenizer,
        [END + text + END for text in texts],
        answer,
        prompt=END + start,
        too_long="truncate",
        progress=lambda step, done, n: print(f"\r{step}: {done} of {n}   ", end="", flush=True),
    )
    attribution.save(out / "influence", overwrite=True)
    first = texts[int(attribution.effect.sum(1).argmax())]
    return f"\n{start}{answer}\nraised most by: {first}\nopen {out / 'influence' / 'index.html'}"


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--texts", type=Path, help="sentences, one a line")
    parser.add_argument("--most", type=int, default=5000, help="sentences to learn")
    parser.add_argument("--words", type=int, default=2000, help="size of the vocabulary")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32, help="sentences an update")
    parser.add_argument("--explain", action="store_true", help="what it writes, by its sentences")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and save."""
    args = parsed(arguments)
    texts = sentences(args.texts, args.most, args.seed)
    if not texts:
        raise SystemExit(f"no sentences in {args.texts or 'the docstrings'}: nothing to learn.")
    tokenizer = new_tokenizer(texts, args.words)
    model = new_model(tokenizer, args.width, args.layers, args.seed)
    print(f"{len(texts)} sentences, {model.num_parameters()} weights", flush=True)
    train(model, encoded(tokenizer, texts), args.epochs, args.batch, args.seed)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    (args.out / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    start = " ".join(texts[0].split()[:3])
    print(f"saved in {args.out}; it goes on: {continued(model, tokenizer, start)}")
    if args.explain:
        print(explained(model, tokenizer, texts, args.out))


if __name__ == "__main__":
    main()
