"""What retrainings say of the methods that named texts."""

from __future__ import annotations

from typing import Any

import numpy as np


def verdict(judged: Any) -> tuple[str | None, str]:
    """Which method's texts the answer depended on most.

    Args:
        judged: a Judged.

    Returns:
        The winner, None where the seeds do not tell it from the next one, and a sentence.
    """
    means = judged.fall.mean(1)
    order = np.argsort(-means, kind="stable")
    first, second = (judged.methods[i] for i in order[:2])
    repeats = judged.fall.shape[1]
    ahead = judged.fall[order[0]] - judged.fall[order[1]]
    if repeats == 1:
        return None, (
            f"One training each: the answer fell most without the texts of {first}, and one seed "
            "cannot say how sure that is."
        )
    from scipy.stats import t as student  # slow to import

    half = float(student.ppf(0.975, repeats - 1) * ahead.std(ddof=1) / np.sqrt(repeats))
    told = f"{ahead.mean():.2f} ± {half:.2f} nats ahead of {second}, over {repeats} seeds"
    if ahead.mean() <= half:
        return None, f"Too close to call: {first} is {told}."
    return first, f"{first[0].upper()}{first[1:]} names the texts that mattered most: {told}."
