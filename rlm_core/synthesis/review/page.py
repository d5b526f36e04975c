"""The page itself: plain HTML with its own style and script, and every text from outside escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from rlm_core.records import Query
from rlm_core.synthesis.marks import MAX_WORD, Mark


@dataclass(frozen=True, slots=True)
class Shown:
    """One evidence passage as it is shown; `image` is the address of its page, None where no PDF is at hand."""

    paper_id: str
    title: str
    text: str
    page: int | None
    image: str | None
    marks: tuple[tuple[float, float, float, float], ...]
    """Boxes in percent of the page: left, top, width, height."""


def render(rows: Sequence[tuple[Query, Sequence[Shown]]], marks: Mapping[str, Mark], *, token: str, nonce: str) -> str:
    """`token` goes with every mark that the page sends; `nonce` is that of the content security policy."""
    cards = "".join(_card(number, query, shown, marks.get(query.id)) for number, (query, shown) in enumerate(rows, 1))
    done = sum(query.id in marks for query, _ in rows)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Questions to read</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style nonce="{nonce}">{_STYLE}</style></head>
<body data-token="{escape(token, quote=True)}">
<header><h1>Questions to read</h1>
<p>Is this a question that a reader could ask, and is the marked evidence what answers it? Keys: <kbd>g</kbd> good,
<kbd>b</kbd> bad, <kbd>j</kbd> and <kbd>k</kbd> next and previous.</p>
<p id="count"><b>{done}</b> of {len(rows)} marked</p></header>
<main>{cards}</main><script nonce="{nonce}">{_SCRIPT}</script></body></html>
"""


def _card(number: int, query: Query, shown: Sequence[Shown], mark: Mark | None) -> str:
    verdict = mark.verdict if mark else ""
    word = escape(mark.word, quote=True) if mark else ""
    buttons = "".join(
        f'<button type="button" data-verdict="{v}" aria-pressed="{str(v == verdict).lower()}">{v.capitalize()}</button>'
        for v in ("good", "bad")
    )
    details = json.dumps(
        {"id": query.id, "papers to read": list(query.paper_ids), **query.provenance}, ensure_ascii=False, indent=1
    )
    return f"""<article id="q{number}" tabindex="-1" data-id="{escape(query.id, quote=True)}" data-state="{verdict}">
<h2><span>{number}</span> {escape(query.question)}</h2>
<p class="kind">{escape(query.kind)}, tier {escape(query.tier)}, {len(query.evidence)} passage(s)</p>
{"".join(map(_evidence, shown))}
<p class="mark">{buttons}
<input type="text" maxlength="{MAX_WORD}" placeholder="a word, if you like" aria-label="remark" value="{word}">
<output></output></p>
<details><summary>Where it comes from</summary><pre>{escape(details)}</pre></details></article>
"""


def _evidence(shown: Shown) -> str:
    where = f"{shown.paper_id}, page {shown.page}" if shown.page else shown.paper_id
    caption = f"<figcaption><b>{escape(where)}</b> {escape(shown.title)}</figcaption>"
    picture = "<p class='none'>No page image: the paper is text without a PDF.</p>"
    if shown.image:
        boxes = "".join(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}"></rect>' for x, y, w, h in shown.marks
        )
        picture = (
            f'<div class="sheet"><img loading="lazy" src="{escape(shown.image, quote=True)}" alt="page {shown.page}">'
            f'<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">{boxes}</svg></div>'
        )
        if not shown.marks:
            picture += "<p class='none'>The page is known, the place on it is not.</p>"
    return f'<figure>{caption}<div class="pair"><blockquote>{escape(shown.text)}</blockquote>{picture}</div></figure>'


_STYLE = """
:root{color-scheme:light dark;--line:#8886;--good:#2a8a4a;--bad:#c0392b}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:0 1rem 4rem}
header{position:sticky;top:0;background:Canvas;padding:.3rem 0;border-bottom:1px solid var(--line);z-index:2}
h1{font-size:1.1rem;margin:.2rem 0}header p{margin:.1rem 0;font-size:.9rem}
article{border:1px solid var(--line);border-left:6px solid var(--line);border-radius:6px;padding:.6rem 1rem;margin:1rem 0;
scroll-margin-top:7rem;outline-offset:2px}
article[data-state=good]{border-left-color:var(--good)}article[data-state=bad]{border-left-color:var(--bad)}
h2{font-size:1.15rem;margin:.2rem 0}h2 span{color:GrayText}.kind,.none{color:GrayText;margin:.1rem 0;font-size:.9rem}
figure{margin:.7rem 0}.pair{display:grid;grid-template-columns:minmax(15rem,2fr) 3fr;gap:1rem;align-items:start}
@media(max-width:760px){.pair{grid-template-columns:1fr}}
blockquote{margin:0;padding:.4rem .8rem;background:#ffd54f33;border-radius:4px}
.sheet{position:relative;border:1px solid var(--line);max-height:75vh;overflow:auto}
.sheet img{display:block;width:100%}.sheet svg{position:absolute;left:0;top:0;width:100%}
.sheet rect{fill:#ffd54f66;stroke:#e69100;stroke-width:2px;vector-effect:non-scaling-stroke}
button{font:inherit;padding:.2rem 1rem;border-radius:4px;border:1px solid var(--line);cursor:pointer}
button[aria-pressed=true][data-verdict=good]{background:var(--good);color:#fff}
button[aria-pressed=true][data-verdict=bad]{background:var(--bad);color:#fff}
.mark input{font:inherit;width:min(26rem,60%);padding:.2rem .4rem}pre{overflow:auto;white-space:pre-wrap;font-size:.8rem}
"""

_SCRIPT = """
const token = document.body.dataset.token, cards = [...document.querySelectorAll("article")];
const fit = img => { const svg = img.nextElementSibling; svg.style.height = img.clientHeight + "px";
  const rect = svg.querySelector("rect");
  if (rect) img.parentElement.scrollTop = Math.max(0, rect.getAttribute("y") / 100 * img.clientHeight - 60); };
const pages = document.querySelectorAll(".sheet img");
pages.forEach(img => { img.complete ? fit(img) : img.addEventListener("load", () => fit(img)); });
addEventListener("resize", () => pages.forEach(fit));
async function mark(card, verdict) {
  const out = card.querySelector("output");
  try {
    const answer = await fetch("/marks", {method: "POST",
      headers: {"Content-Type": "application/json", "X-Review-Token": token},
      body: JSON.stringify({query_id: card.dataset.id, verdict, word: card.querySelector("input").value})});
    if (!answer.ok) throw new Error(await answer.text());
    card.dataset.state = verdict; out.textContent = "kept";
    card.querySelectorAll("button").forEach(b => b.setAttribute("aria-pressed", b.dataset.verdict === verdict));
    document.querySelector("#count b").textContent = cards.filter(c => c.dataset.state).length;
  } catch (error) { out.textContent = "NOT kept: " + error.message; }
}
let at = -1;
const go = step => { at = Math.min(cards.length - 1, Math.max(0, at + step)); cards[at].focus(); cards[at].scrollIntoView(); };
cards.forEach((card, n) => {
  card.addEventListener("focusin", () => { at = n; });
  card.querySelectorAll("button").forEach(b => b.addEventListener("click", () => mark(card, b.dataset.verdict)));
  card.querySelector("input").addEventListener("change", () => card.dataset.state && mark(card, card.dataset.state));
});
addEventListener("keydown", event => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") go(1); else if (event.key === "k") go(-1);
  else if (at >= 0 && event.key === "g") mark(cards[at], "good"); else if (at >= 0 && event.key === "b") mark(cards[at], "bad");
});
"""
