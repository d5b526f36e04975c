"""The training setting of MRCR: short conversations with few needles to learn from, long ones with many to be measured on.

As in the paper on recursive language models (arXiv 2512.24601), which trains on 32k to 64k tokens with 2 needles and evaluates
on 512k to 1M with 8. A conversation stands where a paper does: the same stages teach, train and judge. Departure: the reward is
the judge's (evidence of the asked text), not the ratio of `mrcr.score_text`, which `rlm-forge bench mrcr` measures.
"""

from __future__ import annotations

from random import Random
from typing import Literal

from rlm_core.evaluation.benchmarks.mrcr import make_items
from rlm_core.papers.records import Paper
from rlm_core.params import MrcrParams
from rlm_core.progress import Progress
from rlm_core.records import Evidence, Query, Span

VERSION = "1"
Split = Literal["train", "val", "test"]


def make_split(params: MrcrParams, split: Split, seed: int) -> tuple[list[Query], dict[str, Paper]]:
    """The questions of a split, all needles of each conversation, and the conversations as papers by id."""
    training = split == "train"
    low, high = params.train_tokens if training else params.test_tokens
    needles = params.train_needles if training else params.test_needles
    count = params.train_conversations if training else params.test_conversations
    queries: list[Query] = []
    papers: dict[str, Paper] = {}
    with Progress(f"mrcr {split}", count, "conversations") as progress:
        for number in range(count):
            drawn = Random(f"mrcr {split} {seed} {number}")
            items = make_items(drawn.randint(low, high), needles, drawn.getrandbits(48))
            paper_id = f"mrcr-{split}-{number}"
            text = str(items[0].context)
            papers[paper_id] = Paper(paper_id, title=f"Conversation {number}", pages=(text,), engine="mrcr")
            for item in items:
                start = text.index(item.gold)
                span = Span(start, start + len(item.gold), 1.0, ((start, start + len(item.gold)),))
                queries.append(
                    Query(
                        id=f"{paper_id}-{item.metadata['index']}",
                        question=item.question,
                        paper_ids=(paper_id,),
                        evidence=(Evidence(paper_id, item.gold, span),),
                        group_id=paper_id,
                        provenance={"writer": "mrcr", "needles": needles, "tokens": item.metadata["tokens"]},
                    )
                )
            progress.advance()
    return queries, papers
