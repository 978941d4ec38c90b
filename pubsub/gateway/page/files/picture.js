// The picture of a dataflow as the server has drawn it, cleaned: shapes and texts only, no style, script or link.

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(["svg", "g", "rect", "path", "text", "title"]);
const ATTRIBUTES = new Set([
  "d", "data-edge", "data-operator", "data-scope", "fill", "fill-opacity", "font-size", "height", "rx", "stroke",
  "stroke-dasharray", "stroke-linejoin", "stroke-width", "text-anchor", "viewBox", "width", "x", "y",
]);

/** Return a picture as an element, null if it is none. */
export function pictureOf(text) {
  const bare = (text || "<none/>").replace(/^(<svg[^>]*?) style="[^"]*"/, "$1"); // which the policy would refuse aloud
  const found = new DOMParser().parseFromString(bare, "image/svg+xml").documentElement;
  return found.nodeName === "svg" ? cleaned(found) : null;
}

/** Return a new element of SVG. */
export function shape(tag, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  return made;
}

/** The rectangle of an operator's box: {x, y, width, height}. */
export function boxOf(rectangle) {
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(rectangle.getAttribute(name)));
  return { x, y, width, height };
}

/** The rectangle around a path, whose coordinates are all absolute. */
export function boxAround(path) {
  const numbers = (path.getAttribute("d").match(/-?[\d.]+/g) ?? []).map(Number);
  const xs = numbers.filter((_, place) => place % 2 === 0);
  const ys = numbers.filter((_, place) => place % 2 === 1);
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
}

function cleaned(node) {
  const made = document.createElementNS(SVG, node.nodeName);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.data);
    else if (TAGS.has(child.nodeName)) made.append(cleaned(child));
  }
  return made;
}
