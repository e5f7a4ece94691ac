"""The registry of actions: each kind is one module that says when it is worth trying, and its cost.

Kinds come from `ACTION` of the modules in `BUILT_IN`, from `ACTIONS` in the `action.py` of each
method's folder, and from entry points of other distributions, group `datassay.actions`.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np
from jaxtyping import Float, Int

from datassay.act.choose.action import BUILT_IN, Action, as_it_is
from datassay.act.choose.gains import ActionGain
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.optional import select_rows
from datassay.plugins import checked_plugins, folder_modules
from datassay.results import result
from datassay.score.label_issues import LabelIssues


@result
class ProposalScores:
    """Scores of n training samples by which actions are proposed.

    Attributes:
        issues: of their labels.
        information: of each sample, any unit.
        takes_weights: whether the model can weigh samples.
        seed: of controls, blocks and fits.
        copies: a number per sample, shared by (near) copies; None: all differ.
    """

    issues: LabelIssues
    information: Float[np.ndarray, " n"]
    takes_weights: bool = True
    seed: int = 0
    copies: Int[np.ndarray, " n"] | None = None


Proposal = Callable[[SampleSet, ProposalScores], Action | str | Iterator[Action | str] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionKind:
    """One thing that can be done, as the table of actions tries it.

    Attributes:
        name: the kind in summary.json.
        help: in a sentence, what is done.
        propose: takes samples and their scores; returns the action, an iterator of several, a
            sentence why there is none, or None if there is nothing to report.
        estimate: in place of `propose` where samples at hand cannot try it: takes a learner, the
            samples, a ScoringRule and `whole=` (`gain_of_more`); returns its gain, or None.
        doing: what is done, as the subject of a sentence; "{them}" stands for the suspects.
        fits: number of models per seed at most, those of its controls too.
        evidence: anchor of the section of a run's page that it rests on.
        command: that goes into it, with the options it needs.
        is_searched: whether it is found by a search, which ends elsewhere with other samples.
        is_slow: whether the search takes seconds a part: other parts are searched only if it gains
            in closed form on the first.
        follows: whether it can be done after another action, proposed anew on the samples left; it
            then looks at samples and copies alone, at no score.
        is_followed: whether others can be done after it.
        removes_suspects: whether it leaves out what relabelling corrects.
        order: its place among the kinds of methods.
    """

    name: str
    help: str
    propose: Proposal | None = None
    estimate: Callable[..., ActionGain | None] | None = None
    doing: str = ""
    fits: int = 2
    evidence: str = ""
    command: str = ""
    is_searched: bool = False
    is_slow: bool = False
    follows: bool = False
    is_followed: bool = True
    removes_suspects: bool = False
    order: int = 100


def action_kinds() -> dict[str, ActionKind]:
    """Return all kinds of actions by name: built-in ones, those of methods, and of plug-ins."""
    built_in = [import_module(f"datassay.act.actions.{name}").ACTION for name in BUILT_IN]
    modules = folder_modules("datassay.methods", "action")
    of_methods = [kind for module in modules for kind in module.ACTIONS]
    kinds = [*built_in, *sorted(of_methods, key=lambda kind: kind.order)]
    kinds += checked_plugins("actions", ActionKind, [kind.name for kind in kinds])
    return {kind.name: kind for kind in kinds}


def most_fits() -> int:
    """Return how many models per seed and part all actions and their controls take at most."""
    return sum(kind.fits for kind in action_kinds().values() if kind.propose is not None)


def likely_fits() -> int:
    """Return the likely models per seed and part: no action, and one per kind without search."""
    kinds_tried = [kind for kind in action_kinds().values() if kind.propose is not None]
    return 1 + sum(not kind.is_searched for kind in kinds_tried)


def proposals(
    train: SampleSet,
    issues: LabelIssues,
    information: Float[np.ndarray, " n"],
    *,
    takes_weights: bool = True,
    seed: int = 0,
    without: Collection[str] = (),
    copies: Int[np.ndarray, " n"] | None = None,
) -> tuple[tuple[Action, ...], tuple[str, ...]]:
    """Propose all actions worth trying, and say why others are not.

    Args:
        train: n samples.
        issues: of their labels.
        information: of each sample, any unit; where samples are dropped the suspects go first,
            then the least informative.
        takes_weights: whether the model can weigh samples.
        seed: of controls, blocks and fits.
        without: kinds that are not to be proposed, such as what was of no use on another part.
        copies: a number per sample, shared by those that are next to the same; None: all differ.

    Returns:
        The actions, and one sentence for each that was left out.

    Raises:
        SettingError: an action is not of the kind that proposes it.
    """
    scores = ProposalScores(issues, information, takes_weights, seed, copies)
    actions: list[Action] = []
    left_out: list[str] = []
    for kind in action_kinds().values():
        if kind.propose is None or kind.name in without:
            continue
        proposed = kind.propose(train, scores)
        for proposal in proposed if isinstance(proposed, Iterator) else (proposed,):
            if isinstance(proposal, str):
                left_out.append(proposal)
            elif proposal is not None:
                if proposal.kind != kind.name:
                    raise SettingError(
                        f"an action must be of the kind that proposes it, {kind.name}; got "
                        f"{proposal.kind}. Update the package that adds it."
                    )
                actions.append(proposal)
    return tuple(actions), tuple(left_out)


def combine_actions(
    action: Action, kind: ActionKind, train: SampleSet, scores: ProposalScores
) -> Action | None:
    """Combine two actions: the second is proposed on the samples that the first leaves.

    Args:
        action: the first, what is done before.
        kind: of the second action, one that follows.
        train: n samples.
        scores: of them; the second looks at their seed and copies alone.

    Returns:
        Both as one action, compared with the samples as they are, trained again; weights are
        multiplied. None where the second is not proposed any more.
    """
    remaining = replace(train, y=action.labels, true_y=None).subset(action.kept)
    copies = select_rows(scores.copies, action.kept)
    scores = replace(scores, copies=copies, information=scores.information[action.kept])
    second = None
    if kind.propose is not None:
        second = kind.propose(remaining, scores)
    if not isinstance(second, Action):
        return None
    weights = action.weights.copy()
    weights[action.kept] *= second.weights
    words = f"{action.words}, then {second.words[0].lower()}{second.words[1:]}"
    name = f"{action.kind}+{second.kind}"
    combined = replace(as_it_is(train), kind=name, words=words, changed=action.changed)
    return replace(combined, labels=action.labels, weights=weights, fraction=action.fraction)
