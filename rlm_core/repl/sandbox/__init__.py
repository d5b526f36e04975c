"""The layers that confine a worker. Imported by the fork server too, so: standard library only, nothing heavy."""
