"""The last section of an explanation's page: what each figure means and how it was obtained."""

from __future__ import annotations

from datassay.commands.explain.findings import ExplainFindings

MEASURES = {
    "margin": (
        "The log odds of the given label: its logit minus the logarithm of the summed exponentials "
        "of the others."
    ),
    "output": "The output of the predicted class before softmax, or the predicted value.",
    "loss": "The training loss of the query, summed over its outputs.",
}
SQUARED_MARGIN = "The output of the given label minus the largest other one."


def notes(findings: ExplainFindings) -> tuple[tuple[str, str], ...]:
    """(term, meaning) pairs of this run."""
    attribution = findings.attribution
    measure = MEASURES[attribution.measure]
    if attribution.measure == "margin" and findings.loss != "cross_entropy":
        measure = SQUARED_MARGIN
    return (
        ("Measure", measure),
        (
            "Effect",
            "The measure at the trained weights minus its value at the weights without the sample, "
            "to first order in the sample's weight (Koh and Liang, 2017): nothing is retrained. "
            "Each is of removing one sample alone: a duplicate hides its twin.",
        ),
        (
            "Curvature",
            f"{attribution.method}. The Hessian of the loss in the weights is taken layer by layer "
            "(Gauss–Newton; exact, or in a Kronecker eigenbasis), and a share of its mean "
            "eigenvalue is added to each. At a temperature T the loss is of the logits divided by "
            "T: samples that the network fits had to be learned too, and so they count.",
        ),
        (
            "Self-influence",
            "How much a sample's presence lowers its own loss: large where no other sample "
            "supports its label. It orders samples and is no probability: where nothing is wrong, "
            "rare and hard ones come first. Of a loss softened for the effects it takes the "
            "gradients of the loss itself, as the method above says.",
        ),
        *_index(findings),
        ("Total", "The sum of a sample's effects over all queries."),
        (
            "Trust",
            "How well effects predict what retraining shows depends on data, network and training: "
            "datassay bench DATA --model MODEL, with the recipe of the training, measures it.",
        ),
        (
            "Trained on",
            "The samples of DATA count as those that the network was trained on, each once in the "
            "mean loss. Augmentation, dropout and class weights are not told to this command; "
            "influence(loss=) in Python takes them.",
        ),
    )


def _index(findings: ExplainFindings) -> tuple[tuple[str, str], ...]:
    """What an answer from an index leaves out."""
    if "Index" not in findings.facts:
        return ()
    return (
        (
            "Index",
            "Each training sample's gradient is kept by its largest coordinates in the eigenbasis "
            "of each layer's curvature, in few bytes; what they hold of the expected squared "
            "effects, and how well the order of the effects is kept, stands under the facts. "
            "Self-influence is by all coordinates.",
        ),
    )
