"""Language models: effects of texts, and of their tokens, by gradients of one token at a time."""

import copy
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import datassay as da
from helpers import language_models as tiny
from helpers.attack.case import Case, compared
from helpers.transformers_models import bert, imported

# What is odd, and whether that must be refused.
ODD = {
    "": False, "windows": False, "cut": False, "packed": False, "mean": False, "dropout": False,
    "two": True, "some": False, "special": False, "padded": False, "index": False,
    "index mixed": True, "index weights": True, "empty": True, "number": True, "same ids": True,
    "long answer": True, "no answer": True, "few rows": True, "context": True, "overlap": True,
    "refuse": True, "nan": True, "sees all": True, "one text": True,
}  # fmt: skip
LONG = ("windows", "cut", "packed", "refuse")  # the first text is
KEPT = {"precision": "float64", "bytes_per_sample": 2**20}


@cache
def networks() -> list[Any]:
    torch.manual_seed(0)
    masked = bert(imported("transformers"), "BertForMaskedLM", positions=16)
    return [tiny.gpt2(), tiny.llama(), masked, tiny.gpt2(rows=9)]


def case(draw: random.Random, folder: Path) -> Case:
    """Texts, an answer and settings; one thing is odd."""
    odd, seed, which = draw.choice([*ODD, "index"]), draw.randrange(2**32), draw.randrange(2)
    which = {"sees all": 2, "few rows": 3, "dropout": 0, "index weights": 0}.get(odd, which)
    texts: Any = tiny.sentences(draw.randint(2, 6), seed, 1, 9)
    words = tiny.sentences(1, seed + 1, 4, 8)[0].split()
    prompt, answer = " ".join(words[:2]) + " ", " ".join(words[2:])
    length = draw.choice([4, 5, 7])
    reading: dict[str, Any] = {"ids": [f"t{i}" for i in draw.sample(range(99), len(texts))]}
    reading |= {
        "windows": {"context": length, "overlap": draw.randint(1, 3)}, "mean": {"reduction":
        "mean"}, "cut": {"context": length, "too_long": "truncate"}, "packed": {"context": length,
        "pack": True}, "same ids": {"ids": [7] * len(texts)}, "context": {"context": 99},
        "overlap": {"context": length, "overlap": length}, "refuse": {"context": length,
        "too_long": "refuse"},
    }.get(odd, {})  # fmt: skip
    firsts = {"special": "<pad> the <unk> zebra <s> <pad>", "empty": " \n", "number": 5}
    firsts |= dict.fromkeys(LONG, " ".join(tiny.sentences(3, seed, 5, 9)))
    texts[0] = firsts.get(odd, texts[0])
    answer = {"long answer": f"{answer} " * 9, "no answer": ""}.get(odd, answer)
    asked = {"prompt": prompt, "top": draw.choice([0, 1, 9]), "baselines": False, **reading}
    given = {"one text": str(texts), "index mixed": texts[::-1]}.get(odd, texts)
    network = networks()[which]  # before the fork: transformers takes seconds to import

    def work() -> str | None:
        tokenizer, model = _tokenizer(odd), _changed(network, odd)
        if odd.startswith("index"):
            samples = da.lm.token_samples(model, tokenizer, texts, **reading)
            index = da.index(model, samples, folder, **KEPT)
            other = _changed(network, odd + " here")
            result = da.lm.influence(other, tokenizer, given, answer, index=index, **asked)
        else:
            asked.update(method="tracin", precision="float64")
            asked.update({"parameters": "mlp"} if odd == "some" else {})
            models = [model] * 2 if odd == "two" else model
            result = da.lm.influence(models, tokenizer, given, answer, **asked)
        question = tokenizer(prompt + answer)["input_ids"]
        places = range(len(tokenizer(prompt)["input_ids"]), len(question))
        if result.ids.tolist() != reading["ids"]:
            return "silent: other ids"
        if odd.startswith("index"):
            rows = [{"input_ids": question[: t + 1], "labels": [-100] * t + question[t : t + 1]}
                    for t in places]  # fmt: skip
            truth = -index.query(rows, measure="loss", top=None).effect
            return None if np.allclose(result.effect, truth, 1e-4, 1e-7) else "silent: index"
        some = str(asked.get("parameters", ""))
        towards = torch.stack([_slope(model.eval(), question, 0, t, some) for t in places])
        truth = _by_token(model, [tokenizer(text)["input_ids"] for text in texts], reading, towards,
                          some)  # fmt: skip
        near = 1e-6 * max(np.abs(part).max() for part in truth) + 1e-12
        apart = [np.abs(part.effect - truth[part.text]).max() for part in result.parts]
        apart += [np.abs(result.effect[i] - own.sum(0)).max() for i, own in enumerate(truth)]
        return "silent: other effects" if max(apart) > 9 * near else None

    return compared(f"{odd} {which}", work, folder, ODD[odd])


def _tokenizer(odd: str) -> Any:
    tokenizer = tiny.tokenizer()
    if odd == "padded":
        tokenizer.backend_tokenizer.enable_truncation(3)
        tokenizer.backend_tokenizer.enable_padding(length=12)
        tokenizer.padding_side = "left"
    return tokenizer


def _changed(network: Any, odd: str) -> Any:
    model = copy.deepcopy(network).double().eval()
    if odd == "dropout":
        for part in model.modules():
            part.p = 0.5 if isinstance(part, nn.Dropout) else getattr(part, "p", None)
        model.train()
    if odd == "nan":
        next(model.parameters()).data[4] = torch.nan
    if odd == "index weights here":
        model.transformer.wte.weight.data *= 1.1
    return model


def _by_token(model, tokens, reading, towards, some: str) -> list[np.ndarray]:
    """Of each text [tokens, m]: the gradient of each token's log-probability along `towards`."""
    truth = [np.zeros((len(own), len(towards))) for own in tokens]
    for i, starts in enumerate(_starts(tokens, reading)):
        whole, of = tokens[i], 0
        if "pack" in reading:
            whole, of = [t for own in tokens for t in own], sum(map(len, tokens[:i]))
        for t, start in starts.items():
            slope = _slope(model, whole, start, of + t, some) @ towards.T
            truth[i][t] = slope / (len(starts) if "reduction" in reading else 1)
    return truth


def _starts(tokens: list[list[int]], reading: dict[str, Any]) -> list[dict[int, int]]:
    """Of each text: token that is learned → the first one that the network sees before it."""
    length, shared = reading.get("context", 16), reading.get("overlap", 4)
    results, before = [], 0
    for own in tokens:
        starts, begin, stop = {}, 0, length
        for t in range(len(own)):
            if "pack" in reading:
                begin = (before + t) // length * length
                starts |= {t: begin} if begin < before + t else {}
                continue
            if t == stop and "too_long" in reading:
                break
            if t == stop:  # the next window
                begin = t - shared
                stop = begin + length
            starts |= {t: begin} if t else {}
        before += len(own)
        results.append(starts)
    return results


def _slope(model: Any, tokens: list[int], start: int, t: int, some: str) -> torch.Tensor:
    """Gradient of log p(token t | those from `start` on)."""
    row = torch.tensor([tokens[start:t]])
    value = model(input_ids=row).logits[0, -1].log_softmax(-1)[tokens[t]]
    weights = [p for name, p in model.named_parameters() if some in name]
    slopes = torch.autograd.grad(value, weights, allow_unused=True)
    return torch.cat([(torch.zeros_like(w) if s is None else s).flatten()
                      for w, s in zip(weights, slopes, strict=True)])  # fmt: skip
