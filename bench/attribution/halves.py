"""Attribution at trained weights against retraining on halves; ours compared with baselines.

Linear datamodelling score (Park et al. 2023): Spearman's correlation, over random halves of the
samples, of the margin that networks trained on the half reach (of a language model: the loss of a
text) with the sum of the half's effects; mean over queries. A seed is one of the networks of
`cases.py`; "all networks" are their mean effect. A contender whose package is missing is left out,
and named. Lines "attribution/..." of results.jsonl, which hold intervals over halves and queries,
are of these networks; those "digits" of 1000 digits and networks trained by Adam, with damping
chosen on other seeds. Lines "attribution_optimizer/..." compared effects along runs of AdamW, by
`bench/attribution_optimizer.py` of commit 6e113e7.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from bench.attribution import cases, gpt, problems
from bench.attribution.cases import Networks
from bench.attribution.problems import Language, Problem
from bench.baselines import kronfluence, trak
from bench.frame import Case, Contender, Row, Task
from torch import nn

# In words; the README shows the first.
SHOWN = {
    "cnn": "CNN with batch norm, AdamW, Fashion-MNIST",
    "mlp": "MLP 64-32-32-10, SGD with momentum, digits",
    "bert": "tiny BERT, fine-tuned on SST-2",
    "bert_lora": "tiny BERT, LoRA on SST-2",
    "gpt": "GPT of 230 656 weights, rt-polarity, loss of held-out sentences",
}


def only(kind: str, of: Callable, networks: Networks, seed: int) -> np.ndarray:
    """The effects of one network, of classes or of language."""
    if isinstance(networks.problem, Language) != (kind == "language"):
        raise ValueError(f"asks only for {kind}")
    return of(networks.problem, networks.models[seed % len(networks.models)])


def all_networks(networks: Networks, seed: int) -> np.ndarray:
    return np.mean([problems.ours(networks.problem, model) for model in networks.models], 0)


def own(networks: Networks, seed: int) -> np.ndarray:
    return problems.ours(networks.problem, networks.models[seed % len(networks.models)])


def chosen(problem: Problem, model: nn.Module) -> np.ndarray:
    """Weights and damping chosen on gpt_sst2, theirs among the same."""
    return problems.ours(problem, model, parameters="wte", damping=1.0)


def output_layer(problem: Language, model: nn.Module) -> np.ndarray:
    """Kronfluence of the output layer, which its example leaves out, chosen likewise."""
    tracked = replace(problem, tracked=["lm_head"])
    return kronfluence.language_effects(tracked, model, kronfluence.HEURISTIC)


def word_overlap(problem: Problem, model: nn.Module) -> np.ndarray:
    """BM25 of a sample for a query, less where their labels differ; it sees no network."""
    if problem.texts is None:
        raise ValueError("asks only for texts")
    return problems.bm25(*problem.texts) * problems.same_label(problem)


def at_random(problem: Problem, model: nn.Module) -> np.ndarray:
    shape = (len(problem), len(problem.queries["labels"]))
    return np.random.default_rng(0).normal(size=shape)


def judge(networks: Networks, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"LDS": problems.lds(problems.summed(answer, networks.halves), networks.truth.mean(0))}


def rows(lines: dict[str, dict]) -> list[Row]:
    lds = lines["attribution/linear datamodelling score, digits"]
    names = ("lds_one_model", "lds_five_models", "lds_one_model_exact_hessian_damping_0.3",
             "lds_one_model_tracin_last_checkpoint")  # fmt: skip
    results = [
        Row(
            "Attribution at trained weights, digits, MLP 64-32-32-10: linear datamodelling score "
            "with one network, with five (exact Hessian, TracIn)",
            "{:.2f}, {:.2f} ({:.2f}, {:.2f})".format(*(lds[name] for name in names)),
        )
    ]
    for case, what in SHOWN.items():
        line = lines[f"attribution/lds, {case}"]
        reported = {
            name: ", ".join(f"{x[k]:.2f}" for k in ("lds_one_model", "lds_3_models") if k in x)
            for name, x in line["contenders"].items()
        }
        both = ", with three" if "lds_3_models" in line["contenders"]["ours"] else ""
        what = (f"Attribution at trained weights, {what}, {line['networks_trained']} networks of "
                f"halves: linear datamodelling score with one network{both}")  # fmt: skip
        results.append(Row(what, ours_and_others(reported)))
    return results


def ours_and_others(reported: dict[str, str]) -> str:
    """Ours, and in brackets the others by name."""
    others = "; ".join(f"{name} {value}" for name, value in reported.items() if name != "ours")
    return f"{reported['ours']} ({others})"


CLASSES: dict[str, tuple[Callable, str, str]] = {
    "kronfluence": (kronfluence.effects, "baseline", "kronfluence"),
    "kronfluence, its heuristic damping": (
        partial(kronfluence.effects, damping=kronfluence.HEURISTIC), "baseline", "kronfluence",
    ),
    **{
        f"TRAK, {p} features": (partial(trak.effects, features=p), "baseline", "trak")
        for p in (128, 512)
    },
    "embedding similarity": (problems.nearness, "trivial", ""),
    "BM25": (word_overlap, "trivial", ""),
    "exact Hessian": (
        partial(problems.ours, method="exact", damping=0.3), "baseline", "",
    ),
    "TracIn, last checkpoint": (partial(problems.ours, method="tracin", lr=1.0), "baseline", ""),
}  # fmt: skip
LANGUAGE: dict[str, tuple[Callable, str, str]] = {
    "ours, chosen": (chosen, "ours", ""),
    "kronfluence of language": (kronfluence.language_effects, "baseline", "kronfluence"),
    "kronfluence of language, chosen": (output_layer, "baseline", "kronfluence"),
    "TRAK of language": (trak.language_effects, "baseline", "trak"),
    "gradient product": (gpt.gradient_product, "baseline", ""),
    "similarity of states": (gpt.nearness, "trivial", ""),
    "BM25 of language": (gpt.shared_words, "trivial", ""),
}


TASK = Task(
    measure="linear datamodelling score of large networks, texts and language models",
    cases={
        name: Case(lambda seed, name=name: cases.networks(name)) for name in cases.SETTINGS
    },
    contenders={
        "ours": Contender(own, "ours"),
        "ours, mean of all networks": Contender(all_networks, "ours"),
        **{
            name: Contender(partial(only, kind, of), group, needs)
            for kind, named in (("classes", CLASSES), ("language", LANGUAGE))
            for name, (of, group, needs) in named.items()
        },
        "random": Contender(partial(lambda found, seed: at_random(found.problem, None)), "trivial"),
    },
    judge=judge,
    repeats=3,
    rows=rows,
)  # fmt: skip
