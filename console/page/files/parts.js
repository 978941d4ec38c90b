// Small parts that several views share.

import { html } from "./vendor/preact.js";

/** The state of a job or worker, with a sign and a word. */
export function State({ state }) {
  return html`<span class="state" data-is=${state ?? "new"}>${state ?? "new"}</span>`;
}

/** A share from 0 to 1 as a bar, beside which its number stands. */
export function Meter({ value, label }) {
  const width = `${Math.round(100 * Math.min(1, value ?? 0))}%`;
  const role = label ? "img" : "presentation";
  return html`<span class="meter" role=${role} aria-label=${label}><span style=${{ width }}></span></span>`;
}

/** Names with their values, in a grid. */
export function Facts({ facts }) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return html`<dl class="facts">${known.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A card with a heading. */
export function Card({ title, note, children, ...rest }) {
  const id = `card-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return html`
    <section class="card" aria-labelledby=${id} ...${rest}>
      <h2 id=${id}>${title}${note && html`<span class="note">${note}</span>`}</h2>
      ${children}
    </section>
  `;
}

/** A table that scrolls sideways where it is too wide. */
export function Grid({ label, heads, children }) {
  return html`
    <div class="scroll" role="region" aria-label=${label} tabindex="0">
      <table>
        <thead><tr>${heads.map((head) => html`<th key=${head} class=${head.startsWith("#") ? "n" : ""}>${head.replace("#", "")}</th>`)}</tr></thead>
        <tbody>${children}</tbody>
      </table>
    </div>
  `;
}
