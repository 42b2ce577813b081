"""Imported once by the process that brain processes are forked from, so that a new life costs milliseconds."""

from agent_kernel.loop.graph import run_graph
from agent_kernel.models.resolver import warm_up

warm_up()
run_graph()
