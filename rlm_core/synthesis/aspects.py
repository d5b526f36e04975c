"""What papers speak of whatever their topic: the matter of questions over five papers and more.

Papers of a group share few key phrases, and one that all share is the group's subject, on which every passage is. But many
of them name limits, advise something, or say that their results agree with others'. An aspect is a set of words, and its
questions name these, so that the passages that use them are the answer and no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlm_core.synthesis.passages import Passage

MAX_PER_PAPER = 4
"""Passages of a paper on one aspect; where there are more, the paper is left out of the question."""


@dataclass(frozen=True, slots=True)
class Aspect:
    name: str
    words: re.Pattern[str]
    """Sought in a passage and in its section's title."""
    questions: tuple[str, ...]


def _aspect(name: str, words: str, *questions: str) -> Aspect:
    return Aspect(name, re.compile(words, re.IGNORECASE), questions)


ASPECTS = (
    _aspect(
        "agreement",
        r"\bin (?:good |close )?(?:agreement|accordance|accord|line) with\b|\bconsistent with\b"
        r"|\bsimilar (?:results?|findings?|observations?)\b|\bcorroborat\w+",
        "Which of these papers say that something agrees or is consistent with other results or rules, and in which passages?",
        "Find the passages that call a thing similar to, in line with or in accordance with what others found or laid down.",
    ),
    _aspect(
        "advice",
        r"\brecommend(?:s|ed|ing|ations?)?\b|\badvis(?:es?|ed|able)\b",
        "What do these papers recommend or advise, or say that others recommend?",
        "Which passages of the papers speak of a recommendation or of advice?",
    ),
    _aspect(
        "popularity",
        r"\bpopular(?:ity|ly)?\b|\b(?:widely|commonly)[- ](?:used|adopted|known)\b",
        "What do these papers call popular, or widely or commonly used?",
        "Which passages say of a thing that it is popular, widely known or in common use?",
    ),
    _aspect(
        "advantages",
        r"(?<!take )(?<!takes )(?<!taking )(?<!took )\badvantage(?:s|ous)?\b|\bbenefits?\b|\bbeneficial\b",
        "Which advantages or benefits do these papers name, and in which passages?",
        "Find the passages of each paper that call something advantageous or beneficial.",
    ),
    _aspect(
        "limits",
        r"\blimitations?\b|\bshortcomings?\b|\b(?:drawback|disadvantage)s?\b",
        "Which passages of these papers speak of limitations, drawbacks or shortcomings?",
        "What limitations or disadvantages do the papers point out, their own or those of others?",
    ),
    _aspect(
        "difficulty",
        r"\bchalleng(?:es?|ing)\b|\bdifficult(?:y|ies)?\b",
        "What do these papers call a challenge or difficult?",
        "Which passages of the papers name difficulties or challenges?",
    ),
    _aspect(
        "complexity",
        r"\bcomplex(?:ity|ities)?\b",
        "What do these papers call complex, and in which passages?",
        "Gather what every paper says about the complexity of a thing.",
    ),
    _aspect(
        "efficiency",
        r"\b(?:in)?efficien(?:t|tly|cy)\b",
        "What do these papers call efficient or inefficient?",
        "Which passages of the papers deal with the efficiency of something?",
    ),
    _aspect(
        "cost",
        r"\b(?:costs?|costly|cheap(?:er|ly)?|(?:in)?expensive)\b",
        "What do these papers say about costs, or about what is cheap or expensive?",
        "Find the passages of each paper that speak of a cost or call something expensive or cheap.",
    ),
    _aspect(
        "novelty",
        r"\bnovel(?:ty)?\b|\b(?:for the )?first (?:time|study|report)\b|\bto (?:the best of )?our knowledge\b",
        "What do these papers call novel or the first of its kind?",
        "Which passages claim that a thing was done for the first time, or is novel, to the authors' knowledge?",
    ),
    _aspect(
        "gap",
        r"\b(?:few|no|little|not much) (?:\w+ )?(?:stud(?:y|ies)|research|information|data|evidence|is known)\b"
        r"|\bnot (?:yet )?been (?:\w+ly )?(?:studied|reported|investigated|explored|described)\b"
        r"|\bunknown\b|\bpoorly understood\b",
        "Where do these papers say that there are no or few studies or data, or that something is unknown?",
        "Which gaps do the papers name: things unknown, not studied, or with little evidence?",
    ),
    _aspect(
        "further work",
        r"\bfuture (?:\w+ )?(?:work|stud(?:y|ies)|research|directions?|trials?|experiments?|versions?|goals?)\b"
        r"|\bin the (?:near )?future\b"
        r"|\b(?:further|more) (?:\w+ )?(?:studies|research|work|investigations?|trials) (?:is|are|should|will|may be|need)\b",
        "Which of these papers speak of future work or of further studies that are needed, and in which passages?",
        "What is to be done in the future, as the authors of each paper see it?",
    ),
    _aspect(
        "statistics",
        r"\bANOVA\b|\banalysis of (?:co)?variance\b|\bt[- ]tests?\b|\bchi[- ]squared?\b|\bMann[- ]?Whitney\b|\bWilcoxon\b"
        r"|\bKruskal\b|\bTukey\b|\bDunnett?\b|\bFisher['’]?s exact\b|\bstatistical(?:ly)? (?:analy[sz]|tests?\b|compar)",
        "Which statistical tests or analyses do these papers name, and in which passages?",
        "Find the passages of each paper that tell how data were compared or analysed statistically.",
    ),
    _aspect(
        "random groups",
        r"\brandom(?:ly)? (?:assign|allocat|divid|distribut|group)\w*|\brandomi[sz](?:ed|ation)\b",
        "How do these papers speak of a random assignment to groups, and in which passages?",
        "Where is it said that subjects were randomised or divided at random?",
    ),
    _aspect(
        "consent",
        r"\bethic(?:s|al|ally)\b|\binformed consent\b|\breview board\b",
        "Which papers speak of ethics or of informed consent, and where?",
        "Find the passages on an ethical approval, a review board or the consent of participants.",
    ),
    _aspect(
        "safety",
        r"\bsafe(?:ty|ly)?\b|\btoxic(?:ity)?\b|\bside[- ]effects?\b|\badverse\b",
        "What do these papers say about safety, toxicity, side effects or adverse events?",
        "Which passages of the papers call something safe, toxic or adverse?",
    ),
    _aspect(
        "temperature",
        r"\btemperatures?\b|\d ?°",
        "At which temperatures was something kept or done, as these papers tell it?",
        "Find the passages of each paper that give a temperature or speak of one.",
    ),
    _aspect(
        "repeats",
        r"\b(?:triplicates?|duplicates?|replicates?)\b|\brepeated (?:\w+ ){0,2}times\b|\breproducib(?:le|ly|ility)\b",
        "What do these papers say about replicates, repeated measurements or reproducibility?",
        "Which passages tell that a thing was repeated, replicated or is reproducible?",
    ),
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """An aspect with its evidence, and the papers where it is clear which passages speak of it, or that none does."""

    aspect: Aspect
    evidence: tuple[Passage, ...]
    readable: tuple[str, ...]

    @property
    def num_papers(self) -> int:
        return len({p.paper_id for p in self.evidence})


def spoken_of(papers: Mapping[str, Sequence[Passage]]) -> list[Spoken]:
    """Every aspect, with the papers of which each passage that speaks of it can be evidence."""
    found = []
    for aspect in ASPECTS:
        near = {paper: [p for p in passages if _speaks(p, aspect)] for paper, passages in papers.items()}
        clear = {
            paper: passages
            for paper, passages in near.items()
            if len(passages) <= MAX_PER_PAPER and all(p.can_be_evidence for p in passages)
        }
        found.append(Spoken(aspect, tuple(p for passages in clear.values() for p in passages), tuple(clear)))
    return found


def _speaks(passage: Passage, aspect: Aspect) -> bool:
    return bool(aspect.words.search(passage.text) or aspect.words.search(passage.section))
