"""What retrainings say of the methods that named texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from datassay.stats import BETTER, mean_interval, sentence


def verdict(judged: Any) -> tuple[str | None, str]:
    """Which method's texts the answer depended on most.

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
    found = mean_interval(ahead)
    told = sentence(found.verdict, first, second)
    told += f": {found.gain:.2f} ± {found.half:.2f} nats ahead, over {repeats} seeds."
    return first if found.verdict == BETTER else None, told
