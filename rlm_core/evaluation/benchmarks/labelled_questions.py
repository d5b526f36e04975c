"""Questions with one of six coarse answer-type labels: written here from templates, or read from a file of the user's.

The labels are those of the TREC question classes; the templates and word lists are our own. A question's label
is what its answer would be, so that it can be told from the meaning alone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Protocol

from rlm_core.evaluation.benchmarks.item import words
from rlm_core.evaluation.benchmarks.oolong_tasks import (
    ABBREVIATION,
    DESCRIPTION,
    ENTITY,
    HUMAN,
    LABELS,
    LOCATION,
    NUMERIC,
)

COARSE = {
    "ABBR": ABBREVIATION,
    "DESC": DESCRIPTION,
    "ENTY": ENTITY,
    "HUM": HUMAN,
    "LOC": LOCATION,
    "NUM": NUMERIC,
}
"""Codes of the TREC files."""

WORDS: dict[str, tuple[str, ...]] = {
    "letters": words(
        "ATP; CPU; DNA; DVD; ECG; EEG; FAQ; FIFO; GDP; GPS; HTML; IMF; ISBN; JPEG; LED; LCD; MRI; NATO; NGO; OECD; "
        "OPEC; PDF; PIN; PVC; RAM; RNA; ROM; RSVP; SQL; SUV; TCP; UFO; UHF; UNESCO; UNICEF; USB; UTC; VAT; VHF; VPN; "
        "WHO; WTO; XML; ZIP; ASAP; AWOL; BIOS; CAPTCHA; LASER; RADAR; SCUBA; SONAR"
    ),
    "unit": words(
        "kilometre; hertz; decibel; kilowatt hour; milligram; hectare; nautical mile; kelvin; pascal; lumen; ampere; "
        "cubic metre"
    ),
    "body": words(
        "the European Central Bank; the International Atomic Energy Agency; the World Meteorological Organization; "
        "the International Labour Organization; the African Union; the Food and Agriculture Organization; the "
        "International Monetary Fund; the Organization of American States; the European Space Agency"
    ),
    "idea": words(
        "osmosis; inflation; entropy; photosynthesis; gerrymandering; plate tectonics; natural selection; deflation; "
        "irony; capillary action; herd immunity; compound interest; diplomatic immunity; feudalism; utilitarianism; "
        "redshift; habeas corpus; erosion; symbiosis; resonance; opportunity cost; nostalgia; cognitive dissonance; "
        "fermentation; eutrophication; superconductivity"
    ),
    "device": words(
        "a barometer; a diesel engine; a heat pump; a microwave oven; a refrigerator; a suspension bridge; a jet "
        "engine; a touch screen; a solar cell; a smoke detector; a pendulum clock; a water mill; a magnetic compass; "
        "a pressure cooker; a hydraulic press; a geyser; a steam turbine; a photocopier"
    ),
    "happening": words(
        "leaves change colour in autumn; cats purr; clouds turn grey before rain; onions make people cry; iron nails "
        "rust; swallows fly south; loaves rise in the oven; tides come twice a day; bees dance; salt grains melt ice; "
        "bathroom mirrors fog up; geese fly in a V; stars twinkle; logs crackle in a fire; knuckles crack; chameleons "
        "change colour; corn kernels pop; mosquito bites itch; fireflies glow; sunflowers turn"
    ),
    "event": words(
        "the fall of Constantinople; the French Revolution; the Great Fire of London; the eruption of Krakatoa; the "
        "Irish potato famine; the dancing plague of Strasbourg; the stock market crash of 1929; the Peasants' Revolt; "
        "the Suez crisis; the collapse of the Bronze Age palaces"
    ),
    "class": words(
        "animal; bird; fish; tree; flower; fruit; spice; metal; gas; mineral; musical instrument; sport; card game; "
        "dance; language; currency; cheese; fabric; colour; vitamin; disease; vehicle; gemstone; dog breed; insect; "
        "drink"
    ),
    "deed": words(
        "is most often traded in Rotterdam; appears on the coat of arms of Bavaria; is named after a Greek god; was "
        "brought to Europe from Peru; is the most common in Finland; is banned in Singapore; was the first to be sent "
        "into orbit; is mentioned most often in Homer; gave its name to a Danish town; is used to make violin "
        "strings; was the favourite of Queen Victoria; is on the flag of Lebanon; features in the title of a Verdi "
        "opera; became fashionable in the 1920s; is sacred in Hindu tradition"
    ),
    "made": words(
        "the telephone exchange; the safety razor; the ballpoint pen; dynamite; the pneumatic tyre; the vacuum flask; "
        "the cash register; blue jeans; the crossword puzzle; the elevator brake; the printing press; the lightning "
        "rod; the traffic light; the stethoscope; the parachute; the sewing machine; instant coffee; the zip "
        "fastener; the diesel engine; the contact lens"
    ),
    "work": words(
        "The Magic Flute; Middlemarch; The Night Watch; The Decameron; Swan Lake; Don Quixote; The Tempest; Candide; "
        "War and Peace; The Thinker; Ulysses; The Trial; The Waste Land; Rhapsody in Blue; Frankenstein; The "
        "Canterbury Tales; The Rite of Spring; Moby-Dick"
    ),
    "office": words(
        "prime minister of New Zealand; secretary-general of the United Nations; king of Sweden; president of Chile; "
        "mayor of Vienna; chancellor of West Germany; governor of Alaska; pope; emperor of Brazil; first minister of "
        "Scotland; head coach of Ajax; conductor of the Berlin Philharmonic"
    ),
    "feat": words(
        "walked on the Moon; reached the South Pole; swam the English Channel; won a Nobel Prize twice; flew alone "
        "across the Atlantic; climbed Everest without oxygen; sailed around the world alone; photographed a "
        "snowflake; crossed Australia on foot; broke the sound barrier; deciphered the Rosetta Stone; measured the "
        "size of the Earth; ran a mile in under four minutes"
    ),
    "sight": words(
        "the Alhambra; Angkor Wat; the Uffizi; the Hermitage; Table Mountain; the Atacama desert; Lake Titicaca; "
        "Mount Kilimanjaro; the Brandenburg Gate; the Prado; Machu Picchu; the Blue Lagoon; the Great Barrier Reef; "
        "Petra; the Sagrada Familia; Hadrian's Wall; the Kremlin; Victoria Falls; Stonehenge; the Panama Canal"
    ),
    "place": words(
        "city; country; river; island; mountain range; desert; state; province; lake; port; capital; village; continent"
    ),
    "fame": words(
        "is known for its lace; hosted the Winter Olympics of 1976; exports the most coffee; was once called New "
        "Amsterdam; lies closest to the equator; was founded by the Phoenicians; has the longest coastline in Europe; "
        "is famous for its marble; was divided by a wall in 1961; is home to the oldest university; has the driest "
        "climate; was the seat of the Hanseatic League; produces the most saffron; was destroyed by an earthquake in "
        "1755; is crossed by the Orient Express"
    ),
    "long": words(
        "the Nile; the Golden Gate Bridge; a blue whale; the Danube; a marathon course; the Channel Tunnel; a tennis "
        "court; the Amazon; the Great Wall of China; the Trans-Siberian railway; a cricket pitch; the Suez Canal; a "
        "day on Mars; the Mekong; a humpback whale's song; the Appalachian Trail"
    ),
    "heavy": words(
        "a blue whale; an adult giraffe; the Moon; a hummingbird; a badger; an ostrich egg; an African elephant; a "
        "grand piano; the Eiffel Tower; Jupiter; a human brain; a shot put; a golf ball; the Liberty Bell; a newborn "
        "panda"
    ),
    "far": words(
        "the Moon; Halley's Comet at its most distant; Venus; the North Star; the Sun; Jupiter; the Andromeda galaxy; "
        "Sirius; Neptune; the International Space Station"
    ),
    "many": words(
        "bones; strings on a harp; moons of Saturn; islands of Greece; members of the German Bundestag; keys of a "
        "piano; time zones of Russia; countries of Africa; players of a water polo team; plays by Shakespeare; "
        "chromosomes of a human cell; symphonies by Haydn; squares of a chess board; counties of Ireland; languages "
        "of India; legs of a lobster; cantons of Switzerland; stations of the Paris Metro"
    ),
    "happened": words(
        "the Suez Canal opened; the Magna Carta sealed; Pompeii buried; the Berlin Wall built; penicillin discovered; "
        "the first email sent; the Titanic launched; the euro introduced; Iceland settled; Pluto discovered; the "
        "first marathon run; gunpowder invented; Constantinople founded; the Hubble telescope launched"
    ),
}

TEMPLATES: dict[str, tuple[str, ...]] = {
    ABBREVIATION: (
        "What does {letters} stand for ?",
        "What do the letters {letters} mean ?",
        "What is the full form of {letters} ?",
        "{letters} is short for what ?",
        "What words are behind the acronym {letters} ?",
        "What is the abbreviation of {body} ?",
        "How is {unit} abbreviated ?",
        "What is the short form of {unit} ?",
        "By which initials is {body} known ?",
    ),
    DESCRIPTION: (
        "What is {idea} ?",
        "What is meant by {idea} ?",
        "How would you explain {idea} to a child ?",
        "What is the definition of {idea} ?",
        "How does {device} work ?",
        "What happens inside {device} ?",
        "Why do {happening} ?",
        "Why does it happen that {happening} ?",
        "What caused {event} ?",
        "What were the consequences of {event} ?",
        "What is the difference between {idea} and {idea} ?",
    ),
    ENTITY: (
        "What {class} {deed} ?",
        "Which {class} {deed} ?",
        "Name a {class} that {deed} .",
        "What kind of {class} {deed} ?",
    ),
    HUMAN: (
        "Who invented {made} ?",
        "Who is credited with {made} ?",
        "Which inventor patented {made} ?",
        "Who created {work} ?",
        "Whose work is {work} ?",
        "Who was the first {office} ?",
        "Who was the youngest {office} ?",
        "Who served longest as {office} ?",
        "What is the name of the person who first {feat} ?",
        "Who first {feat} ?",
        "What woman first {feat} ?",
    ),
    LOCATION: (
        "Where is {sight} ?",
        "In which country would you find {sight} ?",
        "Which town is nearest to {sight} ?",
        "On which continent is {sight} ?",
        "What {place} {fame} ?",
        "Which {place} {fame} ?",
    ),
    NUMERIC: (
        "How long is {long} ?",
        "What is the length of {long} ?",
        "How heavy is {heavy} ?",
        "What does {heavy} weigh ?",
        "How far from the Earth is {far} ?",
        "What is the distance to {far} ?",
        "How many {many} are there ?",
        "What is the number of {many} ?",
        "What is the count of {many} ?",
        "When was {happened} ?",
        "In what year was {happened} ?",
        "How many years ago was {happened} ?",
    ),
}

_BLANK = re.compile(r"\{(\w+)\}")


class QuestionSource(Protocol):
    """Draws questions of a label."""

    def draw(self, label: str, rng: Random) -> str: ...


def open_source(path: Path | None) -> QuestionSource:
    """Our own templates, or the questions of a file: see `read_labelled`."""
    return Templates() if path is None else Questions(read_labelled(path), str(path))


class Templates:
    """Fills a template of the label; about 2,700 different questions."""

    def draw(self, label: str, rng: Random) -> str:
        used: set[str] = set()

        def fill(blank: re.Match[str]) -> str:
            word = rng.choice([w for w in WORDS[blank[1]] if w not in used])
            used.add(word)
            return word

        return _BLANK.sub(fill, rng.choice(TEMPLATES[label]))


class Questions:
    """Draws from given questions; each label's are used up before one comes again."""

    def __init__(self, by_label: dict[str, list[str]], origin: str) -> None:
        missing = [label for label in LABELS if not by_label.get(label)]
        if missing:
            raise ValueError(
                f"{origin}: no question labelled {', '.join(missing)}; all of {', '.join(COARSE)} are needed"
            )
        self._by_label = by_label
        self._left: dict[str, list[str]] = {label: [] for label in LABELS}

    def draw(self, label: str, rng: Random) -> str:
        if not self._left[label]:
            self._left[label] = rng.sample(self._by_label[label], len(self._by_label[label]))
        return self._left[label].pop()


def read_labelled(path: Path) -> dict[str, list[str]]:
    """Questions by label from a TREC file (`NUM:date When was ... ?` a line) or .jsonl rows `{"label", "text"}`.

    Labels are TREC codes, with or without the fine part, or their full names. Raises `ValueError` naming file and line.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot read the labelled questions ({error.strerror})") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # the published TREC files are
    by_label: dict[str, list[str]] = {label: [] for label in LABELS}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            label, question = _parse_line(line, path.suffix == ".jsonl", f"{path}:{number}")
            by_label[label].append(question)
    return by_label


def _parse_line(line: str, is_json: bool, place: str) -> tuple[str, str]:
    code: str
    if is_json:
        try:
            row = json.loads(line)
            code, question = str(row["label"]), str(row["text"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{place}: expected a JSON object with 'label' and 'text' ({error!r})") from error
    else:
        code, _, question = line.strip().partition(" ")
    label = code if code in LABELS else COARSE.get(code.partition(":")[0].upper())
    if label is None or not question.strip():
        raise ValueError(
            f"{place}: expected 'LABEL:fine question' with one of {', '.join(COARSE)}, got {line.strip()[:80]!r}"
        )
    return label, " ".join(question.split())
