"""Text on which tokenizers disagree: what nanotoken must get right before it is trusted."""

ADVERSARIAL_SAMPLE = (
    "",
    " ",
    "The quick brown fox jumped, didn't it? Unaffable, 3.14159 and $9,99!",
    # accents composed and not; letters whose case folding changes their length
    "Caf\u00e9 cafe\u0301 na\u00efve \u00c5ngstr\u00f6m A\u030angstro\u0308m Mc\u0300\u0301\u0302Donald's",
    "\u0130stanbul stra\u00dfe STRASSE \u1e9e \u03a3\u03c3\u03c2 \u039f\u0394\u039f\u03a3 \ufb01ne \u01c5",
    # CJK, also beyond 16 bits and compatibility forms; kana with voicing marks; Hangul whole and as jamo
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002abc\u4e2ddef \U00020000\U0002a700 \uf900 \u3007\u3021\u3400\u9fff",
    "\u304b\u3099\u304c\u304b \u30ab\u30bf\u30ab\u30ca\u30fc \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22",
    "\u0627\u0644\u0639\u064e\u0631\u0628\u0650\u064a\u0629 \u05e2\u05b4\u05d1\u05b0\u05e8\u05b4\u05d9\u05ea",
    "\u0dc1\u0dca\u200d\u0dbb\u0dd3 \u0d2e\u0d32 \u10d0 \u1c90 \u13a0\uab70 \u0561\u0562 \u1f00\u1f04",
    # emoji with joiners, flags, skin tones
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f \U0001f44d\U0001f3fd",
    # what vanishes: zero-width, bidirectional, control, private, unassigned
    "zero\u200bwidth\u200cjoin\u200der \ufeffmark \u2060word soft\u00adhyphen \u200e\u202ertl\u202c",
    "control \x00\x01\x1c\x7f\x80\x85\x9f end\ttab\r\nline\x0bvt\x0cff",
    "\ufffd replaced \ue000 private \U000e0001 tag \U0010ffff last \u0378 unassigned",
    "\u200d",
    # what is a space
    "a\u2028ls\u2029ps\u00a0nbsp\u3000wide\u1680ogham\u2009thin\u202fnarrow\u205fmath",
    # words around the limit of 100 characters, before and after accents are stripped
    " ".join(letter * count for letter in ("a", "\u00e9", "e\u0301", "\ud55c") for count in (99, 100, 101, 250)),
    "quotes \u201cdouble\u201d \u2018single\u2019 \u2026 \u2014 \u2013 \u00ab\u00bb \u00bf\u00a1",
    "\u00a7 ` ^ ~ | + = < > $ \u20ac \u00a9",
    "\u00b0 \u00bd \u2122 x\u00b2 \u2167 \u24b6 \u0660\u0661 \uff21\uff22\uff01 \u2212 \u00d7 \u02bc \u00b7",
    # special tokens spelt out
    "[CLS] literal [SEP] and [sep] [MASK]ed [UNK] [PAD][PAD] [unused1] [MASK <s> </s> <mask>",
    "e-mail@example.com http://x.y/z?q=1#f C++ R&D A.B.C. 1,000,000.00 O'Neill's ##ing _under_score_",
)
