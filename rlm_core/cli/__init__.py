"""`rlm-forge`: ask a question, look at what a stage made, check a params file and the machine."""
