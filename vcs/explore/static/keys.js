// The joystick: keys and touch buttons become one of the console's 18 actions.

// lines up 1, down 2, left 4, right 8, fire 16 of each action 0 to 17
const LINES = [0, 16, 1, 8, 4, 2, 9, 5, 10, 6, 17, 24, 20, 18, 25, 21, 26, 22];
const KEYS = { ArrowUp: 1, ArrowDown: 2, ArrowLeft: 4, ArrowRight: 8, " ": 16 };

export class Joystick {
  // playing(): whether keys belong to the game; command(key): anything else that was pressed
  constructor(pad, playing, command) {
    this.held = 0;
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const typing = event.target.matches?.("input, select, textarea, [contenteditable]");
      if (KEYS[event.key] && playing() && !typing) {
        this.held |= KEYS[event.key];
        event.preventDefault();
      } else if (!typing && command(event.key)) event.preventDefault();
    });
    addEventListener("keyup", (event) => { if (KEYS[event.key]) this.held &= ~KEYS[event.key]; });
    addEventListener("blur", () => { this.held = 0; });
    for (const button of pad.querySelectorAll("button")) {
      const line = Number(button.dataset.line);
      button.addEventListener("pointerdown", (e) => { this.held |= line; button.setPointerCapture(e.pointerId); });
      for (const kind of ["pointerup", "pointercancel"]) button.addEventListener(kind, () => { this.held &= ~line; });
    }
  }

  // The action held now, null if nothing is: opposite directions cancel.
  get action() {
    let lines = this.held;
    if ((lines & 3) === 3) lines &= ~3;
    if ((lines & 12) === 12) lines &= ~12;
    return lines ? LINES.indexOf(lines) : null;
  }
}
