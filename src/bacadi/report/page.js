// The page is complete without this script: it hides and shows, sorts, and hands out the tables as files.
"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const data = JSON.parse(one("#data").textContent);
  document.documentElement.classList.add("js");

  // Threshold: edges below it are hidden, nothing moves.
  const slider = one("#threshold");
  const edges = all(".edge").map((element) => ({
    element, p: Number(element.dataset.p), ends: [element.dataset.s, element.dataset.t], within: element.closest("svg"),
  }));
  const nodes = all(".node").map((element) => ({
    element, number: element.dataset.v, within: element.closest("svg"), text: one("text", element),
    name: one("text", element).textContent,
  }));
  const visible = (svg) => edges.filter((edge) => edge.within === svg && !edge.element.classList.contains("off"));
  const shownGraph = () => all("svg.graph").find((svg) => !svg.closest(".one") || svg.closest(".one.on"));

  function applyThreshold() {
    if (!slider) return;
    const least = Number(slider.value);
    for (const edge of edges) edge.element.classList.toggle("off", edge.p < least);
    const joined = new Map();
    for (const edge of edges) {
      if (edge.p < least) continue;
      if (!joined.has(edge.within)) joined.set(edge.within, new Set());
      edge.ends.forEach((end) => joined.get(edge.within).add(end));
    }
    for (const node of nodes) node.element.classList.toggle("alone", !joined.get(node.within)?.has(node.number));
    const svg = shownGraph();
    const n = svg ? visible(svg).length : 0;
    one("#threshold-words").textContent = `${least.toFixed(2)}: ${n} ${n === 1 ? "edge" : "edges"} shown`;
    slider.setAttribute("aria-valuetext", `probability ${least.toFixed(2)}, ${n} edges shown`);
    all("svg.graph").forEach(prepareFocus);
  }

  // One stop of the Tab key for a graph; arrow keys go from edge to edge.
  function prepareFocus(svg) {
    const list = visible(svg);
    edges.filter((edge) => edge.within === svg).forEach((edge) => edge.element.setAttribute("tabindex", "-1"));
    if (list.length) list[0].element.setAttribute("tabindex", "0");
  }
  function onKey(event) {
    if (event.key === "Escape") return hideTip();
    const edge = event.target.closest?.(".edge");
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!edge || !(step || event.key === "Home" || event.key === "End")) return;
    event.preventDefault();
    const list = visible(edge.closest("svg")).map((other) => other.element);
    const at = event.key === "Home" ? 0 : event.key === "End" ? list.length - 1 : list.indexOf(edge) + step;
    const next = list[(at + list.length) % list.length];
    edge.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }

  // What an edge or a cell stands for, beside it.
  const tip = one("#tip");
  function showTip(words, x, y) {
    tip.textContent = words;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18)}px`;
  }
  function hideTip() { tip.hidden = true; }
  function cellWords(svg, event) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const { left, top, cell, rows, columns } = svg.dataset;
    const k = rows.split(" ")[Math.floor((point.y - top) / cell)];
    const j = columns.split(" ")[Math.floor((point.x - left) / cell)];
    if (k === undefined || j === undefined || point.x < left || point.y < top) return "";
    const found = data.contexts[k].find((entry) => entry[0] === Number(j));
    return found ? `${data.names[k]}, ${data.variables[j]}: ${found[3]}` : "";
  }
  function near(svg, number) {
    svg.classList.toggle("dimmed", number !== null);
    for (const edge of edges) edge.element.classList.toggle("near", edge.within === svg && edge.ends.includes(number));
  }
  document.addEventListener("pointermove", (event) => {
    const edge = event.target.closest?.(".edge");
    const node = event.target.closest?.(".node");
    const matrix = event.target.closest?.("svg.changes");
    const words = edge ? edge.getAttribute("aria-label") : matrix ? cellWords(matrix, event) : "";
    if (words) showTip(words, event.clientX, event.clientY); else hideTip();
    const svg = event.target.closest?.("svg.graph");
    if (svg) near(svg, node ? node.dataset.v : null);
  });
  function tellFocused() {
    const edge = document.activeElement?.closest(".edge");
    if (!edge) return hideTip();
    const box = one(".line", edge).getBoundingClientRect();
    showTip(edge.getAttribute("aria-label"), box.left + box.width / 2, box.top + box.height / 2);
  }
  document.addEventListener("focusin", tellFocused);
  document.addEventListener("keydown", onKey);
  // An edge that takes the focus is scrolled to: its words go with it.
  document.addEventListener("scroll", () => { if (!tip.hidden) tellFocused(); }, { capture: true, passive: true });

  // A context: what it hit, and what moved.
  function choose(k) {
    const buttons = all(".contexts button");
    const on = buttons.find((button) => button.dataset.k === k)?.getAttribute("aria-pressed") !== "true" ? k : null;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.k === on)));
    all(".context").forEach((panel) => panel.classList.toggle("on", panel.id === `context-${on}`));
    all(".changes text.row").forEach((text) => text.classList.toggle("on", text.dataset.k === on));
    const found = new Map((on === null ? [] : data.contexts[on]).map((entry) => [String(entry[0]), entry]));
    for (const node of nodes) {
      const [, hit, moved] = found.get(node.number) ?? [0, 0, 0];
      node.element.classList.toggle("hit", Boolean(hit));
      node.element.classList.toggle("up", moved > 0);
      node.element.classList.toggle("down", moved < 0);
      node.text.textContent = node.name + (moved > 0 ? " ▲" : moved < 0 ? " ▼" : "");
    }
    const target = [...found.values()].find((entry) => entry[1]);
    if (variable && target && one(`.one[data-of="${target[0]}"]`)) {
      variable.value = String(target[0]);
      chooseVariable();
    }
    all("svg.graph").forEach((svg) => svg.classList.toggle("chosen", on !== null));
    for (const edge of edges) edge.element.classList.toggle("path", edge.ends.every((end) => found.has(end)));
  }
  document.addEventListener("click", (event) => {
    const picked = event.target.closest?.(".contexts button, .changes text.row");
    if (picked) choose(picked.dataset.k);
    const file = event.target.closest?.("button.download");
    if (file) download(file.dataset.file);
    const head = event.target.closest?.("th button");
    if (head) sort(head.closest("th"));
  });

  // One variable and its neighbours, where the whole graph would be too much.
  const variable = one("#variable");
  function chooseVariable() {
    all(".one").forEach((box) => box.classList.toggle("on", box.dataset.of === variable.value));
    applyThreshold();
  }
  if (variable) variable.addEventListener("change", chooseVariable);

  // Tables: numbers by size, names by letter, what is empty last.
  const value = (row, column) => {
    const text = row.cells[column].textContent.replace("−", "-").replace("∞", "Infinity");
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  function sort(head) {
    const table = head.closest("table");
    const direction = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
    all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [value(row, head.cellIndex), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }
  function download(name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data.files[name]], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  if (slider) slider.addEventListener("input", applyThreshold);
  const fit = one("#fit");
  if (fit) fit.addEventListener("change", () => one("#found").classList.toggle("fit", fit.checked));
  if (variable) chooseVariable(); else applyThreshold();
})();
