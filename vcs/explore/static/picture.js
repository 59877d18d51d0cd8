// The view as one PNG: the screen with its target, the two grids, and what they say.

import { hex, largest, shade } from "./heat.js";

const PLUS = [255, 140, 60], MINUS = [70, 150, 255], BACK = [13, 17, 23];

function tone(value, top) {
  const strength = shade(value, top), end = value > 0 ? PLUS : MINUS;
  const part = strength ? 0.15 + 0.85 * strength : 0;
  return `rgb(${BACK.map((b, i) => Math.round((b + 16) + part * (end[i] - b - 16))).join(",")})`;
}

export function picture(state, screen, grids, $) {
  const width = 1240, height = 520;
  const canvas = new OffscreenCanvas(width, height);
  const c = canvas.getContext("2d");
  c.fillStyle = `rgb(${BACK.join(",")})`;
  c.fillRect(0, 0, width, height);
  c.imageSmoothingEnabled = false;
  const wide = 560, high = Math.round(wide * 210 / 320);
  c.drawImage(screen.canvas, 16, 60, wide, high);
  const t = state.target;
  if (t.kind !== "ram") {
    const x = wide / 160, y = high / screen.rows;
    c.strokeStyle = "#ffb454";
    c.lineWidth = 2;
    c.strokeRect(16 + t.column * x - 2, 60 + t.row * y - 2, ((t.right ?? t.column + 1) - t.column) * x + 4, ((t.bottom ?? t.row + 1) - t.row) * y + 4);
  }
  const write = (text, x, y, font = "14px sans-serif", colour = "#dfe6ee") => { c.font = font; c.fillStyle = colour; c.fillText(text, x, y); };
  write(`${state.about.name}, frame ${state.view.frame}: ${$("target").textContent}`, 16, 30, "bold 17px sans-serif");
  write(`${$("facts").textContent}, rules ${$("rules").value}, method ${$("method").selectedOptions[0].textContent}`, 16, 50, "12px sans-serif", "#93a1b0");
  grids.forEach((grid, g) => {
    const left = 600, top = 84 + g * 212, size = 38, tall = 22;
    const values = g ? state.effects : state.scores;
    const best = Array.from({ length: 128 }, (_, i) => (values ? largest(values[i]) : 0));
    const most = Math.abs(largest(best));
    write(g ? `oracle: exact effect ${$("oracle-max").textContent}` : `method ${$("method-max").textContent}`, left, top - 8);
    for (let i = 0; i < 128; i++) {
      const x = left + (i % 16) * size, y = top + (i >> 4) * tall;
      c.fillStyle = tone(best[i], most);
      c.fillRect(x, y, size - 1, tall - 1);
      write(hex(state.ram[i]), x + 12, y + 15, "11px monospace");
    }
  });
  write(`agreement (Pearson of magnitudes over 1,024 flips): ${$("agreement").textContent}`, 600, 500, "bold 14px sans-serif", "#ffb454");
  write(state.about.sha256, 16, 500, "11px monospace", "#93a1b0");
  return canvas.convertToBlob({ type: "image/png" });
}
