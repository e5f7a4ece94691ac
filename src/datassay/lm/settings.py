"""Settings of influence in language models, each default once; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextReading:
    """How texts become samples: as the model was trained on them.

    Attributes:
        reduction: "sum": every token counts the same, as in transformers' Trainer; "mean": every
            text.
        pack: whether texts were put together, one after the other, in sequences of full length.
        too_long: of a text longer than the context: "split", "truncate" or "refuse".
        context: tokens a sequence; None: what the model takes.
        overlap: tokens that a further window of a long text sees again; None: a quarter of it.
    """

    reduction: str = "sum"
    pack: bool = False
    too_long: str = "split"
    context: int | None = None
    overlap: int | None = None


@dataclass(frozen=True)
class Asked:
    """What is asked of an answer.

    Attributes:
        prompt: what stands before it and is not asked about.
        per_token: whether each of its tokens is asked about, or only the whole.
        top: texts, for each token and direction, whose own tokens are told apart.
        baselines: whether BM25 and embeddings are computed beside.
    """

    prompt: str = ""
    per_token: bool = True
    top: int = 5
    baselines: bool = True


@dataclass(frozen=True)
class TextJudging:
    """How methods are judged by training again.

    Attributes:
        removed: texts that each method names.
        repeats: trainings of each, from other seeds.
    """

    removed: int = 10
    repeats: int = 3
