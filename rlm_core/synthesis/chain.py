"""The best chain of common runs: in the passage's order, cheap where the text reads on, dearer where it jumps.

A run (g, n, length) says that `length` letters of the passage from g on stand in the text from n on. Parser text holds
a passage in order but with foreign text between (the other column's lines, a running head, a float), and where a
passage goes on at the top of the next column it may even jump back. A chain's score is its
matched letters less its gaps' costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlm_core.synthesis.streams import Ints

MAX_JUMP = 12_000
"""Letters: about two dense pages; a passage does not go on further away than that."""
JUMP_COST = 3.0
BACK_COST = 8.0
"""Added for a jump back: rare, so it needs more letters as proof."""
INLINE_COST = 16.0
"""Added for a jump that neither leaves at a line's end nor arrives at a line's start: columns, heads and floats do one or
the other, whereas another paragraph that shares phrases with the passage does not."""
MIN_GAIN = 4


def best_chain(runs: Ints, lines: Ints) -> Ints:
    """[C, 3] the chain of highest score among [M, 3] runs, in passage order; its runs may overlap a little.

    `lines`: [L] text letters at which a line begins or ends, sorted, 0 and the text's length among them.
    Quadratic in M, with vector operations over all predecessors of a run.
    """
    if len(runs) == 0:
        return runs
    order = np.lexsort((runs[:, 1], runs[:, 0]))
    start_G, start_N, length = (runs[order, column].astype(np.float64) for column in range(3))
    end_G, end_N = start_G + length, start_N + length
    line_end_N = _line_after(end_N - 3, lines)
    line_start_N = -_line_after(-(start_N + 3), -lines[::-1])
    score = length.copy()
    previous = np.full(len(runs), -1)
    for j in range(1, len(runs)):
        # Overlap with the predecessor in the passage, and in the text where it reads on, is counted once.
        overlap = np.maximum(end_G[:j] - start_G[j], 0)
        ahead = start_N[j] >= start_N[:j]
        overlap = np.where(ahead, np.maximum(overlap, end_N[:j] - start_N[j]), overlap)
        overlap = np.maximum(overlap, 0)
        gain = length[j] - overlap
        gap_G = start_G[j] + overlap - end_G[:j]
        gap_N = start_N[j] + overlap - end_N[:j]
        shift = np.abs(gap_N - gap_G)
        near = (gap_N >= 0) & (shift <= 8)
        at_line = (line_end_N[:j] <= end_N[:j] + gap_G + 3) | (line_start_N[j] >= start_N[j] - gap_G - 3)
        jump = JUMP_COST + 0.7 * np.log2(1 + shift) + np.where(gap_N < 0, BACK_COST, 0.0)
        jump += np.where(at_line, 0.0, INLINE_COST)
        cost = np.where(near, 0.2 * shift, jump) + 0.02 * gap_G
        back_overlap = ~ahead & (end_N[j] > start_N[:j])
        total = score[:j] + gain - cost
        total[(gain < MIN_GAIN) | (np.abs(gap_N) > MAX_JUMP) | back_overlap] = -np.inf
        best = int(np.argmax(total))
        if total[best] > score[j]:
            score[j] = total[best]
            previous[j] = best
    chain: list[int] = [int(np.argmax(score))]
    while previous[chain[-1]] >= 0:
        chain.append(int(previous[chain[-1]]))
    chain.reverse()
    return runs[order[chain]]


def _line_after(places: NDArray[np.float64], lines: Ints) -> NDArray[np.float64]:
    """[M] the first of the sorted `lines` at or after each place; infinity where there is none."""
    bounds = np.concatenate((lines.astype(np.float64), [np.inf]))
    return bounds[np.searchsorted(lines, places)]
