"""Near-duplicate papers: two versions of one text, found by the runs of words that they share.

Word statistics cannot tell a second version from a paper of the same authors on the same topic; runs of words can, for
different papers share but licences and phrases.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from hashlib import blake2b

from rlm_core.papers.records import Paper

RUN = 5
"""Words of a run. One wrong letter in a hundred, as OCR makes, still leaves 7 runs of 10 whole."""
DUPLICATE_SHARE = 0.2
"""Of the shorter paper's runs. On 25 real papers two OCR readings of one paper share at least 0.86, its OCR text and its
parser's text, columns interleaved, at least 0.28; two different papers, of one group of authors, at most 0.056."""
_COMMON = 20
"""A run that more papers than this share is boilerplate and says nothing."""


def near_duplicates(
    papers: Sequence[Paper], *, least_share: float = DUPLICATE_SHARE
) -> tuple[tuple[str, str, float], ...]:
    """Pairs of ids, each in order, with the share of the shorter paper's runs of words that the longer one has too.

    Time and memory grow with the number of words, not with the number of pairs.
    """
    runs = {paper.id: runs_of(paper.text) for paper in papers}
    holders: dict[int, list[str]] = defaultdict(list)
    for paper_id in sorted(runs):
        for run in runs[paper_id]:
            holders[run].append(paper_id)
    shared: Counter[tuple[str, str]] = Counter()
    for ids in holders.values():
        if 1 < len(ids) <= _COMMON:
            shared.update((a, b) for n, a in enumerate(ids) for b in ids[n + 1 :])
    found = []
    for (a, b), count in shared.items():
        share = count / min(len(runs[a]), len(runs[b]))
        if share >= least_share:
            found.append((a, b, round(share, 4)))
    return tuple(sorted(found))


def runs_of(text: str) -> frozenset[int]:
    """Hashes (64 bits) of all runs of `RUN` words; letters only, case aside."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    words = re.findall(r"[^\W\d_]+", plain)
    return frozenset(
        int.from_bytes(blake2b(" ".join(words[n : n + RUN]).encode(), digest_size=8).digest(), "big")
        for n in range(len(words) - RUN + 1)
    )
