"""Hold the words of the book to the field's: each rule knows a word that is not, and what is.

    python scripts/terms.py                          (in make lint)
    python scripts/terms.py --only book/06_masking.ipynb

Read is what a reader sees: the Markdown of chapters and pages without code, maths, options, targets
and citations; captions, alternative texts and printed outputs; strings of code cells, plots, checks
and widgets; docstrings and messages of the rooms of book; the pages' YAML files. Each find is
printed with its file, its cell or line, the word, what to say instead and the sentence.

These are words of everyday English too, so a rule names the sense that it means, by the words
around it, and stays silent where it cannot tell. What it catches wrongly stands in ALLOWED.
"""

import argparse
import ast
import functools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Passage(NamedTuple):
    """A piece of text that a reader sees: its file, where it stands there, its words."""

    file: str
    where: str
    text: str


class Find(NamedTuple):
    passage: Passage
    word: str
    instead: str
    sentence: str


# --- what a reader sees --------------------------------------------------------------------------

# Taken out of Markdown, in this order. What is taken out leaves a dot and its line ends, so that
# words left and right of it do not meet and lines can be counted.
UNSEEN = [
    re.compile(pattern, re.MULTILINE | re.DOTALL)
    for pattern in (
        r"^[ ]*(?P<fence>`{3,}|~{3,})(?!\{)[^\n]*\n.*?^[ ]*(?P=fence)[ ]*$",  # code
        r"^[ ]*(?P<fence>`{3,}|:{3,})\{(math|bibliography)\}.*?^[ ]*(?P=fence)[ ]*$",
        r"\$\$.*?\$\$",
        r"\\begin\{(\w+\*?)\}.*?\\end\{\1\}",
        r"(?<!\\)\$(?=\S)[^$]+?(?<=\S)\$",
        r"<!--.*?-->",
        r"^[ ]*:[\w-]+:[^\n]*$",  # a directive's option
        r"^[ ]*(`{3,}|:{3,})(\{[\w:-]+\})?",
        r"^[ ]*\([\w-]+\)=[ ]*$",
        r"\{[\w:-]+\}`[^`]*`",  # a role
        r"`+[^`]+`+",
        r"(?<=\])\([^()\s]*(\([^()]*\)[^()\s]*)*\)",  # a link's target
        r"</?[a-z][^>]*>|<https?:[^>]*>",
    )
]
# A block ends where the next begins: after an empty line, at a heading, an item, a table's cell.
BLOCK = re.compile(r"\n[ \t]*(?=\n|#|[-*+] |\d+\. )|\|")
SENTENCE = re.compile(r"(?<=[.!?:])[\"')*_]*\s+(?=[\"'(*_\[]*[A-Z·])")
PROSE = re.compile(r"[A-Za-z]{2}")
# A script's strings; a comment or a regular expression between them is skipped.
SCRIPT_STRING = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`",
    re.DOTALL,
)

LABEL = re.compile(r"[A-Z][a-z]+")


def visible(markdown: str) -> str:
    """Markdown without what no reader reads as words; each line stays where it was."""
    for pattern in UNSEEN:
        markdown = pattern.sub(lambda found: "·" + "\n" * found[0].count("\n"), markdown)
    return markdown


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line."""
    blocks = (re.sub(r"\s+", " ", block).strip() for block in BLOCK.split(text))
    return [part for block in blocks for part in SENTENCE.split(block) if PROSE.search(part)]


def joined(node: ast.expr) -> str | None:
    """The words of a string, an f-string or a sum of them; · where something is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(joined(part) or "·" for part in node.values)
    return None


def is_label(call: ast.Call) -> bool:
    """Whether a call's strings stand in a figure, even single words."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name.startswith("plot_") or name in ("set_xlabel", "set_ylabel", "set_title", "set")


def python_strings(source: str, file: str, where: str = "") -> Iterator[Passage]:
    """The strings of a source, docstrings and messages alike, as Markdown is read. A single word
    counts where it is the label of a figure.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell may show one
        return
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_label(node)]
    labels = {id(part) for call in calls for part in ast.walk(call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or id(node) in inside:
            continue
        text = joined(node)
        if not text or (" " not in text.strip() and id(node) not in labels):
            continue
        if where:
            yield Passage(file, where, visible(text))
        else:
            yield from page_lines(text, file, node.lineno)


def script_strings(source: str, file: str) -> Iterator[Passage]:
    """The strings of a widget's script; a single word counts if it is written as a label is."""
    for found in SCRIPT_STRING.finditer(source):
        text = next(filter(None, found.groups()), "")
        if " " in text.strip() or LABEL.fullmatch(text):
            line = source.count("\n", 0, found.start()) + 1
            yield Passage(file, f"line {line}", re.sub(r"\$\{[^}]*\}", "·", text))


def notebook_texts(source: str, file: str) -> Iterator[Passage]:
    """What a notebook shows, cell by cell; no error's way through the code, no listing of lib."""
    for i, cell in enumerate(json.loads(source)["cells"]):
        text = "".join(cell["source"])
        where = f"cell {i}"
        if cell["cell_type"] == "markdown":
            yield Passage(file, where, visible(text))
            continue
        shown = cell["metadata"].get("mystnb", {})
        words = [
            shown.get("figure", {}).get("caption", ""),
            shown.get("image", {}).get("alt", ""),
            shown.get("code_prompt_show", ""),
        ]
        for output in cell.get("outputs", []):
            data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
            words.append("".join(output.get("text", "")))
            if "text/markdown" not in data:  # a listing of lib, which is read there
                words.append(data.get("text/plain", ""))
            drawing = re.sub(
                r"<style.*?</style>", "", data.get("image/svg+xml", ""), flags=re.DOTALL
            )
            words += re.findall(r"<text[^>]*>(.*?)</text>", drawing, re.DOTALL)
        yield from (Passage(file, where, visible(text)) for text in words if text)
        yield from python_strings(text, file, where)


def page_lines(source: str, file: str, line: int = 1) -> Iterator[Passage]:
    """A page's Markdown, a passage for each block, with its line."""
    for block in re.split(r"(\n[ \t]*\n)", visible(source)):
        if block.strip():
            yield Passage(file, f"line {line}", block)
        line += block.count("\n")


def yaml_lines(source: str, file: str) -> Iterator[Passage]:
    """The lines of a list of words, without the titles of chapters' sections, which stand there."""
    for number, line in enumerate(source.splitlines(), 1):
        yield Passage(file, f"line {number}", visible(re.sub(r"\d+#[^\"]*", "·", line)))


READERS = {
    ".ipynb": notebook_texts,
    ".md": page_lines,
    ".yml": yaml_lines,
    ".py": python_strings,
    ".js": script_strings,
}
ROOMS = (
    *("lib", "tasks", "checks", "drawing", "widgets", "widgets/js", "widgets/js/parts", "engine"),
    *("measure", "train", "chapters/*", "chapters/*/parts"),
)
READ = (
    *("README.md", "CONTRIBUTING.md", "requirements/README.md", "tests/README.md"),
    *("book/*.ipynb", "book/*.md", "book/*.yml", "book/chapters/README.md"),
    "book/chapters/*/words.yml",
    *(f"book/{room}/README.md" for room in ROOMS),
    *(f"book/{room}/*.{ending}" for room in ROOMS for ending in ("py", "js")),
    "book/static/*.js",
)


def files() -> list[Path]:
    """What readers read; not the lists of answers, which are written as readers write."""
    found = {path for pattern in READ for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path.name != "answers.py")


def passages(path: Path) -> list[Passage]:
    name = path.resolve().relative_to(ROOT).as_posix()
    return list(READERS[path.suffix](path.read_text(encoding="utf-8"), name))


# --- the rules -----------------------------------------------------------------------------------


class Rule(NamedTuple):
    """A word's sense that the field calls otherwise: its patterns, less those of other senses.

    The patterns in `leave` go first: what one of them covers is no find.
    """

    name: str
    instead: str
    catch: tuple[str, ...]
    leave: tuple[str, ...] = ()

    def finds(self, sentence: str) -> list[str]:
        """The words of a sentence that are meant, as they stand there."""
        return [found["word"] for found in compiled(self).finditer(sentence) if found["word"]]


@functools.cache
def compiled(rule: Rule) -> re.Pattern[str]:
    leave = "|".join((*rule.leave, r"(?!)"))
    return re.compile(rf"\b(?:(?:{leave})|(?P<word>{'|'.join(rule.catch)}))", re.IGNORECASE)


# What only some words around it tell apart, for more than one rule.
TENSOR = (
    r"(?:positions?|query|queries|tokens?|outputs?|logits?|vectors?|states?|keys?|cells?|rows?"
    r"|heads?|steps?|neighbours?|attention|softmax|layers?)(?: ·| \d+| alone| [a-z]\b)?"
)
MAY = r"(?:(?:can|may|might|must|could|does|do|did|will|need|should|to|cannot|never|not|now) )*"
SPEAKER = r"(?:models?|decoder|network|translator|family|hypothesis)(?: that| which)?"

RULES = (
    Rule(
        "place",
        "position",
        (
            r"place (?:by|to) place",
            r"(?:each|every|all|any|both|some|many|other|same) places?\b",
            r"(?:masked|hidden|random|easy|twelve) places?\b",
            r"(?:\d+|·) (?:more )?places\b(?!:)",
            r"places? (?:of|are|is) padding",
            r"(?:over|at|per|between) (?:the |its |a |one |twelve |that |which )?places?\b",
            r"by one place\b",
            r"(?:token|word|position|key|query)'s place\b",
            r"its place, made",
            r"in one place and 0",
            r"one place at random|looking at one place",
            r"place in the data",
        ),
        (r"at the place where", r"in all places\b", r"(?:to|ten|four|six) places\b"),
    ),
    Rule(
        "width",
        "dimension",
        (r"(?<!-)widths?\b(?!\))",),
        (
            r"(?:kernel|beam|line|column|page|screen|stroke|bin|window|bar)(?:'s)? widths?",
            r"(?:beam|search|convolution|kernel|window|band)s?;? (?:of|has|have|with) width",
            r"width of (?:a|the|an|one|each|its)? ?(?:figure|picture|image|line|column|panel|page)",
            r"width of (?:a|the|an|one|each|its)? ?(?:window|kernel|convolution|beam|band|bar|box)",
            r"width and height|height(?:,| and| or)? width|batch (?:\d )?(?:height )?width",
            r"(?:units|pixels|letters) in width|width of at most \S+ and a height",
            r"width ?\*|widths?\.(?=\w)",
        ),
    ),
    Rule(
        "weights (of a model)",
        "parameters",
        (
            r"(?:random|copied|real|published|stored|saved|loaded|own|best|same) weights\b",
            r"(?:model|network|module|somebody)'s weights\b",
            r"(?:cop(?:y|ies|ying)|load(?:s|ed|ing)?|saves?|saved|saving|stir|mov(?:e|es|ing)|trains?)"
            r" (?:the |its |our |their |all |only )*(?:\w+'s )?weights\b",
            r"weights (?:to learn|that were trained|trained for|as they were drawn|drawn)",
            r"weights of variance",
            r"weights (?:from elsewhere|and (?:biases|vocabular|sizes|generators|loss))",
            r"weights, (?:the )?(?:optimiser|sizes|biases|gradients|vocabular)",
            r"whatever its weights|all weights (?:are random|equal, bit|move)",
            r"(?:each|every|a|the) weight's (?:mean |steps|gradient)",
            r"gradients? of (?:a|the|each|every) weights?\b",
            r"weights of (?:a|the|one|two|both|each) (?:\w+ )?(?:model|network|module|checkpoint)",
        ),
        (r"attention(?:'s)? weights",),
    ),
    Rule(
        "cut",
        "split, clip, truncate, tokenise or filter",
        (r"cuts?\b(?!\()", r"cutting\b", r"uncut\b"),
        (r"power cuts?", r"short cuts?", r"cuts? (?:off|out|short|costs)\b", r"cutting off\b"),
    ),
    Rule(
        "join",
        "concatenate, merge, combine or connect",
        (r"join(?:s|ed|ing)?\b(?!\()",),
        (r"join(?:s|ed|ing)? \w+ with spaces",),
    ),
    Rule(
        "turned",
        "transposed; rotated; converted",
        (
            r"turn(?:s|ed|ing)? (?:\S+ ){0,3}(?:round|around)\b",
            r"turns? (?:every|all) (?:axis|axes)",
            r"turned (?:by|alike|pairs?|to float)",
            r"(?:are|is) (?:not )?turned(?=[.,:;]|$)",
            r"turn(?:s|ing) (?:the )?(?:queries|pairs|keys)\b",
            r"turns each pair",
        ),
    ),
    Rule(
        "feel, hear, see (a tensor)",
        "depends on, attends to; receptive field",
        (
            r"(?:feels?|felt|hears?|heard)\b",
            rf"(?<!of ){TENSOR} {MAY}sees?\b",
            r"(?:lets?|letting) (?:\S+ ){1,3}see\b",
            r"who (?:may|can) see whom",
        ),
        (r"heard of",),
    ),
    Rule(
        "in use",
        "at inference",
        (r"in use\b",),
        (r"(?:already|stayed|still|memory|longer|now) in use",),
    ),
    Rule(
        "share",
        "fraction, accuracy",
        (
            r"shares? (?:of|from 0|above|not above)\b",
            r"(?:a|the|such|each|one|this|these|whose|mean|random|as|are|two) shares?\b"
            r"(?! (?:an?|the|one|its|their|this|these|no|some|all|any|keys?|values?)\b)",
            r"(?<!.)shares?(?!.)",  # a label
        ),
        (r"taken? (?:its|their) share", r"(?:heads|models|layers|sentences|both|all|ranges) share"),
    ),
    Rule(
        "blind guess, yardstick",
        "uniform prediction, unigram or bigram baseline",
        (r"(?<!-)blind (?:guess|reader|model)\w*", r"yardsticks?\b"),
    ),
    Rule(
        "likeness",
        "cosine similarity, similarity; of similar length",
        (r"likeness(?:es)?\b", r"of (?:a )?like (?:length|size)"),
    ),
    Rule(
        "factor and summand, gain",
        "scale and bias",
        (
            r"summands?\b",
            r"gains? (?:·|and (?:a )?bias\b|of 1|1\b|for each|is missing|comes|starts|can make)",
            r"(?:a|its|learned|no) gain\b",
        ),
        (r"gain and bias \(", r"no gain (?:either|in|from)", r"a gain (?:of|in) (?!1\b)"),
    ),
    Rule("by heart", "overfit, memorised", (r"by heart\b",)),
    Rule(
        "say (of a model)",
        "predicts",
        (
            rf"{SPEAKER} {MAY}say(?:s|ing)?\b(?! (?:whether|that)\b)",
            r"must (?:also |then |only )?say\b",
            r"(?:train|learn|taught|teach)\w* (?:\w+ ){0,2}to say\b",
            r"(?:to|and) says? the (?:next|right) (?:token|word|character|one)",
            r"(?:tokens?|nothing left|words?) (?:left )?to say\b",
        ),
    ),
    Rule(
        "asked for",
        "target",
        (
            r"(?:loss|objective)(?: ·)? asks? for",
            r"(?:is|are|was|were|be|those|tokens?|words?) asked for\b(?! (?:its|their|the|an?) )",
        ),
    ),
    Rule(
        "surprise (of a token)",
        "negative log-likelihood",
        (r"(?:mean|total) surprise\b", r"surprise of (?:a|the|each) (?:\w+ )?(?:token|word)"),
    ),
    Rule(
        "parts (of a batch)",
        "micro-batches",
        (
            r"(?:the |all )?parts' means",
            r"(?:each|last|first|short|small) part(?:'s)? (?:mean|gradient|loss|is left)\b",
            r"(?:short|small) part (?:counts|more)\b",
            r"mean of the parts\b|counted in parts|counts parts|loss of parts|parts count by",
            r"(?:sum|add up|adds up) over (?:the )?parts|gradients of several parts",
            r"(?:\d+|·|several|so many) parts (?:to|in|make|for|before)",
            r"tokens (?:in|of) (?:all|its|the|all the) parts",
            r"stepped for each \*?part\b",
            r"part may be as big",
        ),
    ),
    Rule(
        "row (of tokens)",
        "sequence",
        (
            r"row of (?:\w+ )?(?:tokens|words)\b",
            r"(?:longest|shorter|shortest) rows?\b",
            r"reads? the whole row\b|rows read\b|each row's next",
            r"row with (?:a )?gaps?",
        ),
    ),
    Rule(
        "gap (for a hidden token)",
        "masked token",
        (
            r"fills? (?:a |the )?gaps?\b",
            r"(?:at|in|into|from|with|of) (?:a|the) gap\b(?! (?:of|between))",
            r"gaps? (?:at|in) positions?|the gap's|gap whose|sees no gap|two gaps at once",
        ),
    ),
    Rule(
        "beginning (of an output)",
        "prefix",
        (r"beginnings?\b",),
        (
            r"(?:mark|at|in|from|since|to) the beginning",
            r"beginnings? (?:and|of a (?:long )?text|of (?:the|this) (?:chapter|book|training))",
        ),
    ),
    Rule(
        "drawing (a token)",
        "sampling",
        (
            r"by drawing\b|drawing (?:instead|should)",
            r"draws? (?:each|the next|one|a) (?:token|word|place|position)",
            r"draw\*? (?:each token|instead)",
            r"drawn (?:token|in about|sentence)",
        ),
    ),
    Rule(
        "products (of matrices)",
        "matrix multiplications",
        (
            r"(?:large|larger|small|square|layers'|few|sees|many|second|these) products?\b"
            r"(?! (?:rule|of probabilities))",
            r"products (?:that|left|on it)\b",
            r"(?:one|needs one|in one|a second) product (?:for|with|gives|forms)",
        ),
        (r"(?:dot|matrix|inner|outer)[- ]products?",),
    ),
    Rule("mend", "fix", (r"mend(?:s|ed|ing)?\b",)),
    Rule("one after another", "sequential", (r"one after (?:another|the other)\b",)),
    Rule(
        "map (of a head)",
        "attention map",
        (
            r"maps? (?:of|for) (?:\w+ ){0,3}heads?\b",
            r"(?:cell|row|column)s? of (?:the|a|all|each|every) maps?\b",
            r"(?:a|the|one|each|every) map (?:shows?|does not|must|brings|tells|says|leaves)\b",
            r"the maps (?:tell|show|multiply|take|sum)\b|numbers in the maps?",
            r"(?:each|every) head's map|weights in maps",
        ),
        (r"attention maps? (?:of|for)", r"(?:the book's|feature|linear) maps?"),
    ),
    Rule("linear map", "linear layer", (r"linear maps?\b",)),
    Rule(
        "row without a key",
        "fully masked row",
        (
            r"(?:rows?|positions?|query|queries) (?:\w+ )?(?:without|with no|has no|have no) "
            r"(?:an? |any )?(?:allowed )?keys?\b",
            r"empty rows?\b|no row is empty",
            r"leaves no key\b|allows no key\b|no key is left|no key left",
        ),
        (r"keeps no keys? and values?",),
    ),
    Rule(
        "proved (by a test)",
        "tested",
        (
            r"prov(?:e|es|ed|en|ing)\b"
            r"(?=[^.]*\b(?:asserts?|assertions?|tests?|equal|leaks?|derivatives|torch)\b)",
        ),
    ),
    Rule(
        "stream",
        "residual stream",
        (
            r"(?:the|two|its|their|upper|lower|decoder's|encoder's|own) streams?\b",
            r"a stream (?:is|runs|to which)\b",
        ),
        (
            r"stream of (?:batch|text|byte|strip|token)\w*",
            r"(?:the|a) stream (?:stands|ends|that ends)",
        ),
    ),
    Rule(
        "archaism",
        "plain English",
        (
            r"shall\b|who(?:so)?ever\b|where(?:in|by|upon|of)\b|there(?:in|of|upon)\b|hitherto\b",
            r"lest\b|whilst\b|amongst\b|unto\b|learnt\b|many an? (?:hand|reader|model)\b",
        ),
    ),
)


class Allowed(NamedTuple):
    """Words that a rule catches and that stand rightly: where, which, and why."""

    file: str
    words: str
    why: str


ALLOWED: tuple[Allowed, ...] = ()


def is_allowed(passage: Passage, sentence: str, word: str) -> bool:
    return any(
        passage.file == allowed.file and word in allowed.words and allowed.words in sentence
        for allowed in ALLOWED
    )


def finds(texts: Iterable[Passage], rules: Iterable[Rule] = RULES) -> Iterator[Find]:
    """What the rules catch in some passages, less what is allowed."""
    for passage in texts:
        for sentence in sentences(passage.text):
            for rule in rules:
                for word in rule.finds(sentence):
                    if not is_allowed(passage, sentence, word):
                        yield Find(passage, word, rule.instead, sentence)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", metavar="FILE", help="read these alone, whatever they are"
    )
    only = parser.parse_args(arguments).only
    chosen = [Path(name) for name in only] if only else list(files())
    found = dict.fromkeys(find for path in chosen for find in finds(passages(path)))
    for passage, word, instead, sentence in found:
        print(f'{passage.file}, {passage.where}: "{word}", say: {instead}\n    {sentence}')
    print(f"terms: {len(found)} to change, in {len(chosen)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
