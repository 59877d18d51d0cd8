// The disassembly with heat in its margin; only the rows in view exist.

import { hex, largest, make, number, paint } from "./heat.js";

const HIGH = 18;

export class Listing {
  constructor(box) {
    this.box = box;
    this.room = make("div");
    box.append(this.room);
    this.lines = [];
    this.method = new Map();
    this.oracle = new Map();
    this.found = -1;
    box.addEventListener("scroll", () => this.draw());
  }

  setLines(lines) {
    this.lines = lines;
    this.room.style.height = `${lines.length * HIGH}px`;
    this.draw();
  }

  // Maps from ROM offset to eight numbers.
  setHeat(method, oracle) {
    this.method = method;
    this.oracle = oracle;
    this.draw();
  }

  sum(map, line) {
    let best = 0;
    const bytes = (line[2].length + 1) / 3;
    for (let k = 0; k < bytes; k++) {
      const row = map.get(line[0] + k);
      if (row) { const v = largest(row); if (Math.abs(v) > Math.abs(best)) best = v; }
    }
    return best;
  }

  show(offset) {
    const at = this.lines.findIndex((line) => line[0] <= offset && offset < line[0] + (line[2].length + 1) / 3);
    if (at < 0) return false;
    this.found = at;
    this.box.scrollTop = Math.max(0, at * HIGH - this.box.clientHeight / 2);
    this.draw();
    return true;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HIGH) - 2);
    const last = Math.min(this.lines.length, first + Math.ceil((this.box.clientHeight || 220) / HIGH) + 5);
    const tops = [this.method, this.oracle].map((map) => Math.abs(largest([...map.values()].map(largest))));
    const rows = [];
    for (let i = first; i < last; i++) {
      const [offset, address, bytes, text, code, ran] = this.lines[i];
      const row = make("div", { class: `row${ran ? " ran" : ""}${code ? "" : " data"}${i === this.found ? " found" : ""}`, role: "listitem", "data-offset": offset });
      row.style.top = `${i * HIGH}px`;
      [this.method, this.oracle].forEach((map, k) => {
        const value = this.sum(map, this.lines[i]);
        const bar = make("b", {}, value ? number(value) : "");
        paint(bar, value, tops[k]);
        row.append(bar);
      });
      row.append(make("span", {}, `${hex(address, 4)}  ROM[0x${hex(offset, 3)}]  ${bytes.toUpperCase().padEnd(9)} ${text}`));
      rows.push(row);
    }
    this.room.replaceChildren(...rows);
  }
}
