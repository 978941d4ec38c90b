// The edges of a large graph that is seen from far away: one path for all edges that look the same. Thousands of elements
// take much memory.

import { plural } from "./format.js";
import { shape } from "./picture.js";

export class EdgeGroups {
  /**
   * Args:
   *   layer: the element that has edges.
   *   edges: {way, ...} of each edge, by its number.
   */
  constructor(layer, edges) {
    this.layer = layer;
    this.edges = edges;
    this.paths = new Map();
    this.isShown = false;
    this.isStale = true;
  }

  /** Show the groups instead of the edges' own elements, or these. */
  show(isShown) {
    if (this.isShown === isShown) return;
    this.isShown = this.isStale = isShown;
    this.layer.toggleAttribute("data-grouped", isShown);
    if (isShown) return this.layer.setAttribute("role", "img");
    for (const name of ["role", "aria-label"]) this.layer.removeAttribute(name);
    for (const path of this.paths.values()) path.remove();
    this.paths.clear();
  }

  /** Draw all edges anew, if one may have changed. */
  paint(job) {
    if (!this.isStale) return;
    this.isStale = false;
    this.layer.setAttribute("aria-label", plural(this.edges.size, "edge"));
    const groups = new Map();
    this.edges.forEach(({ way }, number) => {
      const speed = job.live?.edges?.[number]?.records;
      const look = `${levelOf(job.edges?.[number]?.fill, speed)} ${Math.round(widthOf(speed))}`;
      if (groups.has(look)) groups.get(look).push(way);
      else groups.set(look, [way]);
    });
    for (const [look, path] of this.paths) if (!groups.has(look)) path.remove(), this.paths.delete(look);
    for (const [look, ways] of groups) {
      const path = this.paths.get(look) ?? this.#add(look);
      path.dataset.edges = ways.length;
      path.setAttribute("d", ways.join(""));
    }
  }

  #add(look) {
    const [level, width] = look.split(" ");
    const path = shape("path", { "data-level": level, "stroke-width": width });
    this.layer.append(path);
    this.paths.set(look, path);
    return path;
  }
}

/** How full an edge is, from 0 for one that is at rest to 4. */
export function levelOf(fill, speed) {
  return fill >= 0.9 ? 4 : fill >= 0.6 ? 3 : fill >= 0.3 ? 2 : speed ? 1 : 0;
}

/** The width of an edge with so many records a second. */
export function widthOf(speed) {
  return 1.2 + 1.4 * Math.log10(1 + (speed ?? 0));
}
