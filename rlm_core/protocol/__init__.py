"""How a model says what it wants: fenced code, FINAL / FINAL_VAR, and the repair of common slips."""

from rlm_core.protocol.finals import Final
from rlm_core.protocol.parse import ParsedTurn, parse_turn
from rlm_core.protocol.repair import REPAIR_KINDS, Repair, repair_turn

__all__ = ["REPAIR_KINDS", "Final", "ParsedTurn", "Repair", "parse_turn", "repair_turn"]
