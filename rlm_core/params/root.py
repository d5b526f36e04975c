"""All sections together, and what must hold between them."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from rlm_core.params.ablation import AblationParams
from rlm_core.params.distill import DistillParams
from rlm_core.params.evaluate import EvaluateParams
from rlm_core.params.grpo import GrpoParams
from rlm_core.params.judge import JudgeParams
from rlm_core.params.papers import GroupsParams, OcrParams, PapersParams, ParseParams
from rlm_core.params.queries import QueriesParams
from rlm_core.params.report import MlflowParams, ReportParams
from rlm_core.params.rollout import ReplParams, RolloutParams
from rlm_core.params.section import Section
from rlm_core.params.serve import ModelParams, ServeParams
from rlm_core.params.sft import SftParams
from rlm_core.params.teach import TeachParams


class Params(Section):
    """All of `params.yaml`."""

    seed: int = Field(42, ge=0, lt=2**32)
    papers: PapersParams = PapersParams()
    parse: ParseParams = ParseParams()
    ocr: OcrParams = OcrParams()
    groups: GroupsParams = GroupsParams()
    queries: QueriesParams = QueriesParams()
    model: ModelParams = ModelParams()
    serve: ServeParams = ServeParams()
    repl: ReplParams = ReplParams()
    rollout: RolloutParams = RolloutParams()
    judge: JudgeParams = JudgeParams()
    teach: TeachParams = TeachParams()
    distill: DistillParams = DistillParams()
    sft: SftParams = SftParams()
    grpo: GrpoParams = GrpoParams()
    evaluate: EvaluateParams = EvaluateParams()
    ablation: AblationParams = AblationParams()
    report: ReportParams = ReportParams()
    mlflow: MlflowParams = MlflowParams()

    @model_validator(mode="after")
    def _turns_fit_the_server(self) -> Self:
        if self.rollout.max_tokens_per_turn >= self.serve.max_model_len:
            raise ValueError(
                f"rollout.max_tokens_per_turn ({self.rollout.max_tokens_per_turn}) must be under "
                f"serve.max_model_len ({self.serve.max_model_len}): a prompt needs room too"
            )
        return self

    @model_validator(mode="after")
    def _guard_is_another_judge(self) -> Self:
        if self.grpo.guard_judge == self.judge:
            raise ValueError(
                "grpo.guard_judge is the judge that gives the reward: name another one, or null for evidence F1 alone"
            )
        return self
