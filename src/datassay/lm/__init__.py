"""Language models: which training texts, and which of their tokens, made a model say this."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.lm.baselines import bm25 as bm25
    from datassay.lm.baselines import embedding_similarity as embedding_similarity
    from datassay.lm.influence import influence as influence
    from datassay.lm.judge import judge as judge
    from datassay.lm.results import JudgedTexts as JudgedTexts
    from datassay.lm.results import TextInfluence as TextInfluence
    from datassay.lm.results import TextParts as TextParts
    from datassay.lm.samples import TokenSamples as TokenSamples
    from datassay.lm.samples import token_samples as token_samples

make_public(__name__)
