// One job: its numbers, what to look at, the graph, what was chosen, and tables.

import { findings, holders } from "./attention.js";
import { Details } from "./details.js";
import { clock, count, plural, rate, seconds } from "./format.js";
import { Graph } from "./graph.js";
import { changedKeys, merge } from "./merge.js";
import { OperatorTable } from "./operator_table.js";
import { Facts, State } from "./parts.js";
import { Inputs, Log, Loops, Outputs, Sinks, Snapshots, Sources, Topics, Workers } from "./tables.js";
import { html, useEffect, useRef, useState } from "./vendor/preact.js";

/** A brief view has no tables but that of frontiers. */
export function JobView({ name, connection, chosen, choose, refuse, isBrief = false }) {
  const frame = useRef(null);
  const hint = useRef(null);
  const graph = useRef(null);
  const job = useRef(null);
  const [, setMoment] = useState(0);
  const [link, setLink] = useState(["waiting", "connecting"]);
  const [isDrawn, setDrawn] = useState(false);

  useEffect(() => {
    graph.current = new Graph(frame.current, hint.current, choose);
  }, []);
  useEffect(() => {
    const leaving = new AbortController();
    const receive = (event, data) => {
      if (event === "whole") {
        const picture = job.current?.picture;
        job.current = data;
        if (data.picture !== picture) setDrawn(graph.current.load(data.picture, data));
        graph.current.update(data);
      } else if (event === "patch" && job.current) {
        merge(job.current, data);
        graph.current.update(job.current, changedKeys(data, "operators"), changedKeys(data, "edges"));
      }
      setMoment((moment) => moment + 1);
    };
    const state = (to, message) => (to === "refused" ? refuse(message) : setLink((before) => (before[0] === to && before[1] === message ? before : [to, message])));
    connection.follow(`jobs/${encodeURIComponent(name)}/events`, receive, state, leaving.signal);
    return () => leaving.abort();
  }, [connection, name]);
  useEffect(() => {
    if (job.current) graph.current.light(litBy(job.current, chosen), holders(job.current));
  });
  useEffect(() => graph.current.begin(), [isDrawn]);
  useEffect(() => {
    graph.current.mark(chosen[0] === "operator" ? chosen[1] : null);
    graph.current.select = choose;
    const place = chosen[0] === "worker" ? `[data-worker="${CSS.escape(chosen[1])}"]` : "[data-details]";
    if (!isBrief) frame.current.closest("main").querySelector(place)?.scrollIntoView({ block: "nearest" });
  }, [chosen[0], chosen[1], isDrawn]);

  const document = job.current;
  return html`
    <main class="job" data-view="job" data-job=${name} data-state=${document?.job.state} data-connection=${link[0]} data-moment=${document?.at}>
      ${document ? html`<${Head} document=${document} link=${link} choose=${choose} />` : html`<p class="quiet" role="status">Loading ${name}: ${link[1]}</p>`}
      <div class="columns" hidden=${!document}>
        <section class="card graph" aria-label="Graph">
          <div class="frame" ref=${frame} hidden=${!isDrawn}></div>
          <div class="hint" ref=${hint} hidden aria-hidden="true"></div>
          ${!isDrawn && html`<p class="quiet">The dataflow is too large to be drawn: see the table of operators.</p>`}
          ${isDrawn && html`<${Zoom} graph=${graph} />`}
        </section>
        <aside aria-label="Details">
          <div class="chosen">
            ${document && html`<${Details} ...${{ document, chosen, choose, connection, name }} />`}
            ${document && html`<${Outputs} ...${{ document, chosen, choose }} />`}
          </div>
          ${document && !isBrief && html`<${More} document=${document} />`}
        </aside>
      </div>
      ${document && !isBrief && html`<${Tables} ...${{ document, chosen, choose }} />`}
    </main>
  `;
}

function Tables(props) {
  return html`
    <div class="tables">
      <${OperatorTable} ...${props} />
      <${Workers} ...${props} />
      <${Topics} ...${props} />
      <${Log} ...${props} />
    </div>
  `;
}

/** What fits beside the graph. */
function More({ document }) {
  return html`
    <div class="more">
      <${Inputs} document=${document} />
      <${Sources} document=${document} />
      <${Sinks} document=${document} />
      <${Loops} document=${document} />
      <${Snapshots} document=${document} />
    </div>
  `;
}

function Head({ document, link, choose }) {
  const { job, live } = document;
  const found = findings(document);
  const lag = Math.max(0, ...Object.values(live.operators).map((operator) => operator.lag_seconds ?? 0));
  const facts = [
    ["Records in", rate(live.records)],
    ["Longest lag", seconds(lag)],
    ["Operators", count(Object.keys(document.operators ?? {}).length)],
    ["Workers", `${count(job.workers)} · ${job.engine}`],
    ["Since", clock(job.since)],
    ["Host", job.host === job.name ? null : job.host],
  ];
  return html`
    <div class="head card">
      <${State} state=${job.state} />
      <${Facts} facts=${facts} />
      ${job.ray_dashboard && html`<a href=${job.ray_dashboard} rel="noreferrer" target="_blank">Ray's dashboard</a>`}
      <span class="link" data-is=${link[0]} title=${link[1] ?? ""}>${LINKS[link[0]]}</span>
    </div>
    ${(job.notes ?? []).map((note) => html`<p class="quiet" key=${note}>${note}</p>`)}
    ${found.length > 0 && html`
      <ul class="findings" aria-label="What to look at">
        ${found.slice(0, 8).map(
          ({ key, level, text, target }) => html`
            <li key=${key} data-finding=${key} data-level=${level}><button onClick=${() => choose(...target)}>${text}</button></li>
          `,
        )}
        ${found.length > 8 && html`<li>and ${plural(found.length - 8, "more")}</li>`}
      </ul>
    `}
    <${Announcer} state=${job.state} found=${found} />
  `;
}

const LINKS = { live: "live", waiting: "connecting again", ended: "ended" };

/** Says new findings, and changes of the job's state, to screen readers: each of them once. */
function Announcer({ state, found }) {
  const known = useRef(new Map());
  const said = useRef("");
  const now = new Map([["state", `The job is ${state}`], ...found.map(({ key, text }) => [key, text])]);
  const fresh = [...now].filter(([key, text]) => (key === "state" ? known.current.get(key) !== text : !known.current.has(key)));
  if (fresh.length) said.current = fresh.map(([, text]) => text).join(". ");
  known.current = now;
  return html`<p class="unseen" role="status">${said.current}</p>`;
}

function Zoom({ graph }) {
  const steps = [["−", 1 / 1.25, "Zoom out"], ["+", 1.25, "Zoom in"], ["⤢", "fit", "Fit all"], ["↔", "fit width", "Fit the width"]];
  return html`
    <div class="zoom" role="group" aria-label="Zoom">
      ${steps.map(([sign, how, label]) => html`<button key=${label} aria-label=${label} title=${label} onClick=${() => graph.current.zoom(how)}>${sign}</button>`)}
    </div>
  `;
}

/** The operators that are lit up because of what was chosen. */
function litBy(document, [kind, key]) {
  const probe = document.probes?.[key];
  if (kind === "probe" && probe) return [...(probe.holders ?? []), probe.operator];
  if (kind === "topic" && document.topics?.[key]) return [...(probe?.holders ?? []), document.topics[key].operator];
  return [];
}
