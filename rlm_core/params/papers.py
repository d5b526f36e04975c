"""Papers: where they come from, how they are read and grouped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from rlm_core.params.section import Section, Share


class PapersParams(Section):
    source: Literal["sample", "directory", "manifest", "texts"] = "sample"
    """Where papers come from: the project's own typeset library, a folder of PDFs, a list of URLs with sha256, or a folder of
    papers that are text already (`rlm-forge queries import` writes one); those are neither parsed nor read by OCR."""
    directory: Path = Path("library")
    """For `directory`: the folder, searched recursively for *.pdf; for `texts`: the folder of *.json. It must exist for every
    source: DVC watches it."""
    manifest: Path = Path("library/manifest.jsonl")
    """For `manifest`: a .jsonl or .tsv file with url, sha256 and optional id, title, licence. It must exist likewise."""
    sample_topics: int = Field(6, ge=3, le=6)
    """For `sample`: topics typeset, at least 3 so that train, val and test have one each."""
    sample_papers_per_topic: int = Field(4, ge=1, le=6)
    """For `sample`: papers a topic."""
    max_papers: int | None = Field(None, ge=1)
    """Take at most this many, in the order of their ids; null takes all."""


class ParseParams(Section):
    workers: int = Field(0, ge=0)
    """Processes; 0 uses all cores."""


class OcrParams(Section):
    engine: Literal["rapidocr", "surya", "tesseract"] = "rapidocr"
    """`rapidocr` has its models in the wheel; `surya` is a server (`surya_url`); `tesseract` must be installed."""
    dpi: int = Field(150, ge=72, le=600)
    """Of the page image that the engine reads."""
    workers: int = Field(0, ge=0)
    """Processes of `executor: local`; 0 uses all cores."""
    executor: Literal["local", "ray"] = "local"
    """Where pages are read: in processes of this machine, or on all processors of a Ray cluster."""
    ray_address: str | None = None
    """For `ray`: host:port or ray://host:port; null for the cluster that RAY_ADDRESS names or that runs on this machine."""
    surya_url: str | None = None
    """OpenAI-compatible address of a Surya server, e.g. http://host:8000/v1; null takes SURYA_INFERENCE_URL."""

    @model_validator(mode="after")
    def _surya_has_an_address(self) -> Self:
        if self.engine == "surya" and not (self.surya_url or os.environ.get("SURYA_INFERENCE_URL")):
            raise ValueError(
                "ocr.engine is 'surya' but neither ocr.surya_url nor SURYA_INFERENCE_URL is set: give the server's address"
            )
        return self

    @model_validator(mode="after")
    def _address_is_of_a_cluster(self) -> Self:
        if self.ray_address and self.executor != "ray":
            raise ValueError(
                "ocr.ray_address is set but ocr.executor is 'local': set it to 'ray', or remove the address"
            )
        return self


class GroupsParams(Section):
    max_papers: int = Field(10, ge=1, le=50)
    """Papers a group at most."""
    min_similarity: Share = 0.2
    """TF-IDF cosine similarity under which a paper does not join a group."""
