"""A short formula as a line of text, for the search and for those who hear a page."""

import re
import unicodedata

SIGNS = {
    **{"cdot": " · ", "times": " × ", "odot": " ⊙ ", "le": " ≤ ", "ge": " ≥ ", "ne": " ≠ "},
    **{"approx": " ≈ ", "in": " ∈ ", "to": " → ", "mid": " | ", "dots": "…", "ldots": "…"},
    **{"infty": "∞", "ell": "ℓ", "top": "T", "sum": "Σ", "partial": "∂"},
}
NAMED = {"cos", "exp", "ln", "log", "max", "min", "sin", "tanh"}


def sign(name: str) -> str:
    """The character or the word for a command of LaTeX; nothing if it only says how to set it."""
    if name in SIGNS or name in NAMED:
        return SIGNS.get(name, name)
    case, letter = ("SMALL" if name.islower() else "CAPITAL"), name.removeprefix("var").upper()
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {letter}")
    except KeyError:
        return ""


def plain(latex: str) -> str:
    """A short formula as a line of text: `\\frac{1}{\\sqrt{d_k}}` becomes 1/√d_k."""
    text = re.sub(r"\\sqrt\s*", "√", latex)
    text = re.sub(r"\\t?frac\{((?:[^{}]|\{[^{}]*\})*)\}\s*", r"\1/", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda match: sign(match.group(1)), text)
    text = re.sub(r"\\.", " ", text)  # a space of some width
    return " ".join(re.sub(r"[{}~]", "", text).split())
