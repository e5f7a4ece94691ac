"""Settings of influence in language models, each default once; nothing heavy is imported here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TextReading:
    """Defaults of how texts become samples, as the model was trained; see `token_samples`."""

    reduction: str = "sum"
    pack: bool = False
    too_long: str = "split"
    context: int | None = None
    overlap: int | None = None


@dataclass(frozen=True)
class Asked:
    """Defaults of what is asked of an answer; see `influence`."""

    prompt: str = ""
    per_token: bool = True
    top: int = 5
    baselines: bool = True


@dataclass(frozen=True)
class TextJudging:
    """Defaults of how methods are judged by training again; see `judge`."""

    removed: int = 10
    repeats: int = 3
