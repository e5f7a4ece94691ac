"""Defaults of act's functions, whose docstrings explain them; nothing heavy is imported here."""

from dataclasses import dataclass

# Rules by which `summarize` keeps samples.
KEEP_RULES = ("auto", "fit", "boundary", "margin", "random", "information")


@dataclass(frozen=True)
class Keeping:
    """Settings of `summarize`: which samples stay."""

    rule: str = "auto"
    iterative: bool = False
    seed: int = 0
