"""Wikitext to prose: what a reader sees, and no more time than the text is long."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_jax.text.sources.wikitext import Wikitext

prose = Wikitext().prose


@pytest.mark.parametrize(
    "wikitext, expected",
    [
        ("'''Bold''' and ''italic'' and '''''both'''''.", "Bold and italic and both."),
        ("The ''Titanic'''s crew and '''rock 'n' roll'''.", "The Titanic's crew and rock 'n' roll."),
        ("A [[link]], [[target|label]], [[bus]]es, [[:Category:Birds]].", "A link, label, buses, Category:Birds."),
        ("[[Boston, Massachusetts|]], [[Mercury (planet)|]].", "Boston, Mercury."),
        ("An [http://x.org/a?b=c external link] and [http://x.org].", "An external link and."),
        ("[[File:A.jpg|thumb|A [[cat]] ''sat'' {{x}}]]Text [[Image:b.png]]here[[Category:Z]].", "Text here."),
        ("Text.[[fr:Texte]]\n[[zh-min-nan:x]]", "Text."),
        (
            "A fact.<ref>Book, p. {{p|3}} [[x]]</ref> More<ref name=a /> text<ref name='b'>c</ref>.",
            "A fact. More text.",
        ),
        ("Before <!-- hidden [[ -->after<!-- open", "Before after"),
        ("{{Infobox|a={{b|c}}|d=\n{|\n| x\n|}\n}}\nText {{dropped|x}}here.", "Text here."),
        ("Text.\n{| class=x\n|-\n| cell || [[cell]]\n{|\n| inner\n|}\n|}\nMore.", "Text.\nMore."),
        ("<table><tr><td>x</td></table>Text.", "Text."),
        ("Intro.\n== Head ==\nOne.\n\n=== Sub ===\nTwo.\n\nThree.", "Intro.\n\nOne.\n\nTwo.\nThree."),
        ("One line\ncontinues.\n\nNext.", "One line continues.\nNext."),
        (
            "Text.\n* item\n# item\n; term\n: An indented quotation ends.\n:*no\nEnd.",
            "Text.\nAn indented quotation ends.\nEnd.",
        ),
        (":''For other uses, see [[X]]''\nText.\n----\nMore.", "Text.\nMore."),
        ("__NOTOC__Text &amp; more&nbsp;text &lt;b&gt; 5&#160;km.", "Text & more text <b> 5 km."),
        (
            "E = <math>mc^2</math> and <code>x</code> in <span style='a'>a</span> <small>b</small><br/>c.",
            "E = and in a b c.",
        ),
        ("<nowiki>[[not]] {{a}} ''link''</nowiki> text.", "[[not]] {{a}} ''link'' text."),
        ("<gallery>\nA.jpg|text\n</gallery>Text<references/>.", "Text."),
        ("Name ({{IPA|x}}; {{lang-el|λόγος}}, ''logos''; {{audio|x}}) is.", "Name (λόγος, logos) is."),
        (
            "It is {{convert|5|km|mi}} or {{cvt|3|to|4|m}} long{{snd}}{{circa|1900}}.",
            "It is 5 km or 3 to 4 m long – c. 1900.",
        ),
        ("{{lang|fr|mot}} {{nowrap|a b}} {{as of|2010|3}} {{frac|1|2}} {{'}}", "mot a b As of March 2010 1/2 '"),
        ("Text.\n{{quote|Said {{small|he}}.|author=B}}\nMore.", "Text.\nSaid he.\nMore."),
        ("Unclosed [[link and {{template and ''italics.", "Unclosed link and template and italics."),
        ("Closed too often]] }} |} </ref> here.", "Closed too often |} here."),
        ("{{a {{b}} unclosed. [[Link|label]] text.", "a unclosed. label text."),
        ("a <ref>one [[two</ref> b [[c|d]] {{x|[[y}} e.", "a b d e."),
        ("5 < 6 and a<b, x{y}z, [note], a|b stay.", "5 < 6 and a<b, x{y}z, [note], a|b stay."),
        ("{{{1|default}}} text.", "text."),
        ("", ""),
        ("{{only|a template}}", ""),
        ("== Only a heading ==", ""),
    ],
)
def test_what_a_reader_sees(wikitext, expected):
    assert prose(wikitext) == expected


def test_namespaces_of_the_dump():
    german = Wikitext({"datei": 6, "kategorie": 14, "portal": 100}).prose
    assert german("[[Datei:a.jpg|mini|Bild]]Ein [[Portal:Kunst|Portal]].[[Kategorie:X]]") == "Ein Portal."
    assert german("[[File:a.jpg|thumb|x]]Text.") == "Text."  # the English names hold everywhere


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["[[", "]]", "{{", "}}", "{|", "|}", "\n", "|", "<ref>", "</ref>", "<!--", "-->", "''", "=", "*"]
        )
        | st.sampled_from(
            ["word ", "File:", "<br>", "<nowiki>", "</nowiki>", "&amp;", ":", "<math", "{", "[", "http://a "]
        ),
        max_size=40,
    )
)
def test_any_markup_gives_text_without_blank_lines_in_a_row(pieces):
    text = prose("".join(pieces))
    assert text == text.strip("\n") and "\n\n\n" not in text
    assert text.count("word") <= "".join(pieces).count("word")


@given(
    st.text(
        st.characters(exclude_characters="[]{}<>|'=*#;:!_&-()\n\t\r\x0b\x0c /", exclude_categories=("Cs", "Z", "Cc"))
    )
)
def test_plain_words_pass_unchanged(word):
    if any(map(str.isalnum, word)):
        assert prose(f"A {word} b") == f"A {word} b"


OPENING = [
    "{{",
    "[[",
    "{|\n",
    "<ref>",
    "<ref name='a",
    "<div ",
    "<!-- ",
    "[http://a ",
    "''a'''b",
    "{{a|",
    "[[File:a|",
    "[[a|",
]
OPENING += [
    "<math>",
    "<nowiki>",
    "&amp;",
    "( ,",
    "(",
    ", ",
    " ",
    ":",
    "\n:",
    "<",
    "}}",
    "]]",
    "{{{{",
    "{|",
    "\xa0 ",
    "__A",
]


@pytest.mark.parametrize("opening", OPENING)
def test_nested_and_unclosed_markup_takes_linear_time(opening):
    closing = {"{{a|": "}}", "[[a|": "]]", "[[File:a|": "]]", "<ref>": "</ref>", "<math>": "</math>"}.get(opening, "")

    def seconds(n):
        start = time.process_time()
        prose(opening * n + "text" * n + closing * n)
        return time.process_time() - start

    seconds(100)
    assert seconds(20_000) < 10 * max(seconds(4_000), 0.005)
