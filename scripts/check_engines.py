"""Opens the built book in Firefox and in WebKit, the engines that `make test` does not drive.

    python scripts/check_engines.py [HTML_FOLDER] [--only firefox] [--pages 05 11] [--shots FOLDER]

On Debian or Ubuntu: `apt-get install firefox-esr webkit2gtk-driver xvfb` (Ubuntu's Firefox is a
snap; any `firefox` on the path will do). An engine that is not installed is named and skipped, and
with none at all the script fails. Each page is opened from a server on this machine and as a file.
Looked for: script errors, files that fail to load, widgets that did not start, sliders that change
nothing, formulas that are not set, text wider than the window, what the page's policy refused. Then
each is opened by a link whose settings are hostile texts (`hostile.py`), its widgets are used up to
their ends, and the texts are typed into every line: no error, nothing runs, the policy holds. Last,
each laboratory trains its model: the run must end within a minute, by WebAssembly; how it went is
printed. The page of a reader's own model is opened by `tests/browser/test_show.py`, which
`make engines` runs too. Only the standard library is used: Firefox is driven by Marionette over a
socket, WebKit by WebDriver.
"""

import argparse
import base64
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "book"))
from engine.text import LABORATORIES as TRAINED  # noqa: E402
from scripts.hostile import TEXTS, USE, WATCH  # noqa: E402

TRAINING = 60  # seconds that a run of a laboratory may take
# The language model stops after half a minute, which is an end too
ENDED = re.compile(r"\b[Dd]one:|Half a minute is over")
# The second of two models that are compared
UNDER_WAY = re.compile(r"(?<![Dd]one)(?<!Stopped): [Ss]tep \d")
MEASURED = re.compile(
    r"loss [^,]+, [^%]+\d+%|[Hh]eld-out loss \d+\.\d+|numbers right: \d+%"
    r"|[Ss]tate \d+, done: step \d+ of \d+, loss \d[\d.]*\d"  # accuracy stands in its curves alone
)
MINI = "/usr/lib/*/webkit2gtk-4.*/MiniBrowser"
# Goes into each page before all else; attributes, since a driver may not see the page's names.
LISTEN = (
    f"<script>{WATCH}</script>"
    + """<script>(() => {
  const said = [];
  const note = (text) => {
    said.push(String(text).slice(0, 200));
    document.documentElement.setAttribute("data-said", JSON.stringify(said));
  };
  addEventListener("error", (event) => note(event.message ?? `not loaded: ${
    event.target.src ?? event.target.href}`), true);
  addEventListener("securitypolicyviolation", (event) => note(
    `policy: ${event.effectiveDirective} refused ${event.blockedURI} ${event.sample}`));
  addEventListener("unhandledrejection", (event) => note(event.reason));
  addEventListener("look-for-harm", () => {
    if (window.harmed) note("a hostile text ran");
    for (const name of touched()) note(`${name} was touched`);
  });
  const { error } = console;
  console.error = (...all) => { note(all.join(" ")); error(...all); };
})();</script>"""
)
LOOK = """
const found = JSON.parse(document.documentElement.getAttribute("data-said") ?? "[]");
const wide = document.documentElement.scrollWidth - innerWidth;
if (wide > 0) found.push(`${wide} px wider than the window of ${innerWidth}`);
for (const font of document.fonts) if (font.status === "error") found.push(`font ${font.family}`);
for (const math of document.querySelectorAll("math")) {
  if (!math.checkVisibility()) continue;
  const box = math.getBoundingClientRect();
  if (box.height < 5 || box.width < 2) found.push(`formula ${math.getAttribute("alttext")}`);
}
for (const one of document.querySelectorAll("mfrac")) {
  const [over, under] = [...one.children].map((child) => child.getBoundingClientRect());
  if (one.checkVisibility() && over.bottom > under.top + 6) found.push("a fraction lies flat");
}
for (const div of document.querySelectorAll("div.book-widget")) {
  const name = div.dataset.module;
  const frame = div.querySelector(".bw");
  if (!frame) { found.push(`${name}: did not start`); continue; }
  if (!frame.querySelector(".bw-error").hidden) found.push(`${name}: shows an error`);
  if (!div.querySelector(".book-widget-static").hidden) found.push(`${name}: still static`);
  const style = getComputedStyle(frame);
  if (style.backgroundColor === "rgba(0, 0, 0, 0)") found.push(`${name}: has no ground`);
}
return found;
"""
MOVE = """
const done = arguments[arguments.length - 1];
const found = [];
(async () => {
  for (const div of document.querySelectorAll("div.book-widget")) {
    const sliders = [...div.querySelectorAll("input[type=range]")]
      .filter((node) => node.checkVisibility() && !node.disabled);
    if (!sliders.length) continue;
    let moved = false;
    for (const slider of sliders) {
      const text = () => slider.closest(".bw").querySelector(".bw-body").innerHTML;
      const before = text();
      slider.value = slider.value === slider.max ? slider.min : slider.max;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((next) => setTimeout(next, 60));
      moved = text() !== before;
      if (moved) break;
    }
    if (!moved) found.push(`${div.dataset.module}: a slider changes nothing`);
    if (!div.querySelector(".bw-error").hidden) found.push(`${div.dataset.module}: an error`);
  }
  done(found.concat(JSON.parse(document.documentElement.getAttribute("data-said") ?? "[]")));
})();
"""
# The settings that a link may have for the widgets of the page, and some that it may not.
SETTINGS = """
const seen = {};
return [...document.querySelectorAll("div.book-widget")].flatMap((div) => {
  const { module } = div.dataset;
  seen[module] = (seen[module] ?? 0) + 1;
  const id = seen[module] === 1 ? module : `${module}-${seen[module]}`;
  const data = JSON.parse(div.querySelector("script[type='application/json']").textContent);
  return Object.keys(data).map((key) => `${id}.${key}`);
});
"""
HARM = f"""
const done = arguments[arguments.length - 1];
const texts = {json.dumps(TEXTS)};
const found = [];
(async () => {{
  await new Promise((next) => setTimeout(next, 150));
  const frames = [...document.querySelectorAll(".bw")];
  if (frames.some((frame) => !frame.querySelector(".bw-ignored")?.textContent)) {{
    found.push("a bad link goes without a word");
  }}
  await ({USE})(frames, texts);
  const field = document.querySelector(".book-search input");
  for (const text of field ? texts : []) {{
    field.value = text;
    field.form.dispatchEvent(new Event("submit", {{ cancelable: true }}));
  }}
  if (frames.some((frame) => !frame.querySelector(".bw-error").hidden)) found.push("an error");
  window.dispatchEvent(new Event("look-for-harm"));
  done(found.concat(JSON.parse(document.documentElement.getAttribute("data-said") ?? "[]")));
}})();
"""

PANELS = ", ".join(f"[data-module={name}]" for name in TRAINED)
# Presses Train in the laboratory %d of the page, or tells why that cannot be.
TRAIN = f"""
const all = document.querySelectorAll("{PANELS}");
const frame = all[%d].querySelector(".bw");
const train = [...frame?.querySelectorAll("button") ?? []]
  .find(({{ textContent }}) => textContent === "Train");
if (!train) return "there is no button Train";
train.click();
return "";
"""
STATUS = f"""
const all = document.querySelectorAll("{PANELS}");
return [...all[%d].querySelectorAll(".lab-status, .lm-verdict")]
  .map(({{ textContent }}) => textContent).join(" ");
"""
LABORATORIES = f'return document.querySelectorAll("{PANELS}").length;'


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Firefox:
    """Marionette: each message is its length, a colon, and [kind, number, command, arguments]."""

    name = "Firefox"

    def __init__(self, program: str, folder: Path):
        port, profile = free_port(), folder / "profile"
        profile.mkdir()
        prefs = {"marionette.port": port, "datareporting.policy.dataSubmissionEnabled": False}
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in prefs.items()]
        (profile / "user.js").write_text("\n".join(lines), encoding="utf-8")
        command = [program, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        self.process = subprocess.Popen(
            command,
            env=os.environ | {"HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.socket = patiently(lambda: socket.create_connection(("127.0.0.1", port), 120))
        self.number = 0
        self.read()
        self.version = self.send("WebDriver:NewSession")["capabilities"]["browserVersion"]

    def read(self) -> list:
        size = b""
        while not size.endswith(b":"):
            size += self.socket.recv(1)
        left, body = int(size[:-1]), b""
        while len(body) < left:
            body += self.socket.recv(left - len(body))
        return json.loads(body)

    def send(self, command: str, **arguments):
        self.number += 1
        body = json.dumps([0, self.number, command, arguments]).encode()
        self.socket.sendall(str(len(body)).encode() + b":" + body)
        _, _, error, result = self.read()
        if error:
            raise RuntimeError(f"{command}: {error['message']}")
        return result["value"] if set(result) == {"value"} else result

    def open(self, url: str) -> None:
        self.send("WebDriver:Navigate", url=url)

    def run(self, script: str, *, later: bool = False):
        kind = "Async" if later else ""
        return self.send(f"WebDriver:Execute{kind}Script", script=script, args=[])

    def size(self, width: int, height: int) -> None:
        self.send("WebDriver:SetWindowRect", width=width, height=height)

    def shot(self) -> bytes:
        return base64.b64decode(self.send("WebDriver:TakeScreenshot", full=False))

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait(20)


class WebKit:
    """WebDriver, on a virtual screen."""

    name = "WebKit"

    def __init__(self, program: str, folder: Path):
        port = free_port()
        self.address = f"http://127.0.0.1:{port}/session"
        command = [program, f"--port={port}"]
        if shutil.which("xvfb-run"):
            command = ["xvfb-run", "-a", "-s", "-screen 0 1600x1200x24", *command]
        self.process = subprocess.Popen(
            command,
            env=os.environ | {"HOME": str(folder)},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        mini = str(next(Path("/").glob(MINI[1:])))
        options = {"binary": mini, "args": ["--automation"]}
        wanted = {"browserName": "MiniBrowser", "webkitgtk:browserOptions": options}
        made = patiently(lambda: self.send("", capabilities={"alwaysMatch": wanted}))
        self.address += "/" + made["sessionId"]
        self.version = made["capabilities"]["browserVersion"]

    def send(self, path: str, **arguments):
        request = urllib.request.Request(
            self.address + path, json.dumps(arguments).encode(), {"Content-Type": "text/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            message = json.load(error)["value"]["message"]
            raise RuntimeError(f"{path}: {message}") from error

    def open(self, url: str) -> None:
        self.send("/url", url=url)

    def run(self, script: str, *, later: bool = False):
        return self.send(f"/execute/{'async' if later else 'sync'}", script=script, args=[])

    def size(self, width: int, height: int) -> None:
        self.send("/window/rect", width=width, height=height)

    def shot(self) -> bytes:
        with urllib.request.urlopen(self.address + "/screenshot", timeout=60) as answer:
            return base64.b64decode(json.load(answer)["value"])

    def close(self) -> None:
        urllib.request.urlopen(urllib.request.Request(self.address, method="DELETE"), timeout=20)
        os.killpg(self.process.pid, 15)
        self.process.wait(20)


def patiently(call, seconds: float = 60):
    """What `call` returns once it no longer fails."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.3)


Engine = Firefox | WebKit
ENGINES: list[tuple[type[Firefox] | type[WebKit], tuple[str, ...]]] = [
    (Firefox, ("firefox-esr", "firefox")),
    (WebKit, ("WebKitWebDriver",)),
]


def installed(programs: tuple[str, ...]) -> str | None:
    """The first of these programs that is on the path."""
    return next(filter(None, map(shutil.which, programs)), None)


def listening_copy(html: Path, folder: Path) -> Path:
    """The built book again, or what `make show` made: its pages write down what goes wrong."""
    site = folder / "site"
    shutil.copytree(html, site)
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("<head>", f"<head>{LISTEN}", 1), encoding="utf-8")
    return site


def serve(folder: Path) -> str:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args) -> None:
            pass

    handler = functools.partial(Handler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def hostile_link(url: str, settings: list[str], number: int) -> str:
    """A link to the page `number` that gives each setting another hostile text."""
    texts = [TEXTS[(number + i) % len(TEXTS)] for i in range(len(settings) + 1)]
    pairs = zip(["q", *settings], texts, strict=True)
    return f"{url}?{urllib.parse.urlencode(list(pairs))}#{urllib.parse.quote(texts[0])}"


def faults(engine, url: str, number: int) -> list[str]:
    """What is wrong with a page on a desk and on a telephone, once its sliders moved, and under
    attack."""
    found = []
    for width in (1300, 500):  # no window of these browsers is narrower than about 450
        engine.size(width, 900)
        engine.open(url)
        found += engine.run(LOOK)
    found += engine.run(MOVE, later=True)
    settings = engine.run(SETTINGS)
    engine.size(1300, 900)
    engine.open(hostile_link(url, settings, number))
    found += [f"under attack: {fault}" for fault in engine.run(HARM, later=True)]
    return [*dict.fromkeys(found)]


def status_of_run(engine, place: int) -> tuple[str, float]:
    """What the laboratory at this place of the page says at the end of a run, and after how many
    seconds, TRAINING at most."""
    begun = time.monotonic()
    problem = engine.run(TRAIN % place)
    status, seconds = f"✗ {problem}", 0.0
    while problem == "" and seconds < TRAINING:
        time.sleep(0.2)
        status, seconds = engine.run(STATUS % place), time.monotonic() - begun
        if has_ended(status) or "✗" in status:
            break
    return status, seconds


def has_ended(status: str) -> bool:
    return bool(ENDED.search(status)) and not UNDER_WAY.search(status)


def outcome(status: str, seconds: float) -> tuple[str, list[str]]:
    """How a run went, by the status line at its end, and what is wrong with that."""
    paths = ("plain JavaScript", "WebAssembly")  # the first one's line names the other too
    path = next((path for path in paths if path in status), "no path")
    if "Training done" in status:  # the first page names the path only if it is the slow one
        path = paths["no WebAssembly" not in status]
    share = MEASURED.search(status)
    result = f"{path}, {seconds:.1f} s, {share[0] if share else 'no accuracy'}"
    if "✗" in status:
        return result, [f"the run failed: {status}"]
    if not has_ended(status):
        return result, [f"the run did not end within {TRAINING} s: {status}"]
    found = [] if path == "WebAssembly" else [f"the run was not by WebAssembly: {status}"]
    return result, found + ([] if share else [f"the run measured no accuracy: {status}"])


def trained(engine, url: str) -> tuple[list[str], list[str]]:
    """How the runs of the laboratories of a page went, and what is wrong with the page then."""
    results, found = [], []
    engine.size(1300, 900)
    engine.open(url)
    for place in range(engine.run(LABORATORIES)):
        result, wrong = outcome(*status_of_run(engine, place))
        results.append(result)
        found += wrong
    for width in (1300, 500) if results else ():
        engine.size(width, 900)
        time.sleep(0.5)
        found += [f"after training: {fault}" for fault in engine.run(LOOK)]
    return results, [*dict.fromkeys(found)]


def check(
    engine: Engine, names: list[str], roots: dict[str, str], shots: Path | None
) -> Iterator[str]:
    for way, root in roots.items():
        for number, name in enumerate(names):
            found = faults(engine, f"{root}/{name}", number)
            results, more = trained(engine, f"{root}/{name}")
            for result in results:
                print(f"{engine.name} {way} {name}: trained by {result}", flush=True)
            yield from (f"{way} {name}: {fault}" for fault in found + more)
    if shots is None:
        return
    for name in names:
        engine.size(1300, 900)
        engine.open(f"{roots['http']}/{name}")
        for theme in ("light", "dark"):
            engine.run(f"document.documentElement.dataset.theme = '{theme}'")
            engine.run("document.querySelector('.bw')?.scrollIntoView()")
            time.sleep(0.5)
            file = shots / f"{engine.name}-{Path(name).stem}-{theme}.png"
            file.write_bytes(engine.shot())


def main() -> int:
    parser = argparse.ArgumentParser(description="Open the built book in Firefox and WebKit.")
    parser.add_argument("html", nargs="?", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--only", choices=[engine.name.lower() for engine, _ in ENGINES])
    parser.add_argument("--pages", nargs="+", help="how the names of the pages to open begin")
    parser.add_argument("--shots", type=Path, help="a folder for pictures of each page")
    arguments = parser.parse_args()
    names = [f"book/{path.name}" for path in sorted((arguments.html / "book").glob("*.html"))]
    if names:
        names.append("search.html")
    else:
        sys.exit(f"expected a built book in {arguments.html}, found none; run `make book` first")
    if arguments.pages:
        begins = tuple(arguments.pages)
        names = [name for name in names if Path(name).name.startswith(begins)]
        if not names:
            sys.exit(f"expected how pages begin, such as 05, got {' '.join(begins)}: none does")
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    opened = failed = 0
    for make, programs in ENGINES:
        program = installed(programs)
        if arguments.only not in (None, make.name.lower()):
            continue
        if program is None:
            print(f"{make.name}: not installed, skipped (looked for {', '.join(programs)})")
            continue
        with tempfile.TemporaryDirectory() as folder:
            site = listening_copy(arguments.html, Path(folder))
            roots = {"http": serve(site), "file": site.as_uri()}
            engine = make(program, Path(folder))
            try:
                found = list(check(engine, names, roots, arguments.shots))
            finally:
                engine.close()
        print(*found, sep="\n", end="\n" if found else "")
        print(f"{make.name} {engine.version}: {len(names)} pages, {len(found)} faults")
        opened, failed = opened + 1, failed + len(found)
    if not opened:
        print("no engine is installed, nothing was checked")
    return int(failed > 0 or not opened)


if __name__ == "__main__":
    sys.exit(main())
