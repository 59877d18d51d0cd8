// Where a pixel or a byte comes from: the chain of instructions back to ROM, RAM and inputs.

import { hex, make } from "./heat.js";

const KIND = (link) => (link.location.startsWith("ROM") ? "ROM" : link.location.startsWith("RAM") ? "RAM" : link.end === "input" ? "input" : "");

function leaves(links, found = new Map()) {
  for (const link of links) {
    if (link.links.length) leaves(link.links, found);
    else if (link.location && link.via === "value") found.set(link.location, link);
  }
  return found;
}

export class Origin {
  // on: {ram(cell), rom(offset)}
  constructor(box, on) { this.box = box; this.on = on; this.kind = "colour"; }

  chip(link) {
    const kind = KIND(link);
    const text = link.value === null ? link.location : `${link.location} = $${hex(link.value)}`;
    const chip = make(kind === "ROM" || kind === "RAM" ? "button" : "span", { class: `chip ${kind}`, title: link.text }, text);
    const index = parseInt(link.location.split("[")[1], 16);
    if (kind === "ROM") chip.addEventListener("click", () => this.on.rom(index));
    if (kind === "RAM") chip.addEventListener("click", () => this.on.ram(index));
    return chip;
  }

  hops(links, depth, first, out) {
    for (const link of links) {
      const hop = make("div", { class: `hop mono ${link.via}` });
      hop.style.setProperty("--deep", depth);
      const single = link.links.length === 1 && !link.links[0].links.length && link.links[0].row < 0 ? link.links[0] : null;
      if (link.row >= 0) {
        hop.append(make("span", { class: "what" }, link.text + (link.times > 1 ? ` \u00d7${link.times}` : "")));
        hop.append(make("span", { class: "got" }, link.value === null ? "" : `$${hex(link.value)}`));
        if (link.location.startsWith("RAM")) hop.append(this.chip({ ...link, value: null }));
        if (single?.location) hop.append("\u2190", this.chip(single));
        hop.append(make("span", { class: "where" },
          `${hex(link.pc, 4)} bank ${link.bank} \u00b7 frame ${first + link.frame + 1} \u00b7 line ${link.line} clock ${link.clock}`));
      } else {
        if (link.location) hop.append(this.chip(link));
        hop.append(make("span", { class: "where" }, link.text));
      }
      out.append(hop);
      if (!single) this.hops(link.links, depth + 1, first, out);
    }
  }

  // One line a way: its name, its last instruction, where it ends; then the steps of the chosen one.
  ways(chains, first) {
    const names = Object.keys(chains);
    const kind = (name) => name.split(" ")[0];
    const steps = make("div", { class: "steps" });
    const heads = names.map((name) => {
      const head = chains[name][0];
      const sources = [...leaves(chains[name]).values()].filter((l) => KIND(l));
      const button = make("button", { type: "button", class: "name", "aria-pressed": "false", title: "show its steps" }, name);
      button.addEventListener("click", () => { this.kind = kind(name); show(name); });
      return make("div", { class: "way leaves" }, button,
        make("span", { class: head.row < 0 ? "dim" : "mono" }, head.text),
        ...(sources.length ? ["\u2190", ...sources.slice(0, 4).map((l) => this.chip(l))] : []),
        ...(sources.length > 4 ? [make("small", {}, `and ${sources.length - 4} more`)] : []));
    });
    const show = (name) => {
      steps.replaceChildren();
      this.hops(chains[name], 0, first, steps);
      heads.forEach((head, i) => head.firstChild.setAttribute("aria-pressed", String(names[i] === name)));
    };
    if (names.length) show(names.find((name) => kind(name) === this.kind) ?? names[0]);
    return [...heads, steps];
  }

  pixel(answer, colour) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = colour;
    const facts = [`row ${answer.row}, column ${answer.column}`, `colour $${hex(answer.colour)}`];
    if (answer.register) facts.push(answer.register);
    if (answer.position !== undefined) facts.push(`object at column ${answer.position}`);
    const text = answer.waiting ? "not drawn yet: the beam comes later"
      : answer.code === 255 ? "blank: nothing drew this pixel" : answer.object;
    this.box.replaceChildren(make("h3", {}, swatch, text, make("span", { class: "dim mono" }, `  ${facts.join(" \u00b7 ")}`)),
      ...this.ways(answer.chains, answer.first));
    this.box.dataset.pixel = `${answer.row},${answer.column}`;
  }

  cell(answer, label) {
    const title = `RAM[0x${hex(answer.cell)}]${label ? ` (${label})` : ""}`;
    this.box.replaceChildren(make("h3", {}, `what last wrote ${title}`), ...this.ways(answer.chains, answer.first));
    this.box.dataset.pixel = "";
  }
}
