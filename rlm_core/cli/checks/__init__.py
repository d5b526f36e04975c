"""What `rlm-forge doctor` looks at: each check returns findings, and never raises."""
