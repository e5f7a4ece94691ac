"""What the columns of a run's tables hold: unit and sign stand in the files themselves."""

from __future__ import annotations

from datassay.report.tables import Meaning

_OUTPUT = "output unit squared"
_ROBUST = "robust standard deviations; another word counts 1"

SCORES = {
    "id": Meaning("the sample's id"),
    "label": Meaning("the given label: index of a class, or target"),
    "class_name": Meaning("the given label"),
    "suggested_label": Meaning(
        "the likeliest label, of a suspect the likeliest other one; of a target the held-out output"
    ),
    "is_issue": Meaning("whether the label is suspected: wrong_probability above 1/2"),
    "label_issue_score": Meaning(
        "log odds that the label is wrong; of targets the held-out residual's modified z-score "
        "minus 3.5",
        "nats; of targets none",
        "high: more likely wrong; 0: the bound of suspicion",
    ),
    "wrong_probability": Meaning(
        "probability that the given label is wrong", "probability", "high: more likely wrong"
    ),
    "information": Meaning(
        "how much the sample tells the trained network", "nats", "high: more informative; never < 0"
    ),
    "prediction_change": Meaning(
        "what removing the sample changes on the validation inputs, summed over them",
        _OUTPUT,
        "high: changes more; never < 0",
    ),
    "weight_change": Meaning(
        "what removing the sample changes in the weights",
        "weight unit squared",
        "high: changes more; never < 0",
    ),
    "average_information": Meaning(
        "information beside random subsets, their mean", "nats", "high: more informative"
    ),
    "average_information_error": Meaning("standard error of average_information", "nats"),
    "information_shift": Meaning(
        "the part of the information that the weights' change has", "nats"
    ),
    "information_shape": Meaning("the part that the change of SGD's noise has", "nats"),
    "outside": Meaning("share of the change that the noise of SGD does not reach", "share"),
    "duplicate_group": Meaning("samples of equal inputs share a number; null: none is equal"),
    "nearest_id": Meaning("id of the nearest other sample"),
    "nearest_distance": Meaning("to the nearest other sample", _ROBUST, "0: equal inputs"),
    "outlier_score": Meaning(
        "modified z-score of the mean distance to the ten nearest, minus 3.5",
        "",
        "above 0: an outlier",
    ),
    "is_outlier": Meaning("whether outlier_score is above 0"),
    "source": Meaning("where the sample came from"),
    "is_adversarial": Meaning("whether the input was replaced on purpose"),
    "loss": Meaning(
        "training loss, mean over trained networks",
        "nats; of targets target unit squared",
        "high: worse fitted",
    ),
    "margin": Meaning(
        "output of the given label minus the largest other, mean over trained networks; of targets "
        "minus the absolute residual",
        "output unit",
        "high: better fitted; of classes below 0: predicted wrongly",
    ),
    "true_label": Meaning("the label before noise was added"),
}
_INFLUENCE = "of the influence X(z, ·) of the sample on the others, at the linearised ridge fit"
_PER_WEIGHT = "loss per unit of weight"
SCORES |= {
    "influence_mean": Meaning(
        f"mean {_INFLUENCE}", _PER_WEIGHT, "below 0: more weight on it lowers their loss"
    ),
    "influence_variance": Meaning(f"variance {_INFLUENCE}", f"({_PER_WEIGHT})²"),
    "influence_skewness": Meaning(f"skewness {_INFLUENCE}"),
    "influence_kurtosis": Meaning(f"kurtosis {_INFLUENCE}", "", "3: as of a normal distribution"),
    "influence_own": Meaning(
        "change of its own loss by more weight on the sample, at the same fit",
        _PER_WEIGHT,
        "below 0; large in size: a wrong label, or rare",
    ),
}

EFFECTS = {
    "query": Meaning("position of the query among the validation samples"),
    "query_id": Meaning("id of the query; of a training sample where none is held out"),
    "direction": Meaning("raises or lowers the query's measure"),
    "rank": Meaning("among the samples of that direction, from 1"),
    "id": Meaning("id of the training sample"),
    "effect": Meaning(
        "what the training sample's presence adds to the query's measure",
        "of the measure that `of` names",
        "above 0: its presence raises the measure",
    ),
    "of": Meaning("which measure: output, margin or loss"),
}
