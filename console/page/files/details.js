// What was chosen: an operator with its history, a probe with its explanation, or a topic with its live tail.

import { operatorsOf } from "./attention.js";
import { OperatorCharts } from "./charts.js";
import { bytes, clock, count, frontier, lag, plural, rate, seconds, share } from "./format.js";
import { Card, Facts, Grid, Meter } from "./parts.js";
import { ago } from "./tables.js";
import { TopicTail } from "./tail.js";
import { html } from "./vendor/preact.js";

export function Details({ document, chosen: [kind, key], choose, connection, name }) {
  const close = html`<button class="close" aria-label="Close the details" onClick=${() => choose("none")}>×</button>`;
  if (kind === "operator" && document.operators?.[key]) {
    return html`<${OperatorDetails} key=${key} ...${{ document, number: key, choose, connection, name, close }} />`;
  }
  if (kind === "probe" && document.probes?.[key]) {
    return html`
      <${Card} title=${`${document.probes[key].kind ?? "probe"} ${key}`} data-details="probe" data-key=${key}>
        ${close}<${Frontier} ...${{ document, probe: document.probes[key], choose }} />
      </${Card}>
    `;
  }
  if (kind === "topic" && document.topics?.[key]) {
    return html`<${TopicDetails} key=${key} ...${{ document, topic: key, choose, connection, close }} />`;
  }
  if (kind === "job" && document.job.error) {
    return html`<${Card} title="The job has failed" data-details="error">${close}<pre tabindex="0">${document.job.error}</pre></${Card}>`;
  }
  return null;
}

function OperatorDetails({ document, number, choose, connection, name, close }) {
  const operator = document.operators[number];
  const live = document.live.operators[number] ?? {};
  const facts = [
    ["In", `${rate(live.records_in)} · ${count(operator.records_in)}`],
    ["Out", `${rate(live.records_out)} · ${count(operator.records_out)}`],
    ["Dropped", operator.records_dropped ? `${plural(operator.records_dropped, "record")} that nothing reads` : null],
    ["Busy", share(live.busy)],
    ["Queue", plural(operator.queue ?? 0, "message")],
    ["Frontier", frontier(operator.frontier)],
    ["Lag", lag(live) || "none"],
    ["State", stateOf(operator)],
    ["Leaked", operator.leaks ? plural(operator.leaks, "token") : null],
    ["Scope", operator.scope],
  ];
  const held = Object.entries(document.probes ?? {}).filter(([, probe]) => probe.holders?.includes(number));
  const errors = Object.values(document.log ?? {}).filter((entry) => operatorsOf(entry).includes(operator.name) && entry.level !== "info");
  return html`
    <${Card} title=${operator.name} note=${operator.kind} data-details="operator" data-key=${number}>
      ${close}
      ${operator.busy && html`<p class="warning">Worker ${operator.busy.worker} has been in it for ${seconds(operator.busy.seconds)}${operator.busy.time === undefined ? "" : ` at time ${operator.busy.time}`}.</p>`}
      ${held.map(([probe, { explanation }]) => html`<${Held} key=${probe} ...${{ probe, explanation, choose }} />`)}
      <${Facts} facts=${facts} />
      <${OperatorCharts} ...${{ document, number, connection, name }} />
      <${Tokens} document=${document} tokens=${operator.tokens} />
      ${errors.length > 0 && html`
        <h3>Errors and warnings</h3>
        <ol class="log">${errors.map((entry) => html`<li key=${entry.at} data-level=${entry.level}><time>${clock(entry.at)}</time><span class="text">${entry.text}</span></li>`)}</ol>
      `}
      <${Edges} ...${{ document, number, choose }} />
    </${Card}>
  `;
}

/** The size of the state that an operator keeps, as far as it is known. */
function stateOf({ state_bytes: size, state_keys: keys }) {
  return [size !== undefined && bytes(size), keys !== undefined && plural(keys, "key")].filter(Boolean).join(" · ");
}

function Held({ probe, explanation, choose }) {
  return html`
    <div class="warning" data-held=${probe}>
      It holds <button class="choice" onClick=${() => choose("probe", probe)}>${probe}</button> back.
      ${explanation && html`<pre tabindex="0" data-explanation="">${explanation}</pre>`}
    </div>
  `;
}

function Tokens({ document, tokens }) {
  if (!tokens?.length) return null;
  return html`
    <h3>Tokens held, the oldest first</h3>
    <${Grid} label="Tokens" heads=${["Time", "#Number", "#Worker", "Held for"]}>
      ${tokens.map((token) => html`
        <tr key=${`${token.time}-${token.worker}`} data-token=${token.time} data-awaited=${String(token.awaited ?? false)}>
          <td class="mono">${token.time}</td>
          <td class="n">${count(token.count)}</td>
          <td class="n">${token.worker}</td>
          <td>${seconds(Math.max(0, document.at - token.since))}${token.awaited ? html` <span class="kind">waits for its frontier</span>` : ""}</td>
        </tr>
      `)}
    </${Grid}>
  `;
}

function Edges({ document, number, choose }) {
  const edges = Object.entries(document.edges ?? {}).filter(([, edge]) => edge.source === number || edge.target === number);
  if (!edges.length) return null;
  return html`
    <h3>Edges</h3>
    <${Grid} label="Edges" heads=${["Way", "Operator", "#Records", "Fill"]}>
      ${edges.map(([key, edge]) => {
        const isOut = edge.source === number;
        const other = isOut ? edge.target : edge.source;
        return html`
          <tr key=${key}>
            <td>${isOut ? "to" : "from"}</td>
            <td><button class="choice" onClick=${() => choose("operator", other)}>${document.operators[other]?.name ?? other}</button></td>
            <td class="n">${rate(document.live.edges?.[key]?.records)}</td>
            <td><${Meter} value=${edge.fill} label=${share(edge.fill)} /></td>
          </tr>
        `;
      })}
    </${Grid}>
  `;
}

function Frontier({ document, probe, choose }) {
  const holders = (probe.holders ?? []).filter((number) => document.operators[number]);
  return html`
    <${Facts} facts=${[["Frontier", frontier(probe.frontier)], ["Moved", probe.frontier.length ? ago(document.at, probe.moved) : null]]} />
    ${holders.length > 0 && html`
      <p>Held back by ${holders.map((number) => html` <button class="choice" key=${number} onClick=${() => choose("operator", number)}>${document.operators[number].name}</button>`)}</p>
    `}
    ${probe.explanation
      ? html`<pre tabindex="0" data-explanation="">${probe.explanation}</pre>`
      : html`<p class="quiet">${probe.frontier.length ? "It moves: nothing holds it back." : "It is complete."}</p>`}
  `;
}

function TopicDetails({ document, topic, choose, connection, close }) {
  const { partitions, delivery } = document.topics[topic];
  const probe = document.probes?.[topic];
  return html`
    <${Card} title=${`topic ${topic}`} note=${delivery?.replace("_", " ")} data-details="topic" data-key=${topic}>
      ${close}
      ${probe && html`<${Frontier} ...${{ document, probe, choose }} />`}
      <${Grid} label="Partitions" heads=${["#Partition", "#Records", "#Subscribers", "#Behind", "#Bytes", "#Dropped"]}>
        ${Object.entries(partitions ?? {}).map(([number, part]) => html`
          <tr key=${number} data-partition=${number} data-lag=${part.lag_messages}>
            <td class="n">${number}</td>
            <td class="n">${count(part.records)}</td>
            <td class="n">${count(part.subscribers)}</td>
            <td class="n">${count(part.lag_messages)}</td>
            <td class="n">${bytes(part.lag_bytes)}</td>
            <td class="n">${count(part.epochs_dropped)}</td>
          </tr>
        `)}
      </${Grid}>
      ${connection.hasTopics && html`<${TopicTail} topic=${topic} connection=${connection} />`}
    </${Card}>
  `;
}
