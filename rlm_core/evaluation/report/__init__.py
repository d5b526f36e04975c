"""The page `reports/report.html`: `render_report(ReportData(...)) -> str`, one file without any outside resource."""

from rlm_core.evaluation.report.page import ReportData, render_report

__all__ = ["ReportData", "render_report"]
