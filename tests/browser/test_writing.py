"""The language model's task: its counts, how it draws, what it keeps back, and one run of it."""

import collections
import json
import math

import pytest
import torch

from lib.decoding import keep_top_k, keep_top_p, with_temperature
from tests.browser.laboratory_page import LaboratoryPage

pytestmark = pytest.mark.browser
NAMES = "\n".join(a + b + c for a in ("Ma", "Lo", "Bri", "To") for b in "rnlst" for c in ("a", "o"))
NAMES += "\n" + "\n".join(f"Zo{a}{b}" for a in "abcdefghij" for b in "eiou")
POEM = "The cat sat on the mat, and the dog sat on the log.\nSo they both were flat.\n\n" * 12
MAKE = """const work = tasks.make("writing", { text, merges: $MERGES, dropout: 0 }, makeRandom(1));
  const unsure = ({ rows, time }) => ({ maps: [],
    logits: new Float32Array(rows * time * work.design.source_vocab) });"""
PAIRS, MAKE = (MAKE.replace("$MERGES", merges) for merges in ("40", "0"))


@pytest.fixture(scope="module")
def lab(browser):
    page = LaboratoryPage(browser)
    yield page
    page.page.close()


def counted(taught: list[str], held: list[str], classes: int, most: int) -> list[float]:
    """Witten and Bell's n-grams, as their formula has it, for each n."""

    def seen(context: str) -> collections.Counter:
        n = len(context)
        return collections.Counter(
            row[i]
            for row in taught
            for i in range(max(1, n), len(row))
            if row[i - n : i] == context
        )

    def chance(context: str, token: str) -> float:
        counts = seen(context)
        lower = chance(context[1:], token) if context else 1 / classes
        if not counts:
            return lower
        kinds = len(counts)
        return (counts[token] + kinds * lower) / (counts.total() + kinds)

    places = [(row, i) for row in held for i in range(1, len(row))]
    return [
        -sum(math.log(chance(row[max(0, i - n + 1) : i], row[i])) for row, i in places)
        / len(places)
        for n in range(1, most + 1)
    ]


def test_counts_are_witten_and_bells(lab):
    taught = ["^banana$", "^bandana$", "^ananas$", "^nab$"]
    held = ["^banal$", "^canada$", "^nan$"]
    found = lab.run(
        """const ids = (rows) => rows.map((row) => [...row].map((c) => c.charCodeAt(0)));
        return $counts.countedLosses(ids(taught), ids(held), 9);""",
        taught=taught,
        held=held,
    )
    assert found == pytest.approx(counted(taught, held, 9, 6), rel=1e-9)
    assert found[0] > found[1], "one character before says something"


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(("k", "p"), [(0, 1.0), (3, 1.0), (0, 0.7), (5, 0.5), (1, 1.0), (0, 0.1)])
def test_chances_are_those_of_the_library(lab, temperature, k, p):
    torch.manual_seed(k)
    logits = torch.randn(20, 17)
    expected = with_temperature(logits, temperature)
    if k:
        expected = keep_top_k(expected, k)
    expected = keep_top_p(expected, p).softmax(dim=-1)
    found = lab.run(
        "return rows.map((row) => $sampling.probabilities(row, { temperature, k, p }));",
        rows=logits.tolist(),
        temperature=temperature,
        k=k,
        p=p,
    )
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float32), expected, rtol=1e-4, atol=1e-6
    )


def test_draws_are_as_likely_as_their_chances(lab):
    chances = [0.0, 0.5, 0.2, 0.0, 0.3, 0.0]
    found = lab.run(
        """const random = makeRandom(3);
        return Array.from({ length: 20000 }, () => $sampling.drawn(chances, random.uniform()));""",
        chances=chances,
    )
    each = collections.Counter(found)
    for token, chance in enumerate(chances):
        assert each[token] / len(found) == pytest.approx(chance, abs=0.015)
    last = lab.run("return $sampling.drawn(chances, 1 - 2 ** -53);", chances=[0.7, 0.3 - 1e-9, 0])
    assert last == 1, "never one that was left out"


def test_a_list_is_read_line_by_line(lab):
    found = lab.run(
        f"""{MAKE}
        const one = work.batch(makeRandom(5));
        return {{ one, probe: work.probe(unsure), pieces: work.ask(unsure, "{{}}").pieces }};""",
        text=NAMES + "\n\n" + NAMES,
    )
    one, sizes, pieces = found["one"], found["probe"]["sizes"], found["pieces"]
    lines = set(NAMES.split("\n"))
    assert sizes["listed"]
    assert sizes["taught"] + sizes["held"] == len(lines)
    assert sizes["held"] == pytest.approx(len(lines) / 10, abs=6)
    assert pieces == sorted(set(NAMES))
    assert sizes["kinds"] == len(pieces)
    rows, time = one["rows"], one["time"]
    for row in range(rows):
        tokens, targets = (one[k][row * time : (row + 1) * time] for k in ("tokens", "targets"))
        line = "".join(pieces[t] for t in targets if t > 0)
        assert line in lines
        assert tokens[: len(line) + 1] == [0, *targets[: len(line)]], "each token one step later"
        assert targets[len(line)] == 0
        assert set(targets[len(line) + 1 :]) <= {-1}, "no target behind the end"
    uniform = math.log(len(pieces))
    assert found["probe"]["taught"] == pytest.approx(uniform, rel=1e-5)
    assert found["probe"]["held"] == pytest.approx(uniform, rel=1e-5)


def test_running_text_is_read_in_windows_and_its_end_is_kept_back(lab):
    found = lab.run(
        f"""{MAKE}
        const batches = Array.from({{ length: 40 }}, (_, n) => work.batch(makeRandom(n)));
        return {{ batches, pieces: work.ask(unsure, "{{}}").pieces,
          sizes: work.probe(unsure).sizes }};""",
        text=POEM + "ZZZ end of it, never shown",
    )
    pieces, sizes = found["pieces"], found["sizes"]
    assert not sizes["listed"]
    for one in found["batches"]:
        assert one["time"] == 64
        for row in range(one["rows"]):
            window = slice(row * 64, (row + 1) * 64)
            text = "".join(pieces[t] for t in one["tokens"][window])
            assert text in POEM
            assert one["targets"][window][:-1] == one["tokens"][window][1:]
    assert sizes["held"] == pytest.approx((sizes["taught"] + sizes["held"]) / 10, abs=1)


def test_copies_are_told_from_what_is_new(lab):
    """By a model that is sure of a line: of the text, of what was kept back, and of neither."""
    body = f"""{MAKE}
      const lines = text.split("\\n");
      const {{ isHeldOut }} = $batches;
      const wanted = [lines.find((one) => !isHeldOut(one, 10)), lines.find((one) =>
        isHeldOut(one, 10)), "Matano"];
      const {{ pieces }} = work.ask(unsure, "{{}}");
      return wanted.map((line) => {{
        const read = ({{ rows, time }}) => {{
          const logits = new Float32Array(rows * time * pieces.length);
          for (let row = 1; row <= rows; row += 1) {{
            const next = time - 1 < line.length ? pieces.indexOf(line[time - 1]) : 0;
            logits[(row * time - 1) * pieces.length + next] = 60;
          }}
          return {{ logits, maps: [] }};
        }};
        const wish = JSON.stringify({{ prefix: line.slice(0, 2) }});
        const {{ texts, start }} = work.ask(read, wish);
        return {{ line, start, texts: texts.map(({{ said, state, chances }}) =>
          [said, state, chances.length]) }};
      }});"""
    for one, state in zip(lab.run(body, text=NAMES), ("copied", "kept", "new"), strict=True):
        assert one["start"] == 2
        line = one["line"]
        assert one["texts"] == [[line, state, len(line) - 2 + 1]] * 8, "with its end"


def test_a_copied_stretch_of_running_text_is_marked(lab):
    text = POEM + "A quite different end, which the model is not shown at all."
    piece = "the dog sat on the log.\nSo they"
    said = f"zzz {piece} zzz"
    found = lab.run(
        f"""{MAKE}
        const {{ pieces }} = work.ask(unsure, "{{}}");
        let n = 0;
        const read = ({{ rows, time }}) => {{
          const logits = new Float32Array(rows * time * pieces.length);
          logits[(time - 1) * pieces.length + pieces.indexOf(said[n % said.length])] = 60;
          n += 1;
          return {{ logits, maps: [] }};
        }};
        return work.ask(read, "{{}}").texts[0];""",
        text=text + " zq",
        said=said.replace("zzz", "cat"),
    )
    wanted = said.replace("zzz", "cat")
    assert found["said"].startswith(wanted)
    assert found["state"] == "text"
    begin = found["copies"][0][0]
    assert found["said"][begin : begin + 20] in POEM
    for begin, end in found["copies"]:
        assert end - begin >= 20
        assert found["said"][begin:end] in POEM


@pytest.mark.parametrize(
    ("text", "message"),
    [("too short", "at least 400"), ("", "at least 400"), (None, "expected text to be a text")],
)
def test_a_text_that_does_not_do_is_said(lab, text, message):
    found = lab.refusal(MAKE, text=text)
    assert message in found["message"]


def test_a_beginning_that_does_not_do_is_said(lab):
    body = f"""{MAKE} return work.ask(() => null, JSON.stringify({{ prefix }})).error;"""
    assert "The model does not know “ß”" in lab.run(body, text=NAMES, prefix="Maß")
    assert "at most" not in lab.run(body, text=NAMES, prefix="Maß")
    assert "continues at most 30 letters" in lab.run(body, text=NAMES, prefix="Ma" * 16)


def test_rare_characters_are_left_out(lab):
    strange = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    found = lab.run(f"""{MAKE} return work.design.source_vocab;""", text=POEM + strange)
    assert found == 120


@pytest.mark.parametrize(("plain", "merges"), [(False, 0), (True, 0), (False, 40)])
def test_a_run_learns_and_is_the_same_again(lab, plain, merges):
    body = """const runs = [];
      for (let n = 0; n < 2; n += 1) {
        const run = await start("writing", { text, merges, dropout: 0.1 }, 4, plain);
        const first = run.probe("");
        while (run.step().step < 80);
        const asked = run.ask(JSON.stringify({ prefix: "Ma", temperature: 0.5 }));
        runs.push({ first, last: run.probe(""), said: asked.texts.map(({ said }) => said),
          parts: asked.texts[0].row.length,
          maps: asked.maps[0].map(({ name, heads, queries }) => [name, heads, queries]) });
      }
      return runs;"""
    first, again = lab.run(body, text=NAMES, plain=plain, merges=merges)
    assert first == again
    assert first["last"]["taught"] < 0.6 * first["first"]["taught"]
    assert all(said.startswith("Ma") for said in first["said"])
    queries = min(32, first["parts"] + 1)
    assert (queries == len(first["said"][0]) + 1) is (merges == 0)
    assert first["maps"] == [["layer 1", 4, queries], ["layer 2", 4, queries]]
    assert json.dumps(first["last"]["sizes"])


def test_the_loss_of_byte_pairs_is_for_each_character(lab):
    """Of a model that knows nothing: ln of the pieces for each of them, over all characters."""
    body = """const { probe, ask, pieces } = { probe: work.probe(unsure), pieces:
        work.ask(unsure, "{}").pieces, ask: (text) => work.ask(unsure, JSON.stringify({
          prefix: text })).start };
      const lines = [...new Set(text.split("\\n"))];
      return { probe, pieces, held: lines.filter((line) => $batches.isHeldOut(line, 10)),
        tokens: lines.map(ask) };"""
    found, plain = (lab.run(make + body, text=NAMES) for make in (PAIRS, MAKE))
    lines = list(dict.fromkeys(NAMES.split("\n")))
    tokens = dict(zip(lines, found["tokens"], strict=True))
    held = found["held"]
    assert sum(map(len, held)) > sum(tokens[line] for line in held)
    expected = math.log(len(found["pieces"])) * sum(tokens[line] + 1 for line in held)
    expected /= sum(len(line) + 1 for line in held)
    assert found["probe"]["held"] == pytest.approx(expected, rel=1e-5)
    assert found["probe"]["counted"] == plain["probe"]["counted"], "of characters, as before"
    taught = [line for line in lines if line not in held]
    mean = sum(len(line) + 1 for line in taught) / sum(tokens[line] + 1 for line in taught)
    assert found["probe"]["sizes"]["long"] == pytest.approx(mean, rel=1e-9)
    assert plain["probe"]["sizes"]["long"] == 1


def test_byte_pairs_are_learnt_from_what_is_not_kept_back(lab):
    """So the pieces are the same, whatever stands in the part that the model is not shown."""
    body = """return work.ask(unsure, "{}").pieces;"""
    one, other = (
        lab.run(PAIRS + body, text=POEM * 6 + end * 34)
        for end in ("qd zk qd zk gag ", "zk dq gz dq zka ")
    )
    assert one == other
    assert len(max(one, key=len)) > 2


def test_running_text_of_byte_pairs_is_written_as_long(lab):
    found = lab.run(PAIRS + """return work.ask(unsure, "{}").texts[0];""", text=POEM * 6)
    assert 180 <= len(found["said"]) < 200
    assert len(found["chances"]) == len(found["row"]) < len(found["said"])


def test_a_copy_of_byte_pairs_is_marked_by_its_pieces(lab):
    found = lab.run(
        f"""{PAIRS}
        const said = "flat cat " + text.slice(0, 40);
        const {{ pieces }} = work.ask(unsure, "{{}}");
        const prefix = (text) => work.ask(unsure, JSON.stringify({{ prefix: text }})).texts[0];
        const {{ row, copies }} = prefix(said);
        return copies.map(([from, to]) => row.slice(from, to).map((id) => pieces[id]).join(""));
        """,
        text=POEM * 6,
    )
    assert len(found) >= 1
    for copy in found:
        assert len(copy) >= 20
        assert copy in POEM
