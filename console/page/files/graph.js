// The graph of a job: the server's picture with live numbers. Only what has changed and is visible is painted, for at
// most a few milliseconds a frame.

import { operatorsOf } from "./attention.js";
import { EdgeGroups, levelOf, widthOf } from "./edge_groups.js";
import { count, firstTime, lag, rate, share, shortened } from "./format.js";
import { Hint, wordsOf } from "./hint.js";
import { boxAround, boxOf, partOf, pictureOf, shape, valueIn } from "./picture.js";

const BUDGET_MS = 12;
const MARGIN = 200;
/** A picture of so many parts is drawn and painted where it is out of sight, too. */
const MANY = 400;
const EVERYWHERE = 1e6;
/** Below these scales numbers, and then names, are too small to be read, and are not drawn. */
const FAR = 0.5;
const FARTHER = 0.3;
const INSET = 9;
const SIGN = 6.7; // the width of a sign of the numbers
const SHOWN_FROM_S = 1; // a shorter lag is in the details only
/** From these busy shares on an operator has the next colour, where its numbers are not drawn. */
const HEATS = [0.02, 0.2, 0.5, 0.8];
const KEYS = { "+": 1.25, "=": 1.25, "-": 1 / 1.25, 0: "fit" };
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * Args:
 *   frame: the element that scrolls the graph.
 *   hint: the element that has the numbers of an operator where they are too small in the graph.
 *   select: called with ("operator", number) or ("none") when a person chooses.
 */
export class Graph {
  constructor(frame, hint, select) {
    this.frame = frame;
    this.hint = new Hint(frame, hint);
    this.select = select;
    this.scale = 1;
    this.lit = new Set();
    this.held = new Map();
    this.wanted = false;
    this.marked = null;
    frame.addEventListener("scroll", () => this.#schedule(), { passive: true });
    new ResizeObserver(() => this.#schedule()).observe(frame);
  }

  /**
   * Show a picture; return whether there is one. Large ones come in pieces, and their operators and edges become elements
   * when they are first in sight: thousands of elements take much memory.
   */
  load(text, job) {
    const picture = pictureOf(text);
    this.job = job;
    this.pointed = null;
    this.svg = picture && picture.svg;
    this.parts = picture ? picture.parts.reverse() : [];
    this.isLarge = this.parts.length > MANY;
    this.operators = new Map();
    this.edges = new Map();
    this.scopes = new Map();
    if (this.svg === null) {
      this.frame.replaceChildren();
      return false;
    }
    this.size = [Number(this.svg.getAttribute("width")), Number(this.svg.getAttribute("height"))];
    this.svg.setAttribute("viewBox", `0 0 ${this.size.join(" ")}`);
    this.svg.setAttribute("role", "group");
    this.svg.setAttribute("aria-label", "Graph of operators; the arrow keys move, Enter selects, + and - zoom");
    this.svg.addEventListener("click", (event) => this.#choose(event.target));
    this.svg.addEventListener("keydown", (event) => this.#press(event));
    for (const kind of ["focusin", "pointerover"]) this.svg.addEventListener(kind, (event) => this.#describe(event.target));
    this.svg.addEventListener("focusout", () => this.#hover(null));
    this.svg.addEventListener("pointerleave", () => this.#hover(this.svg.contains(document.activeElement) ? document.activeElement : null));
    this.layers = ["scopes", "edges", "operators"].map(() => shape("g"));
    this.svg.append(...this.layers);
    this.groups = new EdgeGroups(this.layers[1], this.edges);
    this.frame.replaceChildren(this.svg);
    this.#grow(performance.now() + BUDGET_MS);
    this.begin();
    return true;
  }

  /** Show all where it is legible then, else the width; and the beginning. */
  begin() {
    if (!this.svg) return;
    if (this.#fitting() >= FAR) this.zoom("fit");
    else this.zoom("fit width");
    this.frame.scrollTo(0, 0);
  }

  /** Paint changed operators and edges, by their numbers; without them, all. */
  update(job, operators = null, edges = null) {
    this.job = job;
    const errors = Object.values(job.log ?? {}).filter((entry) => entry.level === "error");
    this.failed = new Set(errors.flatMap(operatorsOf));
    if (!this.svg) return;
    for (const [nodes, changed] of [[this.operators, operators], [this.edges, edges]]) {
      nodes.forEach((node, number) => (node.isStale ||= !changed || changed.has(number)));
    }
    this.groups.isStale = true;
    for (const [name, node] of this.scopes) this.#paintScope(name, node);
    this.#schedule();
  }

  /** Light up operators, and say for what names others hold a frontier back. */
  light(lit, held) {
    const touched = [...this.lit, ...lit, ...this.held.keys(), ...held.keys()];
    this.lit = new Set(lit);
    this.held = held;
    for (const number of touched) if (this.operators?.has(number)) this.operators.get(number).isStale = true;
    this.#schedule();
  }

  /** Mark an operator as selected and, if it is out of sight, scroll to it. */
  mark(number) {
    this.marked = number;
    this.svg?.querySelector("[aria-pressed=true]")?.setAttribute("aria-pressed", "false");
    const node = this.operators?.get(number);
    if (!node) return;
    this.#drawn(node).setAttribute("aria-pressed", "true");
    this.#moveFocus(node, false);
    if (!isWithin(node.box, this.#sight(0))) {
      const { x, y, width, height } = node.box;
      this.frame.scrollTo({
        left: (x + width / 2) * this.scale - this.frame.clientWidth / 2,
        top: (y + height / 2) * this.scale - this.frame.clientHeight / 2,
      });
    }
  }

  /** Zoom by a factor, to "fit width", or to "fit" all; what is in the middle, or has the focus, stays there. */
  zoom(how) {
    if (!this.svg) return;
    const focused = this.operators.get(document.activeElement?.dataset?.operator);
    const middle = focused ? centre(focused.box) : this.#middle();
    const wished = { "fit width": Math.max(0.6, Math.min(1, this.#byWidth())), fit: this.#fitting() }[how];
    const wasFar = this.scale < FAR;
    this.scale = Math.min(2, Math.max(0.05, wished ?? this.scale * how));
    this.svg.setAttribute("width", this.size[0] * this.scale);
    this.svg.setAttribute("height", this.size[1] * this.scale);
    if (wasFar && this.scale >= FAR) for (const node of this.operators.values()) node.isStale = true;
    this.svg.dataset.far = this.scale < FARTHER ? "names" : this.scale < FAR ? "numbers" : "";
    this.groups.show(this.isLarge && this.scale < FARTHER);
    this.frame.scrollTo({
      left: middle[0] * this.scale - this.frame.clientWidth / 2,
      top: middle[1] * this.scale - this.frame.clientHeight / 2,
    });
    this.#showHint();
    this.#schedule();
  }

  #byWidth() {
    return (this.frame.clientWidth - 2) / this.size[0];
  }

  /** The scale at which all is in sight; the frame is as high as its picture, up to its largest height. */
  #fitting() {
    const room = parseFloat(getComputedStyle(this.frame).maxHeight) || this.frame.clientHeight;
    return Math.min(1, this.#byWidth(), (room - 2) / this.size[1]);
  }

  /** Note a part of the picture by its text. */
  #note(text) {
    const [, kind, number] = /^<g data-(operator|edge)="([^"]*)"/.exec(text) ?? [];
    if (kind === "operator") {
      const node = { number, text, box: boxOf(text), isStale: true, shown: {} };
      this.operators.set(number, node);
      if (this.operators.size === 1) this.#moveFocus(node, false);
    } else if (kind === "edge") {
      const way = valueIn(text, "d");
      this.edges.set(number, { text, way, box: boxAround(way), isStale: true, shown: {} });
      this.groups.isStale = true;
    } else {
      const group = partOf(text);
      if (group?.dataset.scope !== undefined) this.#addScope(group, boxOf(text));
      else if (group) this.layers[0].append(group);
    }
  }

  /** The element of an operator or edge, which is made when it is first needed. */
  #drawn(node) {
    if (node.group) return node.group;
    const group = (node.group = partOf(node.text));
    node.text = null;
    node.line = group.querySelector("path");
    this.layers[node.number === undefined ? 1 : 2].append(group);
    if (node.number !== undefined) {
      node.title = group.querySelector("title") ?? group.insertBefore(shape("title"), group.firstChild);
      for (const [name, value] of [["role", "button"], ["aria-pressed", "false"], ["tabindex", "-1"]]) group.setAttribute(name, value);
    }
    return group;
  }

  /** Add the texts and the bar of an operator, when they are first legible. */
  #addNumbers(node) {
    const { x, y, width, height } = node.box;
    const [left, right, bottom] = [x + INSET, x + width - INSET, y + height];
    node.texts = {
      rate: shape("text", { class: "rate", x: left, y: bottom - 23 }),
      busy: shape("text", { class: "share", x: right, y: bottom - 23 }),
      frontier: shape("text", { class: "frontier", x: left, y: bottom - 9 }),
      lag: shape("text", { class: "lag", x: right, y: bottom - 9 }),
    };
    node.bar = shape("rect", { class: "bar", x: x + 1, y: bottom - 3.5, height: 2.5, width: 0, rx: 1 });
    node.group.append(...Object.values(node.texts), node.bar);
  }

  #addScope(group, box) {
    const text = shape("text", { class: "rounds", x: box.x + box.width - INSET, y: box.y + 16 });
    group.append(text);
    this.layers[0].append(group);
    const node = { group, text, shown: {} };
    this.scopes.set(group.dataset.scope, node);
    this.#paintScope(group.dataset.scope, node);
  }

  #schedule() {
    if (this.wanted || !this.svg) return;
    this.wanted = true;
    requestAnimationFrame(() => this.#paint());
  }

  #paint() {
    this.wanted = false;
    const until = performance.now() + BUDGET_MS;
    if (!(this.#grow(until) && this.#paintStale(until))) this.#schedule();
    if (this.pointed) this.#showHint();
  }

  /** Note parts of the picture until a moment; return whether all are noted. */
  #grow(until) {
    if (!this.parts.length) return true;
    while (this.parts.length && performance.now() < until) this.#note(this.parts.pop());
    if (!this.parts.length) this.mark(this.marked);
    return !this.parts.length;
  }

  /** Paint until a moment what has changed and is in sight; return whether that was all. */
  #paintStale(until) {
    const sight = this.#sight(this.isLarge ? MARGIN : EVERYWHERE);
    if (this.groups.isShown) this.groups.paint(this.job);
    const edges = this.groups.isShown ? [] : this.edges;
    for (const [nodes, paint] of [[this.operators, this.#paintOperator], [edges, this.#paintEdge]]) {
      for (const [number, node] of nodes) {
        if (!node.isStale || !isWithin(node.box, sight)) continue;
        node.isStale = false;
        this.#drawn(node);
        paint.call(this, number, node);
        if (performance.now() > until) return false;
      }
    }
    return true;
  }

  #paintOperator(number, node) {
    const operator = this.job.operators[number];
    if (!operator) return;
    const live = this.job.live?.operators?.[number] ?? {};
    const speed = operator.kind === "input" ? live.records_out : live.records_in;
    const hasEnded = operator.frontier?.length === 0;
    if (this.scale >= FAR) {
      if (!node.texts) this.#addNumbers(node);
      write(node, "rate", rate(speed));
      write(node, "busy", live.busy ? share(live.busy) : "");
      const behind = live.lag_seconds >= SHOWN_FROM_S ? lag(live) : "";
      const room = Math.floor((node.box.width - 2 * INSET) / SIGN) - (behind ? behind.length + 1 : 0);
      write(node, "frontier", hasEnded ? "ended" : shortened(`@ ${firstTime(operator.frontier)}`, room));
      write(node, "lag", behind);
      node.bar.setAttribute("width", ((node.box.width - 2) * (live.busy ?? 0)).toFixed(1));
    }
    set(node, "kind", operator.kind);
    set(node, "rate", speed);
    set(node, "busy", live.busy);
    set(node, "frontier", operator.frontier?.join(" "));
    set(node, "lag", live.lag_epochs);
    set(node, "leaks", operator.leaks || undefined);
    set(node, "stuck", operator.busy ? "" : undefined);
    set(node, "ended", hasEnded ? "" : undefined);
    set(node, "error", this.failed.has(operator.name) ? "" : undefined);
    set(node, "holds", this.held.get(number)?.join(" "));
    set(node, "lit", this.lit.has(number) ? "" : undefined);
    set(node, "heat", live.busy >= HEATS[0] ? HEATS.filter((least) => live.busy >= least).length : undefined);
  }

  #paintEdge(number, node) {
    const edge = this.job.edges[number];
    if (!edge) return;
    const speed = this.job.live?.edges?.[number]?.records;
    set(node, "rate", speed);
    set(node, "fill", edge.fill);
    set(node, "level", levelOf(edge.fill, speed));
    const width = widthOf(speed).toFixed(1);
    if (node.shown.width !== width) node.line.setAttribute("stroke-width", (node.shown.width = width));
  }

  #paintScope(name, node) {
    const rounds = Object.values(this.job.loops?.[name]?.rounds ?? {});
    const underWay = this.job.loops?.[name]?.epochs ?? rounds.length;
    const text = rounds.length ? `round ${count(Math.max(...rounds))} · ${count(underWay)} under way` : "";
    if (node.shown.text !== text) node.text.textContent = node.shown.text = text;
    set(node, "rounds", rounds.length ? Math.max(...rounds) : undefined);
  }

  /** The part of the graph that is in sight, with a margin; reading it may cost a layout, so it is read once a frame. */
  #sight(margin) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.frame;
    const [left, top] = [scrollLeft / this.scale - margin, scrollTop / this.scale - margin];
    const [width, height] = [clientWidth / this.scale + 2 * margin, clientHeight / this.scale + 2 * margin];
    return { left, top, right: left + width, bottom: top + height };
  }

  #choose(target) {
    const number = target.closest("[data-operator]")?.dataset.operator;
    if (number === undefined) this.select("none");
    else this.select("operator", number);
  }

  #press(event) {
    const group = event.target.closest("[data-operator]");
    if (!group) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") this.#choose(group);
    else if (event.key in KEYS) this.zoom(KEYS[event.key]);
    else if (event.key === "Escape" && this.pointed) this.#hover(null);
    else if (event.key in ARROWS) this.#moveFocus(this.#nearest(group.dataset.operator, ARROWS[event.key]), true);
    else return;
    event.preventDefault();
  }

  #nearest(number, [right, down]) {
    const from = centre(this.operators.get(number).box);
    let [best, distance] = [this.operators.get(number), Infinity];
    for (const node of this.operators.values()) {
      const [x, y] = centre(node.box);
      const [ahead, aside] = right ? [(x - from[0]) * right, y - from[1]] : [(y - from[1]) * down, x - from[0]];
      if (ahead > 1 && ahead + 2 * Math.abs(aside) < distance) [best, distance] = [node, ahead + 2 * Math.abs(aside)];
    }
    return best;
  }

  #moveFocus(node, isFocused) {
    if (!node) return;
    this.svg.querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
    this.#drawn(node).setAttribute("tabindex", "0");
    if (isFocused) node.group.focus();
  }

  /** Say in the title of an operator, which is its name for screen readers, what is seen of it; far away, show it. */
  #describe(target) {
    const node = this.operators.get(target.closest("[data-operator]")?.dataset.operator);
    const words = node && wordsOf(this.job, node.number, this.held);
    if (words) node.title.textContent = words.join(", ");
    this.#hover(target);
  }

  /** Show the numbers of the operator at an element where they are too small in the graph; hide them without one. */
  #hover(element) {
    this.pointed = this.operators.get(element?.closest("[data-operator]")?.dataset.operator) ?? null;
    this.#showHint();
  }

  #showHint() {
    const words = this.pointed && this.svg.dataset.far ? wordsOf(this.job, this.pointed.number, this.held) : null;
    if (words) this.hint.show(words, this.pointed, this.scale);
    else this.hint.hide();
  }

  #middle() {
    const { left, top, right, bottom } = this.#sight(0);
    return [(left + right) / 2, (top + bottom) / 2];
  }
}

function write(node, name, text) {
  if (node.shown[`text-${name}`] === text) return;
  node.shown[`text-${name}`] = text;
  const shown = node.texts[name].firstChild;
  if (shown) shown.data = text; // a new node each second would be rubbish for the next collection
  else node.texts[name].append(text);
}

function set(node, name, value) {
  if (node.shown[name] === value) return;
  node.shown[name] = value;
  if (value === undefined) delete node.group.dataset[name];
  else node.group.dataset[name] = value;
}

function isWithin({ x, y, width, height }, { left, top, right, bottom }) {
  return x + width >= left && x <= right && y + height >= top && y <= bottom;
}

function centre({ x, y, width, height }) {
  return [x + width / 2, y + height / 2];
}
