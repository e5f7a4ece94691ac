"""Which training samples made the network say this: a picker of validation samples."""

from __future__ import annotations

from datassay.commands.run.findings import Findings
from datassay.report.page import Section, Text
from datassay.report.predictions import Predictions, effect_words, picker


def section(findings: Findings, kind: str) -> tuple[Section, ...]:
    """The query picker, with cards drawn as `kind`; nothing where there was no attribution."""
    if findings.attribution is None:
        return ()
    explained = predictions(findings)
    what, _, _ = effect_words(explained)
    text = (
        f"Pick a {explained.queried}: the training samples below it changed "
        f"{what} most. {effect_sentence(findings)}{_self_sentence(findings)}"
    )
    title = "Which training samples made the model say this?"
    blocks = (Text(text), *picker(explained, kind))
    return (Section("why", "Why this prediction", title, blocks),)


def predictions(findings: Findings) -> Predictions:
    """What the network says of the queries, and the effects on it."""
    attribution, outputs = findings.attribution, findings.query_outputs
    assert attribution is not None and outputs is not None
    return Predictions(
        samples=findings.samples,
        queries=findings.queries,
        kind="training" if findings.validation is None else "validation",
        outputs=outputs,
        attribution=attribution,
        is_logit=findings.attribution_at == "trained",
        suspects=findings.issues.is_issue,
    )


def _self_sentence(findings: Findings) -> str:
    if findings.validation is not None:
        return ""
    return " None was held out, so that network has seen it; what it does to itself is not listed."


def effect_sentence(findings: Findings) -> str:
    """Of which networks each effect is the difference."""
    if findings.attribution_at == "trained":
        return (
            "Each effect is its value in the networks trained on all samples minus its value "
            "without that sample, to first order in its weight, averaged over the networks."
        )
    return (
        "Each effect is its value in the linearised network minus its value in the one that never "
        "saw that sample."
    )
