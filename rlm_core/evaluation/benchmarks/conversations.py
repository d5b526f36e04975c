"""Pieces of writing from a small grammar: many forms and topics, each piece different, any amount of text."""

from __future__ import annotations

from random import Random

from rlm_core.evaluation.benchmarks.item import count_tokens, words

FORMS = (
    "poem",
    "short story",
    "letter",
    "speech",
    "diary entry",
    "news report",
    "song",
    "travel note",
    "fable",
    "review",
)

TOPICS = words(
    "lighthouses; tapirs; rain gutters; violins; night trains; beekeepers; old maps; glaciers; chess clocks; market "
    "stalls; canal boats; weather balloons; sourdough; lost umbrellas; snow ploughs; village choirs; tide pools; "
    "telegrams; paper kites; stone bridges; orchards; ferry captains; clockmakers; sand dunes; radio plays; wool "
    "sweaters; mountain huts; postage stamps; street lamps; river otters; bicycle couriers; greenhouses; puppet "
    "shows; attic rooms; harbour cranes; moss gardens; brass bands; compasses; coffee grinders; wandering goats"
)

WHO = words(
    "the baker; my grandmother; a retired pilot; the twins from next door; a quiet student; the mayor; two strangers; "
    "the night nurse; an apprentice; the oldest fisherman; a travelling tailor; the librarian; our neighbour; a young "
    "surveyor; the conductor; a band of cyclists; the locksmith; her cousin; the schoolteacher; a tired courier; the "
    "astronomer; a boy with a red cap"
)
WHERE = words(
    "at the edge of town; behind the mill; in a narrow valley; under the railway arch; by the frozen lake; on the "
    "third floor; near the customs house; beyond the last tram stop; in the reading room; along the towpath; beside "
    "an empty fountain; above the tannery; in a courtyard full of ladders; at the old observatory; between two "
    "hedges; on the north shore; inside the covered market; at the end of the pier; close to the border; in the shade "
    "of a walnut tree"
)
WHEN = words(
    "on a Tuesday; before dawn; in the third week of March; after the first frost; every other Sunday; during the "
    "long drought; late in the evening; when the bells had stopped; at noon; in the year of the flood; shortly after "
    "supper; once the snow had gone; on the last day of term; at low tide; while the kettle boiled; the winter before "
    "last"
)
HOW = words(
    "slowly; without a word; with great care; out of habit; against all advice; by candlelight; with cold hands; in a "
    "single breath; as if it were a secret; to everyone's surprise; for no clear reason; almost by accident; with a "
    "borrowed pencil; half asleep; in plain sight; twice over; with a stubborn smile; for the price of a loaf"
)
DID = words(
    "counted; praised; sketched; forgot about; wrote to the council about; argued over; kept watch over; dreamed of; "
    "photographed; asked after; sang about; made a list of; apologised for; collected stories of; measured; defended; "
    "whispered about; quarrelled about; took lessons from; learned to trust"
)
FELT = words(
    "patient; bright as tin; heavier than they look; easy to mistake for a promise; older than the road; hard to "
    "explain to a child; never quite finished; worth the walk; stranger in autumn; best seen from below; quieter than "
    "last year; a kind of arithmetic; nobody's property; good company; full of small repairs; slow to forgive; better "
    "than their reputation; out of fashion again; as plain as bread; only half of the matter"
)
THING = words(
    "a tin box; seven letters; the smell of tar; a brass key; a page torn from an almanac; the sound of a distant "
    "saw; a jar of buttons; an unpaid bill; a blue thread; the print of a boot; a list of names; a cracked bell; a "
    "bag of walnuts; one glove; a map without a scale; a coat that fitted no one; a clock that ran backwards; the "
    "stub of a ticket; a wet photograph"
)

SENTENCES = (
    "{When}, {who} {did} the {topic} {where}.",
    "{Who} said that {topic} are {felt}.",
    "{Where}, {who} found {thing} and thought of {topic}.",
    "It was {who} who {did} the {topic}, {how}.",
    "Nobody {where} believed it, yet {topic} are {felt}.",
    "{When} there was only {thing}, and {who} {did} it {how}.",
    "They left {thing} {where}, {how}, and went back to the {topic}.",
    "What remains of it is {thing}, kept {where}.",
    "{Who} {did} the {topic} {when}; {who2} {did2} them {how}.",
    "If {topic} are {felt}, then {thing} is too.",
    "{How}, {who} carried {thing} to the {topic} {where}.",
    "I remember {thing}, {who}, and how {felt} the {topic} seemed {when}.",
)
VERSES = (
    "{When} the {topic} wait {where},",
    "{thing} for {who}, given {how},",
    "and {topic} are {felt},",
    "{who} {did} them {when},",
    "{where}, {thing},",
    "O {topic}, {felt},",
    "{how} {who} came {where},",
    "with {thing} and {thing2},",
)

_SLOTS = {
    "who": WHO,
    "who2": WHO,
    "where": WHERE,
    "when": WHEN,
    "how": HOW,
    "did": DID,
    "did2": DID,
    "felt": FELT,
    "thing": THING,
    "thing2": THING,
}


class Writer:
    """Writes pieces of about `tokens` tokens."""

    def __init__(self, rng: Random, tokens: int) -> None:
        self._rng, self._tokens = rng, tokens

    def write(self, form: str, topic: str) -> str:
        opening, closing = self._frame(form, topic)
        verse = form in ("poem", "song")
        patterns = VERSES if verse else SENTENCES
        budget = self._tokens - count_tokens(opening + closing)
        body: list[str] = []
        while budget > 0 or not body:
            sentence = self._fill(self._rng.choice(patterns), topic)
            body.append(sentence)
            budget -= count_tokens(sentence)
        parts = [opening, self._laid_out(body, verse), closing]
        return "\n".join(part for part in parts if part)

    def _frame(self, form: str, topic: str) -> tuple[str, str]:
        who, who2 = self._rng.sample(WHO, 2)
        title = f"{topic.capitalize()} {self._rng.choice(WHERE)}"
        frames = {
            "letter": (f"Dear {who},", f"Yours, {who2}"),
            "speech": (f"Friends, and {who} above all,", "Thank you."),
            "diary entry": (f"{_upper(self._rng.choice(WHEN))}.", ""),
            "news report": (f"{title.upper()}", f"Reported by {who}."),
            "fable": (
                f"There once lived {who} who owned {self._rng.choice(THING)}.",
                f"So {topic} are {self._rng.choice(FELT)}.",
            ),
            "review": (title, f"{self._rng.randint(1, 5)} stars of five."),
        }
        return frames.get(form, (title, ""))

    def _laid_out(self, body: list[str], verse: bool) -> str:
        if not verse:
            return " ".join(body)
        stanzas = [body[start : start + 4] for start in range(0, len(body), 4)]
        return "\n\n".join("\n".join(stanza) for stanza in stanzas)

    def _fill(self, pattern: str, topic: str) -> str:
        chosen = {slot: self._rng.choice(choices) for slot, choices in _SLOTS.items()}
        capitals = {slot.capitalize(): _upper(word) for slot, word in chosen.items()}
        return _upper(pattern.format(topic=topic, **chosen, **capitals))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
