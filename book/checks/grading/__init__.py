"""Notebooks that learners hand in: their answers are found, run in confinement, and checked."""
