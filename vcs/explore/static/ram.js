// The two grids of RAM: what a method says and what the oracle found, as bytes or as bits.

import { hex, largest, make, number, paint } from "./heat.js";

export class Grid {
  // pick(cell) on a click, explain(cell) on a second one right after
  constructor(box, pick, explain) {
    this.box = box;
    this.cells = [];
    this.values = null;
    this.contents = new Uint8Array(128);
    this.labels = {};
    for (let i = 0; i < 128; i++) {
      const bits = [7, 6, 5, 4, 3, 2, 1, 0].map((b, k) => {
        const bar = make("i");
        bar.style.setProperty("--bit", k);
        return bar;
      });
      const cell = make("button", { type: "button", "data-cell": i, onclick: () => pick(i), ondblclick: () => explain(i) }, make("span", {}, "00"), ...bits);
      box.append(cell);
      this.cells.push(cell);
    }
    box.addEventListener("keydown", (e) => {
      const step = { ArrowUp: -16, ArrowDown: 16, ArrowLeft: -1, ArrowRight: 1 }[e.key];
      const at = this.cells.indexOf(document.activeElement);
      if (step && at >= 0) { this.cells[at + step]?.focus(); e.preventDefault(); e.stopPropagation(); }
    });
  }

  setLabels(labels) {
    this.labels = labels;
    this.cells.forEach((cell, i) => cell.classList.toggle("labelled", i in labels));
    this.describe();
  }

  setContents(bytes) {
    for (let i = 0; i < 128; i++) {
      if (bytes[i] === this.contents[i] && this.cells[i].dataset.set) { this.cells[i].classList.remove("changed"); continue; }
      this.cells[i].classList.toggle("changed", Boolean(this.cells[i].dataset.set));
      this.cells[i].dataset.set = "1";
      this.cells[i].firstChild.textContent = hex(bytes[i]);
    }
    this.contents = bytes;
  }

  choose(cell) {
    this.cells.forEach((element, i) => element.classList.toggle("chosen", i === cell));
  }

  clear() {
    this.values = null;
    for (const cell of this.cells) {
      paint(cell, 0, 0);
      cell.classList.remove("hot");
      for (let k = 1; k < 9; k++) paint(cell.children[k], 0, 0);
    }
    this.describe();
  }

  // values: 128 rows of 8 numbers, bit 0 first; returns the largest magnitude. Missing rows are not drawn.
  show(values) {
    this.values = values;
    const best = values.map((row) => (row ? largest(row) : 0));
    const top = Math.abs(largest(best));
    this.cells.forEach((cell, i) => {
      const row = values[i];
      cell.classList.toggle("hot", paint(cell, best[i], top) > 0.5);
      for (let k = 0; k < 8; k++) paint(cell.children[k + 1], row ? row[7 - k] : 0, top);
    });
    this.describe();
    return top;
  }

  describe() {
    this.cells.forEach((cell, i) => {
      const parts = [`RAM[0x${hex(i)}] at $${hex(0x80 + i)}`];
      if (i in this.labels) parts.push(this.labels[i]);
      if (this.values?.[i]) parts.push(`largest ${number(largest(this.values[i]))}`);
      const text = parts.join(", ");
      if (cell.title !== text) { cell.title = text; cell.setAttribute("aria-label", text); }
    });
  }
}
