"""On real papers, publishers' paragraphs are found in the parser's text, and those of another paper are not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def alignment():
    spec = importlib.util.spec_from_file_location("alignment", ROOT / "benchmarks" / "alignment.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["alignment"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_publishers_paragraphs_are_found_where_they_are(shared_corpus, alignment):
    names = ["pmc-ocimum/PMC5450247", "jose/jose.00307"]  # two interleaved columns, and one column with code
    gold = {name: alignment.paragraphs_of(shared_corpus / f"{name}.jats.xml") for name in names}
    texts = {name: alignment.noisy_text(shared_corpus / f"{name}.pdf", None) for name in names}
    rows = [alignment.measure(a, gold[a], gold[b], texts[a]) for a, b in (names, names[::-1])]
    assert sum(r.paragraphs for r in rows) > 40
    held = sum(r.held for r in rows)
    assert sum(r.found for r in rows) >= 0.97 * held
    assert sum(r.exact for r in rows) >= 0.95 * held
    assert sum(r.foreign_found for r in rows) == 0
