"""The commands of `rlm-forge` that need MLflow or DVC, beside those of `rlm_core.cli`."""
