"""The lint of the field's terms: each rule catches a sentence of the book and leaves good ones."""

import json

import pytest

from scripts import terms

# For each rule a sentence that stood in the book, and two that say the word in another sense.
EXAMPLES = {
    "place": (
        "The decoder says the token at each place.",
        "All are changed in place, in the first place the caches.",
        "A Transformer uses attention in three places; a norm takes the place of the sum.",
    ),
    "width": (
        "Take the dot product on random vectors of width 512.",
        "Kernel regression with three kernel widths.",
        "The figure's height and width are in pixels, whatever the beam width.",
    ),
    "weights (of a model)": (
        "With copied weights the library equals the naive version.",
        "The attention weights of each query sum to 1.",
        "Weight decay and weight tying act on every weight matrix.",
    ),
    "cut": (
        "The input is cut into slices, one for each head.",
        "Even a power cut leaves a whole file.",
        "There is no short cut.",
    ),
    "join": (
        "The paper joins the vocabularies of both languages.",
        "The others join them with spaces.",
        "The joint distribution is the product of the two.",
    ),
    "turned": (
        "On a batch, NumPy's `.T` turns all axes round.",
        "The softmax turns the scores into weights.",
        "It turned out to be the other cause.",
    ),
    "feel, hear, see (a tensor)": (
        "How many layers does it take until the last token feels the first?",
        "We will see why this happens.",
        "A word that was never seen is still made of known pieces.",
    ),
    "in use": (
        "In training the decoder reads right words, in use its own.",
        "The vector is already in use.",
        "What stayed in use is the soft kind.",
    ),
    "share": (
        "The share of sentences translated exactly falls with the length.",
        "In grouped-query attention several query heads share one head of keys.",
        "But padding has already taken its share.",
    ),
    "blind guess, yardstick": (
        "Its first loss should be that of a blind guess.",
        "Colour-blind readers can tell them apart.",
        "The norm is blind to stretching.",
    ),
    "likeness": (
        "How much of the help is the likeness of neighbours?",
        "Two shortcuts look alike and are wrong.",
        "Write it like this.",
    ),
    "factor and summand, gain": (
        "Each feature has a factor and a summand that training may change.",
        "Exact match shows no gain either.",
        "The roots differ by a factor of 1.155.",
    ),
    "by heart": (
        "One batch must be learned by heart.",
        "At the heart of the layer stands a softmax.",
        "Take heart.",
    ),
    "say (of a model)": (
        "The decoder must say the next one.",
        "Nothing in this model says whether it is BERT or GPT.",
        "The paper says that its base model has 65 million parameters.",
    ),
    "asked for": (
        "They differ in the set of positions that are asked for.",
        "Asked for the weights, it runs the formula.",
        "Each layer is asked for its weights.",
    ),
    "surprise (of a token)": (
        "The loss is the mean surprise of the six real tokens.",
        "Now the surprise at the start can be explained.",
        "The module has two surprises.",
    ),
    "parts (of a batch)": (
        "A mean of the parts' means gives wrong weights to tokens.",
        "The loop has five parts.",
        "Each head adds its own part to the output.",
    ),
    "row (of tokens)": (
        "We put a sentence and its translation into one row of tokens.",
        "Each row of the matrix sums to 1.",
        "Only the rows of tokens that occur get a gradient.",
    ),
    "gap (for a hidden token)": (
        "The encoder-only model reads both sides of the gap.",
        "A gap between the positions that a convolution reads.",
        "The loss is lowest at a gap of 7.8 between the logits.",
    ),
    "beginning (of an output)": (
        "Greedy decoding keeps one beginning.",
        "`BOS` marks the beginning and the end.",
        "At the beginning of training all weights are nearly equal.",
    ),
    "drawing (a token)": (
        "We search greedily, with a beam, or by drawing.",
        "The figures are drawings, drawn for white paper.",
        "The initial values are drawn from a normal distribution.",
    ),
    "products (of matrices)": (
        "With autocast it computes the large products in 16 bits.",
        "A large number of dot products.",
        "By the product rule there are three terms.",
    ),
    "mend": (
        "A beam of four does not mend it.",
        "We recommend a warm-up.",
        "The amendment is small.",
    ),
    "one after another": (
        "The loop takes as many steps, one after another.",
        "One after training, one before.",
        "Another follows.",
    ),
    "map (of a head)": (
        "It shows a map for each head.",
        "It shows an attention map for each head.",
        "On the book's map the heads are lit.",
    ),
    "linear map": (
        "Two linear maps with a simple function between them.",
        "An attention map is linear in the values.",
        "A linear layer comes last.",
    ),
    "row without a key": (
        "A row without a key gives zeros here.",
        "A fully masked row gives zeros here.",
        "It keeps no keys and values while it decodes.",
    ),
    "proved (by a test)": (
        "A chapter proves it equal to the library's version.",
        "We prove the identity by induction.",
        "One sentence proves nothing.",
    ),
    "stream": (
        "Each step adds to the stream.",
        "Each step adds to the residual stream.",
        "It expects a stream of batches, or a stream that ends.",
    ),
    "archaism": (
        "Whoever scales the query beforehand divides twice.",
        "Those who scale the query divide twice.",
        "Whatever the sizes, the shape never changes.",
    ),
}


@pytest.mark.parametrize("rule", terms.RULES, ids=lambda rule: rule.name)
def test_a_rule_catches_the_sense_that_it_means_and_leaves_others(rule):
    bad, *good = EXAMPLES[rule.name]
    assert rule.finds(bad)
    assert [sentence for sentence in good if rule.finds(sentence)] == []


def test_every_rule_has_its_examples():
    assert set(EXAMPLES) == {rule.name for rule in terms.RULES}


def test_markdown_is_read_without_what_is_no_prose():
    text = (
        "One.\n\n```python\nwidth = 'a cut'\n```\n\n"
        "$$\n\\text{width}\n$$\n\n"
        "```{table} A caption\n:name: tab-width\n\n| width | 2 |\n```\n\n"
        "`width` $width$ {cite}`width2017` [text](width.md#width) <b>two</b>\n"
    )
    seen = terms.visible(text)
    assert "One." in seen
    assert "A caption" in seen
    assert "[text]" in seen
    assert seen.count("width") == 1  # the table's cell
    assert seen.count("\n") == text.count("\n")


def test_a_sentence_ends_at_a_stop_a_block_and_a_cell():
    text = "# Title\nOne e.g. two.\nThree: [Four](x) five.\n\n- six\n- seven\n\n| eight | nine |"
    assert terms.sentences(text) == [
        *("# Title One e.g. two.", "Three:", "[Four](x) five."),
        *("- six", "- seven", "eight", "nine"),
    ]


def cell(kind="code", source="", outputs=(), **metadata):
    return {"cell_type": kind, "source": source, "outputs": list(outputs), "metadata": metadata}


@pytest.mark.parametrize(
    "seen",
    [
        cell("markdown", "The stream."),
        cell(source='print("the stream")'),
        cell(source='print(f"{1} the stream")'),
        cell(outputs=[{"output_type": "stream", "text": ["the ", "stream\n"]}]),
        cell(outputs=[{"output_type": "execute_result", "data": {"text/plain": "the stream"}}]),
        cell(outputs=[{"data": {"image/svg+xml": "<svg><text x='1'>the stream</text></svg>"}}]),
        cell(mystnb={"figure": {"caption": "The stream."}}),
        cell(mystnb={"image": {"alt": "The stream."}}),
        cell(mystnb={"code_prompt_show": "Tested: the stream."}),
    ],
    ids=lambda found: json.dumps(found)[:60],
)
def test_everything_that_a_notebook_shows_is_read(seen):
    notebook = json.dumps({"cells": [cell("markdown", "One."), seen]})
    (found,) = terms.finds(terms.notebook_texts(notebook, "book/x.ipynb"))
    assert found.passage.where == "cell 1"
    assert found.word.lower() == "the stream"
    assert found.instead == "residual stream"


def test_listings_and_names_in_code_are_not_read():
    listing = {"data": {"text/markdown": "```\n```", "text/plain": "the stream"}}
    cells = [cell(source="the_stream = 'stream'", outputs=[listing])]
    assert not list(terms.finds(terms.notebook_texts(json.dumps({"cells": cells}), "x.ipynb")))


def test_strings_of_python_have_their_lines_and_single_words_count_as_labels_only():
    source = '"""One.\n\nTwo streams\nrun.\n"""\nKEY = "width"\naxes.set_xlabel("width")\n'
    found = list(terms.finds(terms.python_strings(source, "x.py")))
    assert [(find.passage.where, find.word) for find in found] == [
        ("line 3", "Two streams"),
        ("line 7", "width"),
    ]


def test_strings_of_scripts_are_read_without_comments_and_what_is_filled_in():
    source = (
        "// the stream\nconst width = `the ${stream.width} stream`;\nb('in use, the stream');\n"
    )
    source += "label('Width'); style('width');\n"
    found = list(terms.finds(terms.script_strings(source, "x.js")))
    assert [(find.passage.where, find.word) for find in found] == [
        ("line 3", "in use"),
        ("line 3", "the stream"),
        ("line 4", "Width"),
    ]


def test_a_list_of_words_is_read_without_the_titles_that_it_points_to():
    source = 'stream: ["10#The stream"]\nthe stream: ["1#Two"]\n'
    found = list(terms.finds(terms.yaml_lines(source, "x.yml")))
    assert [find.passage.where for find in found] == ["line 2"]


def test_what_is_allowed_is_left_in_its_file_alone(monkeypatch):
    allowed = (terms.Allowed("a.md", "the stream of", "water"),)
    monkeypatch.setattr(terms, "ALLOWED", allowed)
    texts = [terms.Passage(file, "line 1", "By the stream of life.") for file in ("a.md", "b.md")]
    assert [find.passage.file for find in terms.finds(texts)] == ["b.md"]


def test_every_exception_is_needed():
    texts = [passage for path in terms.files() for passage in terms.passages(path)]
    for allowed in terms.ALLOWED:
        assert allowed.why
        assert any(
            allowed.file == passage.file and allowed.words in sentence
            for passage in texts
            for sentence in terms.sentences(passage.text)
        ), f"{allowed.file} no longer has {allowed.words!r}: take the exception out"


def test_a_bad_word_fails_the_lint_and_is_told_with_its_replacement(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(terms, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("Fine.\n\nIt adds to the stream. Fine.\n", encoding="utf-8")
    assert terms.main(["--only", str(page)]) == 1
    told = capsys.readouterr().out
    assert told.startswith('page.md, line 3: "the stream", say: residual stream\n')
    assert "It adds to the stream.\n" in told
    page.write_text("Fine.\n", encoding="utf-8")
    assert terms.main(["--only", str(page)]) == 0
