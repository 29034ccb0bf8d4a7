"""The tools that a team could pick instead, each run by its own interpreter in an environment of its own.

`*_run.*` are scripts for those environments: they see nothing of this project but `meter.py`.
"""
