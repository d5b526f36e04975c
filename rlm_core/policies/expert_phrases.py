"""Search terms from a question: what a person would type into a search box, best first."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"\"([^\"]{3,80})\"|“([^”]{3,80})”|‘([^’]{3,80})’|(?<!\w)'([^']{3,80})'(?!\w)|`([^`]{3,80})`")
_WORD = re.compile(r"[^\W_]+(?:[-'’/.][^\W_]+)*")

_FUNCTION_WORDS = """
a about above according across after again against all along also among an and any are as at be because been before
being below between both but by can cannot could did do does doing down during each either every few for from further
had has have having he her here him his how i if in into is it its itself just kind kinds like many may might more
most much must my no nor not of off on once one only onto or other others our out over own per rather s same shall
she should since so some such than that the their them then there these they this those through thus to too toward
towards two type types under until up upon us use used uses using various very via was we were what when where
whether which while who whom whose why will with within without would you your
"""
_QUESTION_WORDS = """
address addressed addresses answer answers article articles author authors bring brings collect come comes compare
compares concern concerned concerning concerns connected connection connects cover covered covers deal deals describe
described describes description detail details discuss discussed discusses discussion document documents evidence explain
explained explains explanation find finding findings found gather give given gives go goes identify include
included including information link linked links look made mention mentioned mentions note noted paper papers paragraph
part parts passage passages play plays point points present presented presents question quote read regard regarding
relate related relating report reported reports respect role said say says section sections see several show shown shows
source sources speak state stated statement statements states studied studies study support supporting supports talk
talks tell tells terms text texts together topic treat treats work works write writes written
"""
_STOP = frozenset(_FUNCTION_WORDS.split())
_SCAFFOLD = frozenset(_QUESTION_WORDS.split())
"""Words that questions about papers are built with: no search terms."""
_ENDINGS = (
    "description evidence finding findings part parts point points section sections source sources studies study text"
)
_NOUNS = frozenset(_ENDINGS.split())
"""Those of them that may end a subject ("vivo studies"), but not start one."""

MAX_PHRASES = 8
_FIRST = 6.0
"""Weight of being named first, in letters: questions tend to name their subject before its circumstances."""


def content_words(text: str) -> list[str]:
    """The words that carry meaning, lower case, in order."""
    return [w for w in (m.group().lower() for m in _WORD.finditer(text)) if w not in _STOP and w not in _SCAFFOLD]


def key_phrases(question: str) -> list[str]:
    """Up to `MAX_PHRASES` search terms, best first.

    First the subject and its circumstance together (a search for several words ranks passages that hold most of them), then
    each by itself (what is quoted, then runs of content words), then single words, long ones first.

    >>> key_phrases("What does the paper report about graph neural networks with regard to traffic?")[:3]
    ['graph neural networks traffic', 'graph neural networks', 'traffic']
    """
    quoted = [next(g for g in m.groups() if g).strip(" .,;?!") for m in _QUOTED.finditer(question)]
    found = [" ".join(run) for run in _runs(_QUOTED.sub(" , ", question))]
    runs = sorted(found, key=lambda run: -_weight(run.split()) - (_FIRST if run == found[0] else 0.0))
    single = [*quoted, *runs]
    telling = sorted(single[:2], key=question.find)
    words = [w for phrase in single for w in phrase.split() if w.lower() not in _STOP]
    phrases = [" ".join(telling), *single, *sorted(words, key=lambda w: -_weight([w]))]
    unique: dict[str, str] = {}
    for phrase in phrases:
        if len(phrase) > 2:
            unique.setdefault(phrase.lower(), phrase)
    return list(unique.values())[:MAX_PHRASES]


def _runs(text: str) -> list[list[str]]:
    """Maximal runs of content words, not across punctuation."""
    runs: list[list[str]] = [[]]
    end = 0
    for match in _WORD.finditer(text):
        word = match.group()
        if text[end : match.start()].strip():
            runs.append([])
        end = match.end()
        if word.lower() in _NOUNS and runs[-1]:
            runs[-1].append(word)
        elif word.lower() in _STOP or word.lower() in _SCAFFOLD:
            runs.append([])
        else:
            runs[-1].append(word)
    return [run for run in runs if run]


def _weight(run: list[str]) -> float:
    """Longer is rarer; names, numbers and hyphens are telling; beyond four words a literal match gets unlikely."""
    weight = float(sum(min(len(w), 12) for w in run[:4]))
    weight += sum(4.0 for w in run[:4] if any(c.isdigit() or c.isupper() for c in w[1:]) or "-" in w)
    return weight if len(run) > 1 else 0.7 * weight
