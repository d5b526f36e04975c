"""The page as a Jinja template: no script, no outside resource.

Escaping is on for all values; `|safe` stands on our own SVG only.
"""

from rlm_core.evaluation.report.style import STYLE

PAGE = (
    """{% macro status(n) %}
<span class="tag {{ 'good' if n.answered else 'bad' }}">{{ n.status.replace('_', ' ') }}</span>
{% endmacro %}
{% macro pieces(passage, miss) %}{% for text, found in passage -%}
  {% if found %}<mark>{{ text }}</mark>
  {%- elif miss and text.strip() %}<span class="gap">{{ text }}</span>
  {%- else %}{{ text }}{% endif %}
{%- endfor %}{% endmacro %}
{% macro node(n) %}
  {% for turn in n.turns %}
  <p class="soft small">Turn {{ turn.number }}, {{ turn.seconds|number(1) }} s
    {% if turn.error %}<span class="tag bad">{{ turn.error }}</span>{% endif %}</p>
  <pre>{{ turn.text }}</pre>
  {% if turn.observation %}<pre class="out">{{ turn.observation }}</pre>{% endif %}
  {% for child in turn.children %}{{ child_box(child) }}{% endfor %}
  {% endfor %}
  {% for child in n.others %}{{ child_box(child) }}{% endfor %}
{% endmacro %}
{% macro child_box(child) %}
  <details><summary><b>child</b> {{ child.question }} {{ status(child) }}</summary>
  {{ node(child) }}
  {% if child.failure %}<pre class="out">{{ child.failure }}</pre>{% endif %}
  {% for passage in child.answer %}<blockquote>{{ passage }}</blockquote>
  {% else %}<p class="small">no text: <code>{{ child.raw_answer }}</code></p>{% endfor %}
  </details>
{% endmacro %}
{% macro tree_box(tree) %}
<div class="tree at-{{ tree.level }}">
<h4>{{ tree.arm }} <span class="{{ tree.level }}">
  {%- if tree.judgement %}{{ tree.judgement.reward|number(2) }}{% else %}not judged{% endif %}</span>
  {% if tree.cause and tree.cause != "none" %}<span class="tag bad">{{ tree.cause.replace('_', ' ') }}</span>{% endif %}</h4>
<p class="soft small">F1 {{ tree.f1|number(2) }}, {{ tree.usage.turns }} turns, {{ tree.usage.children }} children,
  {{ tree.tokens|count }} tokens, {{ tree.usage.wall_seconds|number(1) }} s</p>
{% if tree.judgement and tree.judgement.rationale %}<p class="soft small">Judge: {{ tree.judgement.rationale }}</p>{% endif %}
<p class="label">Answer {{ status(tree.node) }}</p>
{% if tree.node.failure %}<pre class="out">{{ tree.node.failure }}</pre>{% endif %}
{% for passage in tree.answer %}<blockquote>{{ pieces(passage, false) }}</blockquote>
{% else %}<p class="small">no text: <code>{{ tree.node.raw_answer }}</code></p>{% endfor %}
<details><summary class="small">Gold evidence, found and missed</summary>
{% for passage in tree.found %}<blockquote>{{ pieces(passage, true) }}</blockquote>{% endfor %}</details>
<details><summary class="small">Turns</summary>{{ node(tree.node) }}</details>
</div>
{% endmacro %}
{% macro figures(list) %}
<div class="plots">{% for plot in list %}
<figure><figcaption>{{ plot.title }}</figcaption>{{ plot.svg|safe }}</figure>{% endfor %}
</div>{% endmacro %}
{% macro folded(list, title) %}
{{ figures(list[:first]) }}
{% if list[first:] %}<details><summary>{{ title }} ({{ list[first:]|length }})</summary>
{{ figures(list[first:]) }}</details>{% endif %}
{% endmacro %}
{% macro facts_table(rows) %}
<div class="scroll"><table class="left wrap"><tbody>{% for name, value in rows %}
<tr><td>{{ name }}</td><td>{{ value }}</td></tr>{% endfor %}
</tbody></table></div>{% endmacro %}
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
<p class="soft">Finding evidence in papers from their noisy text. Judge: {{ judge }}. {{ n }} test queries
{%- if clusters %} over {{ clusters }} sets of papers{% endif %}.
{%- for name, value in made.items() if name == "made" %} Made {{ value }}.{% endfor %}</p>
{% if loud %}<div class="warn">{% for note in loud %}<p class="loud">{{ note }}</p>{% endfor %}</div>{% endif %}
<div class="cards">{% for card in cards %}
<div class="card"><b>{{ card.value }}</b><span>{{ card.text }}</span></div>{% endfor %}</div>
<nav><a href="#result">Result</a>{% if comparisons %}<a href="#differences">Differences</a>{% endif %}
{% if training or sft %}<a href="#training">Training</a>{% endif %}<a href="#failures">Failures</a>
{% if queries %}<a href="#rollouts">Rollouts</a>{% endif %}<a href="#parts">What was a model</a>
<a href="#made">How it was made</a></nav>

<h2 id="result">Result</h2>
<div class="scroll"><table class="stick"><thead>
<tr><th>arm</th><th>judge</th><th><div class="range scale"><b>0</b><b>0.5</b><b>1</b></div></th><th>95 % interval</th>
{% for header in headers %}<th>{{ header }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows %}<tr{% if row.main %} class="main"{% endif %}><td>{{ row.name }}<br>
<span class="model">{{ row.model }}</span></td><td>{{ row.judge }}</td>
<td>{% if row.bar %}<div class="range"><i></i><u style="left:{{ row.bar.low }}%;width:{{ row.bar.width }}%"></u>
<s style="left:{{ row.bar.mean }}%"></s></div>{% endif %}</td><td>{{ row.interval }}</td>
{% for cell in row.cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
<p class="soft small">judge: mean of (precision + recall) / 20, with a 95 % interval resampled over sets of papers. F1: over
letters, against the gold passages, all papers in one. F1 by paper: its mean over the papers of gold and answer, a passage
counting for the paper it stands in. papers: F1 of the papers chosen. format: share that ended in an answer as asked. pass@k:
unbiased estimate 1 - C(n-c, k) / C(n, k) (Chen et al. 2021). seconds: wall time of a rollout while others ran beside it. cost:
by the endpoint's prices; - is unknown. Samples that could not be scored are left out, never counted as 0.</p>
{% if notes %}<div class="warn small">{% for note in notes %}<p>{{ note }}</p>{% endfor %}</div>{% endif %}

{{ figures(plots) }}

{% if comparisons %}<h2 id="differences">Differences between arms</h2>
<div class="scroll"><table class="stick"><thead>
<tr><th>pair</th><th>question</th><th>metric</th><th>difference</th><th>95 % interval</th><th>p (Holm)</th><th>effect d</th>
<th>better / same / worse</th><th>clear</th></tr></thead><tbody>
{% for c in comparisons %}<tr><td>{{ c.pair }}</td><td>{{ c.family }}</td><td>{{ c.metric }}</td><td>{{ c.difference }}</td>
<td>{{ c.interval }}</td><td>{{ c.p }}</td><td>{{ c.effect }}</td><td>{{ c.counts }}</td>
<td class="{{ 'good' if c.significant == 'yes' else 'none' }}">{{ c.significant }}</td></tr>
{% endfor %}</tbody></table></div>
<p class="soft small">Paired by query; the pairs were fixed before any score was seen. Intervals by bootstrap over sets of
papers, p-values by flipping their signs, adjusted (Holm) for the number of pairs of a question and metric. effect d: mean
difference over its standard deviation. clear: p at most 0.05 after adjustment.</p>{% endif %}

<details><summary>More figures of each arm</summary>
<div class="scroll"><table class="stick"><thead>
<tr><th>arm</th>{% for header in detail_headers %}<th>{{ header }}</th>{% endfor %}</tr></thead><tbody>
{% for name, cells in details %}<tr><td>{{ name }}</td>{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div></details>

{% if training or sft %}<h2 id="training">Training</h2>{% endif %}
{% if training %}<h3>Reinforcement learning</h3>
{% if guard.text %}<p{% if guard.apart %} class="warn loud"{% endif %}>{{ guard.text }}</p>{% endif %}
{{ folded(training, "More curves of reinforcement learning") }}{% endif %}
{% if sft %}<h3>Distillation</h3>
{{ folded(sft, "More curves of distillation") }}{% endif %}

<h2 id="failures">Failures by cause</h2>
{% if failures %}{{ figures(failure_plots) }}
<details><summary>An example of each cause ({{ failures|length }})</summary>
<div class="scroll"><table class="left"><thead>
<tr><th>arm</th><th>cause</th><th>samples</th><th>example</th><th>what happened in it</th></tr></thead><tbody>
{% for f in failures %}<tr><td>{{ f.arm }}</td><td>{{ f.cause }}</td><td>{{ f.count }}</td>
<td><small>{% if f.query_id in shown %}<a href="#q-{{ f.query_id }}">{{ f.example }}</a>
{%- else %}{{ f.example }}{% endif %}</small></td>
<td class="wide small">{{ f.detail }}</td></tr>
{% endfor %}</tbody></table></div></details>{% else %}<p>None.</p>{% endif %}
{% if turn_errors %}<details><summary>Turns with an error</summary>
<div class="scroll"><table class="left"><tbody>
{% for name, errors in turn_errors.items() %}<tr><td>{{ name }}</td>
<td class="wide">
{%- for error, times in errors.items() %}{{ error }}: {{ times }}{{ ", " if not loop.last }}{% endfor %}</td></tr>
{% endfor %}</tbody></table></div></details>{% endif %}

{% if queries %}<h2 id="rollouts">Rollouts before and after training</h2>
<p class="soft small">The same question, one sample an arm. <mark>Green</mark>: letters of the answer that are gold evidence,
as the F1 counts them. <span class="gap">Amber</span>: gold evidence that the answer misses.</p>
{% for q in queries %}
<details class="query" id="q-{{ q.query_id }}"{% if loop.first %} open{% endif %}><summary>
<span class="q">{{ q.question }}</span>
{% for tree in q.trees %}<span class="small">{{ tree.arm }} <b class="{{ tree.level }}">
{%- if tree.judgement %}{{ tree.judgement.reward|number(2) }}{% else %}-{% endif %}</b></span>{% endfor %}
<span class="tag soft">{{ q.kind }}</span><span class="tag soft">{{ q.why }}</span></summary>
<details><summary class="small">Gold evidence, {{ q.gold|length }} passage(s)</summary>
{% for passage in q.gold %}
<blockquote><span class="soft">{{ passage.paper_id }}</span> {{ passage.text }}</blockquote>
{% endfor %}</details>
<div class="trees">{% for tree in q.trees %}{{ tree_box(tree) }}{% endfor %}</div>
</details>{% endfor %}{% endif %}

<h2 id="parts">What was a model and what was not</h2>
<div class="scroll"><table class="left wrap"><tbody>
{% for part, what, stand_in in scripted %}<tr><td>{{ part }}</td><td>{{ what }}</td>
<td>{% if stand_in %}<span class="tag bad">scripted or synthetic</span>
{% else %}<span class="tag good">real</span>{% endif %}</td></tr>
{% endfor %}</tbody></table></div>

{% if judge_check %}<h3>The judge's check of itself, on labelled answers</h3>{{ facts_table(judge_check) }}{% endif %}

{% if counts %}<h2>Data</h2>
{% for name, rows in counts %}<details>
<summary><b>{{ name }}</b></summary>{{ facts_table(rows) }}</details>
{% endfor %}{% endif %}

<h2 id="made">How this was made</h2>
<div class="scroll"><table class="left wrap"><tbody>{% for command, what in commands %}
<tr><td><code>{{ command }}</code></td><td>{{ what }}</td></tr>{% endfor %}
</tbody></table></div>
<details><summary>Settings, weights and versions</summary>{{ facts_table(provenance) }}</details>
<footer>{% for name, value in made.items() %}{{ name }}: {{ value }}{{ " | " if not loop.last }}{% endfor %}</footer>
</body></html>
"""
)
