// The screen: its pixels, the marks on it, and pointing at them.

export class Screen {
  // on: {hover(row, column), leave(), pick(target), busy()}
  constructor(canvas, marks, on) {
    this.canvas = canvas;
    this.marks = marks;
    this.on = on;
    this.context = canvas.getContext("2d");
    this.rows = 210;
    this.palette = new Uint32Array(256);
    this.target = null;
    this.cross = null;
    this.drag = null;
    this.beam = null;
    canvas.addEventListener("pointerdown", (e) => this.down(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", (e) => this.up(e));
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.mark(); });
    canvas.addEventListener("pointerleave", () => { if (!this.drag) { this.cross = null; this.mark(); on.leave(); } });
    canvas.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.mark()).observe(canvas);
  }

  setup(rows, palette) {
    this.rows = rows;
    this.canvas.height = rows;
    for (let i = 0; i < 256; i++) {
      const [r, g, b] = [0, 2, 4].map((k) => parseInt(palette.slice(6 * i + k, 6 * i + k + 2), 16));
      this.palette[i] = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    }
  }

  colour(index) {
    const c = this.palette[index];
    return `rgb(${c & 255}, ${c >> 8 & 255}, ${c >> 16 & 255})`;
  }

  draw(pixels) {
    this.pixels = pixels;
    const image = this.context.createImageData(160, this.rows);
    const out = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) out[i] = this.palette[pixels[i]];
    this.context.putImageData(image, 0, 0);
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / box.width * 160);
    const row = Math.floor((event.clientY - box.top) / box.height * this.rows);
    return { row: Math.max(0, Math.min(this.rows - 1, row)), column: Math.max(0, Math.min(159, column)) };
  }

  down(event) {
    if (this.on.busy()) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { from: this.at(event), to: this.at(event) };
    this.cross = this.drag.from;
    this.mark();
  }

  move(event) {
    if (this.on.busy()) return;
    const at = this.at(event);
    if (this.drag) this.drag.to = at;
    else if (!this.cross || this.cross.row !== at.row || this.cross.column !== at.column) this.on.hover(at.row, at.column);
    this.cross = at;
    this.mark();
  }

  up() {
    if (!this.drag) return;
    const { from, to } = this.drag;
    this.drag = null;
    const row = Math.min(from.row, to.row), column = Math.min(from.column, to.column);
    const bottom = Math.max(from.row, to.row) + 1, right = Math.max(from.column, to.column) + 1;
    if (bottom - row <= 2 && right - column <= 2) this.on.pick({ kind: "pixel", row: from.row, column: from.column });
    else this.on.pick({ kind: "region", row, column, bottom, right });
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (this.on.busy()) return;
    if (event.key === "Enter" && this.cross) {
      this.on.pick({ kind: "pixel", ...this.cross });
      event.preventDefault();
    }
    const step = moves[event.key];
    if (!step) return;
    const far = event.shiftKey ? 10 : 1;
    const now = this.cross ?? { row: this.rows >> 1, column: 80 };
    this.cross = {
      row: Math.max(0, Math.min(this.rows - 1, now.row + far * step[0])),
      column: Math.max(0, Math.min(159, now.column + far * step[1])),
    };
    this.mark();
    this.on.hover(this.cross.row, this.cross.column);
    event.preventDefault();
  }

  // Draw the cross, the target, a region being dragged and the beam over the screen.
  mark() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio), height = Math.round(this.canvas.clientHeight * ratio);
    if (this.marks.width !== width || this.marks.height !== height) { this.marks.width = width; this.marks.height = height; }
    const c = this.marks.getContext("2d");
    c.clearRect(0, 0, width, height);
    const x = (column) => column * width / 160, y = (row) => row * height / this.rows;
    const box = (r, cl, b, rt, colour) => {
      const pad = 2 * ratio;
      c.lineWidth = 3.5 * ratio; c.strokeStyle = "rgba(0,0,0,.8)";
      c.strokeRect(x(cl) - pad, y(r) - pad, x(rt) - x(cl) + 2 * pad, y(b) - y(r) + 2 * pad);
      c.lineWidth = 1.5 * ratio; c.strokeStyle = colour;
      c.strokeRect(x(cl) - pad, y(r) - pad, x(rt) - x(cl) + 2 * pad, y(b) - y(r) + 2 * pad);
    };
    if (this.beam && this.beam.row >= 0 && this.beam.row < this.rows) {
      c.fillStyle = "rgba(255,255,255,.28)";
      c.fillRect(0, y(this.beam.row), width, Math.max(1, y(1)));
      c.fillStyle = "#fff";
      if (this.beam.column >= 0) c.fillRect(x(this.beam.column) - ratio, y(this.beam.row) - 3 * ratio, 3 * ratio, 6 * ratio + y(1));
    }
    const t = this.target;
    if (t?.kind === "pixel") box(t.row, t.column, t.row + 1, t.column + 1, "#ffb454");
    if (t?.kind === "region") box(t.row, t.column, t.bottom, t.right, "#ffb454");
    if (this.drag) {
      const { from, to } = this.drag;
      box(Math.min(from.row, to.row), Math.min(from.column, to.column), Math.max(from.row, to.row) + 1,
        Math.max(from.column, to.column) + 1, "#fff");
    } else if (this.cross) box(this.cross.row, this.cross.column, this.cross.row + 1, this.cross.column + 1, "#fff");
  }
}
