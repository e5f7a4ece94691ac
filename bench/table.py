"""The README's table of measured results, made from the latest lines of results.jsonl.

Run it to print the table; a test compares the README with it.
"""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results.jsonl"


def latest() -> dict[str, dict]:
    """The newest line of every benchmark; sizes of one benchmark are kept apart."""
    found = {}
    for text in RESULTS.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        found[
            line["bench"] + (f" n={line['n']}" if line["bench"].startswith("speed/l") else "")
        ] = line
    return found


def table() -> str:
    """The table in Markdown."""
    r = latest()
    speed, exponents = r["speed/leave_one_out n=1000"], r["speed/exponents"]
    truth, memory = r["truth/digits 4 vs 9, width 1024"], r["memory/digits auto"]
    narrow, footprint = r["truth/digits 4 vs 9, width 64"], r["footprint/base install"]
    uniform, pair = r["labels/digits 10% uniform"], r["labels/digits 30% pair"]
    worst = max(
        r[f"exactness/{k}"]["error_share_of_allowed"] for k in ("flow", "descent", "converged")
    )
    cases = sum(r[f"exactness/{k}"]["cases"] for k in ("flow", "descent", "converged"))
    clean = r["removal/digits half removed, 0% label noise"]
    noisy = r["removal/digits half removed, 10% label noise"]
    rows = [
        (
            f"Leave-one-outs, worst error of {cases} cases, as a share of the allowed "
            "1e-8 (\\|b\\| + 1e-6 max\\|b\\|)",
            f"{worst:.2f}",
            "exactness.py",
        ),
        (
            "MLP(1024), 1000 + 1000 samples: kernel and all 1000 leave-one-outs",
            f"{speed['seconds']:.2f} s",
            "speed.py",
        ),
        (
            "the 1000 leave-one-outs alone, against one decomposition a sample (times grow as n to "
            f"the {exponents['ours']:.1f} against {exponents['brute_force']:.1f})",
            f"{speed['ratio']:.0f} times faster",
            "speed.py",
        ),
        *[
            (
                f"Digits 4 vs 9, MLP({x['width']}), {x['steps']} steps: prediction change against "
                f"{x['retrained']} real retrainings",
                f"Pearson {x['prediction_pearson']:.{digits}f}",
                "truth.py",
            )
            for x, digits in ((truth, 5), (narrow, 2))
        ],
        (
            "Digits, 1797 samples x 10 outputs: peak memory of collecting and scoring",
            f"{memory['peak_mib']:.0f} MiB",
            "memory.py",
        ),
        (
            "What the base install adds to torch; `import datassay`",
            f"{footprint['added_megabytes']:.0f} MB; {footprint['import_seconds']:.2f} s",
            "footprint.py",
        ),
        *[
            (
                f"Wrong labels on digits, {name}: AUROC (final loss, 5-fold logistic regression)",
                f"{x['auroc']:.4f} ({x['auroc_final_loss']:.3f}, "
                f"{x['auroc_cross_validated_logistic']:.3f})",
                "labels.py",
            )
            for name, x in (("10 % uniform", uniform), ("30 % class-pair", pair))
        ],
        *[
            (
                f"Accuracy after removing half of digits{name}: ours (loss, random, all samples)",
                f"{x['accuracy'][ours]:.3f} ({x['accuracy']['lowest loss first']:.3f}, "
                f"{x['accuracy']['random']:.3f}, {x['accuracy_all_samples']:.3f})",
                "removal.py",
            )
            for name, x, ours in (
                ("", clean, "lowest information first"),
                (", 10 % wrong labels", noisy, "suspects, then lowest information first"),
            )
        ],
    ]
    lines = ["| what | measured | bench |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {a} | {b} | `{c}` |" for a, b, c in rows)])


if __name__ == "__main__":
    print(table())
