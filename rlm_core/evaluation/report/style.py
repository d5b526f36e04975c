"""The page's style sheet: one column on a phone, trees side by side on a desk, light and dark by the reader's choice."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1d21; --soft: #5a6270; --line: #dfe3e8; --box: #f5f7f9;
  --warn-box: #fff4d9; --warn-ink: #664700; --mark: #bfeccb; --miss: #ffe0b8; --bad: #b3261e; --good: #176c38;
  --some: #8a5a00; --link: #1a5bb8; --bar: #2f7ed8; --bar-soft: #2f7ed877; --stripe: #fafbfc; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e5e8ec; --soft: #a0aab6; --line: #333a43;
  --box: #1d2228; --warn-box: #362b10; --warn-ink: #f3d794; --mark: #1c5a31; --miss: #5c3c10; --bad: #ff8a80;
  --good: #7fd69b; --some: #f0c060; --link: #8ab4f8; --bar: #6aa8f0; --bar-soft: #6aa8f088; --stripe: #181c21; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem 1rem 3rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0 .1rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .7rem; padding-top: .3rem; scroll-margin-top: 3rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p, ul { margin: .5rem 0; max-width: 48rem; } .soft { color: var(--soft); } a { color: var(--link); }
small, .small { font-size: .85rem; }
nav { position: sticky; top: 0; z-index: 3; background: var(--paper); border-bottom: 1px solid var(--line);
  margin: 1rem -1rem 0; padding: .45rem 1rem; display: flex; gap: .2rem 1.1rem; overflow-x: auto; font-size: .88rem;
  white-space: nowrap; scrollbar-width: none; }
nav a { text-decoration: none; } nav a:hover { text-decoration: underline; }
.warn { background: var(--warn-box); color: var(--warn-ink); padding: .6rem .9rem; border-radius: .5rem; margin: .9rem 0; }
.warn p { margin: .25rem 0; max-width: none; } .loud { font-weight: 700; font-size: 1.05rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .7rem; margin: 1.1rem 0 .4rem; }
.card { background: var(--box); border: 1px solid var(--line); border-radius: .6rem; padding: .6rem .85rem; }
.card b { display: block; font-size: 1.55rem; line-height: 1.25; font-variant-numeric: tabular-nums; letter-spacing: -.02em; }
.card span { color: var(--soft); font-size: .83rem; display: block; line-height: 1.35; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { text-align: right; padding: .36rem .55rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .left th, .left td { text-align: left; }
.wrap td { white-space: normal; min-width: 6rem; } .wide { min-width: 16rem !important; white-space: normal !important; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; overflow-wrap: normal;
  font-size: .8rem; }
tbody tr:nth-child(even) td { background: var(--stripe); }
.stick td:first-child, .stick th:first-child { position: sticky; left: 0; background: var(--paper); z-index: 1;
  border-right: 1px solid var(--line); }
tr.main td { font-weight: 650; }
.model { color: var(--soft); font-size: .76rem; font-weight: 400; line-height: 1; }
.range { position: relative; width: 13rem; min-width: 9rem; height: 1.1rem; }
.range i { position: absolute; top: .5rem; height: 2px; left: 0; right: 0;
  background: linear-gradient(90deg, var(--line) 0 50%, transparent 50% calc(50% + 2px), var(--line) calc(50% + 2px)); }
.range u { position: absolute; top: .3rem; height: .5rem; background: var(--bar-soft); border-radius: .1rem; min-width: 2px; }
.range s { position: absolute; top: .2rem; width: .7rem; height: .7rem; margin-left: -.35rem; border-radius: 50%;
  background: var(--bar); } .main .range s { box-shadow: 0 0 0 3px var(--bar-soft); }
.scale { display: flex; justify-content: space-between; } .scale b { font-weight: 500; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1.3rem 1.6rem;
  margin: 1rem 0; }
figure { margin: 0; min-width: 0; } figure svg { width: 100%; height: auto; display: block; }
figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .2rem; }
pre { background: var(--box); padding: .5rem .7rem; border-radius: .4rem; white-space: pre-wrap; font-size: .78rem;
  margin: .3rem 0; overflow-wrap: anywhere; font-family: ui-monospace, SFMono-Regular, Menlo, monospace; line-height: 1.4; }
pre.out { border-left: 3px solid var(--line); }
details { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem .75rem; margin: .5rem 0; }
details details { border-left-width: 3px; } summary { cursor: pointer; } summary b { margin-right: .4rem; }
.query > summary { display: flex; flex-wrap: wrap; gap: .25rem .6rem; align-items: baseline; }
.query > summary::before { content: "\\25B8"; color: var(--soft); } .query[open] > summary::before { content: "\\25BE"; }
.query > summary::-webkit-details-marker { display: none; }
.query > summary .q { flex: 1 1 18rem; font-weight: 600; }
.trees { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: .9rem; margin: .8rem 0; }
.tree { border: 1px solid var(--line); border-top: 3px solid var(--line); border-radius: .5rem; padding: .5rem .75rem;
  min-width: 0; }
.tree.at-good { border-top-color: var(--good); } .tree.at-some { border-top-color: var(--some); }
.tree.at-bad { border-top-color: var(--bad); }
.tree h4 { margin: 0; font-size: 1rem; display: flex; flex-wrap: wrap; gap: .3rem; align-items: baseline; }
.label { text-transform: uppercase; letter-spacing: .05em; font-size: .72rem; color: var(--soft); margin: .8rem 0 .2rem; }
mark, .gap { color: var(--ink); } mark { background: var(--mark); border-radius: .15rem; padding: 0 .05rem; }
.gap { background: var(--miss); border-radius: .15rem; }
blockquote { margin: .35rem 0; padding: .15rem .7rem; border-left: 3px solid var(--line); font-size: .86rem;
  white-space: pre-line; max-height: 20rem; overflow-y: auto; }
.bad { color: var(--bad); } .good { color: var(--good); } .some { color: var(--some); } .none { color: var(--soft); }
.tag { text-transform: none; letter-spacing: 0; font-size: .74rem;
  font-weight: 500; border: 1px solid currentColor; border-radius: .8rem; padding: 0 .5rem; }
footer { margin-top: 2.5rem; font-size: .85rem; color: var(--soft); border-top: 1px solid var(--line); padding-top: .8rem; }
@media (max-width: 40rem) { h1 { font-size: 1.35rem; } .range { width: 7rem; min-width: 6rem; }
  .card b { font-size: 1.25rem; } .cards { grid-template-columns: repeat(2, 1fr); } }
@media print { nav { display: none; } details { break-inside: avoid; } }
"""
