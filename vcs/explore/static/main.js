// The page: state, controls, and the questions that fill the panels.

import { hex, largest, make, number, paint } from "./heat.js";
import { Joystick } from "./keys.js";
import { Link } from "./link.js";
import { Listing } from "./listing.js";
import { Origin } from "./origin.js";
import { Grid } from "./ram.js";
import { Screen } from "./screen.js";
import { Timeline } from "./timeline.js";
import { picture } from "./picture.js";

const $ = (id) => document.getElementById(id);
const DIGITS = "0123456789abcdefgh";
const MEMORY = "glass-vcs-tape";

const state = {
  about: null, view: null, ram: new Uint8Array(128), actions: [], pokes: [], playing: false, target: null,
  gradient: null, effects: null, scores: null, agreement: null, others: new Map(), romMethod: new Map(), romOracle: new Map(), cell: null,
  hovering: null, job: 0, saved: 0, part: 0, listed: "", listing: null,
};
window.explorer = state; // for the curious, and for the tests

// ---------------------------------------------------------------- telling
let noteTimer = 0;
function note(text, lasting = false) {
  $("note").textContent = text;
  $("note").hidden = !text;
  clearTimeout(noteTimer);
  if (text && !lasting) noteTimer = setTimeout(() => note(""), 9000);
}
$("note").addEventListener("click", () => note(""));

async function asking(message, progress) {
  try {
    return await link.ask(message, progress);
  } catch (why) {
    if (why.message !== "not connected" && why.message !== "the connection was lost") note(why.message);
    return null;
  }
}

// ---------------------------------------------------------------- the tape the page remembers
function memory() {
  const text = state.actions.map((a) => DIGITS[a]).join("");
  const tape = { rom: state.about.sha256, actions: text, pokes: state.pokes, at: state.view.frame };
  return { tape, target: state.target };
}

// For the time after a reload, or after another address was opened in this tab.
function remember(force = false) {
  if (!state.about || (!force && Date.now() - state.saved < 1000)) return;
  state.saved = Date.now();
  try {
    sessionStorage.setItem(MEMORY, JSON.stringify(memory()));
  } catch { /* storage is full or forbidden: the page works without */ }
}
addEventListener("pagehide", () => remember(true));

function remembered() {
  if (state.about) return memory();
  try {
    return JSON.parse(sessionStorage.getItem(MEMORY)) ?? {};
  } catch {
    return {};
  }
}

// ---------------------------------------------------------------- the picture
function take(answer) {
  if (!answer) return false;
  state.view = answer;
  const { tape } = answer;
  state.actions.length = tape.from;
  for (const action of tape.actions) state.actions.push(action);
  state.pokes = tape.pokes;
  state.ram = Uint8Array.from(answer.ram.match(/../g), (pair) => parseInt(pair, 16));
  screen.beam = answer.instruction ? { row: answer.line - state.about.top, column: answer.clock - 68 } : null;
  screen.draw(answer.body);
  screen.mark();
  for (const grid of grids) grid.setContents(state.ram);
  timeline.set(answer.frame, answer.length);
  const r = answer.registers;
  const cpu = `A ${hex(r.A)} X ${hex(r.X)} Y ${hex(r.Y)} SP ${hex(r.SP)} P ${hex(r.P)} PC ${hex(r.PC, 4)}`;
  const where = answer.instruction
    ? `frame ${answer.frame + 1}, line ${answer.line} clock ${answer.clock}, next ${answer.next} bank ${answer.bank}`
    : `frame ${answer.frame} of ${answer.length}`;
  $("beam").textContent = `${where}  \u00b7  ${cpu}`;
  $("beam").title = $("beam").textContent;
  if (answer.over) { pause(); note("The game is over: rewind it, or start again with Reset."); }
  showPokes();
  showCell();
  remember();
  wantThumbs();
  return true;
}

let thumbTimer = 0, thumbsFor = "";
function wantThumbs() {
  const now = `${state.actions.length >> 3}/${state.pokes.length}`;
  if (now === thumbsFor || thumbTimer) return;
  thumbTimer = setTimeout(async () => {
    thumbTimer = 0;
    thumbsFor = now;
    const answer = await asking({ op: "thumbs", count: Math.max(4, Math.round($("thumbs").clientWidth / 54)) });
    if (answer) timeline.thumbs(answer);
  }, state.playing ? 700 : 60);
}

// ---------------------------------------------------------------- moving in time
let moving = Promise.resolve();
function move(message) {
  const mine = moving.then(async () => {
    const done = take(await asking(message));
    if (done && !state.playing) arrived();
    return done;
  });
  moving = mine.catch(() => {});
  return mine;
}

// What has to be asked again when the machine stands somewhere else.
function arrived() {
  state.listed = "";
  if (state.target) explain();
  else if (screen.cross) hover(screen.cross.row, screen.cross.column);
}

let sought = null;
async function seek(frame) {
  pause();
  const idle = sought === null;
  sought = frame;
  if (!idle) return;
  while (sought !== null) {
    const now = sought;
    if (!take(await asking({ op: "seek", frame: now }))) { sought = null; return; }
    if (sought === now) sought = null;
  }
  arrived();
}

async function play() {
  if (state.playing) return;
  state.playing = true;
  $("play").textContent = "Pause";
  $("play").setAttribute("aria-pressed", "true");
  screen.cross = null;
  asking({ op: "cancel" });
  clearAnswer();
  await moving;
  let due = performance.now(), owed = 0;
  while (state.playing) {
    const now = await new Promise(requestAnimationFrame);
    owed = Math.min(owed + (now - due) / 1000 * 60 * Number($("speed").value), 8);
    due = now;
    const count = Math.floor(owed);
    if (count < 1) continue;
    owed -= count;
    const action = joystick.action;
    if (!take(await asking({ op: "step", unit: "frame", count, ...(action === null ? {} : { action }) }))) break;
  }
  pause();
}

function pause() {
  if (!state.playing) return;
  state.playing = false;
  $("play").textContent = "Play";
  $("play").setAttribute("aria-pressed", "false");
  remember(true);
  arrived();
}

$("play").addEventListener("click", () => (state.playing ? pause() : play()));
$("reset").addEventListener("click", () => { pause(); move({ op: "reset" }); });
for (const button of document.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => {
    pause();
    const action = joystick.action;
    move({ op: "step", unit: button.dataset.step, count: Number(button.dataset.count), ...(action === null ? {} : { action }) });
  });
}

function command(key) {
  const steps = { ",": ["frame", -1], ".": ["frame", 1], "[": ["line", -1], "]": ["line", 1], ";": ["instruction", -1], "'": ["instruction", 1] };
  if (key === "p" || key === "P") { if (state.playing) pause(); else play(); return true; }
  if (key === "Escape" && state.target) { forget(); return true; }
  if (!steps[key]) return false;
  document.querySelector(`[data-step="${steps[key][0]}"][data-count="${steps[key][1]}"]`).click();
  return true;
}

// ---------------------------------------------------------------- where it comes from
let hoverBusy = false, hoverNext = null;
async function hover(row, column) {
  hoverNext = { row, column };
  if (hoverBusy || state.playing) return;
  hoverBusy = true;
  while (hoverNext) {
    const at = hoverNext;
    hoverNext = null;
    try {
      const answer = await link.ask({ op: "hover", ...at, horizon: Math.max(2, Number($("horizon").value)) });
      if (!state.playing) origin.pixel(answer, screen.colour(answer.colour));
    } catch { /* the next one may do */ }
  }
  hoverBusy = false;
}

async function showOrigin() {
  const t = state.target;
  if (t?.kind === "pixel") hover(t.row, t.column);
  if (t?.kind === "ram") {
    const answer = await asking({ op: "byte", cell: t.cell, horizon: Number($("horizon").value) });
    if (answer) origin.cell(answer, state.about.labels[t.cell]);
  }
}

// ---------------------------------------------------------------- what it depends on
function question(extra) {
  return { target: state.target, horizon: Number($("horizon").value), rules: $("rules").value, method: $("method").value, ...extra };
}

function clearAnswer() {
  state.gradient = state.effects = state.scores = state.agreement = null;
  state.romMethod = new Map();
  state.romOracle = new Map();
  state.others = new Map();
  for (const grid of grids) grid.clear();
  $("agreement").textContent = "\u2013";
  $("progress").value = 0;
  for (const id of ["progress-text", "method-max", "oracle-max", "rom-score", "facts"]) $(id).textContent = "";
  listing.setHeat(state.romMethod, state.romOracle);
  showOthers();
}

function pick(target) {
  if (state.playing) pause();
  state.target = target;
  screen.target = target;
  screen.mark();
  showMethods();
  for (const grid of grids) grid.choose(target.kind === "ram" ? target.cell : -1);
  if (target.kind === "ram") state.cell = target.cell;
  remember(true);
  explain();
}

function forget() {
  state.target = screen.target = null;
  screen.mark();
  clearAnswer();
  asking({ op: "cancel" });
  for (const grid of grids) grid.choose(-1);
  $("target").textContent = "Click a pixel, drag a region, or click a RAM cell";
}

async function explain() {
  if (!state.target || state.playing) return;
  const job = ++state.job;
  const mine = () => job === state.job && !state.playing;
  document.body.dataset.job = "busy";
  showOrigin();
  const began = performance.now();
  const found = await asking(question({ op: "explain" }));
  if (!found || !mine()) return;
  const took = performance.now() - began;
  clearAnswer();
  state.gradient = found;
  state.scores = found.ram_predicted;
  const own = $("method").value === "gradient";
  $("method-title").textContent = own ? "method: foretold effect" : "method: score";
  $("target").textContent = `${found.text} = ${number(found.value)}`;
  const cut = found.horizon < Number($("horizon").value) ? " (no further: the boot or a poke)" : "";
  $("facts").textContent = `frames ${found.start + 1}\u2013${found.end}${cut} \u00b7 gradient ${found.ms.toFixed(1)} ms, here after ${took.toFixed(0)} ms`;
  if (own) $("method-max").textContent = `largest ${number(grids[0].show(found.ram_predicted))}`;
  for (const [offset, ...values] of found.rom_predicted) state.romMethod.set(offset, values);
  for (const [group, name, holds, values] of found.others) state.others.set(`${group} ${name}`, { group, name, holds, method: values });
  listing.setHeat(state.romMethod, state.romOracle);
  showHot();
  showOthers();
  showCell();
  list();
  const rows = Array(128).fill(null);
  const answer = await asking(question({ op: "oracle", scope: "ram" }), (part) => {
    if (!mine()) return;
    $("progress").value = part.progress;
    $("progress-text").textContent = part.doing ? "method \u2026" : `${Math.round(part.progress * 1024)} flips`;
    if (part.part) {
      part.part[1].forEach((row, i) => { rows[part.part[0] + i] = row; });
      grids[1].show(rows);
    }
  });
  if (!answer || answer.stopped || !mine()) return;
  state.effects = answer.effects;
  if (answer.scores) state.scores = answer.scores;
  state.agreement = answer.agreement;
  $("progress").value = 1;
  $("progress-text").textContent = `1,024 flips in ${(answer.ms / 1000).toFixed(2)} s`;
  $("method-max").textContent = `largest ${number(grids[0].show(state.scores))}`;
  $("oracle-max").textContent = `largest ${number(grids[1].show(answer.effects))}`;
  $("agreement").textContent = answer.agreement === null ? "n/a" : answer.agreement.toFixed(3);
  if (state.cell === null && state.target.kind !== "ram") {
    const sizes = answer.effects.map((row) => Math.abs(largest(row)));
    if (Math.max(...sizes) > 0) state.cell = sizes.indexOf(Math.max(...sizes));
  }
  $("agreement").title = answer.agreement === null ? "one of the two is the same everywhere: a correlation says nothing" : "";
  showCell();
  const others = await asking(question({ op: "oracle", scope: "others" }));
  if (!others || others.stopped || !mine()) return;
  for (const [group, name, , values] of others.others) state.others.get(`${group} ${name}`).oracle = values;
  showOthers();
  await rom("rom", mine);
  if (mine()) document.body.dataset.job = "done";
}

async function rom(scope, mine = () => true) {
  const answer = await asking(question({ op: "oracle", scope }), (part) => {
    if (mine()) $("rom-score").textContent = `${Math.round(part.progress * 100)} %`;
  });
  if (!answer || answer.stopped || !mine()) return;
  for (const [offset, ...values] of answer.rom) state.romOracle.set(offset, values);
  const tried = `${answer.rom.length} bytes tried`;
  $("rom-score").textContent = answer.agreement === null ? `${tried}, agreement n/a` : `${tried}, agreement ${answer.agreement.toFixed(3)}`;
  listing.setHeat(state.romMethod, state.romOracle);
  showHot();
}
$("rom-used").addEventListener("click", () => { if (state.target) rom("used"); });

for (const id of ["rules", "method"]) $(id).addEventListener("change", () => explain());
$("horizon").addEventListener("input", () => {
  const frames = Number($("horizon").value);
  $("horizon-text").textContent = frames === 1 ? "1 frame" : `${frames} frames`;
});
$("horizon").addEventListener("change", () => { state.listed = ""; explain(); });

function showMethods() {
  const kind = state.target?.kind ?? "pixel", chosen = $("method").value || "gradient";
  const fitting = state.about.methods.filter((m) => m.kinds.includes(kind));
  $("method").replaceChildren(...fitting.map((m) => make("option", { value: m.name }, m.title)));
  $("method").value = fitting.some((m) => m.name === chosen) ? chosen : "gradient";
}

// ---------------------------------------------------------------- panels
function heat(row, top) {
  if (!row) return [make("span", { class: "heat" }), make("span", { class: "figure" }, "\u2013")];
  const value = largest(row), bar = make("span", { class: "heat" });
  paint(bar, value, top);
  return [bar, make("span", { class: "figure" }, number(value))];
}

function showCell() {
  if (state.cell === null || $("cell").hidden) return;
  const i = state.cell, value = state.ram[i], label = state.about.labels[i];
  const rows = [];
  const method = state.scores?.[i], exact = state.effects?.[i];
  const tops = [method, exact].map((row) => (row ? Math.abs(largest(row)) : 0));
  for (let b = 7; b >= 0; b--) {
    rows.push(make("tr", {}, make("td", {}, `bit ${b}`), make("td", { class: "mono" }, String(value >> b & 1)),
      make("td", { class: "n" }, ...heat(method && [method[b]], tops[0])), make("td", { class: "n" }, ...heat(exact && [exact[b]], tops[1]))));
  }
  const slope = state.gradient ? state.gradient.ram[i].map(number).reverse().join(" ") : "\u2013";
  const input = make("input", { value: `$${hex(value)}`, size: "5", maxlength: "6", "aria-label": "new value" });
  const form = make("form", { class: "bar", onsubmit: (e) => { e.preventDefault(); poke(`RAM[${i}]`, input.value); } },
    make("b", {}, `RAM[0x${hex(i)}]`), make("span", { class: "dim" }, `$${hex(0x80 + i)}, holds $${hex(value)} = ${value}`),
    ...(label ? [make("span", { class: "chip RAM" }, label)] : []), input, make("button", { type: "submit" }, "Poke"),
    make("button", { type: "button", id: "explain-cell", onclick: () => pickCell(i) }, "Explain this byte"));
  if ($("cell").contains(document.activeElement) && document.activeElement.tagName === "INPUT") return;
  $("cell").replaceChildren(form, make("div", {}, make("table", {}, make("thead", {}, make("tr", {}, ...["flip", "is", "method", "oracle"].map((t) => make("th", {}, t)))),
    make("tbody", {}, ...rows)), strongest()),
  make("p", { class: "dim" }, `derivative at the start: ${slope}${state.gradient?.ram[i].length === 8 ? " (bit 7 to 0)" : " per unit"}`));
}

// The cells whose flips really do most.
function strongest() {
  const box = make("div", { id: "strong" });
  if (!state.effects) return box;
  const best = state.effects.map((row, i) => [Math.abs(largest(row)), i]).filter(([v]) => v > 0).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  box.append(make("small", {}, best.length ? `${best.length} cells have an effect` : "no flip of RAM has an effect"));
  for (const [, i] of best.slice(0, 7)) {
    box.append(make("button", { type: "button", class: "mono", "data-cell": i, onclick: () => clickCell(i) },
      `RAM[0x${hex(i)}] ${number(largest(state.effects[i]))}`, make("span", { class: "dim" }, `  ${state.about.labels[i] ?? ""}`)));
  }
  return box;
}

function showOthers() {
  const all = [...state.others.values()];
  const draw = (box, groups) => {
    const every = all.filter((o) => groups.includes(o.group));
    const rows = every.filter((o) => largest(o.method) || largest(o.oracle ?? []));
    const tops = ["method", "oracle"].map((k) => Math.abs(largest(rows.flatMap((o) => o[k] ?? []))));
    rows.sort((a, b) => Math.abs(largest(b.oracle ?? [])) + Math.abs(largest(b.method)) - Math.abs(largest(a.oracle ?? [])) - Math.abs(largest(a.method)));
    const body = rows.map((o) => make("tr", { "data-name": o.name }, make("td", { class: "mono" }, o.name), make("td", { class: "mono n" }, o.group === "inputs" || o.group === "flags" ? String(o.holds) : o.group === "positions" ? String(o.holds) : `$${hex(o.holds)}`),
      ...["method", "oracle"].map((k, j) => make("td", { class: "n" }, ...heat(o[k], tops[j])))));
    const head = make("thead", {}, make("tr", {}, ...["place", "holds", "method", "oracle"].map((t) => make("th", {}, t))));
    const none = every.length - rows.length;
    box.replaceChildren(...(rows.length ? [make("table", {}, head, make("tbody", {}, ...body))] : []),
      make("p", { class: "dim" }, every.length ? `${none} ${rows.length ? "others" : "places"}: no effect, foretold or exact`
        : "Click something: the largest effect of a flip of each, foretold and exact."));
  };
  draw($("registers"), ["registers", "flags", "tia", "positions", "cart"]);
  draw($("inputs"), ["inputs"]);
}

function showHot() {
  const score = (offset) => Math.max(Math.abs(largest(state.romOracle.get(offset) ?? [])), Math.abs(largest(state.romMethod.get(offset) ?? [])) * 1e-6);
  const offsets = [...new Set([...state.romMethod.keys(), ...state.romOracle.keys()])].sort((a, b) => score(b) - score(a)).slice(0, 6);
  const chips = offsets.map((o) => make("button", { type: "button", class: "chip ROM", "data-offset": o, onclick: () => showRom(o) }, `ROM[0x${hex(o, 3)}]`));
  $("rom-hot").replaceChildren(...chips, ...(chips.length ? [] : [make("span", { class: "dim" }, "no ROM byte has a derivative here")]));
}

// Fetch the disassembly if what it depends on has changed; resolves when it is there.
function list() {
  if ($("rom").hidden || !state.about) return Promise.resolve();
  const key = `${state.view.frame}/${state.view.instruction}/${state.part}/${state.pokes.length}`;
  if (state.listed !== key) {
    state.listed = key;
    state.listing = asking({ op: "listing", part: state.part, horizon: Number($("horizon").value) })
      .then((answer) => { if (answer && state.listed === key) listing.setLines(answer.lines); });
  }
  return state.listing;
}

async function showRom(offset) {
  tab("rom");
  state.part = Math.floor(offset / 4096);
  $("rom-part").value = state.part;
  await list();
  listing.show(offset);
}
$("rom-part").addEventListener("change", () => { state.part = Number($("rom-part").value); listing.box.scrollTop = 0; list(); });

function tab(name) {
  for (const button of document.querySelectorAll("[role=tab]")) {
    const on = button.id === `tab-${name}`;
    button.setAttribute("aria-selected", String(on));
    button.tabIndex = on ? 0 : -1;
    $(button.getAttribute("aria-controls")).hidden = !on;
  }
  if (name === "rom") list();
  if (name === "cell") showCell();
}
for (const button of document.querySelectorAll("[role=tab]")) {
  button.addEventListener("click", () => tab(button.getAttribute("aria-controls")));
  button.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[e.key];
    if (step && button[step]) { button[step].focus(); button[step].click(); e.preventDefault(); e.stopPropagation(); }
  });
}

$("bits").addEventListener("change", () => { for (const grid of grids) grid.box.classList.toggle("bits", $("bits").checked); });

function showKnown() {
  const known = Object.entries(state.about.labels);
  $("known").replaceChildren(...known.map(([cell, label]) => make("button", { type: "button", class: "chip RAM", title: `RAM[0x${hex(Number(cell))}]`,
    onclick: () => pickCell(Number(cell)) }, `${hex(Number(cell))} ${label}`)));
}

function pickCell(cell) {
  tab("cell");
  pick({ kind: "ram", cell });
  showCell();
}

// A click on a cell shows its bits beside the target; without a target the cell becomes it.
function clickCell(cell) {
  if (!state.target) { pickCell(cell); return; }
  state.cell = cell;
  tab("cell");
  for (const grid of grids) grid.choose(cell);
}

// ---------------------------------------------------------------- poke
async function poke(location, text) {
  const digits = text.trim().replace(/^\$/, "0x");
  const value = /^(0x[0-9a-f]+|[0-9]+)$/i.test(digits) ? Number(digits) : NaN;
  if (!Number.isInteger(value)) { note(`${text} is no byte: give 0 to 255, $00 to $FF.`); return; }
  pause();
  document.activeElement?.blur();
  await move({ op: "poke", location, value });
}
$("poke-form").addEventListener("submit", (e) => { e.preventDefault(); poke($("poke-place").value, $("poke-value").value); });

function showPokes() {
  const key = JSON.stringify(state.pokes);
  if ($("pokes").dataset.key === key) return;
  $("pokes").dataset.key = key;
  const name = (l) => (l < 128 ? `RAM[0x${hex(l)}]` : l >= 65536 ? `ROM[0x${hex(l - 65536, 3)}]` : l >= 1024 ? `CART[0x${hex(l - 1024)}]` : state.about.places[l] ?? `place ${l}`);
  $("pokes").replaceChildren(...state.pokes.map(([frame, location, value], index) => make("li", {},
    make("button", { type: "button", class: "chip", title: "take it back", onclick: () => { pause(); move({ op: "unpoke", index }); } },
      `frame ${frame}: ${name(location)} := $${hex(value)} \u00d7`))));
}

// ---------------------------------------------------------------- export
function save(blob, name) {
  const a = make("a", { href: URL.createObjectURL(blob), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

for (const button of document.querySelectorAll("[data-export]")) {
  button.addEventListener("click", async () => {
    if (!state.target) { note("Nothing is explained yet: click a pixel or a RAM cell first."); return; }
    const kind = button.dataset.export;
    if (kind === "png") { save(await picture(state, screen, grids, $), `${state.about.name}-${state.view.frame}.png`); return; }
    const answer = await asking(question({ op: "export", kind }));
    if (!answer || answer.stopped) return;
    if (kind === "python") $("code").textContent = new TextDecoder().decode(answer.body);
    save(new Blob([answer.body]), answer.file);
  });
}

// ---------------------------------------------------------------- start
$("help-open").addEventListener("click", () => $("help").showModal());

const screen = new Screen($("screen"), $("marks"), {
  hover, pick, busy: () => state.playing,
  leave: () => { if (state.target) showOrigin(); },
});
const grids = [new Grid($("ram-method"), clickCell, pickCell), new Grid($("ram-oracle"), clickCell, pickCell)];
const origin = new Origin($("origin"), { ram: pickCell, rom: showRom });
const listing = new Listing($("listing"));
const timeline = new Timeline($("thumbs"), $("time"), screen, seek);
const joystick = new Joystick($("pad"), () => state.playing, command);

async function hello() {
  const kept = remembered();
  const answer = await asking({ op: "hello", ...(kept.tape ? { tape: kept.tape } : {}) },
    (part) => note(`building your game again: ${Math.round(part.progress * 100)} %`));
  if (!answer) return;
  state.about = answer;
  state.playing = false;
  $("play").textContent = "Play";
  screen.setup(answer.rows, answer.palette);
  $("game").replaceChildren(make("b", {}, answer.name), ` \u00b7 ${answer.size} bytes, ${answer.mapper} \u00b7 ${answer.protocol} \u00b7 ${answer.sha256.slice(0, 12)}`);
  document.title = `${answer.name} \u2013 Glass VCS explorer`;
  $("rules").replaceChildren(...answer.rules.map((r) => make("option", { value: r }, r)));
  showMethods();
  for (const grid of grids) grid.setLabels(answer.labels);
  $("rom-part").replaceChildren(...Array.from({ length: Math.ceil(answer.size / 4096) }, (_, i) => make("option", { value: i }, String(i))));
  showKnown();
  thumbsFor = state.listed = "";
  take(answer);
  note(answer.note, true);
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
  if (answer.restored && kept.target && !state.target) pick(kept.target);
  else arrived();
}

const link = new Link(hello, (kind, text) => {
  $("status").dataset.state = kind;
  $("status").textContent = text;
  if (kind !== "on") { state.playing = false; $("play").textContent = "Play"; }
});
