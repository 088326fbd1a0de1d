"""A parsed page, for tests of what it shows, and a text that would break one that does not escape."""

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "hr", "input"}
HOSTILE = """</script><script>alert('x')</script><img src="https://evil.example/x" onerror="alert(1)">&amp;\x00\ud800"""


class Page(HTMLParser):
    """Parses a page, checks that elements nest, and collects tags, attributes and visible text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self._open = [], [], [], []
        self.feed(text)
        self.close()
        assert not self._open, f"left open: {self._open}"
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self._open and self._open[-1] == tag, f"</{tag}> within {self._open}"
        self._open.pop()
        self.words.append(" ")

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    def values(self, name):
        return [value for key, value in self.attributes if key == name]
