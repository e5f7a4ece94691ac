"""Cross-entropy of each next token of a text."""

from datassay.collect.losses.cross_entropy import CrossEntropy


class NextToken(CrossEntropy):
    """Cross-entropy of each token, by the outputs at the place before it."""

    name = "next_token"
    criteria = ()
    is_of_tokens = True


LOSS = NextToken()
