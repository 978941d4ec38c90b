// The picture of a dataflow as the server has drawn it, cleaned: shapes and texts only, no style, script or link.

const SVG = "http://www.w3.org/2000/svg";
const TAGS = new Set(["svg", "g", "rect", "path", "text", "title"]);
const ATTRIBUTES = new Set([
  "d", "data-edge", "data-operator", "data-scope", "fill", "fill-opacity", "font-size", "height", "rx", "stroke",
  "stroke-dasharray", "stroke-linejoin", "stroke-width", "text-anchor", "viewBox", "width", "x", "y",
]);

const PARSER = document.createElement("template");

/**
 * Return a picture as {svg, parts}, null if it is none: an element without content, and the texts of its parts, which
 * begin lines. Elements of all parts at once would take much memory.
 */
export function pictureOf(text) {
  const [head] = /^<svg[^>]*>/.exec(text ?? "") ?? [];
  if (!head) return null;
  const bare = head.replace(/ style="[^"]*"/, ""); // which the policy would refuse aloud
  return { svg: partOf(bare), parts: text.slice(head.length).split(/\n(?=<)/) };
}

/** Return a part of a picture from its text, cleaned; null if nothing is left. */
export function partOf(text) {
  PARSER.innerHTML = `<svg>${text}</svg>`; // as XML it takes ten times as long
  const found = PARSER.content.firstChild.firstElementChild;
  return found && cleaned(found);
}

/** Return a copy without what is not a shape or a text; null if the element itself is neither. */
function cleaned(node) {
  if (!TAGS.has(node.nodeName)) return null;
  const made = bareOf(node);
  for (let child = node.firstChild; child; child = child.nextSibling) {
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

/** The first value of an attribute in the text of a part. */
export function valueIn(text, name) {
  return new RegExp(` ${name}="([^"]*)"`).exec(text)?.[1] ?? "";
}

/** The rectangle of the first box in the text of a part: {x, y, width, height}. */
export function boxOf(text) {
  const [rectangle] = /<rect[^>]*>/.exec(text) ?? [""];
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(valueIn(rectangle, name)));
  return { x, y, width, height };
}

/** The rectangle around the way of a path, whose coordinates are all absolute. */
export function boxAround(way) {
  const numbers = (way.match(/-?[\d.]+/g) ?? []).map(Number);
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
