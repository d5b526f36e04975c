"""Words of a text: tokens, light stems, and the words that carry no topic."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[^\W_]+(?:['’\-‐‑][^\W_]+)*")

_STOP_WORDS = """
whenever whichever wherever whatever whoever assume assumes deserve deserves follows add adds ask asks call calls come comes
creak creaks die dies divide divides drive drives dry exist exists fail fails fits give go goes hang happen happens help helps
hide hides host hosts imply implies lie lies live lives lose loses mean meet meets move moves open opens pay pays prefer prefers
promote promotes reach reaches rely relies rest rests seal seals stand stands stay stays stood stop stops survive survives swim
swims switch tell tells track tracks vary varies wait waits want wants write writes encourage advise attenuate delegate append
used uses use shown showed shows show found finds took take takes led leads kept keep keeps held holds fell falls rose rises ran
runs went came grew grows lost saw seen known knew said says gets got puts yielded yields remain remains
whilst amongst regarding concerning according including following using besides despite beyond upon toward introduce
teach fig figs table tables eq eqs sec thank thanks
a about above across after again against all almost along already also although always am among an and another any
are aren't around as at away back be became because become becomes been before being below between both but by came
can cannot could did do does doing done down due during each either else enough especially even ever every few first
for from further gave get give given gives go had has have having he hence her here hers him his how however i if in
indeed instead into is it its itself just last later least less let like likely made make makes many may me might
more most much must my near nearly neither never next no nor not now of off often on once one only onto or other
others otherwise our ours out over own per perhaps quite rather same second several shall she should since so some
still such than that the their them then there thereby therefore these they third this those though three through
throughout thus to together too toward towards two under unless until up upon us very via was we well went were what
when where whereas whether which while who whole whom whose why will with within without would yet you your et al eg
ie vs etc respectively namely
"""
STOP = frozenset(_STOP_WORDS.split())

_VAGUE_WORDS = """
able account addition aim aims allow allows amount amounts analyses analysis answer appear appears approach
approaches argue article aspect aspects author authors based basis begin begins better bring case cases cause causes
certain change changes choice clear close come common compare comparison conclude conclusion conclusions consider
contain contains contribution cost data day days depend depends describe describes detail details differ difference
differences different discuss discussion effect effects evidence example examples expect explain extent fact factor
factors fall feature features field fig figure figures find finding findings finds follow following follows form
found full function general good great group groups half hand help high higher hold holds hour hours hypothesis idea
important improve include includes including increase increases indicate indicates information introduction issue
issues keep kind know knowledge large larger latter lead leads left level levels limit limitation limitations line
list little long low lower main major manuscript matter mean means measure measures method methods model models
month months move nature need needs new note number numbers observe observed obtain obtained order paper papers part
particular parts percent period place play point points possible potential present presence previous problem
problems process processes produce property propose prove provide provides purpose question questions range rate
rates reach reason recent reduce related relation remain remains report reports require requires research respect
rest result results review right rise role run sample samples section see seem seems seen sense series set sets show
shown shows side similar simple single size small start state step steps study studies subject suggest suggests
support system table tables take takes technique term terms test tests thing things time times total trial trials
try turn type types unit units use used useful user users uses using usual value values variety various view way
ways week weeks work works year years yield yields zero
"""
_VAGUE_QUALITIES = """
 actual additional biggest earliest entire great greater high-level initial interesting major newer newest novel overall
particular performant respective richer significant significantly specific successful upcoming various vast
"""
VAGUE = frozenset((_VAGUE_WORDS + _VAGUE_QUALITIES).split())
"""Words that papers on anything use; a key phrase may hold one, but not begin with one, nor consist of them."""

_VERB_WORDS = """
achieve acquire adopt alleviate amplify analyze apply arise assess commence communicate compete compile comply comprise
conform consist constitute convert convey correspond decouple deduce define demonstrate deploy determine disrupt emit
employ enable encompass enhance ensure establish evaluate evolve examine execute exhibit facilitate fluctuate generate
govern identify illustrate implement imply incorporate incur induce infer inform ingest inhibit initiate insert inspect
instantiate integrate interfere interpret invoke involve justify maintain minimize mitigate modify mutate necessitate
notify observe obtain operate optimize originate outperform overcome participate perform persist possess preserve
proceed provide quantify realize recognize reject represent reproduce reside resolve restrict retrieve satisfy simplify
simulate specify stabilize stimulate suffer surpass sustain synthesize tend translate transmit undergo unify utilize
validate verify visualize
"""


def _forms(verb: str) -> set[str]:
    """Base and third person, British spelling too; "-ing" begins terms of its own ("integrating sphere").

    >>> sorted(_forms("realize"))
    ['realise', 'realises', 'realize', 'realizes']
    """
    third = (
        verb[:-1] + "ies"
        if verb.endswith("y")
        else verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh")) else "s")
    )
    return {verb, third} | {form.replace("ize", "ise") for form in (verb, third)}


VERBS = frozenset(form for verb in _VERB_WORDS.split() for form in _forms(verb))
"""Verbs that papers put beside their terms ("the package provides") and that are hardly ever part of one."""

VERBISH = re.compile(r"(?:[a-z]{2,}ly|[a-z]{3,}ed|[a-z]{3,}ised|[a-z]{3,}ized)$")
"""Endings of adverbs and past verbs: a phrase stops there."""


def tokens(text: str) -> list[str]:
    """Lower-case words and numbers, inner hyphens and apostrophes kept."""
    return [m.group().lower() for m in _TOKEN.finditer(text)]


def stem(word: str) -> str:
    """The word without a plural or verbal ending: enough to hold "sensor" and "sensors" for one."""
    word = word.lower()
    for ending, keep, least in (
        ("ies", "y", 5),
        ("sses", "ss", 5),
        ("ing", "", 6),
        ("ed", "", 5),
        ("es", "", 5),
        ("s", "", 4),
    ):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            return word[: -len(ending)] + keep
    return word.removesuffix("e") if len(word) > 4 else word


def content_stems(text: str) -> list[str]:
    """Stems of the words that are neither stop words nor single letters, hyphenated words taken apart."""
    words = (part for token in tokens(text) for part in re.split(r"[\-‐‑]", token))
    return [stem(w) for w in words if w not in STOP and len(w) > 1]


def squeeze(text: str) -> str:
    """Lower-case letters and digits only: equal however a parser set spaces and hyphens."""
    return "".join(c for c in text.lower() if c.isalnum())
