"""What `datassay check` takes beside what `score` takes."""

from dataclasses import dataclass
from pathlib import Path

from datassay.commands.run.gate.conditions import MEANINGS, read_baseline, read_condition
from datassay.commands.run.settings import ScoreSettings
from datassay.errors import SettingError
from datassay.setting import setting


@dataclass(frozen=True)
class CheckSettings(ScoreSettings):
    """Conditions, what they are compared with, and what is printed."""

    attribution: str = "none"  # no condition is about effects on single predictions
    top: int = ScoreSettings.top
    is_joint: bool = False  # nor about what samples inform together
    fail_on: tuple[str, ...] = setting(
        (), "A fault, or a fault and a limit as 'wrong > 2 %'; may be given several times."
    )
    baseline: Path | None = setting(
        None, "The summary.json of an earlier check: only what is new counts."
    )
    json: bool = setting(False, "Print summary.json, and nothing else, on standard output.")
    github: bool = setting(
        False, "Print the outcomes as annotations of GitHub Actions.", needs="!json"
    )

    def refuse(self, *, only_plan: bool) -> None:
        """Raise if a setting, a condition or the baseline is invalid, before any heavy import."""
        super().refuse(only_plan=only_plan)
        if not self.fail_on:
            raise SettingError(
                "fail_on must be given at least once, as in --fail-on leak --fail-on 'wrong > 2 "
                f"%'; it is not. The faults: {', '.join(MEANINGS)}."
            )
        for words in self.fail_on:
            read_condition(words)
        if self.baseline is not None:
            read_baseline(self.baseline)
