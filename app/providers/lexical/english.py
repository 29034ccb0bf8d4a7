"""Reads English by its words, for the English path."""

from __future__ import annotations

import re

from saiten_server.providers.lexical.features import (
    Profile,
    kinds_in,
    letters_of,
    make_profile,
    normalise,
    redundancy_of,
)
from saiten_server.text.passages import words_of

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
EMPTY_WORDS = words_of(
    "a about all also am an and any are as at be been but by can could did do does doing don't for from get "
    "go got had has have he her here him his how i i'm i've if in into is it it's its just know like lot me "
    "more my no not of oh ok okay on one or our out really she so some than that that's the their them then "
    "there they think this to too up us very was way we well were what when where which who why will with "
    "would yeah yes you you're your"
)
ENDINGS = ("ing", "ies", "ed", "es", "s")
WANTED = {
    "place": re.compile(r"\bwhere\b"),
    "time": re.compile(r"\b(when|what time|how long)\b"),
    "person": re.compile(r"\b(who|whose)\b"),
    "reason": re.compile(r"\b(why|how come)\b"),
    "number": re.compile(r"\bhow (many|much|old)\b"),
    "thing": re.compile(r"\bwhat\b"),
    "choice": re.compile(r"\b(which|or)\b"),
    "manner": re.compile(r"\bhow\b(?! (many|much|old|come|long))"),
}
OFFERED = {
    "place": re.compile(r"\b(in|at|near|from) (the )?[\w'’]+|\b(here|there|home|abroad)\b"),
    "time": re.compile(
        r"\d|\b(today|tomorrow|yesterday|tonight|morning|evening|night|week|month|year|monday|tuesday|wednesday|thursday"
        r"|friday|saturday|sunday|ago|later|soon|now)\b"
    ),
    "person": re.compile(r"\b(i|me|my|he|she|we|they|friend|mother|father|mom|dad|brother|sister|everyone)\b"),
    "number": re.compile(r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand)\b"),
    "reason": re.compile(r"\b(because|since|so that|due to|to)\b"),
}
AFFIRMING = re.compile(r"(yes|yeah|yep|sure|no|nope|of course|not really|certainly|absolutely)\b")
NEGATED = re.compile(r"\b(not|no|never|none|cannot)\b|n['’]t\b")
GREETING = re.compile(r"^(hi|hello|hey|good (morning|evening|night|afternoon)|bye|goodbye|see you)\b")
GENERIC = re.compile(
    r"((oh|i see|really|yes|yeah|sure|okay|ok|wow|right|that'?s (right|true|nice|great|good|cool|interesting)"
    r"|nice|great|cool|good"
    r"|i (don'?t know|agree|understand)|me too|thanks|thank you|cheer up|whatever|no idea|hang in there)[\s,.!]*)+"
)
BROKEN = re.compile(r"\b(the|a|an|of|to|and|or|but|because|with|in|at|for|is|are|was)[\s,]*$|,$")
ODD = re.compile(r"\b(\w{2,}) \1\b|\b(a|an|the) (a|an|the|is|are|and)\b")
FEELINGS = {
    "sad": re.compile(
        r"\b(sad|lonely|tired|exhausted|hard|tough|worr(y|ied)|anxious|afraid|scared|upset|angry|annoyed|cry(ing)?|cried|tears"
        r"|died|passed away|grie(f|ving)|hurts?"
        r"|painful|depressed|stress(ed|ful)?|disappoint(ed|ing)|sorry|failed|miss(ed)?|rough|awful|terrible)\b"
    ),
    "glad": re.compile(
        r"\b(happy|glad|great|wonderful|fun|enjoy(ed)?|excited|exciting|delicious|love(d|ly)?|congratulations|proud"
        r"|passed(?! away)|thanks?|relieved|best|amazing)\b"
    ),
}
CONSOLING = re.compile(r"\b(cheer up|hang in there|you can do it|stay strong|it will be (okay|fine|all right))\b")
ITSELF = re.compile(
    r"\b(this|my) (response|answer|reply)\b.{0,40}\b(is|accurately|fully|perfectly|understands?|meets?)\b"
)
LATIN_LETTER = re.compile(r"[a-z\u00c0-\u024f'’]")


class EnglishReader:
    """Holds nothing: any number of threads may read."""

    dictionary = "none"

    def read(self, text: str) -> Profile:
        normal = normalise(text).casefold()
        words = WORD.findall(normal)
        # Four characters say nothing here: English repeats them by nature.
        runs = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
        letters = letters_of(normal)
        content = tuple(stem_of(word) for word in words if word not in EMPTY_WORDS)
        asks = "?" in normal
        short = frozenset({"thing", "manner"}) if content and len(words) <= 8 else frozenset[str]()
        return make_profile(
            letters,
            LATIN_LETTER,
            tokens=len(words),
            content=content,
            predicates=frozenset(content),
            asks=asks,
            wanted=kinds_in(normal, WANTED) if asks else frozenset(),
            offered=frozenset() if asks else kinds_in(normal, OFFERED) | short,
            affirms=bool(AFFIRMING.match(normal)),
            negated=bool(NEGATED.search(normal)),
            greets=bool(GREETING.search(normal)),
            generic=bool(GENERIC.fullmatch(normal)),
            agrees=bool(re.match(r"(yes|yeah|i agree|me too|true|right|exactly|so do i)\b", normal)) and not asks,
            broken=bool(BROKEN.search(normal)),
            oddities=sum(1 for _ in ODD.finditer(normal)),
            redundancy=1 - len(set(runs)) / len(runs) if runs else redundancy_of("".join(words)),
            feelings=kinds_in(normal, FEELINGS),
            consoles=bool(CONSOLING.search(normal)),
            describes_itself=bool(ITSELF.search(normal)),
        )


def stem_of(word: str) -> str:
    """The word without its commonest endings, at least three letters: cats → cat, cooking → cook."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
