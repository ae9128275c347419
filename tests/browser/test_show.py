"""The page of a run, opened from a file: it answers as Python does, and asks nobody."""

import pytest
from playwright.sync_api import expect

from lib.data import UNK
from scripts import check_engines
from show.__main__ import main
from show.measured import greedy, read
from show.page import PAGE
from tasks.translation import translation_pairs
from tests.browser.asking import ask, ask_in
from tests.show.runs import finished, good, turned
from tests.widget_samples import SAMPLES
from widgets.rounding import pack_rounded, rounded

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("one_thread")]
SENTENCES = 200


@pytest.fixture(scope="module")
def pages(tmp_path_factory, one_thread):
    """The folders of runs, and the pages made of them, by name."""
    root = tmp_path_factory.mktemp("shown")
    (root / "good").mkdir()
    (root / "pieces").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", 5)  # for models that have learned nothing
        runs = {"good": good(root / "good", 20)}
        pairs = {"train": turned(40), "valid": turned(9, 1), "test": turned(14, 2)}
        given = ("--steps=20", "--batch-size=20", "--subword=40", "--share", "--lr=0.02")
        runs["pieces"] = finished(root / "pieces", pairs, *given)
    for name, *arguments in (
        ("exact", runs["good"], "--bits=32"),
        ("eight", runs["good"]),
        ("pieces", runs["pieces"], "--bits=32"),
        ("both", runs["pieces"], runs["good"], "--sentences=5"),
    ):
        out = root / f"page-{name}"
        assert main([*map(str, arguments), "--device=cpu", f"--out={out}"]) == 0
    return root, runs


@pytest.fixture
def opened(tabs):
    """Opens a page from its file; afterwards it must have complained of nothing."""
    used = []

    def open_page(folder, width=1280, scheme="light"):
        tab, urls = tabs.take(width, 844), []

        def listen(request):
            urls.append(request.url)

        used.append((tab, urls, listen))
        tab.page.on("request", listen)
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.goto((folder / PAGE).as_uri())
        tab.page.wait_for_selector(".bw")
        return tab.page

    yield open_page
    for tab, urls, listen in used:
        tab.page.remove_listener("request", listen)
        problems = list(tab.problems)
        tabs.give(tab)
        assert any(url.endswith(PAGE) for url in urls)
        assert [url for url in urls if not url.startswith(("file:", "data:"))] == []
        assert problems == []


def said_by_python(run, texts):
    return greedy(run.model, run.vocabs, [tuple(text.split()) for text in texts])


@pytest.fixture(scope="module")
def answers(pages):
    """What Python says to sentences that the book's model has not been trained on."""
    pairs = translation_pairs()[1]
    texts = [" ".join(pair.source) for pair in pairs[:: len(pairs) // SENTENCES][:SENTENCES]]
    assert len(set(texts)) == SENTENCES
    return texts, [[*words, "<eos>"] for words in said_by_python(read(pages[1]["good"]), texts)]


@pytest.mark.parametrize(("name", "least"), [("exact", 1.0), ("eight", 0.98)])
def test_the_page_answers_as_python_does(pages, answers, opened, name, least):
    texts, expected = answers
    found = ask(opened(pages[0] / f"page-{name}"), texts)
    alike = sum(a == b for a, b in zip(found, expected, strict=True))
    assert alike >= least * SENTENCES
    assert len({tuple(words) for words in found}) > 0.9 * SENTENCES, "each has its own answer"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_firefox_and_webkit_answer_as_python_does(pages, answers, engine, tmp_path):
    texts, expected = answers
    for name, least in (("exact", 1.0), ("eight", 0.98)):
        copy = check_engines.listening_copy(pages[0] / f"page-{name}", tmp_path / name)
        url = (copy / PAGE).as_uri()
        engine.size(1300, 900)
        engine.open(url)
        found = ask_in(engine, texts)
        alike = sum(a == b for a, b in zip(found, expected, strict=True))
        assert alike >= least * SENTENCES
        assert check_engines.faults(engine, url, 0) == []


def test_sub_words_are_cut_and_put_together_as_python_does(pages, opened):
    root, runs = pages
    run = read(runs["pieces"])
    texts = [" ".join(pair.source) for pair in run.test[1][:12]]
    texts += ["abc xyz hgfedcba", "ab"]
    page = opened(root / "page-pieces")
    expected = said_by_python(run, texts)
    assert any(len(words) > 1 for words in expected)
    whole = []
    for text in texts:
        pieces = ask(page, [text])[0]
        line = page.locator(".ft-words")
        joined = line.inner_text().removeprefix("In words: ") if line.count() else None
        whole.append(joined or " ".join(piece for piece in pieces if piece != "<eos>"))
    assert whole == [" ".join(words) for words in expected]
    ask(page, ["abc xyz hgfedcba"])
    expect(page.locator(".co-form .bw-note")).to_have_text(
        "I read: abc xyz hgfedcba. Unknown to the model: xyz"
    )


def test_sub_words_have_python_s_numbers(pages, stage):
    run = read(pages[1]["pieces"])
    vocab = run.vocabs[0]
    words = sorted({word for pair in turned(80, 5) for word in pair.source})
    words += ["abcdefghabcdefgh", "z", "az", "é", "aaaa", "constructor", "a"]
    page = stage.functions(SAMPLES["forward_tracer"]())
    header = pack_rounded(run.model, *run.vocabs, 8, True).header
    found = page.evaluate(
        "([header, words]) => words.map(own.vocabulary.reader(header))",
        [header, words],
    )
    assert found == [vocab.encode([word]) for word in words]
    assert [UNK] in found
    assert max(map(len, found)) > 2


def test_the_page_reads_the_rounded_parameters(pages, stage):
    """To the last bit: what is multiplied in the page is what Python has measured."""
    run = read(pages[1]["good"])
    packed = pack_rounded(run.model, *run.vocabs, 8, True)
    page = stage.functions(SAMPLES["forward_tracer"]())
    page.evaluate(packed.script())
    found = page.evaluate(
        """(id) => { const { header, data } = bookModels[id];
        const all = own.parameters.read(header, own.parameters.fromText(data, header));
        return [...all].map(([name, numbers]) => [name, numbers.length,
          numbers.reduce((sum, x, i) => sum + x * (1 + i % 7), 0)]); }""",
        packed.id,
    )
    state = rounded(run.model, 8).state_dict()
    assert {name for name, *_ in found} == state.keys()
    for name, count, total in found:
        values = state[name].flatten().double()
        assert count == len(values)
        factors = 1 + values.new_tensor(range(count)) % 7
        assert total == pytest.approx((values * factors).sum().item(), rel=1e-9, abs=1e-9), name


def test_the_map_and_the_numbers_behind_a_weight_are_there(pages, opened):
    page = opened(pages[0] / "page-eight")
    ask(page, ["twenty two dollars"])
    expect(page.locator(".ft-title")).to_have_text("Decoder layer 2: cross-attention")
    expect(page.get_by_role("radio")).to_have_count(4)  # the heads
    page.locator(".bw-map tbody tr").nth(1).locator("td").nth(1).click()
    expect(page.locator(".ft-sums li").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_axe_finds_nothing(pages, opened, stage, width, scheme):
    page = opened(pages[0] / "page-both", width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert stage.violations(page) == []


def test_two_runs_stand_beside_each_other(pages, opened):
    root, runs = pages
    page = opened(root / "page-both")
    heads = page.locator("table").first.locator("thead th").all_inner_texts()
    assert heads == [str(runs["pieces"]), str(runs["good"])]
    expect(page.get_by_text("The two runs were scored on different sentences.")).to_be_visible()
    assert ask(page, ["six days ago"], place=1) == [["il", "y", "a", "six", "jours", "<eos>"]]
    assert ask(page, ["ab"], place=0)[0]
    lines = page.locator(".bw-lines g.bw-series")
    expect(lines).to_have_count(4)
    page.get_by_role("radio", name=str(runs["pieces"])).check(force=True)
    expect(lines).to_have_count(3)
    expect(page.locator(".bw-legend")).to_contain_text("the best: loss")
