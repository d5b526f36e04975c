"""The pydantic models of `params.yaml`: one section a stage, plus the parts that stages share.

The same models validate every profile, feed the forms of the Prefect UI and are logged to MLflow. Imports no torch.
Every field says what it does, its unit, and what its special values mean.
"""

from __future__ import annotations

from rlm_core.params.ablation import AblationParams, Variant
from rlm_core.params.distill import DistillParams
from rlm_core.params.endpoint import EndpointParams
from rlm_core.params.evaluate import ArmName, ArmParams, EvaluateParams
from rlm_core.params.grpo import GrpoParams, LoraParams
from rlm_core.params.judge import JudgeParams
from rlm_core.params.load import ParamsError, load_params, validate_params
from rlm_core.params.papers import GroupsParams, OcrParams, PapersParams, ParseParams
from rlm_core.params.queries import MrcrParams, QueriesParams
from rlm_core.params.report import MlflowParams, ReportParams
from rlm_core.params.rollout import ReplParams, RolloutParams
from rlm_core.params.root import Params
from rlm_core.params.section import Section
from rlm_core.params.serve import ModelParams, ServeParams
from rlm_core.params.sft import SftParams
from rlm_core.params.teach import TeachParams

__all__ = [
    "AblationParams",
    "ArmName",
    "ArmParams",
    "DistillParams",
    "EndpointParams",
    "EvaluateParams",
    "GroupsParams",
    "GrpoParams",
    "JudgeParams",
    "LoraParams",
    "MlflowParams",
    "ModelParams",
    "MrcrParams",
    "OcrParams",
    "PapersParams",
    "Params",
    "ParamsError",
    "ParseParams",
    "QueriesParams",
    "ReplParams",
    "ReportParams",
    "RolloutParams",
    "Section",
    "ServeParams",
    "SftParams",
    "TeachParams",
    "Variant",
    "load_params",
    "validate_params",
]
