// The table of operators: sorted, filtered, and with the visible rows only, so that thousands are no trouble.

import { bytes, count, frontier, lag, rate, share } from "./format.js";
import { Card } from "./parts.js";
import { html, useRef, useState } from "./vendor/preact.js";

const ROW = 28;
const SHOWN = 14;
const COLUMNS = [
  ["Operator", ({ operator }) => operator.name],
  ["In", ({ live }) => live.records_in ?? -1],
  ["Out", ({ live }) => live.records_out ?? -1],
  ["Busy", ({ live }) => live.busy ?? -1],
  ["Queue", ({ operator }) => operator.queue ?? -1],
  ["Frontier", ({ operator }) => operator.frontier?.join(" ") ?? ""],
  ["Lag", ({ live }) => live.lag_seconds ?? -1],
  ["State", ({ operator }) => operator.state_bytes ?? operator.state_keys ?? -1],
];

export function OperatorTable({ document, chosen, choose }) {
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState(null);
  const [top, setTop] = useState(0);
  const rows = useRef(null);
  const found = rowsOf(document, wanted, order);
  const first = Math.max(0, Math.min(Math.floor(top / ROW) - 4, found.length - SHOWN));
  const visible = found.slice(first, first + SHOWN + 8);
  const sort = (name) => setOrder(order?.[0] === name ? [name, -order[1]] : [name, name === "Operator" ? 1 : -1]);
  return html`
    <${Card} title="Operators" note=${count(found.length)} data-wide="">
      <input class="filter" type="search" placeholder="Filter by name or scope" aria-label="Filter operators" value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
      <div class="scroll rows" ref=${rows} tabindex="0" role="region" aria-label="Operators" onScroll=${() => setTop(rows.current.scrollTop)}>
        <table aria-rowcount=${found.length + 1}>
          <thead>
            <tr>
              ${COLUMNS.map(([name]) => html`
                <th key=${name} class=${name === "Operator" || name === "Frontier" ? "" : "n"} aria-sort=${order?.[0] === name ? (order[1] > 0 ? "ascending" : "descending") : undefined}>
                  <button onClick=${() => sort(name)}>${name}</button>
                </th>
              `)}
            </tr>
          </thead>
          <tbody>
            ${first > 0 && html`<tr aria-hidden="true"><td colspan=${COLUMNS.length} class="space" style=${{ height: `${first * ROW}px` }}></td></tr>`}
            ${visible.map((row, place) => html`<${Row} key=${row.number} ...${row} rank=${first + place + 2} isChosen=${chosen[0] === "operator" && chosen[1] === row.number} choose=${choose} />`)}
            ${found.length > first + visible.length && html`<tr aria-hidden="true"><td colspan=${COLUMNS.length} class="space" style=${{ height: `${(found.length - first - visible.length) * ROW}px` }}></td></tr>`}
          </tbody>
        </table>
      </div>
    </${Card}>
  `;
}

function Row({ number, operator, live, rank, isChosen, choose }) {
  return html`
    <tr data-row=${number} aria-rowindex=${rank} aria-current=${isChosen ? "true" : undefined}>
      <td><button class="choice" aria-pressed=${isChosen} onClick=${() => choose(isChosen ? "none" : "operator", number)}>${operator.name}</button>${operator.scope && html`<span class="kind">${operator.scope}</span>`}</td>
      <td class="n">${rate(live.records_in)}</td>
      <td class="n">${rate(live.records_out)}</td>
      <td class="n">${share(live.busy)}</td>
      <td class="n">${count(operator.queue)}</td>
      <td class="mono">${frontier(operator.frontier)}</td>
      <td class="n">${lag(live) || "–"}</td>
      <td class="n">${operator.state_bytes === undefined ? count(operator.state_keys) : bytes(operator.state_bytes)}</td>
    </tr>
  `;
}

function rowsOf(document, wanted, order) {
  const text = wanted.toLowerCase();
  const found = [];
  for (const number in document.operators) {
    const operator = document.operators[number];
    if (text && !`${operator.scope}/${operator.name}`.toLowerCase().includes(text)) continue;
    found.push({ number, operator, live: document.live.operators[number] ?? {} });
  }
  if (order === null) return found;
  const value = COLUMNS.find(([name]) => name === order[0])[1];
  return found.sort((one, other) => (value(one) < value(other) ? -order[1] : value(one) > value(other) ? order[1] : 0));
}
