// The history of an operator as charts: ten minutes from the server, then each second as it comes.

import { bytes, clock, count, seconds, share } from "./format.js";
import { html, useEffect, useRef, useState } from "./vendor/preact.js";

/** A classic script, which makes one global name. */
const { uPlot } = window;
const MOMENTS = 600;
const HEIGHT = 92;
const CHARTS = [
  ["Records a second", [["in", "records_in"], ["out", "records_out"]], count],
  ["Busy", [["busy", "busy"]], share],
  ["Lag", [["lag", "lag_seconds"]], seconds],
  ["Messages that wait", [["queue", "queue"]], count],
  ["Keys of state", [["keys", "state_keys"]], count],
  ["Size of state", [["state", "state_bytes"]], bytes],
];

export function OperatorCharts({ document, number, connection, name }) {
  const [history, setHistory] = useState(null);
  useEffect(() => {
    const leaving = new AbortController();
    const path = `jobs/${encodeURIComponent(name)}/operators/${number}`;
    connection.json(path, leaving.signal).then(setHistory, () => {});
    return () => leaving.abort();
  }, [connection, name, number]);
  if (!history) return null;
  grow(history, document, number);
  return html`
    <div class="charts" data-moments=${history.at.length}>
      ${CHARTS.filter(([, series]) => series.some(([, key]) => history[key].some((value) => value))).map(
        ([title, series, format]) => html`<${Chart} key=${title} ...${{ title, series, format, history, moment: document.at }} />`,
      )}
    </div>
  `;
}

/** Add the present moment to a history, unless it has it. */
function grow(history, document, number) {
  if (history.at.length && document.at <= history.at.at(-1)) return;
  const now = { ...document.operators[number], records_in: null, records_out: null, busy: null, ...document.live.operators[number] };
  history.at.push(document.at);
  for (const key of Object.keys(history)) {
    if (key !== "at") history[key].push(now[key] ?? null);
    if (history[key].length > MOMENTS) history[key].shift();
  }
}

/**
 * One chart of columns of a history, over time or, where `across` makes texts of them, over numbers.
 *
 * It is `height` pixels high. `span` says for screen readers which part is shown.
 */
export function Chart({ title, series, format, history, moment, across = clock, height = HEIGHT, span = "in the last ten minutes" }) {
  const place = useRef(null);
  const plot = useRef(null);
  const data = () => [history.at, ...series.map(([, key]) => history[key])];
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(place.current, { series, format, across, height }), data(), place.current);
    };
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: place.current.clientWidth, height }));
    draw();
    resized.observe(place.current);
    scheme.addEventListener("change", draw);
    return () => {
      resized.disconnect();
      scheme.removeEventListener("change", draw);
      plot.current.destroy();
    };
  }, [history]);
  useEffect(() => plot.current?.setData(data()), [moment]);
  const now = series.map(([label, key]) => `${series.length > 1 ? `${label} ` : ""}${format(history[key].at(-1))}`).join(" · ");
  return html`
    <figure role="img" aria-label=${`${title} ${span}; now ${now}`}>
      <figcaption>${title}<span>${now}</span></figcaption>
      <div ref=${place}></div>
    </figure>
  `;
}

function options(place, { series, format, across, height }) {
  const style = getComputedStyle(place);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), font: "10px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("--line"), width: 1 };
  return {
    width: place.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [6, 4, 0, 0],
    scales: { x: { time: across === clock }, y: { range } },
    axes: [
      { ...axis, size: 20, gap: 3, space: 80, grid: { show: false }, values: (_, times) => times.map((time) => across(time)) },
      { ...axis, size: 52, gap: 4, space: 26, grid, values: (_, values) => values.map((value) => format(value)) },
    ],
    series: [
      {},
      ...series.map(([label], place) => ({ label, stroke: colour(`--series-${place}`), width: 1.5, points: { show: false } })),
    ],
  };
}

/** What the vertical axis shows: 0, all values, and a tenth more. */
function range(_, low, high) {
  const least = Math.min(0, low ?? 0);
  const most = Math.max(0, high ?? 0);
  return [least * 1.1, most > 0 || least < 0 ? most * 1.1 : 1];
}
