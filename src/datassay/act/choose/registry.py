"""Actions: each is one module that says when it is worth trying, what it does and what it costs.

A module's `ACTION` registers it: the built-in ones are listed here, those of other distributions
are found by the entry points of the group `datassay.actions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from jaxtyping import Float

from datassay.act.choose.action import Action
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.plugins import plugins
from datassay.results import result
from datassay.score.label_issues import LabelIssues

BUILT_IN = ("relabel", "remove", "drop", "reweight", "balance", "purify", "split")
"""Their modules, in the order in which they are proposed."""


@result
class ProposalScores:
    """What is known of n training samples when actions are proposed.

    Attributes:
        issues: of their labels.
        information: of each sample, any unit.
        takes_weights: whether the model can weigh samples.
        seed: of controls, blocks and fits.
    """

    issues: LabelIssues
    information: Float[np.ndarray, " n"]
    takes_weights: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionKind:
    """One thing that can be done, as the table of actions tries it.

    Attributes:
        name: the kind in acts.parquet and summary.json.
        help: in a sentence, what is done.
        propose: from samples and their scores to the action; of several to an iterator of them. A
            sentence instead says why there is none; None: nothing is to be said.
        fits: models a seed that it takes at most, those of its controls too.
        evidence: anchor of the section of a run's page that it rests on.
        command: that goes into it.
        is_searched: whether a search with many outcomes found it, so that other samples may give
            another.
    """

    name: str
    help: str
    propose: Callable[[SampleSet, ProposalScores], Action | str | Iterator[Action | str] | None]
    fits: int = 2
    evidence: str = ""
    command: str = ""
    is_searched: bool = False


def action_kinds() -> dict[str, ActionKind]:
    """All kinds of actions by name: the built-in ones, then those of other distributions."""
    own = (import_module(f"datassay.act.actions.{name}").ACTION for name in BUILT_IN)
    kinds = {one.name: one for one in own}
    for name, one in plugins("actions").items():
        if not isinstance(one, ActionKind):
            raise SettingError(
                f"the entry point {name} of datassay.actions must name an ActionKind; it names a "
                f"{type(one).__name__}. Update or uninstall the package that adds it."
            )
        if one.name in kinds:
            raise SettingError(
                f"an action must have a name of its own; the entry point {name} of "
                f"datassay.actions adds another {one.name}. Update or uninstall the package that "
                "adds it."
            )
        kinds[one.name] = one
    return kinds


def most_fits() -> int:
    """Models a seed and part that all actions and their controls take together."""
    return sum(kind.fits for kind in action_kinds().values())


def proposals(
    train: SampleSet,
    issues: LabelIssues,
    information: Float[np.ndarray, " n"],
    *,
    takes_weights: bool = True,
    seed: int = 0,
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """All actions worth trying, and why others are not.

    Args:
        train: n samples.
        issues: of their labels.
        information: of each sample, any unit; where samples are dropped the suspects go first,
            then the least informative.
        takes_weights: whether the model can weigh samples.
        seed: of controls, blocks and fits.

    Returns:
        The actions, and one sentence for each that was left out.

    Raises:
        SettingError: an action is not of the kind that proposes it.
    """
    scores = ProposalScores(issues, information, takes_weights, seed)
    actions: list[Action] = []
    left_out: list[str] = []
    for kind in action_kinds().values():
        proposed = kind.propose(train, scores)
        for one in proposed if isinstance(proposed, Iterator) else (proposed,):
            if isinstance(one, str):
                left_out.append(one)
            elif one is not None:
                if one.kind != kind.name:
                    raise SettingError(
                        f"an action must be of the kind that proposes it, {kind.name}; got "
                        f"{one.kind}. Update the package that adds it."
                    )
                actions.append(one)
    return tuple(actions), tuple(left_out)
