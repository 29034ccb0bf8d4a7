"""Hangul by arithmetic: a syllable's letters, after Unicode 15.0 section 3.12."""

from __future__ import annotations

FIRST, LAST = 0xAC00, 0xD7A3
INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS: tuple[str, ...] = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")


def is_syllable(character: str) -> bool:
    """Whether the character is a composed syllable."""
    return FIRST <= ord(character) <= LAST


def spell(text: str) -> str:
    """`text` with each syllable as its two or three letters: 했어 is ㅎㅐㅆㅇㅓ. Other characters stay.

    No letter is lost or joined, because a syllable without an initial sound spells ㅇ: an ending can be matched
    whatever stem it has melted into.
    """
    return "".join(letters_of(character) if is_syllable(character) else character for character in text)


def letters_of(syllable: str) -> str:
    """The letters of one composed syllable."""
    initial, rest = divmod(ord(syllable) - FIRST, len(VOWELS) * len(FINALS))
    vowel, final = divmod(rest, len(FINALS))
    return INITIALS[initial] + VOWELS[vowel] + FINALS[final]
