"""The page as a Jinja template: no script, no outside resource.

Escaping is on for all values; `|safe` stands on our own SVG only.
"""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1d1f22; --soft: #5c6470; --line: #d9dde3; --box: #f4f6f8;
  --warn-box: #fff3d6; --warn-ink: #6b4a00; --mark: #c9efcf; --bad: #b3261e; --good: #1b7a3d; --link: #1f5fbf; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181c; --ink: #e4e7eb; --soft: #9aa4b1;
  --line: #333a43; --box: #1e2329; --warn-box: #3a2f12; --warn-ink: #f1d48a; --mark: #1d4d2b; --bad: #ff8a80;
  --good: #7fd69b; --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p, ul { margin: .5rem 0; } .soft { color: var(--soft); } a { color: var(--link); }
.warn { background: var(--warn-box); color: var(--warn-ink); padding: .6rem .8rem; border-radius: .4rem; margin: .8rem 0; }
.warn p { margin: .25rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child, .left th, .left td { text-align: left; }
.wrap td { white-space: normal; min-width: 7rem; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom;
  overflow-wrap: normal; }
.best td { font-weight: 700; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; overflow-x: auto; } figure svg { width: 100%; min-width: 22rem; height: auto; display: block; }
figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .2rem; }
pre { background: var(--box); padding: .5rem .7rem; border-radius: .35rem; white-space: pre-wrap; font-size: .8rem;
  margin: .3rem 0; overflow-wrap: anywhere; font-family: ui-monospace, monospace; line-height: 1.4; }
pre.out { border-left: 3px solid var(--line); }
details { border: 1px solid var(--line); border-radius: .4rem; padding: .35rem .7rem; margin: .4rem 0; }
details details { border-left-width: 3px; }
summary { cursor: pointer; } summary b { margin-right: .4rem; }
mark { background: var(--mark); color: inherit; border-radius: .15rem; }
blockquote { margin: .4rem 0; padding: .2rem .8rem; border-left: 3px solid var(--line); font-size: .9rem; }
.bad { color: var(--bad); } .good { color: var(--good); }
.tag { font-size: .75rem; border: 1px solid currentColor; border-radius: .8rem; padding: 0 .45rem; margin-left: .3rem; }
footer { margin-top: 2.5rem; font-size: .85rem; color: var(--soft); }
"""

PAGE = (
    """{% macro status(n) %}
<span class="tag {{ 'good' if n.answered else 'bad' }}">{{ n.status.replace('_', ' ') }}</span>
{% endmacro %}
{% macro node(n) %}
  {% for turn in n.turns %}
  <p class="soft">Turn {{ turn.number }}, {{ turn.seconds|number(1) }} s
    {% if turn.error %}<span class="tag bad">{{ turn.error }}</span>{% endif %}</p>
  <pre>{{ turn.text }}</pre>
  {% if turn.observation %}<pre class="out">{{ turn.observation }}</pre>{% endif %}
  {% for child in turn.children %}{{ child_box(child) }}{% endfor %}
  {% endfor %}
  {% for child in n.others %}{{ child_box(child) }}{% endfor %}
  <p class="soft">Answer {{ status(n) }}</p>
  {% if n.failure %}<pre class="out">{{ n.failure }}</pre>{% endif %}
  {% for passage in n.answer %}
  <blockquote>{% for text, gold in passage %}
    {%- if gold %}<mark>{{ text }}</mark>{% else %}{{ text }}{% endif -%}
  {% endfor %}</blockquote>
  {% else %}<p>no text: <code>{{ n.raw_answer }}</code></p>{% endfor %}
{% endmacro %}
{% macro child_box(child) %}
  <details><summary><b>child</b> {{ child.question }}
    {{ status(child) }}</summary>
  {{ node(child) }}</details>
{% endmacro %}
{% macro figures(list) %}
<div class="plots">{% for plot in list %}
<figure><figcaption>{{ plot.title }}</figcaption>{{ plot.svg|safe }}</figure>{% endfor %}
</div>{% endmacro %}
{% macro facts_table(rows) %}
<div class="scroll"><table class="left wrap">{% for name, value in rows %}
<tr><td>{{ name }}</td><td>{{ value }}</td></tr>{% endfor %}
</table></div>{% endmacro %}
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>Recursive language model: evaluation</title>
<style>"""
    + STYLE
    + """</style></head>
<body>
<h1>Recursive language model: evaluation</h1>
<p class="soft">Finding evidence in papers from their noisy text. Judge: {{ judge }}. Test queries: {{ n }}.</p>
{% if notes %}<div class="warn">{% for note in notes %}<p>{{ note }}</p>{% endfor %}</div>{% endif %}

<h2>Result</h2>
<div class="scroll"><table>
<tr>{% for header in headers %}<th>{{ header }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
<p class="soft">judge: mean of (precision + recall) / 20, with a 95 % interval resampled over sets of papers. F1: over letters,
against the gold passages. format: share that ended in an answer as asked. seconds: wall time of a rollout while others ran
beside it. Samples that could not be scored are left out, never counted as 0.</p>

{{ figures(plots) }}

{% if comparisons %}<h2>Differences between arms</h2>
<div class="scroll"><table>
<tr><th>pair</th><th>metric</th><th>difference</th><th>95 % interval</th><th>p (Holm)</th><th>effect d</th>
<th>better / same / worse</th><th>clear</th></tr>
{% for c in comparisons %}<tr><td>{{ c.pair }}</td><td>{{ c.metric }}</td><td>{{ c.difference }}</td><td>{{ c.interval }}</td>
<td>{{ c.p }}</td><td>{{ c.effect }}</td><td>{{ c.counts }}</td><td>{{ c.significant }}</td></tr>
{% endfor %}</table></div>
<p class="soft">Paired by query. Intervals by bootstrap over sets of papers, p-values by flipping their signs, adjusted for the
number of pairs within a metric. clear: p at most 0.05 after adjustment.</p>{% endif %}

<h2>More figures</h2>
<div class="scroll"><table>
<tr><th>arm</th>{% for header in detail_headers %}<th>{{ header }}</th>{% endfor %}</tr>
{% for name, cells in details %}<tr><td>{{ name }}</td>{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</table></div>

<h2>What was a model and what was not</h2>
<div class="scroll"><table class="left wrap">
{% for part, what, stand_in in scripted %}<tr><td>{{ part }}</td><td>{{ what }}
{% if stand_in %}<span class="tag bad">scripted or synthetic</span>{% endif %}</td></tr>
{% endfor %}</table></div>

{% if training %}<h2>Reinforcement learning</h2>
{{ figures(training) }}{% endif %}
{% if sft %}<h2>Distillation</h2>
{{ figures(sft) }}{% endif %}

<h2>Failures by cause</h2>
{% if failures %}<div class="scroll"><table class="left">
<tr><th>arm</th><th>cause</th><th>samples</th><th>example</th></tr>
{% for f in failures %}<tr><td>{{ f.arm }}</td><td>{{ f.cause }}</td><td>{{ f.count }}</td><td>{{ f.example }}</td></tr>
{% endfor %}</table></div>{% else %}<p>None.</p>{% endif %}
{% if turn_errors %}<h3>Turns with an error</h3>
<div class="scroll"><table class="left">
{% for name, errors in turn_errors.items() %}<tr><td>{{ name }}</td>
<td>{% for error, times in errors.items() %}{{ error }}: {{ times }}{{ ", " if not loop.last }}{% endfor %}</td></tr>
{% endfor %}</table></div>{% endif %}

{% if queries %}<h2>Rollouts before and after training</h2>
<p class="soft">Chosen by kind and order, not by score. <mark>Marked</mark>: words that stand in the gold evidence.</p>
{% for q in queries %}
<h3>{{ q.question }}</h3>
<details><summary>Gold evidence, {{ q.gold|length }} passage(s), {{ q.kind }}</summary>
{% for passage in q.gold %}
<blockquote><span class="soft">{{ passage.paper_id }}</span> {{ passage.text }}</blockquote>
{% endfor %}</details>
{% for tree in q.trees %}
<details><summary><b>{{ tree.arm }}</b>
{% if tree.judgement %}judge {{ tree.judgement.reward|number(2) }}{% else %}not judged{% endif %}, F1 {{ tree.f1|number(2) }},
{{ tree.usage.turns }} turns, {{ tree.usage.children }} children, {{ tree.tokens|count }} tokens
{% if tree.cause and tree.cause != "none" %}<span class="tag bad">{{ tree.cause.replace('_', ' ') }}</span>{% endif %}</summary>
{% if tree.judgement and tree.judgement.rationale %}<p class="soft">Judge: {{ tree.judgement.rationale }}</p>{% endif %}
{{ node(tree.node) }}
</details>
{% endfor %}{% endfor %}{% endif %}

{% if counts %}<h2>Data</h2>
{% for name, rows in counts %}<details{% if loop.first %} open{% endif %}>
<summary><b>{{ name }}</b></summary>{{ facts_table(rows) }}</details>
{% endfor %}{% endif %}

<h2>How this was made</h2>
<details><summary>Settings, weights and versions</summary>{{ facts_table(provenance) }}</details>
<div class="scroll"><table class="left wrap">{% for command, what in commands %}
<tr><td><code>{{ command }}</code></td><td>{{ what }}</td></tr>{% endfor %}
</table></div>
<footer>{% for name, value in made.items() %}{{ name }}: {{ value }}{{ " | " if not loop.last }}{% endfor %}</footer>
</body></html>
"""
)
