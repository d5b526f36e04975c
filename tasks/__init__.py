"""One module a DVC stage: read files, call `rlm_core`, write files, log to MLflow."""
