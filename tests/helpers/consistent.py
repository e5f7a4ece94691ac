"""Whether the sentences of a run's page agree with its summary, and so with each other."""

import re
from html.parser import HTMLParser

TEXTS = {"p", "h1", "h2", "h3", "span", "a", "li", "dd", "caption", "summary", "code"}
NUMBER = r"[+−-]?\d[\d,]*(?:\.\d+)?"
GAIN = re.compile(rf"({NUMBER})(?: points)? of [\w² ]+? \(({NUMBER}) to ({NUMBER})\)")
UNCLEAR = re.compile(
    rf"({NUMBER}) to ({NUMBER})(?: points)? of [\w² ]+? \(estimate ({NUMBER})[^)]*\)"
)
CHANGE = re.compile(rf"{NUMBER} points")
# What a clause about a gain speaks of → kind of the action.
ABOUT = {
    r"correcting (?:it|them|what|the [\d,]+ most)": "relabel",
    r"removing (?:it|them|what|the [\d,]+ most)": "remove",
    r"left out|leaving out|others do as well": "drop",
    r"each class the same": "balance",
    r"weighing samples": "reweight",
    r"splitting": "split",
    r"removing foreign": "purify",
    r"doubling": "more",
    r"reviewing [\d,]+ label": "review",
}
COUNTS = {
    rf"({NUMBER}) of ({NUMBER}) (?:label|target)(?: set)?s? (?:is|are) probably wrong": (
        "suspects",
        "n",
    ),
    rf"(?:Review|correct) (?:the )?({NUMBER}) (?:most suspect )?(?:label|target)": ("review",),
    rf"({NUMBER}) suspected": ("suspects",),
    rf"({NUMBER}) of ({NUMBER}) samples (?:can|may) be left out": ("droppable", "n"),
    rf"({NUMBER}) redundant samples": ("droppable",),
    rf"({NUMBER}) to ({NUMBER}) (?:of {NUMBER} are wrong|in all)": ("low", "high"),
    rf"up to ({NUMBER}) of ({NUMBER}) \([\w ]+ %\) may be": ("high", "n"),
    rf"of ({NUMBER}) actions? tried none is shown to help": ("tried",),
    rf"({NUMBER}) actions? compared": ("tried",),
}


class _Texts(HTMLParser):
    """Texts of a page, without scripts, by the innermost of the tags that hold sentences."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.found, self._open, self.rows = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag in TEXTS | {"script", "style"}:
            self._open.append(tag)
            self.found.append("")
        elif tag == "tr":
            self.rows.append({})
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1][dict(attrs).get("data-label", tag)] = ""

    def handle_endtag(self, tag):
        if self._open and tag == self._open[-1]:
            self._open.pop()

    def handle_data(self, data):
        if self._open and self._open[-1] in TEXTS:
            self.found[-1] += data
        elif not self._open and self.rows and self.rows[-1]:
            self.rows[-1][list(self.rows[-1])[-1]] += data.strip()


def _values(summary):
    counts, actions = summary["counts"], (summary["actions"] or {"actions": []})["actions"]
    names = {"n": "train", "suspects": "suspected_label_errors", "review": "to_review"}
    tried = sum(action["how"] == "retrained" for action in actions)
    low, high = counts["wrong_at_least"], counts["wrong_at_most"]
    own = {"tried": tried, "acts": actions, "droppable": counts["redundant"]}
    own |= {"low": low, "high": high}
    return own | {name: counts[key] for name, key in names.items()}


def _number(text):
    return float(text.replace("−", "-").replace(",", ""))


def _counted(text, values):
    for pattern, names in COUNTS.items():
        for result in re.finditer(pattern, text):
            reported = [_number(one) for one in result.groups()]
            if reported != [values[name] for name in names]:
                yield f"{result[0]!r}, but {[(name, values[name]) for name in names]}"
    if re.search(r"[Nn]o (?:label|target) (?:stands out|is suspected)|No suspected", text):
        if values["suspects"]:
            yield f"{text!r}, but {values['suspects']} are suspected"
    if "Not tried: Correcting" in text and any(
        action["kind"] == "relabel" for action in values["acts"]
    ):
        yield f"{text!r}, but that was tried"
    if "tried none is shown" in text and any(act["advice"] == "do it" for act in values["acts"]):
        yield f"{text!r}, but an action helps"


def _gained(clause, values, scale, predicted):
    """Problems of a clause that states a gain: its action, numbers, and how sure it is."""
    kinds = [kind for words, kind in ABOUT.items() if re.search(words, clause, re.I)]
    wanted = "+".join(kinds[:2] if " and then " in clause else kinds[:1])
    action = next((a for a in values["acts"] if a["kind"] == wanted), None)
    match = GAIN.search(clause) or UNCLEAR.search(clause)
    if action is None or match is None:
        yield f"{clause!r} states a gain of no action in the summary"
        return
    reported = sorted(abs(_number(one)) for one in match.groups())
    right = sorted(abs(scale * action[name]) for name in ("gain", "low", "high"))
    if any(
        abs(a - b) > 0.0501 * (1 if scale > 1 else 0.01)
        for a, b in zip(reported, right, strict=True)
    ):
        yield f"{clause!r}, but its action has {right}"
    if (action["low"] <= 0 <= action["high"]) is not bool(UNCLEAR.search(clause)):
        yield f"{clause!r}, but its action has {right}: whether they include 0 is not said"
    predicted.setdefault(action["kind"], set()).add(tuple(reported))
    for words, advice in (("gains", "do it"), ("may help", "try it")):
        if re.search(rf"\b{words}\b", clause) and action["advice"] not in {advice, ""}:
            yield f"{clause!r}, but the advice is {action['advice']!r}"


def contradictions(page, summary):
    """What a page says that its summary does not, one sentence each; none: it is consistent."""
    seen, values, reported = _Texts(page), _values(summary), {}
    metric = (summary["actions"] or {"metric": ""})["metric"]
    scale = 100 if metric.endswith("accuracy") else 1
    problems = []
    for text in (" ".join(one.split()) for one in seen.found):
        problems += _counted(text, values)
        if summary["before"] is not None:
            continue
        for clause in re.split(r"(?<=[a-z)])[.;](?= |$)", text):
            if any(one.search(clause) for one in (GAIN, UNCLEAR, CHANGE)):
                problems += _gained(clause, values, scale, reported)
    problems += [f"{kind} has {len(texts)} sets of numbers: {texts}"
                 for kind, texts in reported.items() if len(texts) > 1]  # fmt: skip
    by_words = {act["words"]: act for act in values["acts"]}
    for row in seen.rows:
        action, interval = (
            by_words.get(row.get("th", "").removesuffix("best")),
            row.get("95 % interval"),
        )
        if action is None or not interval:
            continue
        gain = next(row[name] for name in row if name.startswith("gain, "))
        message = sorted(abs(_number(one)) for one in [gain, *interval.split(" to ")])
        if reported.get(action["kind"], {tuple(message)}) != {tuple(message)}:
            problems.append(
                f"the table has {message} of {action['kind']}, sentences {reported[action['kind']]}"
            )
    if (verdict := summary["verdict"]) not in " ".join(" ".join(seen.found).split()):
        problems.append(f"the page lacks the verdict {verdict!r}")
    return problems
