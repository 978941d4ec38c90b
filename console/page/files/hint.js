// An operator in words: for screen readers, and beside its box where the graph is too small for numbers.

import { count, frontier, lag, plural, share } from "./format.js";

const GAP = 6;

/** What is seen of an operator, in words, the name first; null without it. `held` has the names of what it holds back. */
export function wordsOf(job, number, held) {
  const operator = job.operators[number];
  if (!operator) return null;
  const live = job.live?.operators?.[number] ?? {};
  const speed = operator.kind === "input" ? live.records_out : live.records_in;
  return [
    operator.name,
    `${count(speed ?? 0)} records a second`,
    `busy ${share(live.busy ?? 0)}`,
    `frontier ${frontier(operator.frontier)}`,
    lag(live) && `behind by ${lag(live)}`,
    held.has(number) && `holds ${held.get(number).join(", ")} back`,
    operator.leaks && `has leaked ${plural(operator.leaks, "token")}`,
  ].filter(Boolean);
}

/**
 * Args:
 *   frame: the element that scrolls the graph.
 *   element: the element that shows the numbers; it is beside the frame, in an element with a position.
 */
export class Hint {
  constructor(frame, element) {
    this.frame = frame;
    this.element = element;
  }

  /** Show lines below the box of an operator, {number, box}, or above it where there is no room below. */
  show(lines, { number, box }, scale) {
    const { element, frame } = this;
    if (element.childElementCount !== lines.length) {
      element.replaceChildren(...lines.map((_, place) => document.createElement(place ? "span" : "b")));
    }
    lines.forEach((line, place) => {
      if (element.children[place].textContent !== line) element.children[place].textContent = line;
    });
    element.dataset.of = number;
    element.hidden = false;
    const svg = frame.firstElementChild;
    const [left, top] = [svg.offsetLeft + box.x * scale - frame.scrollLeft, svg.offsetTop + box.y * scale - frame.scrollTop];
    const below = top + box.height * scale + GAP;
    const fits = below + element.offsetHeight <= frame.clientHeight;
    const place = fits ? below : Math.max(0, top - GAP - element.offsetHeight);
    const most = frame.clientWidth - element.offsetWidth - GAP;
    element.style.transform = `translate(${Math.max(GAP, Math.min(left, most))}px, ${place}px)`;
  }

  hide() {
    if (this.element.hidden) return;
    this.element.hidden = true;
    delete this.element.dataset.of;
  }
}
