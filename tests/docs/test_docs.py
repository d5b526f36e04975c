"""What the pages say is there: links, paths, commands, options, stages, targets, params."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer
import yaml
from pydantic import BaseModel
from typer._click import exceptions  # Typer brings its own copy of click, and raises that one's errors
from typer.core import TyperGroup

from rlm_core.params import EndpointParams, Params, validate_params
from tasks.cli.main import app
from tests.docs.pages import (
    ROOT,
    anchors,
    blocks,
    commands,
    links,
    pages,
    shell_lines,
    spans,
    text_of,
    tracked,
)

CLI = typer.main.get_command(app)
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
FOLDERS = {f"{name.split('/')[0]}/" for name in tracked() if "/" in name}
SOURCES = "\n".join(
    (ROOT / name).read_text(encoding="utf-8")
    for name in tracked()
    if name.endswith((".py", ".yaml")) and "tests" not in name
)


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    dead = []
    for link in links(page):
        if re.match(r"https?:|mailto:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (ROOT / page).parent / place if place else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(str(target.resolve().relative_to(ROOT)))):
            dead.append(link)
    assert dead == []


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[str] = set()
    todo = ["README.md"]
    while todo:
        page = todo.pop()
        if page not in seen and page.endswith(".md") and (ROOT / page).exists():
            seen.add(page)
            places = (link.partition("#")[0] for link in links(page) if not link.startswith("http"))
            todo += [str(((ROOT / page).parent / p).resolve().relative_to(ROOT)) for p in places if p]
    assert {page for page in pages() if page.startswith("docs/")} - seen == set()


def test_every_picture_is_shown() -> None:
    shown = "\n".join(text_of(page) for page in pages())
    assert [name for name in tracked() if name.startswith("docs/images/") and name.split("/")[-1] not in shown] == []


def cli_fault(line: str, *, whole: bool) -> str | None:
    """What the command line's own parser says of `line`; None where it takes it. Nothing is run.

    `[x]` stands for an option that may be left out, `a|b` for a choice, `...` for what the reader fills in. A command
    that is only named in prose (`whole` is false) may lack arguments.
    """
    words = [word.split("|")[0] for word in shlex.split(re.sub(r"[\[\]]", "", line))[1:]]
    command: Any = CLI
    path = typer.Context(CLI, info_name="rlm-forge")
    while isinstance(command, TyperGroup):
        if not words:
            return "a group without a command" if whole else None
        name = words.pop(0)
        if name.startswith("-"):
            if any(name in option.opts for option in command.params) or name in ("--help", "--install-completion"):
                continue
            return f"no option {name}"
        found = command.get_command(path, name)
        if found is None:
            return f"no command {name}"
        command = found
        path = typer.Context(command, info_name=name, parent=path)
    try:
        command.make_context(command.name, words, parent=path.parent)
    except exceptions.MissingParameter as error:
        return error.format_message() if whole else None
    except exceptions.UsageError as error:
        return error.format_message()
    except typer.Exit:  # --help
        return None
    return None


def test_faults_of_command_lines_are_told() -> None:
    assert cli_fault("rlm-forge rollouts show FILE [ID] --html tree.html", whole=True) is None
    assert cli_fault("rlm-forge queries export --out FILE [--format jsonl|qasper]", whole=True) is None
    assert cli_fault("rlm-forge serve", whole=False) is None
    assert "--papers" in str(cli_fault("rlm-forge serve", whole=True))
    assert "--paper" in str(cli_fault("rlm-forge serve --paper library", whole=False))
    assert cli_fault("rlm-forge judge test", whole=False) == "no command test"
    assert cli_fault("rlm-forge queries review --count none", whole=False)


@pytest.mark.parametrize("page", pages())
def test_command_lines_parse(page: str) -> None:
    lines = [(line, True) for line in shell_lines(page)] + [(part, False) for s in spans(page) for part in commands(s)]
    faults = [
        f"{line}: {fault}"
        for line, whole in lines
        if line.startswith("rlm-forge ") and (fault := cli_fault(line, whole=whole))
    ]
    assert faults == []


def cli_commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    if isinstance(command, TyperGroup):
        for child, inner in command.commands.items():
            yield from cli_commands(inner, f"{name} {child}")


def test_examples_in_the_help_parse() -> None:
    faults, found = [], 0
    for name, command in cli_commands(CLI, "rlm-forge"):
        assert command.help or command.short_help, f"{name} says nothing of itself"
        for line in (command.help or "").splitlines():
            line = line.strip().removeprefix("Example: ")
            if line.startswith("rlm-forge ") and line.removeprefix("rlm-forge ").strip() != "":
                found += 1
                faults += [
                    f"{name}: {part}: {f}" for part in list(commands(line))[:1] if (f := cli_fault(part, whole=True))
                ]
    assert faults == []
    assert found > 20


def test_commands_named_in_code_and_settings_are_there() -> None:
    """Messages, comments and profiles that say `rlm-forge WORD`."""
    faults = set()
    for name in tracked():
        if name.endswith((".py", ".yaml", ".toml", "Makefile", "Dockerfile")) and not name.startswith("tests/"):
            for line in re.findall(r"`(rlm-forge [a-z][^`\n]*)`", (ROOT / name).read_text(encoding="utf-8")):
                faults |= {
                    f"{name}: {part}: {f}" for part in list(commands(line))[:1] if (f := cli_fault(part, whole=False))
                }
    assert faults == set()


def all_command_words() -> Iterator[tuple[str, list[str]]]:
    for page in pages():
        for line in [*shell_lines(page), *(part for span in spans(page) for part in commands(span))]:
            try:
                words = shlex.split(line)
            except ValueError:  # a span that is no command, as `it's`
                continue
            while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                words.pop(0)
            if len(words) > 1:
                yield page, words


def test_make_targets_stages_and_modules_are_there() -> None:
    faults = []
    for page, words in all_command_words():
        plain = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        match words[0]:
            case "make":
                faults += [f"{page}: make {target}" for target in plain if target not in TARGETS]
            case "dvc" if plain[0] == "repro":
                faults += [f"{page}: {words}" for s in plain[1:] if not s.isupper() and s not in STAGES]
            case "dvc" if "-S" in words:
                changed = words[words.index("-S") + 1].split("=")[0]
                faults += [] if is_param(changed) else [f"{page}: {words}"]
            case "python" | "torchrun" | "accelerate" if "-m" in words:
                module = words[words.index("-m") + 1]
                if module.replace(".", "").isidentifier() and module.islower():
                    faults += [] if importlib.util.find_spec(module) else [f"{page}: {module}"]
            case "python" | "python3" if plain and plain[0].endswith(".py"):
                faults += [] if (ROOT / plain[0]).exists() else [f"{page}: {plain[0]}"]
    assert faults == []


@pytest.mark.parametrize("page", pages())
def test_paths_are_there(page: str) -> None:
    """Code spans that begin as a folder of the checkout name a file in it; those of outputs stand in the code."""
    missing = []
    for word in (word for span in spans(page) for word in span.split()):
        path = word.strip(",.;:()\"'").split(":")[0].rstrip("/")
        if "/" not in path or not re.fullmatch(r"[\w.\-/]+", path) or re.search(r"[A-Z]{3}", path):
            continue
        if path.startswith((*FOLDERS, "data/", "models/", "reports/")) and not (ROOT / path).exists():
            named = path in SOURCES or path.rsplit("/", 1)[-1].rsplit(".", 1)[0] in SOURCES
            missing += [] if named else [path]
    assert missing == []


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]


def is_param(name: str) -> bool:
    """Whether `section.key`, or `endpoint.key` of any endpoint, is one of the params."""
    todo: list[type[BaseModel]] = [Params]
    parts = name.split(".")
    if parts[0] == "endpoint":
        todo, parts = [EndpointParams], parts[1:]
    for part in parts:
        fields = [model.model_fields[part] for model in todo if part in model.model_fields]
        if not fields:
            return False
        todo = [model for field in fields for model in models_in(field.annotation)]
    return True


SECTION = "|".join([*(n for n, f in Params.model_fields.items() if models_in(f.annotation)), "endpoint"])
PARAM = re.compile(rf"(?:{SECTION})(?:\.[a-z_]+)+")
NOT_PARAMS = re.compile(r".*\.(py|json|jsonl|html|yaml|md|txt|csv|png|parquet|db)$")


SETTINGS = [name for name in tracked() if re.fullmatch(r"(rlm_core/params|profiles)/[\w-]+\.(py|yaml)", name)]


@pytest.mark.parametrize("page", [*pages(), *SETTINGS])
def test_params_are_there(page: str) -> None:
    """`section.key` in a page, in the help of a param and in the comments of a profile; `section.key: value` too."""
    named = re.findall(rf"`({PARAM.pattern})(?:[:=][^`]*)?`", text_of(page))
    assert [name for name in named if not NOT_PARAMS.match(name) and not is_param(name)] == []


def test_names_of_params_are_told_from_others() -> None:
    assert is_param("grpo.lora.rank")
    assert is_param("endpoint.max_retries")
    assert not is_param("grpo.learning_rate") and not is_param("endpoint.retries")


@pytest.mark.parametrize("page", pages())
def test_examples_of_params_are_valid(page: str) -> None:
    examples = [yaml.safe_load(block.text) for block in blocks(page) if block.language == "yaml"]
    of_params = [data for data in examples if isinstance(data, dict) and data.keys() & Params.model_fields.keys()]
    assert all(isinstance(validate_params(data, source=page), Params) for data in of_params)


@pytest.mark.parametrize("page", pages())
def test_examples_of_data_and_code_can_be_read(page: str) -> None:
    for block in blocks(page):
        if block.language == "json" and "..." not in block.text.replace('"..."', ""):
            for line in block.text.splitlines():
                json.loads(line)
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom) and node.module and f"{node.module.split('.')[0]}/" in FOLDERS:
                    module = importlib.import_module(node.module)
                    assert [a.name for a in node.names if not hasattr(module, a.name)] == [], node.module


def test_the_stage_graph_is_drawn_as_it_is() -> None:
    """docs/architecture.md draws every stage, and an arrow wherever a stage reads another's outputs."""
    drawing = next(b.text for b in blocks("docs/architecture.md") if b.language == "mermaid" and "papers[" in b.text)
    drawn = {(a, b) for a, b in re.findall(r"^\s*(\w+)(?:\[.*?\])? --> (\w+)", drawing, re.M)}
    assert {name for arrow in drawn for name in arrow} == set(STAGES)
    makers = {out: name for name, stage in STAGES.items() for out in outs_of(stage)}
    real = {
        (maker, name)
        for name, stage in STAGES.items()
        for dep in stage["deps"]
        for out, maker in makers.items()
        if dep == out or dep.startswith(f"{out}/")
    }
    assert drawn <= real, "an arrow where nothing is read"
    assert [(a, b) for a, b in sorted(real) if not reaches(drawn, a, b)] == []


def outs_of(stage: dict[str, Any]) -> list[str]:
    outs = [*stage.get("outs", ()), *stage.get("metrics", ()), *stage.get("plots", ())]
    return [out if isinstance(out, str) else next(iter(out)) for out in outs]


def reaches(arrows: set[tuple[str, str]], start: str, end: str) -> bool:
    """Whether the arrows lead from `start` to `end`, over others too."""
    return start == end or any(reaches(arrows, b, end) for a, b in arrows if a == start)
