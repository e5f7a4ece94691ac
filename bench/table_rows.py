"""The lines of the tables of measured results, a function a heading, from the recorded results."""

from __future__ import annotations

import math
from typing import NamedTuple

SETS = ("mnist", "fashion_mnist")
# Of the cases of real_noise.py those that the README shows.
HEADLINES = ("cifar10n aggregate", "cifar10n worst", "fashion pair 30", "fashion 60000 uniform 10",
             "census one-way 30", "sst2 minilm one-way 30")  # fmt: skip

GAINED = 1.2  # times the fixed order's errors


class Row(NamedTuple):
    """One measured line; `headline` marks those that the README shows."""

    what: str
    measured: str
    bench: str
    headline: bool = False


def leave_one_out(r: dict[str, dict]) -> list[Row]:
    speed, exponents = r["speed/leave_one_out n=1000"], r["speed/exponents"]
    memory, footprint = r["memory/digits auto"], r["footprint/base install"]
    exact = [r[f"exactness/{k}"] for k in ("flow", "descent", "converged")]
    lissa, jacobians = r["papers/s1_speed_lissa"], [r[f"throughput/{m}"] for m in ("cnn", "mlp")]
    return [
        Row(
            f"Leave-one-outs, worst error of {sum(x['cases'] for x in exact)} cases, as a share of "
            "the allowed 1e-8 (\\|b\\| + 1e-6 max\\|b\\|)",
            f"{max(x['error_share_of_allowed'] for x in exact):.2f}",
            "exactness.py",
        ),
        Row(
            "MLP(1024), 1000 + 1000 samples: kernel and all 1000 leave-one-outs",
            f"{speed['seconds']:.2f} s",
            "speed.py",
            headline=True,
        ),
        Row(
            "The 1000 leave-one-outs alone, against one decomposition a sample (times grow as n to "
            f"the {exponents['ours']:.1f} against {exponents['brute_force']:.1f})",
            f"{speed['ratio']:.0f} times faster",
            "speed.py",
        ),
        Row(
            "Information of 1000 MNIST samples, kernel included, against influence by LiSSA",
            f"{lissa['ratio']:.0f} times faster",
            "papers/s1_speed_lissa.py",
        ),
        Row(
            "Per-sample Jacobians at equal p, CNN and MLP, against the fastest of torch.func, "
            "TRAK, dattri and kronfluence: one output; ten outputs",
            "; ".join(
                f"{jacobians[0][f'{rows}_ratio']:.1f} and {jacobians[1][f'{rows}_ratio']:.1f} "
                "times faster"
                for rows in ("scalar", "joint")
            ),
            "throughput.py",
        ),
        Row(
            "Digits, 1797 samples x 10 outputs: peak memory of collecting and scoring",
            f"{memory['peak_mib']:.0f} MiB",
            "memory.py",
        ),
        Row(
            "What the base install adds to torch; `import datassay`",
            f"{footprint['added_megabytes']:.0f} MB; {footprint['import_seconds']:.2f} s",
            "footprint.py",
        ),
    ]


def retrained(r: dict[str, dict]) -> list[Row]:
    wide, narrow = (r[f"truth/digits 4 vs 9, width {width}"] for width in (1024, 64))
    mlp, lds = r["papers/s1_table1/mlp"], r["attribution/linear datamodelling score, digits"]
    loo = r["attribution/leave one out, digits"]
    small, large = r["retraining/64-32-32-10 n=50"], r["retraining/784-1024-1 n=1000"]
    return [
        *[
            Row(
                f"Digits 4 vs 9, MLP({x['width']}), {x['steps']} steps: prediction change against "
                f"{x['retrained']} real retrainings",
                f"Pearson {x['prediction_pearson']:.{digits}f}",
                "truth.py",
                headline=True,
            )
            for x, digits in ((wide, 5), (narrow, 2))
        ],
        Row(
            f"MNIST 4 vs 9, MLP(1024), S1 Table 1: prediction change against {mlp['retrained']} "
            "real retrainings (influence function)",
            f"Pearson {mlp['linearised']['predictions'][0]:.3f} "
            f"({mlp['influence_damping_10']['predictions'][0]:.3f})",
            "papers/s1_table1.py",
        ),
        Row(
            "Attribution at trained weights, digits, MLP 64-32-32-10: linear datamodelling score "
            "with one network, with five (exact Hessian, TracIn)",
            f"{lds['lds_one_model']:.2f}, {lds['lds_five_models']:.2f} "
            f"({lds['lds_one_model_exact_hessian_damping_0.3']:.2f}, "
            f"{lds['lds_one_model_tracin_last_checkpoint']:.2f})",
            "attribution.py",
        ),
        *_datamodelling(r),
        _trusted(r),
        Row(
            "Attribution of digits above against networks retrained without each of 100 samples, "
            "Spearman: Gauss-Newton, the whole run differentiated (TracIn)",
            f"{loo['gauss_newton_output']['spearman']:.2f}, "
            f"{loo['unrolled_output']['spearman']:.2f} "
            f"({loo['tracin_output']['spearman']:.2f})",
            "attribution.py",
        ),
        Row(
            "Retraining many networks at once, against one after the other: 3466 parameters, "
            "50 samples; MLP(1024), 1000 samples",
            f"{small['ratio']:.0f} and {large['ratio']:.1f} times faster",
            "retraining.py",
        ),
    ]


# Cases of attribution.py, in words; the README shows the first.
ATTRIBUTED = {
    "cnn": "CNN with batch norm, AdamW, Fashion-MNIST",
    "mlp": "MLP 64-32-32-10, SGD with momentum, digits",
    "bert": "tiny BERT, fine-tuned on SST-2",
    "bert_lora": "tiny BERT, LoRA on SST-2",
    "gpt": "GPT of 230 656 weights, rt-polarity, loss of held-out sentences",
}


def _trusted(r: dict[str, dict]) -> Row:
    lines = [line for bench, line in r.items() if bench.startswith("trust reported: ")]
    scores, times = [score for line in lines for score in line["scores"]], lines[0]["times"]
    best = [
        max((s for s in line["scores"] if s["question"] == "a prediction"), key=_correlation)
        for line in lines
    ]
    pairs = ", ".join(f"{s['correlation']:.2f} and {s['truth']:.2f} ({s['verdict']})" for s in best)
    return Row(
        f"`datassay bench DATA`, {len(lines)} cases: scores whose interval holds the correlation "
        f"of {times} times the retraining; best score's, and that of {times} times (verdict)",
        f"{sum(s['inside'] for s in scores)} of {len(scores)}; {pairs}",
        "trust.py",
        headline=True,
    )


def _correlation(score: dict) -> float:
    return score["correlation"]


def _datamodelling(r: dict[str, dict]) -> list[Row]:
    """Ours beside its rivals: trained networks against retraining, and wrong labels."""
    rows = []
    for case, what in ATTRIBUTED.items():
        line = r.get(f"attribution/lds, {case}")
        if line is None:
            continue
        kinds = ("lds_one_model", "lds_3_models")
        found = {
            name: ", ".join(f"{figures[kind]:.2f}" for kind in kinds if kind in figures)
            for name, figures in line["contenders"].items()
        }
        both = ", with three" if "lds_3_models" in line["contenders"]["ours"] else ""
        others = "; ".join(f"{name} {found[name]}" for name in found if name != "ours")
        rows.append(
            Row(
                f"Attribution at trained weights, {what}, {line['networks_trained']} networks of "
                f"halves: linear datamodelling score with one network{both}",
                f"{found['ours']} ({others})",
                "attribution.py",
                headline=case == "cnn",
            )
        )
    if line := r.get("inserted_texts"):
        rows += [_inserted(line, way) for way in ("continuation", "paraphrase")]
    if line := r.get("attribution/wrong labels, ResNet-20"):
        found = {name: f"{figures['auroc']:.2f}" for name, figures in line["contenders"].items()}
        others = "; ".join(f"{name} {found[name]}" for name in found if name != "ours")
        what = f"fine-tuned ResNet-20, {line['wrong']} of {line['n']} labels wrong"
        rows.append(
            Row(
                f"Wrong labels by self-influence, {what}: AUROC",
                f"{found['ours']} ({others})",
                "attribution.py",
            )
        )
    speeds = [r.get(f"attribution_speed/{name}") for name in ("resnet20", "bert")]
    if all(speeds):
        rows.append(
            Row(
                "Per-sample loss gradients, ResNet-20 and tiny BERT, against the fastest of "
                "torch.func, TRAK and kronfluence: samples a second",
                " and ".join(f"{line['ratio']:.1f}" for line in speeds if line) + " times as many",
                "attribution_speed.py",
            )
        )
    return rows


def _inserted(line: dict, way: str) -> Row:
    """Texts that stood once among many, found again."""
    at, shown = (1, "first") if way == "continuation" else (20, "in the top 20")
    found = {name: f"{figures[f'top_{at}']:.0%}" for name, figures in line[way].items()}
    others = "; ".join(f"{name} {found[name]}" for name in found if name != "ours")
    return Row(
        f"A text once among {line['n']} that a GPT of {line['parameters']} weights learnt, asked "
        f"for by its {way}: share of {line['inserted']} found {shown}",
        f"{found['ours']} ({others})",
        "inserted_texts.py",
    )


def labels(r: dict[str, dict]) -> list[Row]:
    start = "real_noise/"
    cases = {name.removeprefix(start): line for name, line in r.items() if name.startswith(start)}
    rows = [_case(name, line) for name, line in cases.items() if "best_rival" in line]
    if "real_noise" in r:
        mean = [
            f"{name} {theirs:.3f} against {ours:.3f} on {n}"
            for name, (n, theirs, ours) in r["real_noise"]["cases_mean_ours"].items()
            if name != "ours"
        ]
        n, ours, _ = r["real_noise"]["cases_mean_ours"]["ours"]
        what = f"Wrong labels, mean AUROC over {n} kinds of data and noise (each rival, its cases)"
        rows.insert(0, Row(what, f"{ours:.3f} ({'; '.join(mean)})", "real_noise.py", headline=True))
    for ending, share, what in (
        (" clean", "flagged", "Clean labels: % flagged"),
        (" as shipped", "rarest_flagged", "Tables as shipped: % of the rarest class flagged"),
    ):
        shares = [
            f"{name.removesuffix(ending)} {100 * line['contenders']['ours'][share]:.1f}"
            for name, line in cases.items()
            if name.endswith(ending)
        ]
        rows += [Row(what, ", ".join(shares), "real_noise.py")] if shares else []
    return _acts(r) + rows + _reviews(r) + _review_page(r)


def _acts(r: dict[str, dict]) -> list[Row]:
    acts = r.get("acts/eight data sets")
    if acts is None:
        return []
    return [
        Row(
            f"Table of acts, eight data sets with a known fault or none, {acts['cells']} tables: "
            "first is what helps most on right-labelled test samples, or its interval holds that "
            "gain; clean data let be; intervals that hold the true gain",
            f"{100 * acts['first_right']:.0f} %; {100 * acts['clean_let_be']:.0f} %; "
            f"{100 * acts['intervals_held']:.0f} % of {acts['intervals']}",
            "acts.py",
            headline=True,
        )
    ]


def _reviews(r: dict[str, dict]) -> list[Row]:
    start, script = "review_order/", "review_order.py"
    cases = {name.removeprefix(start): x for name, x in r.items() if name.startswith(start)}
    if "review_order" not in r:
        return []
    rows = [
        Row(
            f"Errors in the first 100 reviews, {name}, {x['wrong']:.0f} in all: order that learns "
            "(fixed one; margin's; cleanlab's best)",
            f"{x['learnt']:.0f} ({x['fixed']:.0f}; {x['margin']:.0f}; {x['cleanlab']:.0f})",
            script,
        )
        for name, x in cases.items()
    ]
    whole = r["review_order"]
    structured = [x["gain"] for x in cases.values() if (x["gain"] or 0) >= GAINED]
    rows += [
        Row(
            f"Errors in the first 100 reviews, mean over {len(cases)} kinds of data and noise at "
            "5 %: order that learns (fixed one; margin's; cleanlab's default, its best in each)",
            f"{_found(cases, 'learnt'):.1f} ({_found(cases, 'fixed'):.1f}; "
            f"{_found(cases, 'margin'):.1f}; {_found(cases, 'logistic, self-confidence'):.1f}, "
            f"{_found(cases, 'cleanlab'):.1f}); 1.2 times the fixed one's or more in "
            f"{len(structured)}",
            script,
            headline=True,
        ),
        Row(
            "Errors left in a review: how often the 95 % interval holds them, before 60 decisions "
            "and from then to 400",
            f"{whole['held_before_60']:.2f}, {whole['held_from_60']:.2f}",
            script,
        ),
    ]
    return rows


def _review_page(r: dict[str, dict]) -> list[Row]:
    page = r.get("review_page")
    if page is None:
        return []
    keys = [
        f"{page[f'{how}_median_ms']:.0f} and {page[f'{how}_95_ms']:.0f} ms"
        for how in ("key", "grid")
    ]
    return [
        Row(
            f"A review of {page['n']:,} images in Chromium: page open; a key's answer, median and "
            "95 %, one sample at a time and in a grid",
            f"{page['opened_seconds']:.2f} s; {keys[0]}; {keys[1]}",
            "review_page.py",
            headline=True,
        )
    ]


def _found(cases: dict[str, dict], name: str) -> float:
    return sum(x[name] for x in cases.values()) / len(cases)


def _case(name: str, line: dict) -> Row:
    best, rival, ours = (
        line["best_rival"],
        *(line["contenders"][who] for who in (line["best_rival"], "ours")),
    )
    half = ours.get("auroc_half_interval")
    seconds = [f", {x['seconds']:.0f} s" if line["n"] > 4000 else "" for x in (ours, rival)]
    return Row(
        f"Wrong labels, {name}, n = {line['n']}: AUROC (best rival)",
        f"{ours['auroc']:.4f}{f' ± {half:.4f}' if half else ''}{seconds[0]} "
        f"({best} {rival['auroc']:.4f}{seconds[1]})",
        "real_noise.py",
        headline=name in HEADLINES,
    )


def tables(r: dict[str, dict]) -> list[Row]:
    """Tables as their packages ship them; empty until they were measured."""
    of = {
        part: {
            name.partition(" ")[2]: line
            for name, line in r.items()
            if name.startswith(f"tables/{part} ")
        }
        for part in ("shipped", "copies", "outliers", "half", "seconds")
    }
    rows = []
    if shipped := of["shipped"]:
        well = [line for line in shipped.values() if line["status"] == 0]
        scored = sum(x["scored"] for x in well) / sum(x["rows"] for x in well)
        rare = {n: x for n, x in shipped.items() if "trees_rarest_flagged" in x}
        rivals = ("logistic_rarest_flagged", "trees_rarest_flagged")
        over = [
            f"{name} {100 * x['rarest_flagged']:.1f} ({100 * min(x[k] for k in rivals):.1f})"
            for name, x in rare.items()
            if x["rarest_flagged"] > 0
        ]
        rows += [
            Row(
                f"Tables as their packages ship them, `datassay run` with --target alone: "
                f"{len(shipped)} tried, ended well; rows with a label that got scores; slowest",
                f"{len(well)}; {100 * scored:.0f} %; "
                f"{max(x['cpu_seconds'] for x in well):.0f} s of processor time",
                "tables.py",
                headline=True,
            ),
            Row(
                "% of the rarest class flagged in them, no noise added (the more cautious of "
                f"confident learning's two); 0 in the other {len(rare) - len(over)}",
                ", ".join(over),
                "tables.py",
            ),
        ]
    for kind, what in (("exact", "copies"), ("near", "copies with one number changed by 3 %")):
        found = [x for name, x in of["copies"].items() if name.endswith(kind)]
        if found:
            least = [min(x[share] for x in found) for share in ("precision", "recall")]
            what = f"300 {what} in 3000 rows of {len(found)} tables, worst precision and recall"
            rows += [Row(what, f"{least[0]:.2f}, {least[1]:.2f}", "tables.py")]
    if of["outliers"]:
        each = [f"{n} {sum(x['auroc']) / len(x['auroc']):.3f}" for n, x in of["outliers"].items()]
        what = "1 % of the targets ten times too large or small: AUROC"
        rows += [Row(what, ", ".join(each), "tables.py")]
    for name, x in of["half"].items():
        mean = {key: sum(x[key]) / len(x[key]) for key in ("all", "random", "kept")}
        mean["suspects"] = sum(x["without_suspects"]) / len(x["without_suspects"])
        rows += [
            Row(
                f"Half of {name} kept, boosted trees retrained: balanced accuracy, without "
                "suspects (all rows, a random half)",
                "{kept:.3f}, {suspects:.3f} ({all:.3f}, {random:.3f})".format(**mean),
                "tables.py",
            )
        ]
    for name, x in of["seconds"].items():
        command, n = name.split()
        what = f"`datassay {command}`, {n} rows of 11 columns, one thread"
        rows += [Row(what, f"{x['cpu_seconds']:.0f} s of processor time", "tables.py")]
    return rows


def removal(r: dict[str, dict]) -> list[Row]:
    rows = []
    for words, case in (("", "digits"), (", 10 % wrong labels", "digits, wrong labels")):
        line = r[f"selection/{case}"]
        scores, lead = line["accuracy"], line["lead_over_best_other"]
        parts = [
            f"{rate} {scores['summarize'][rate]:.3f} ({lead[rate][0]} "
            f"{scores[lead[rate][0]][rate]:.3f}, random {scores['random'][rate]:.3f})"
            for rate in ("50%", "20%", "5%")
        ]
        rows.append(
            Row(
                f"Accuracy of networks that learn from a part of digits{words}: "
                "ours (best of 13 others, random)",
                "; ".join(parts),
                "truths/selection.py",
                headline=bool(words),
            )
        )
    return rows


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.3f}"


def mixed(r: dict[str, dict]) -> list[Row]:
    fidelity = [r[f"divide/fidelity ridge {ridge} damping 0.01"] for ridge in (0.01, 0.001)]
    speed = [r[f"divide/speed seed {seed}"]["ratio_adjoint"] for seed in range(3)]
    purified, loss = (
        r[f"papers/s4_purify/sd2, fresh draws, {order}"] for order in ("auto", "loss")
    )
    deep = r["papers/s4_deep/mlp 30% pair"]
    routed = r["s4_partition/routable 500/500 classification"]
    return [
        Row(
            "What each removal does to the variance of influence, against exact leave-one-out "
            "(ridge 0.01, 0.001): Spearman, lowest of 3 seeds; against one Newton step a sample",
            f"{fidelity[0]['spearman_adjoint_lowest_seed']:.3f}, "
            f"{fidelity[1]['spearman_adjoint_lowest_seed']:.3f}; {min(speed):.0f} times faster",
            "divide.py",
        ),
        Row(
            "SD-2, 30 % of the samples from another function: accuracy before, after purification "
            "stopped without a clean set (loss ranking, best step)",
            f"{purified['start'][0]:.3f}, {purified['accuracy_held_out'][0]:.3f} "
            f"({loss['accuracy_held_out'][0]:.3f}, {purified['peak'][0]:.3f})",
            "papers/s4_purify.py",
        ),
        Row(
            "Fashion-MNIST, 3000 samples, 30 % of each class labelled as the next, MLP(256): "
            "accuracy before, after purification (loss ranking and confident learning, as many "
            "removed; only right labels)",
            f"{deep['accuracy, all samples'][0]:.3f}, {deep['accuracy, label_issues'][0]:.3f} "
            f"({deep['accuracy, loss of five, as many'][0]:.3f}, "
            f"{deep['accuracy, confident learning, as many'][0]:.3f}; "
            f"{deep['accuracy, only right labels'][0]:.3f})",
            "papers/s4_deep.py",
        ),
        Row(
            "Two clashing blocks that the inputs tell apart: accuracy of one model, of found "
            "blocks and router (true blocks)",
            f"{_mean(routed['one_model'])}, {_mean(routed['ours'])} "
            f"({_mean(routed['true_blocks'])})",
            "papers/s4_partition.py",
        ),
    ]


def weighted(r: dict[str, dict]) -> list[Row]:
    near, bias = r["neighbors/fashion PCA"], r["papers/s0_active_bias"]
    mnist, boston = r["s0_images/mnist fresh"], r["s0_table1: Boston, 100 splits"]
    bateman = r["papers/s0_bateman/table 7 printed"]["ours"]
    return [
        Row(
            "Weights by local variance, 60 000 samples x 64 columns, 20 neighbours, against "
            "scikit-learn's brute force: exact; approximate (share of the neighbours found)",
            f"{near['exact_times_faster'][0]:.1f}; {near['approximate_times_faster'][0]:.1f} times "
            f"faster ({near['recall']:.2f})",
            "neighbors.py",
        ),
        Row(
            "LeNet-5, accuracy in %: as trained, last layer retrained with these weights (and "
            "without): all of MNIST; 10 000 images of Fashion-MNIST",
            f"{mnist['baseline'][1]:.2f}, {mnist['vbsw_all'][1]:.2f} "
            f"({mnist['uniform_all'][1]:.2f}); {bias['vanilla'][1]:.2f}, "
            f"{bias['vanilla_vbsw'][1]:.2f} ({bias['vanilla_uniform'][1]:.2f})",
            "papers/s0_images.py, papers/s0_active_bias.py",
        ),
        Row(
            "Boston Housing, linear model, 100 splits: squared error without, with these weights",
            f"{boston['baseline_mean']:.1f}, {boston['vbsw_mean']:.1f}",
            "papers/s0_table1.py",
        ),
        Row(
            "Bateman equations from 8000 points, 20 networks: largest error, all points uniform, "
            "half of them drawn where the solution changes (mean squared error)",
            f"{bateman['uniform Linf'][0]:.3f}, {bateman['Taylor Linf'][0]:.3f} "
            f"({1e5 * bateman['uniform L2'][0]:.1f}e-5, {1e5 * bateman['Taylor L2'][0]:.1f}e-5)",
            "papers/s0_bateman.py",
        ),
    ]


def indexed(r: dict[str, dict]) -> list[Row]:
    cnn, texts, killed = r["index/cnn"], r["index/texts"], r["index/cnn, killed"]
    added = r["index/cnn, append"]
    cases = [name for name in r if name.startswith("index/lds, ")]
    kept = ", ".join(
        f"{name.partition(', ')[2]} {r[name]['width_2048']['lds']:.2f} "
        f"({r[name]['influence']['lds']:.2f})"
        for name in cases
    )
    return [
        Row(
            f"An index of {cnn['n']:,} Fashion-MNIST images (CNN), of {texts['n']:,} texts (GPT of "
            f"{texts['parameters']:,} weights): bytes a sample; rank correlation with the effects "
            f"of all weights; a query of {cnn['queries']:,}",
            "; ".join(
                f"{x['bytes_a_sample']:,}, {x['rank_correlation']['mean']:.2f}, "
                f"{x['ms_a_query']:.1f} ms"
                for x in (cnn, texts)
            ),
            "index.py",
            headline=True,
        ),
        Row(
            f"The same index built by processes killed {killed['kills']} times; a tenth appended, "
            "against building anew",
            f"{'bit-identical' if killed['same_bits'] else 'differs'}; "
            f"{added['anew_over_append']:.0f} times faster",
            "index.py",
        ),
        Row(
            "Linear datamodelling score of an index of 2048 numbers a sample (of `influence`)",
            kept,
            "index.py",
        ),
    ]


def scale(r: dict[str, dict]) -> list[Row]:
    whole = r["scale/fashion mlp n=60000"]
    attack, damage, writers = r["attack"], r["attack/stores"], r["attack/writers"]
    nodes = r["cluster/nodes"]
    overhead = r["cluster/overhead"]["overhead"]
    plans = [line for name, line in r.items() if name.startswith("plan/")]
    worst = {
        what: (min(x[f"{what}_ratio"] for x in plans), max(x[f"{what}_ratio"] for x in plans))
        for what in ("seconds", "peak")
    }
    return [
        Row(
            "All of Fashion-MNIST, 60 000 x 10 outputs, 4096 features: information, label issues "
            "and influence of every sample, files to page (time grows with n to the power)",
            f"{whole['seconds']:.0f} s, {whole['peak_mib'] / 1024:.1f} GiB "
            f"({r['scale/exponent']['exponent']:.2f})",
            "scale.py",
            headline=True,
        ),
        Row(
            f"{attack['cases']} hostile files, options, networks, stores, disks, signals, pages; "
            f"{damage['damages']} damages to stores; {writers['rounds']} rounds of 4 first runs on "
            "one store: data lost, other scores without a word, tracebacks or hangs",
            f"{sum(attack['failed'].values())}; {damage['failed']}; {writers['failed']}",
            "attack.py",
        ),
        Row(
            f"Two Ray nodes, {nodes['worker_kills']} workers and {nodes['node_kills']} node "
            "killed; time beside this process alone: local processes, Ray",
            f"{'bit-identical' if all(nodes['same_bits'].values()) else 'differs'}; "
            f"{overhead['processes']:+.0%}, {overhead['ray']:+.0%}",
            "cluster.py",
        ),
        Row(
            f"Planned against measured, {len(plans)} cases: seconds, peak memory",
            f"{worst['seconds'][0]:.2f} to {worst['seconds'][1]:.2f}, "
            f"{worst['peak'][0]:.2f} to {worst['peak'][1]:.2f}",
            "plan.py",
        ),
    ]


def lab(r: dict[str, dict]) -> list[Row]:
    lines = [line for bench, line in r.items() if bench.startswith("lab/")]
    laws = r["lab/pde-discovery"]
    errors = [f"{e[0][1]:.2f}" for e in laws["error"]]
    return [
        Row(
            f"The course (S2): {len(lines)} experiments, {lines[0]['seeds']} seeds each: "
            "statements that hold with all; slowest experiment, all of them once",
            f"{sum(x['holds'] for x in lines)}; {max(x['seconds'] for x in lines):.0f} s, "
            f"{sum(x['seconds'] for x in lines):.0f} s",
            "lab.py",
        ),
        Row(
            "Laws of Burgers, KdV and Kuramoto-Sivashinsky from data with 1 % noise: mean error of "
            "the coefficients in %, weak form (S2's table)",
            f"{', '.join(errors)} (0.8, 7, 70)",
            "lab.py",
        ),
    ]


def polynomials(r: dict[str, dict]) -> list[Row]:
    sets = [{c: r[f"polynomial/{s}/{c}"] for c in ("exact", "batched", "product")} for s in SETS]
    rival, small = r["polynomial/mnist/scikit-learn RidgeCV"], r["polynomial/mnist/ours small"]
    grid = r["papers/s3_grid/adam"]
    laws = r["papers/s3_complexity/adam against inputs"]["laws"]
    linear = next(law for law in laws if law["kind"] == "linear")
    curves = r["learning_curves/all"]
    holds = ", ".join(f"{100 * share:.0f}" for share in curves["holds_0.9"])
    return [
        Row(
            "Local polynomial of degree 2 (10 155 features) on 60 000 images, files to test "
            "accuracy in %, MNIST and Fashion-MNIST: exact, ridge by leave-one-out (batched 60 x "
            "2000; S3's exact, batched)",
            "; ".join(
                f"{x['exact']['accuracy']:.2f} ({x['batched']['accuracy']:.2f}; "
                f"{x['exact']['paper_accuracy']:.2f}, {x['batched']['paper_accuracy']:.2f})"
                for x in sets
            ),
            "polynomial.py",
        ),
        Row(
            "The same fits, seconds and peak memory of the exact one (batched; a float32 product "
            "with 2 n p² operations alone)",
            "; ".join(
                f"{x['exact']['seconds']:.0f} s, {x['exact']['peak_mib'] / 1024:.1f} GiB "
                f"({x['batched']['seconds']:.0f} s; {x['product']['seconds']:.0f} s)"
                for x in sets
            ),
            "polynomial.py",
        ),
        Row(
            "20 000 images, 2343 features, against scikit-learn's RidgeCV",
            f"{rival['seconds'] / small['seconds']:.0f} times faster, accuracy "
            f"{small['accuracy']:.1f} ({rival['accuracy']:.1f})",
            "polynomial.py",
        ),
        Row(
            f"Samples that recover a teacher network: {grid['sizes_timed']} sizes, 10 teachers x "
            "100 students, one thread (against one student after the other); linear in the inputs",
            f"{grid['processor_seconds']:.0f} s ({grid['times_faster']:.0f} times faster); "
            f"R² {linear['r_squared']:.3f}",
            "papers/s3_grid.py",
        ),
        Row(
            f"{curves['curves']} learning curves of digits, MNIST and Fashion-MNIST, extrapolated: "
            "share in % whose 90 % interval held at about 2, 4 and 8 times the samples; ends of "
            "the error's interval apart by a factor",
            f"{holds}; {', '.join(f'{math.exp(w):.1f}' for w in curves['log_width_0.9'])}",
            "learning_curves.py",
        ),
    ]
