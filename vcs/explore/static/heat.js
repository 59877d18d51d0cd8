// Colours and numbers shared by all panels.

export const hex = (value, digits = 2) => value.toString(16).toUpperCase().padStart(digits, "0");

export function number(value) {
  if (value === null || value === undefined) return "n/a";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

// The number of largest magnitude, with its sign.
export function largest(values) {
  let best = 0;
  for (const v of values) if (Math.abs(v) > Math.abs(best)) best = v;
  return best;
}

// The square root keeps small effects visible beside a large one.
export const shade = (value, top) => (top > 0 ? Math.sqrt(Math.min(1, Math.abs(value) / top)) : 0);

export function paint(element, value, top) {
  const strength = shade(value, top);
  if (strength === 0) {
    element.style.removeProperty("--tone");
    element.style.removeProperty("--heat");
  } else {
    element.style.setProperty("--tone", value > 0 ? "var(--plus)" : "var(--minus)");
    element.style.setProperty("--heat", (0.15 + 0.85 * strength).toFixed(3));
  }
  return strength;
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
