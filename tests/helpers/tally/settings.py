"""What `datassay tally` can be told."""

from dataclasses import dataclass

from datassay.setting import setting


@dataclass(frozen=True, slots=True)
class TallySettings:
    """What the job can be told."""

    fewest: int = setting(10, "Samples that a class needs.")
    exact: bool = setting(True, "Whether counts are exact.")
    only: tuple[str, ...] = setting((), "Class to count; may be repeated.")
    share: float | None = setting(None, "Of a class, or none.", read=lambda text: float(text))
    command: str = ""
