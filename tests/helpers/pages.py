"""A parser of our pages."""

import html
import re
from html.parser import HTMLParser

# All that a page of ours is made of.
TAGS = set(
    "html head meta title link style body header main section nav footer article h1 h2 h3 p a ul "
    "li dl dt dd div span code script form fieldset legend label input select option output "
    "blockquote img button table caption thead tbody tr th td pre i small b kbd noscript progress "
    "details summary dialog".split()
)


class Elements(HTMLParser):
    """What a browser would see: start tags with attributes, and text by enclosing tag."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self._open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text.append((self._open[-1] if self._open else "", data))

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def assert_asks_no_network(seen):
    """Scripts and images are inside the page."""
    assert not any("src" in a for a in seen.all("script"))
    forms = ("data:image/png;base64,", "data:image/jpeg;base64,")
    assert all(a["src"].startswith(forms) for a in seen.all("img"))


def assert_policy(seen):
    """The page refuses the network, and its icon is none."""
    assert all(a["href"] == "data:," for a in seen.all("link"))
    policy = next(a for a in seen.all("meta") if "http-equiv" in a)
    assert policy["content"].startswith("default-src 'none'")


def snippet(page):
    """The first lines of code that a page shows."""
    return html.unescape(re.search(r"<pre[^>]*><code>(.*?)</code></pre>", page, re.DOTALL)[1])
