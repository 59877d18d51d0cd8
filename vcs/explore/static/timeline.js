// The tape: thumbnails of what was played, and where we are on it.

export class Timeline {
  constructor(canvas, slider, screen, seek) {
    this.canvas = canvas;
    this.slider = slider;
    this.screen = screen;
    this.pictures = null;
    this.strip = null;
    this.length = 1;
    slider.addEventListener("input", () => seek(Number(slider.value)));
    canvas.addEventListener("pointerdown", (e) => {
      const box = canvas.getBoundingClientRect();
      seek(Math.round((e.clientX - box.left) / box.width * this.length));
    });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  set(frame, length) {
    this.length = Math.max(1, length);
    this.frame = frame;
    this.slider.max = this.length;
    this.slider.value = frame;
    this.slider.setAttribute("aria-valuetext", `frame ${frame} of ${length}`);
    this.draw();
  }

  thumbs(answer) {
    const { frames, rows, columns, body } = answer;
    this.pictures = frames.map((frame, i) => {
      const image = new ImageData(columns, rows);
      const out = new Uint32Array(image.data.buffer);
      const at = i * rows * columns;
      for (let k = 0; k < rows * columns; k++) out[k] = this.screen.palette[body[at + k]];
      const canvas = new OffscreenCanvas(columns, rows);
      canvas.getContext("2d").putImageData(image, 0, 0);
      return { frame, canvas };
    });
    this.strip = null;
    this.draw();
  }

  // The strip of thumbnails, drawn anew only when they or the size changed.
  film(width, height) {
    const key = `${width}x${height}`;
    if (this.strip && this.stripFor === key) return this.strip;
    this.stripFor = key;
    this.strip = new OffscreenCanvas(width, height);
    const c = this.strip.getContext("2d");
    const slots = Math.max(1, Math.round(width / (height * 1.52)));
    for (let i = 0; i < slots && this.pictures; i++) {
      const wanted = (i + 0.5) / slots * this.length;
      const near = this.pictures.reduce((a, b) => (Math.abs(b.frame - wanted) < Math.abs(a.frame - wanted) ? b : a));
      c.drawImage(near.canvas, i * width / slots, 0, width / slots - 1, height);
    }
    return this.strip;
  }

  draw() {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio), height = Math.round(this.canvas.clientHeight * ratio);
    if (!width || !height) return;
    if (this.canvas.width !== width || this.canvas.height !== height) { this.canvas.width = width; this.canvas.height = height; }
    const c = this.canvas.getContext("2d");
    c.clearRect(0, 0, width, height);
    c.drawImage(this.film(width, height), 0, 0);
    c.fillStyle = "rgba(0,0,0,.35)";
    const now = (this.frame ?? 0) / this.length * width;
    c.fillRect(now, 0, width - now, height);
    c.fillStyle = "#ffb454";
    c.fillRect(Math.min(Math.max(0, now - ratio), width - 2 * ratio), 0, 2 * ratio, height);
  }
}
