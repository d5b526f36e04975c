"""The process that runs model-written code. Standard library only: it is forked from a warm, bare interpreter."""
