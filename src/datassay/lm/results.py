"""What made a model say this: the result, with its table and its page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from datassay.lm.tokens import Question, Tokens
from datassay.results import result
from datassay.score.effects import Attribution

if TYPE_CHECKING:
    from datassay.report.page import Page

OUT = "influence"


@result
class TextParts:
    """A training text whose effects are distinguished by its tokens.

    Attributes:
        text: its position among the texts.
        content: the text itself.
        tokens: of the text.
        effect: [tokens, m], of each of its tokens' losses on each token of the answer, in nats.
            Over the text's tokens they add up to its effect. The first one, which nothing
            predicts, has 0.
    """

    text: int
    content: str
    tokens: Tokens
    effect: Float[np.ndarray, "tokens m"]


@result
class JudgedTexts:
    """What training again without some texts did to an answer.

    Attributes:
        methods: that named the texts, "random" last.
        fall: [methods, repeats], log-probability of the answer with all texts minus without those,
            in nats, from the same seed: the larger, the more the answer depends on them.
        whole: [repeats], log-probability with all texts.
        removed: texts that each named.
    """

    methods: tuple[str, ...]
    fall: Float[np.ndarray, "methods repeats"]
    whole: Float[np.ndarray, " repeats"]
    removed: int


@result
class TextInfluence:
    """Which training texts made a language model say this.

    Attributes:
        attribution: effects of n texts on m tokens of the answer, in nats of log-probability:
            positive where the text's presence raised it. It has `to_pandas` and `save` to Parquet.
        question: prompt, answer and its tokens; without `per_token` m is 1, all of them together.
        parts: the texts with the largest effects, by position, their own tokens distinguished.
        bm25: [n], words in common with prompt and answer; None: not asked for.
        embedding: [n], cosine of the model's mean last hidden states; likewise.
        shown: text position → the text, of all that the page shows.
        reduction: of the training loss over tokens, "sum" or "mean".
        top: texts for each token and direction.
        judged: what retraining measured, from `judge`; None: nobody did.
    """

    attribution: Attribution
    question: Question
    parts: tuple[TextParts, ...]
    bm25: Float[np.ndarray, " n"] | None
    embedding: Float[np.ndarray, " n"] | None
    shown: dict[int, str]
    reduction: str
    top: int
    judged: JudgedTexts | None = None

    @property
    def effect(self) -> Float[np.ndarray, "n m"]:
        """The effect of each text on each token of the answer, in nats."""
        assert self.attribution.effect is not None
        return self.attribution.effect

    @property
    def ids(self) -> np.ndarray:
        """An id per text."""
        return self.attribution.ids

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens asked about; without `per_token`, what they are together."""
        pieces = self.question.tokens.pieces[self.question.first :]
        if len(pieces) == self.effect.shape[1]:
            return pieces
        return ("".join(pieces),)

    @property
    def log_probability(self) -> Float[np.ndarray, " m"]:
        """The log-probability of each token asked about, given all before it, in nats."""
        return self.attribution.outcome

    def to_table(self) -> pa.Table:
        """Return a table of texts: id, effect on the answer, bm25, embedding, by token."""
        columns: dict[str, Any] = {"id": self.ids, "effect": self.effect.sum(1)}
        for name in ("bm25", "embedding"):
            if getattr(self, name) is not None:
                columns[name] = getattr(self, name)
        return pa.table(columns | {"effect_by_token": _lists(self.effect)})

    def to_token_table(self) -> pa.Table:
        """Return a table of the tokens of `parts`: id, token, span, effects by token."""
        tables = [
            pa.table({
                "id": [self.ids[parts.text]] * len(parts.tokens.ids),
                "token": list(parts.tokens.pieces),
                "begin": parts.tokens.spans[:, 0],
                "end": parts.tokens.spans[:, 1],
                "effect": parts.effect.sum(1),
                "effect_by_token": _lists(parts.effect),
            })
            for parts in self.parts
        ]
        if tables:
            return pa.concat_tables(tables)
        return pa.table({})

    def save(self, path: str | Path = OUT, *, overwrite: bool = False) -> Path:
        """Write the page and its tables.

        Args:
            path: of a folder; made where it does not exist. Other files in it stay.
            overwrite: whether files that datassay did not write may be replaced.

        Returns:
            The path of the page, index.html; beside it effects.parquet and tokens.parquet.

        Raises:
            SettingError: the folder cannot be written, or the disk is full.
        """
        from datassay.report.html import render
        from datassay.store.outputs import write_pages

        parts = {
            "effects.parquet": self.to_table(),
            "tokens.parquet": self.to_token_table(),
            "index.html": render(self._page),
        }
        return write_pages(parts, Path(path), overwrite=overwrite)

    @property
    def _page(self) -> "Page":
        from datassay.lm.page import page

        return page(self)

    def _repr_html_(self) -> str:
        from datassay.report.notebook import short_html
        from datassay.report.page import Table

        page = self._page
        tables = [block for block in page.blocks if isinstance(block, Table)]
        return short_html(f"{page.title}. {page.lead}", *tables[:1])


def _lists(effect: Float[np.ndarray, "rows m"]) -> pa.Array:
    """Return a column of lists, one per row."""
    return pa.FixedSizeListArray.from_arrays(pa.array(effect.reshape(-1)), effect.shape[1])
