"""How questions are worded. Each names the key phrase first, so that searching for it is a first step that works."""

from __future__ import annotations

VERSION = "2"
"""Raised with any change of wording; part of a query's provenance."""

SINGLE_CUE = (
    "Where does the paper discuss {phrase} together with {cue}?",
    "Which passage links {phrase} to {cue}?",
    "What does the paper say about {phrase} with regard to {cue}?",
    "Find the passage that deals with {phrase} and brings in {cue}.",
    "Which part of the paper covers {phrase}, {cue} included?",
    "How does the paper treat {phrase} when it comes to {cue}?",
    "What evidence does the paper give on {phrase} and {cue}?",
    "Show the passage on {phrase} that also mentions {cue}.",
    "In which passage do the authors address {phrase} along with {cue}?",
    "What do the authors write about {phrase} in connection with {cue}?",
)
SINGLE = (
    "What does the paper say about {phrase}?",
    "Where does the paper discuss {phrase}?",
    "Find the passage that deals with {phrase}.",
    "Which part of the paper covers {phrase}?",
    "What evidence does the paper give on {phrase}?",
    "Show the passage on {phrase}.",
    "In which passage do the authors address {phrase}?",
    "Which passage goes into {phrase}?",
)
MULTI = (
    "Which of these papers discuss {phrase}, and in which passages?",
    "What do the papers say about {phrase}?",
    "Find the passage on {phrase} in each paper that has one.",
    "Across the papers, which passages address {phrase}?",
    "Collect what every paper that covers {phrase} writes about it.",
    "Which passages would you compare to see how the papers treat {phrase}?",
    "Gather the evidence on {phrase} from all papers that mention it.",
    "Several papers bring up {phrase}: quote the passage of each.",
)
MULTI_CUE = (
    "Which of these papers discuss {phrase} together with {cue}, and in which passages?",
    "What do the papers say about {phrase} in connection with {cue}?",
    "Find the passage that links {phrase} to {cue} in each paper that has one.",
    "Across the papers, which passages address {phrase} along with {cue}?",
    "Collect what every paper writes about {phrase} with regard to {cue}.",
    "Gather the evidence on {phrase} and {cue} from all papers that mention both.",
)
