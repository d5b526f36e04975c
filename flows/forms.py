"""What the flows ask in the Prefect UI: a profile, and the values that differ from it.

The forms come from the params models: their enums, ranges and descriptions. Prefect checks a request against them
before a run exists; what needs several values at once (`rlm_core.params` validators) is checked before the first stage.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model, model_serializer

from flows.environment import ROOT
from rlm_core.params import Params, Section, load_params, validate_params

StageName = Literal[
    "papers", "parse", "ocr", "groups", "queries", "teach", "distill", "sft", "grpo", "evaluate", "report"
]
_F = TypeVar("_F", bound=Callable[..., Any])
CURRENT = "current"
"""The profile that stands for params.yaml as it is."""


def profile_names() -> list[str]:
    """`current`, then the files in profiles/."""
    return [CURRENT, *sorted(file.stem for file in (ROOT / "profiles").glob("*.yaml"))]


def _known_profile(name: str) -> str:
    if name not in profile_names():
        raise ValueError(f"no profile '{name}'; there are: {', '.join(profile_names())}")
    return name


Profile = Annotated[str, AfterValidator(_known_profile), Field(json_schema_extra={"enum": list(profile_names())})]
Where = Literal["here", "pool"]

MEANINGS = {
    "profile": "Where the values come from: `current` is params.yaml as it is, the others are files in profiles/.",
    "overrides": "Values that differ from the profile; together they are written to params.yaml.",
    "from_stage": "First stage; those before it are taken as they are.",
    "to_stage": "Last stage.",
    "force": "Run the stages also if nothing has changed since they last ran.",
    "gpu": "`pool` sends the stages that fill a GPU to the workers of the work pool `gpu`.",
}
"""What the parameters that flows share mean, as the forms show it."""


def described(function: _F) -> _F:
    """Add the meanings of a flow's parameters to its docstring, where Prefect's forms read them. Under `@flow`."""
    known = [name for name in inspect.signature(function).parameters if name in MEANINGS]
    lines = [f"    {name}: {MEANINGS[name]}" for name in known]
    function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Args:", *lines])
    return function


ON_OR_OFF = WithJsonSchema({"type": "string", "enum": ["true", "false"]})
"""How an override that is on or off is asked for. Prefect's form would show a switch, which has no third position and sends
`false` for a value that nobody touched. Over the API it is the text `true` or `false` too."""


class _Partial(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_serializer(mode="plain")
    def _only_what_was_given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


def _unset() -> None:
    """Stands for a value that was not given; a factory, so that the form shows no default for it."""


def _partial_annotation(annotation: Any) -> Any:
    """Sections, also those that may be null, become partial; the form would else fill in some of their values."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return partial_model(annotation)
    if annotation is bool:
        return Annotated[bool, ON_OR_OFF]
    if get_origin(annotation) in (Union, UnionType):
        return Union[tuple(_partial_annotation(member) for member in get_args(annotation))]  # noqa: UP007
    return annotation


@cache
def partial_model(model: type[BaseModel]) -> type[BaseModel]:
    """The model with every field optional and none filled in; ranges, enums and descriptions stay.

    Sections inside it become partial too. What needs several fields at once is left to the whole model.
    """
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        annotation: Any = _partial_annotation(info.annotation)
        for constraint in info.metadata:
            annotation = Annotated[annotation, constraint]
        fields[name] = (annotation, Field(default_factory=_unset, description=info.description))
    name = f"{model.__name__.removesuffix('Params')}Overrides"
    return create_model(name, __base__=_Partial, __doc__=f"Values that replace those of {model.__name__}.", **fields)


if TYPE_CHECKING:

    class Overrides(BaseModel): ...

else:
    Overrides = partial_model(Params)

NOTHING = Overrides()


def resolve(profile: str, overrides: BaseModel | None = None, root: Path = ROOT) -> Params:
    """The profile with the overrides over it, validated as a whole; raises `ParamsError` naming every fault."""
    file = root / "params.yaml" if profile == CURRENT else root / "profiles" / f"{profile}.yaml"
    data = load_params(file).model_dump(mode="json")
    over = {} if overrides is None else overrides.model_dump(mode="json")
    return validate_params(merged(data, over), source=f"profile '{profile}' with overrides")


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid over `base`, section by section; lists are replaced. A section in which nothing is given changes nothing."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(value, dict) and (value == {} or isinstance(old, dict)):
            result[key] = merged(old, value) if isinstance(old, dict) else old
        else:
            result[key] = value
    return result
