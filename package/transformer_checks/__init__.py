"""Cheap tests of a Transformer, or of an attention layer, that name the usual cause of a fault.

`check_model` and `check_attention_layer` give findings, one a line; `findings.insist()` raises
`CheckFailed` with all that does not hold. Under pytest the fixtures of the same names do both.
From "The Transformer, Piece by Piece", whose chapter on usual mistakes explains each test.
"""

from transformer_checks.framework import CheckFailed, Finding, Findings
from transformer_checks.properties import check_attention_layer, check_model

__all__ = ["CheckFailed", "Finding", "Findings", "check_attention_layer", "check_model"]
