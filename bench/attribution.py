"""Attribution at trained weights against really training again; ours beside its rivals.

    python bench/attribution.py --work truth                      # all; an hour the first time
    python bench/attribution.py --work truth --cases mlp cnn --who ours --again

Linear datamodelling score (Park et al. 2023): Spearman correlation, over random halves of the
samples, of the margin that networks trained on the half reach (of a language model: the loss of a
text) with the sum of the half's effects; mean over queries, with 95 % intervals over halves and
queries. Cases: `attribution_cases.py`; contenders: `attribution_contenders.py`. Further
"wrong_labels" (AUROC of self-influence on a fine-tuned ResNet-20) and "wrong_labels_mlp" and so on
(of the networks of `attribution_noise.py`), and "datamodelling" and "leave_one_out" of
`attribution_digits.py`. Truths and verdicts are kept in --work; what is there is
not computed again. One line a case goes to results.jsonl. Needs DATASSAY_DATA, and the rivals as
`attribution_contenders.py` says: one whose package is missing is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import attribution_digits as digits
import attribution_noise as noise
import gpt_contenders
import numpy as np
from attribution_cases import CASES, Cell, cell, lds, lds_drawn_again
from attribution_contenders import OURS, RIVALS, TEXT_RIVALS, Contender, Verdict, asked
from attribution_gpt import LanguageTask
from record import record
from scipy.stats import spearmanr

from datassay.act import auroc

WRONG = {"wrong_labels": "ResNet-20", **{f"wrong_labels_{name}": name for name in noise.NETWORKS}}
OTHERS = (*WRONG, "datamodelling", "leave_one_out")


class Log:
    """Lines so far, in attribution.jsonl; the newest of a case and contender counts."""

    def __init__(self, work: Path):
        self.file = work / "attribution.jsonl"
        lines = self.file.read_text("utf-8").splitlines() if self.file.exists() else []
        self.lines = {(line["case"], line["contender"]): line for line in map(json.loads, lines)}

    def add(self, line: dict) -> None:
        """Keep a line."""
        self.lines[line["case"], line["contender"]] = line
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)

    def of(self, case: str) -> dict[str, dict]:
        """Contender → what it reached."""
        return {
            who: {k: v for k, v in line.items() if k not in ("case", "contender")}
            for (found, who), line in self.lines.items()
            if found == case
        }


def judged(
    log: Log, case: str, contenders: dict[str, Contender], again: bool, ask: Callable
) -> None:
    """Ask those who have not judged this case; (name, contender) → figures."""
    for name, contender in contenders.items():
        if (case, name) in log.lines and not (again and name.startswith("ours")):
            continue
        try:
            log.add({"case": case, "contender": name, **ask(name, contender)})
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            print(f"left out: {case}, {name}: {type(error).__name__}: {error}"[:500], flush=True)


def cost(verdicts: list[Verdict]) -> dict[str, float]:
    """Of one network: the least seconds, the most memory."""
    return {
        "seconds": round(min(v.seconds for v in verdicts), 2),
        "mib": round(max(v.mib for v in verdicts), 1),
    }


def scores(found: Cell, verdicts: list[Verdict]) -> dict[str, object]:
    """Scores of each network's effects, of their mean and of the mean effects of three and all."""
    truth, effects = found.truth.mean(0), [v.effect for v in verdicts]
    each = [lds(effect, found.halves, truth) for effect in effects]
    means = {
        f"lds_{many}_models": round(lds(np.mean(effects[:many], 0), found.halves, truth), 4)
        for many in sorted({3, len(effects)})
        if many <= len(effects) > 1
    }
    draws = [lds_drawn_again(effect, found.halves, truth) for effect in effects]
    return {
        "lds_one_model": round(float(np.mean(each)), 4),
        "draws": np.mean(draws, 0).round(5).tolist(),
        "lds_each": [round(v, 4) for v in each],
        **means,
        **cost(verdicts),
    }


def with_intervals(contenders: dict[str, dict]) -> dict[str, dict]:
    """95 % intervals instead of draws: of each score with one model, and of ours less it."""
    ours = contenders.get("ours", {}).get("draws")
    found = {}
    for who, line in contenders.items():
        draws, line = line.get("draws"), {k: v for k, v in line.items() if k != "draws"}
        if draws is not None:
            line["interval"] = np.percentile(draws, (2.5, 97.5)).round(3).tolist()
        if draws is not None and ours is not None and who != "ours":
            ahead = np.percentile(np.subtract(ours, draws), (2.5, 97.5))
            line["ours_ahead_by"] = ahead.round(3).tolist()
        found[who] = line
    return found


def repeated(truth: np.ndarray) -> float | None:
    """How well one network a half repeats the mean of the others: Spearman, mean over queries."""
    if len(truth) == 1:
        return None
    pairs = [
        (truth[s][:, j], np.delete(truth, s, 0).mean(0)[:, j])
        for s in range(len(truth))
        for j in range(truth.shape[2])
    ]
    return float(np.mean([spearmanr(a, b)[0] for a, b in pairs]))


def datamodelling(case: str, args: argparse.Namespace, log: Log) -> None:
    """One case of attribution_cases."""
    found = cell(case, args.work, args.jobs)
    contenders: dict[str, Contender] = {}
    language = isinstance(found.task, LanguageTask)
    if "rivals" in args.who:
        if language:
            contenders |= gpt_contenders.RIVALS
        else:
            contenders |= RIVALS | (TEXT_RIVALS if found.task.texts else {})
    if "ours" in args.who:
        contenders |= gpt_contenders.OURS if language else OURS

    def ask(name, contender):
        return scores(found, [asked(name, contender, found.task, m) for m in found.models])

    judged(log, case, contenders, args.again, ask)
    finish(
        f"attribution/lds, {case}",
        with_intervals(log.of(case)),
        args,
        n=len(found.task.train["labels"]),
        queries=found.truth.shape[2],
        parameters=sum(w.numel() for w in found.models[0].parameters() if w.requires_grad),
        networks_trained=found.truth.shape[0] * found.truth.shape[1],
        one_retraining_against_the_others=repeated(found.truth),
    )


def wrong_labels(case: str, args: argparse.Namespace, log: Log) -> None:
    """Self-influence on networks that were trained on wrong labels."""
    cells = noise.noisy_cells(WRONG[case], args.work)
    contenders = {**(noise.NOISE_RIVALS if "rivals" in args.who else {})}
    contenders |= noise.NOISE_OURS if "ours" in args.who else {}

    def ask(name, contender):
        verdicts = [asked(name, contender, c.task, c.model) for c in cells]
        each = [auroc(c.wrong, v.effect) for c, v in zip(cells, verdicts, strict=True)]
        return {"auroc": round(float(np.mean(each)), 4), "each": each, **cost(verdicts)}

    judged(log, case, contenders, args.again, ask)
    finish(
        f"attribution/wrong labels, {WRONG[case]}",
        log.of(case),
        args,
        n=len(cells[0].wrong),
        wrong=int(cells[0].wrong.sum()),
        seeds=noise.SEEDS,
        learnt=[round(noise.learnt(c), 3) for c in cells],
    )


def finish(bench: str, contenders: dict, args: argparse.Namespace, **sizes) -> None:
    """The line of results.jsonl, once ours is in it."""
    if "ours" in contenders and not args.no_record:
        record(bench, **sizes, contenders=contenders)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", choices=(*CASES, *OTHERS), default=[*CASES, *OTHERS])
    parser.add_argument("--who", nargs="+", choices=("ours", "rivals"), default=["rivals", "ours"])
    parser.add_argument("--again", action="store_true", help="ours judges anew what it has judged")
    parser.add_argument("--work", type=Path, help="keeps what is done (default: nothing)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that train")
    parser.add_argument("--no-record", action="store_true", help="leave results.jsonl alone")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Judge what is missing and record it."""
    args = parsed(arguments)
    with tempfile.TemporaryDirectory(prefix="attribution-") as temporary:
        args.work = (args.work or Path(temporary)).resolve()
        args.work.mkdir(parents=True, exist_ok=True)
        log = Log(args.work)
        for case in args.cases:
            if case in CASES:
                datamodelling(case, args, log)
            elif case in WRONG:
                wrong_labels(case, args, log)
            else:
                getattr(digits, case)(*digits.samples())


if __name__ == "__main__":
    main()
