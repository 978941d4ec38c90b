// The picture of a dataflow as the server has drawn it, cleaned: shapes and texts only, no style, script or link.

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(["svg", "g", "rect", "path", "text", "title"]);
const ATTRIBUTES = new Set([
  "d", "data-edge", "data-operator", "data-scope", "fill", "fill-opacity", "font-size", "height", "rx", "stroke",
  "stroke-dasharray", "stroke-linejoin", "stroke-width", "text-anchor", "viewBox", "width", "x", "y",
]);

/** Return a picture as {svg, parts}, null if it is none: an element without content, and its parts, still to be cleaned. */
export function pictureOf(text) {
  const bare = (text ?? "").replace(/^(<svg[^>]*?) style="[^"]*"/, "$1"); // which the policy would refuse aloud
  // As XML it takes ten times as long.
  const found = new DOMParser().parseFromString(bare, "text/html").body.firstElementChild;
  return found?.namespaceURI === SVG ? { svg: bareOf(found), parts: [...found.children] } : null;
}

/** Return a part of a picture, cleaned, from its text, which takes a tenth of the memory of elements. */
export function partOf(text) {
  const holder = document.createElement("template");
  holder.innerHTML = `<svg>${text}</svg>`;
  return cleaned(holder.content.firstChild.firstChild);
}

/** Return a part of a picture without what is not a shape or a text; null if it is neither itself. */
export function cleaned(node) {
  if (!TAGS.has(node.nodeName)) return null;
  const made = bareOf(node);
  for (const child of node.childNodes) {
    const kept = child.nodeType === Node.TEXT_NODE ? child.data : cleaned(child);
    if (kept !== null) made.append(kept);
  }
  return made;
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

function bareOf(node) {
  const made = document.createElementNS(SVG, node.nodeName);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name)) made.setAttribute(name, value);
  return made;
}
