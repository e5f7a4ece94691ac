"""The review of suspected labels on the page of a run."""

from __future__ import annotations

from datassay.commands.run.findings import Findings
from datassay.commands.run.labels import to_check
from datassay.report.page import Section
from datassay.report.review.block import ANCHOR, review_block
from datassay.report.review.labels import Reviewed, twins_of


def section(findings: Findings) -> Section:
    """The most suspect samples, to decide on; `datassay view` shows all of them here."""
    block = review_block(reviewed(findings), to_check(findings))
    return Section(ANCHOR, "Review", "Review", (block,))


def reviewed(findings: Findings) -> Reviewed:
    """The labels as they are reviewed."""
    samples, issues, origin = findings.samples, findings.issues, findings.origin
    found, twins = findings.data_issues, {}
    if found is not None:
        pairs = [pair.ids for pair in found.pairs if not any(pair.in_validation)]
        twins = twins_of(samples.ids, found.duplicate_group, pairs)
    return Reviewed(
        samples=samples,
        suggested=issues.suggested_label,
        probability=issues.probability,
        score=issues.score,
        is_issue=issues.is_issue,
        digest="" if origin is None else origin.digest,
        twins=twins,
        places=None if findings.judged is None else findings.judged.places,
        inputs={} if origin is None else origin.inputs,
    )
