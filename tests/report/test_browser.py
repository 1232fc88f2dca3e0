"""The page in a real browser: what a reader does with mouse, keyboard, phone, in the dark and on paper."""

import csv
import io
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bacadi.report.page import write_report

from .browser import Site, emulate, resize, serve, start
from .made import made, run_of

EVIL = ("<script>window.bad=1</script>", '"><img src=x onerror=window.bad=2>', "</script><script>window.bad=3</script>")
LABELS = (*EVIL, "{{7*7}} & &amp; `b`", "javascript:window.bad=4", "long " * 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def window(folder: Path) -> Iterator[Any]:
    browser = start(folder)
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def site(window: Any, folder: Path) -> Iterator[Site]:
    posterior = made(12, 6)
    write_report(run_of(posterior), folder / "report.html")
    evil = replace(made(6, 4, names=LABELS), contexts=LABELS[:4], observational=EVIL[0])
    write_report(run_of(evil), folder / "evil.html")
    write_report(run_of(made(160, 2, draws=6)), folder / "many.html")
    write_report(run_of(made(50, 50, draws=20)), folder / "fifty.html")
    yield from serve(folder)


@pytest.fixture
def opened(window: Any, site: Site) -> Any:
    """The page, light, on a desktop, with an empty console."""
    resize(window, 1280)
    emulate(window)
    window.get(f"{site.address}/report.html")
    window.get_log("browser")
    return window


def shown(window: Any) -> int:
    return window.execute_script(
        "return [...document.querySelectorAll('.edge')].filter(e => e.getBoundingClientRect().width > 0).length"
    )


def places(window: Any) -> list[list[float]]:
    return window.execute_script(
        "return [...document.querySelectorAll('.node')].map(n => {const r = n.getBBox(); return [r.x, r.y]})"
    )


def keys(window: Any, *pressed: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(window).send_keys(*pressed).perform()


def test_the_slider_hides_and_shows_edges_and_moves_nothing(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    posterior = made(12, 6)
    p = posterior.edge_probabilities()
    before = places(opened)
    assert shown(opened) == (p >= 0.5).sum()
    slider = opened.find_element("id", "threshold")
    slider.send_keys(Keys.HOME)
    assert shown(opened) == (p >= 0.05).sum() > (p >= 0.5).sum()
    slider.send_keys(Keys.END)
    assert shown(opened) == (p >= 1).sum()
    assert f"{(p >= 1).sum()} edges shown" in opened.find_element("id", "threshold-words").text
    assert places(opened) == before


def test_nothing_is_requested_and_nothing_could_be(opened: Any, site: Site) -> None:
    site.asked.clear()
    opened.get(f"{site.address}/report.html")
    for selector in (".contexts button", "th button", ".download"):
        opened.find_element("css selector", selector).click()
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert opened.get_log("browser") == []
    outcome = opened.execute_async_script(
        "const done = arguments[0]; fetch('/stolen').then(() => done('fetched'), () => done('refused'))"
    )
    assert outcome == "refused"
    opened.execute_script("const i = new Image(); i.src = '/pixel.png'; document.body.append(i)")
    opened.execute_script("const s = document.createElement('script'); s.src = '/x.js'; document.body.append(s)")
    time.sleep(0.3)
    assert site.asked == ["/report.html"]
    assert len(opened.get_log("browser")) >= 3, "the browser says what it refused"


@pytest.mark.parametrize("page", ["report", "evil", "many", "fifty"])
def test_no_message_on_the_console(window: Any, site: Site, page: str) -> None:
    window.get(f"{site.address}/{page}.html")
    assert window.get_log("browser") == []


def test_labels_are_text(window: Any, site: Site) -> None:
    window.get(f"{site.address}/evil.html")
    for button in window.find_elements("css selector", ".contexts button"):
        button.click()
    assert window.execute_script("return window.bad") is None
    assert window.execute_script("return document.scripts.length") == 2
    assert window.execute_script("return document.images.length") == 0
    assert [b.text for b in window.find_elements("css selector", ".contexts button")][:3] == list(EVIL)
    label = window.execute_script("return document.querySelector('.edge').getAttribute('aria-label')")
    assert "→" in label and any(name in label for name in LABELS)
    assert window.get_log("browser") == []


def test_keys_alone_lead_through_the_page_in_order(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    stops = []
    for _ in range(60):
        keys(opened, Keys.TAB)
        stop = opened.execute_script(
            "const e = document.activeElement;"
            "const name = e.id || e.className.baseVal || e.className || e.textContent.trim();"
            "return e === document.body ? null : [e.tagName.toLowerCase(), name, getComputedStyle(e).outlineStyle,"
            "[...document.querySelectorAll('*')].indexOf(e)]"
        )
        if stop is None:
            break
        stops.append(stop)
    kinds = [(tag, name) for tag, name, *_ in stops]
    assert kinds[0] == ("a", "skip") and kinds[1] == ("a", "What was done")
    order = [position for *_, position in stops]
    assert order == sorted(order) and len(set(order)) == len(order)
    assert [tag for tag, _ in kinds].count("g") == 1, "a graph is one stop"
    assert kinds.index(("input", "threshold")) < kinds.index(("button", "ctx 0")) < [t for t, _ in kinds].index("g")
    assert all(outline != "none" for tag, _, outline, _ in stops if tag != "g")


def test_arrow_keys_go_from_edge_to_edge(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    opened.execute_script("document.querySelector('.edge[tabindex=\"0\"]').focus()")
    heard = []
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.END, Keys.HOME):
        heard.append(opened.execute_script("return document.activeElement.getAttribute('aria-label')"))
        keys(opened, key)
    tip = opened.find_element("id", "tip")
    assert tip.is_displayed() and tip.text == opened.execute_script(
        "return document.activeElement.getAttribute('aria-label')"
    )
    assert heard[0] != heard[1] != heard[2] and heard[1] == heard[3] and tip.text == heard[0]
    assert all("probability" in words and "weight" in words and "90 % interval" in words for words in heard)
    keys(opened, Keys.ESCAPE)
    assert not tip.is_displayed()


def test_the_words_of_an_edge_follow_when_the_page_scrolls(opened: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    after_frames = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]({})))"
    resize(opened, 1280, 300)
    opened.execute_script("document.querySelector('.edge[tabindex=\"0\"]').focus()")
    keys(opened, Keys.ARROW_RIGHT)
    told = "const tip = document.querySelector('#tip'), edge = document.activeElement;"
    told += "const box = tip.getBoundingClientRect(), line = edge.querySelector('.line').getBoundingClientRect();"
    seen = "[tip.textContent, edge.getAttribute('aria-label'), box.height, box.top - line.top - line.height / 2]"
    for by in (0, -30, 60):
        opened.execute_script(f"scrollBy(0, {by})")
        words, label, height, below = opened.execute_async_script(told + after_frames.format(seen))
        assert words == label and height > 0 and abs(below) < 120
    opened.execute_script("document.activeElement.blur(); scrollBy(0, -40)")
    hidden = opened.execute_async_script(after_frames.format("document.querySelector('#tip').hidden"))
    assert hidden, "words of no edge in focus"


def told_at(window: Any, element: str, place: str) -> str:
    """What the page says where the mouse is: an element is scrolled to, `place` gives x and y in the window."""
    from selenium.webdriver import ActionChains

    window.execute_async_script(
        f"const done = arguments[0]; document.querySelector({element!r}).scrollIntoView({{block: 'center'}});"
        "requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )
    x, y = window.execute_script(f"const e = document.querySelector({element!r}); {place}")
    for attempt in range(20):  # a scroll that is still under way hides what was said
        action = ActionChains(window)
        action.w3c_actions.pointer_action.move_to_location(round(x) + attempt % 2, round(y))
        action.perform()
        if words := window.find_element("id", "tip").text:
            return words
        time.sleep(0.1)
    return ""


def test_the_mouse_tells_of_edges_and_cells(opened: Any) -> None:
    middle = "const p = e.getPointAtLength(e.getTotalLength() / 2).matrixTransform(e.getScreenCTM()); return [p.x, p.y]"
    assert "probability" in told_at(opened, ".edge:not(.off) .line", middle)
    first = (
        "const r = e.getBoundingClientRect();return [r.x + Number(e.dataset.left) + 6, r.y + Number(e.dataset.top) + 6]"
    )
    assert "target with probability >0.99, moved by" in told_at(opened, "svg.changes", first)


def test_a_context_shows_what_it_hit_and_what_moved(opened: Any) -> None:
    assert opened.find_elements("css selector", ".context.on") == []
    button = opened.find_elements("css selector", ".contexts button")[2]
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    panel = opened.find_element("css selector", ".context.on")
    assert panel.is_displayed() and "gene 2 (probability >0.99)" in panel.text and "Moved downstream" in panel.text
    hit = opened.find_elements("css selector", ".node.hit")
    assert [node.get_attribute("data-v") for node in hit] == ["2"]
    down = opened.find_elements("css selector", ".node.down text")
    assert down and all(text.text.endswith("▼") for text in down)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert not opened.find_elements("css selector", ".context.on, .node.hit, .node.down")


def test_tables_sort_and_are_handed_out(opened: Any, folder: Path) -> None:
    head = opened.find_elements("css selector", "#tables th")[2]
    assert head.text == "probability"
    column = "return [...document.querySelector('#tables tbody').rows].map(r => Number(r.cells[2].textContent))"
    for direction in ("descending", "ascending"):
        head.find_element("tag name", "button").click()
        assert head.get_attribute("aria-sort") == direction
        values = opened.execute_script(column)
        assert values == sorted(values, reverse=direction == "descending")
    weights = "return [...document.querySelector('#tables tbody').rows].map(r => r.cells[5].textContent)"
    opened.find_elements("css selector", "#tables th button")[5].click()
    texts = opened.execute_script(weights)
    numbers = [float(text.replace("−", "-")) for text in texts if text]
    assert numbers == sorted(numbers, reverse=True) and texts == [
        *texts[: len(numbers)],
        *[""] * (len(texts) - len(numbers)),
    ]
    (folder / "targets.csv").unlink(missing_ok=True)
    opened.find_element("css selector", "button[data-file='targets.csv']").click()
    for _ in range(50):
        if (folder / "targets.csv").exists():
            break
        time.sleep(0.1)
    rows = list(csv.reader(io.StringIO((folder / "targets.csv").read_text(encoding="utf-8"))))
    table = made(12, 6).targets()
    assert (
        rows[0] == list(table.columns)
        and [row[:2] for row in rows[1:]] == table[["context", "variable"]].to_numpy().tolist()
    )


# Text and what it stands on, for every element that has text of its own; colours as they are computed.
CONTRASTS = """
const rgb = c => c.match(/[\\d.]+/g).map(Number);
const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = c => { const [r, g, b] = rgb(c).map(v => linear(v / 255)); return .2126 * r + .7152 * g + .0722 * b; };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
                      if ((rgb(c)[3] ?? 1) > 0) return c; } return 'rgb(255, 255, 255)'; };
const found = [];
for (const e of document.querySelectorAll('body *')) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || !e.getClientRects().length || ['SCRIPT', 'STYLE'].includes(e.tagName)) continue;
  const style = getComputedStyle(e), svg = e.closest('svg');
  const box = svg && e.parentElement.querySelector('rect');
  const below = box && e.closest('.node') ? getComputedStyle(box).fill : ground(svg ? svg.parentElement : e);
  found.push([e.tagName + '.' + (e.className.baseVal ?? e.className) + ': ' + e.textContent.trim().slice(0, 30),
              ratio(svg ? style.fill : style.color, below), 4.5]);
}
const page = ground(document.querySelector('.stage'));
const lines = {'.edge.up .line': 'stroke', '.edge.down .line': 'stroke', '.node rect': 'stroke', '.bar': 'fill',
               '.trace.chain0': 'stroke', '.trace.chain1': 'stroke', '.frames': 'stroke', 'button': 'borderTopColor'};
for (const [selector, property] of Object.entries(lines)) {
  const e = document.querySelector(selector);
  found.push([selector, ratio(getComputedStyle(e)[property], page), 3]);
}
return found;
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened: Any, scheme: str) -> None:
    """WCAG 2.1 AA: 4.5 for text, 3 for lines that carry meaning."""
    emulate(opened, scheme)
    opened.find_elements("css selector", ".contexts button")[0].click()
    time.sleep(0.3)  # the end of transitions
    found = opened.execute_script(CONTRASTS)
    assert len(found) > 100
    assert [entry for entry in found if entry[1] < entry[2]] == []


def test_dark_is_dark(opened: Any) -> None:
    emulate(opened, "dark")
    assert opened.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(18, 24, 30)"


def test_everything_has_a_name(opened: Any) -> None:
    nameless = opened.execute_script("""
        const named = e => e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length) ||
          (e.getAttribute('aria-labelledby') && document.getElementById(e.getAttribute('aria-labelledby')));
        const things = 'button, input, select, a, summary, [role=img], [role=group], [role=region], section, nav';
        return [...document.querySelectorAll(things)].filter(e => !named(e)).map(e => e.outerHTML.slice(0, 80))""")
    assert nameless == []
    assert opened.execute_script("return document.documentElement.lang") == "en"
    assert all(th.get_attribute("scope") == "col" for th in opened.find_elements("tag name", "th"))
    levels = opened.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels))


@pytest.mark.parametrize("page", ["report", "evil", "many", "fifty"])
@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_horizontal_scrolling(window: Any, site: Site, page: str, width: int) -> None:
    resize(window, width, 844)
    emulate(window)
    window.get(f"{site.address}/{page}.html")
    window.find_elements("css selector", ".contexts button")[0].click()
    assert window.execute_script("return [document.documentElement.scrollWidth, innerWidth]") == [width, width]


def test_controls_are_large_enough_to_touch(window: Any, site: Site) -> None:
    """WCAG 2.2 AA: 24 by 24 pixels."""
    resize(window, 390, 844)
    window.get(f"{site.address}/report.html")
    small = window.execute_script(
        "return [...document.querySelectorAll('button, input[type=range], select')].map(e => [e.textContent, "
        "e.getBoundingClientRect().width, e.getBoundingClientRect().height]).filter(e => e[1] < 24 || e[2] < 24)"
    )
    assert small == []


def test_many_variables_are_shown_one_by_one(window: Any, site: Site) -> None:
    from selenium.webdriver.support.select import Select

    resize(window, 1280)
    window.get(f"{site.address}/many.html")
    choice = Select(window.find_element("id", "variable"))
    first = choice.first_selected_option.get_attribute("value")
    visible = "return [...document.querySelectorAll('.one')].filter(e => e.offsetHeight).map(e => e.dataset.of)"
    assert window.execute_script(visible) == [first]
    choice.select_by_visible_text("gene 77")
    assert window.execute_script(visible) == ["77"]
    names = [text.text for text in window.find_elements("css selector", ".one.on .node text")]
    assert "gene 77" in names and shown(window) <= len(names)


def test_paper_has_the_content_and_no_controls(opened: Any) -> None:
    emulate(opened, "dark", media="print")
    assert opened.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in (".controls", ".contexts", "nav", ".download"):
        assert not opened.find_element("css selector", selector).is_displayed()
    for selector in ("svg.graph", "svg.changes", "#tables table", "#doubt p"):
        assert opened.find_element("css selector", selector).is_displayed()
    rows = "return [...document.querySelectorAll('#tables table')].map(t => [...t.rows].filter(r => r.offsetHeight))"
    assert max(map(len, opened.execute_script(rows))) == 41


def test_without_script_everything_is_there(window: Any, site: Site) -> None:
    window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        window.get(f"{site.address}/report.html")
        assert all(panel.is_displayed() for panel in window.find_elements("css selector", ".context"))
        assert window.find_element("css selector", "svg.graph .edge").is_displayed()
    finally:
        window.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
