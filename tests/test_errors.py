"""Errors: credentials never get into a message."""

import pytest

from datassay.errors import DataError, redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://KEY:SECRET@bucket/a.npz", "s3://***@bucket/a.npz"),
        ("s3://KEY:SEC/R+ET@bucket/a", "s3://***@bucket/a"),
        ("https://me:p@ss?w#rd@host/x", "https://***@host/x"),
        ("https://token@host/x", "https://***@host/x"),
        ("https://host:80/x?sig=abc&b=1#c=2", "https://host:80/x?***"),
        ("https://host/x#access_token=1", "https://host/x#***"),
        ("cache::s3://K:S@b/x and gs://c/d", "cache::s3://***@b/x and gs://c/d"),
        ("--store=s3://K:S@b", "--store=s3://***@b"),
        ("https://host/a@b/c", "https://host/a@b/c"),
        ("s3://bucket/a", "s3://bucket/a"),
        ("a folder: no/url@all?x=1", "a folder: no/url@all?x=1"),
    ],
)
def test_urls_are_shown_without_credentials(text, shown):
    assert redacted(text) == shown


def test_a_url_given_alone_may_hold_spaces_and_quotes():
    assert redacted("--data=s3://K:S 'x\" y@b/c", is_url=True) == "--data=s3://***@b/c"


def test_every_error_hides_them():
    assert str(DataError("got s3://K:S@b. Check it.")) == "got s3://***@b. Check it."
