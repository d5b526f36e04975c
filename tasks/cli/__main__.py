"""`python -m tasks.cli`: the command of the folder one is in, e.g. of a workspace with changes of its own."""

from tasks.cli.main import app

app(prog_name="rlm-forge")
