// The tables of a job.

import { bytes, clock, count, frontier, lag, plural, rate, seconds, share } from "./format.js";
import { Card, Grid, Meter, State } from "./parts.js";
import { html } from "./vendor/preact.js";

/** A button that chooses something, in a row that shows whether it is chosen. */
function Choice({ kind, id, chosen, choose, children }) {
  const isChosen = chosen[0] === kind && chosen[1] === id;
  return html`<button class="choice" aria-pressed=${isChosen} onClick=${() => choose(isChosen ? "none" : kind, id)}>${children}</button>`;
}

export function Outputs({ document, ...props }) {
  const probes = Object.entries(document.probes ?? {});
  if (!probes.length) return null;
  return html`
    <${Card} title="Frontiers" note="what can still arrive">
      <${Grid} label="Probes, topics and captures" heads=${["Name", "Frontier", "Lag", "Moved"]}>
        ${probes.map(([name, probe]) => {
          const kind = probe.kind === "topic" && document.topics?.[name] ? "topic" : "probe";
          return html`
            <tr key=${name} data-probe=${name} data-frontier=${probe.frontier.join(" ")} data-waits=${probe.explanation ? "" : undefined}>
              <td><${Choice} kind=${kind} id=${name} ...${props}>${name}</${Choice}><span class="kind">${probe.kind ?? "probe"}</span></td>
              <td class="mono">${frontier(probe.frontier)}</td>
              <td>${lag(document.live.probes?.[name])}</td>
              <td>${probe.frontier.length ? ago(document.at, probe.moved) : ""}</td>
            </tr>
          `;
        })}
      </${Grid}>
    </${Card}>
  `;
}

export function Workers({ document, chosen }) {
  const workers = Object.entries(document.workers ?? {});
  if (!workers.length) return null;
  return html`
    <${Card} title="Workers" note=${count(workers.length)}>
      <${Grid} label="Workers" heads=${["Worker", "State", "#CPU", "#Memory", "#Steps", "#In flight", "Node", "#Process"]}>
        ${workers.map(([number, worker]) => {
          const live = document.live.workers?.[number] ?? {};
          const isThere = !["ended", "lost"].includes(worker.state);
          const isChosen = chosen[0] === "worker" && chosen[1] === number;
          return html`
            <tr key=${number} data-worker=${number} data-state=${worker.state} data-steps=${live.steps} aria-current=${isChosen ? "true" : undefined}>
              <td>${number}</td>
              <td><${State} state=${worker.state} />${worker.busy && html` <span class="kind">in ${document.operators[worker.busy.operator]?.name} for ${seconds(worker.busy.seconds)}</span>`}</td>
              <td class="n">${share(live.cpu)}</td>
              <td class="n">${isThere ? bytes(worker.rss) : "–"}</td>
              <td class="n">${rate(live.steps)}</td>
              <td class="n">${isThere ? bytes(worker.bytes_in_flight) : "–"}</td>
              <td>${worker.node}</td>
              <td class="n mono">${worker.pid}</td>
            </tr>
          `;
        })}
      </${Grid}>
    </${Card}>
  `;
}

export function Topics({ document, ...props }) {
  const topics = Object.entries(document.topics ?? {});
  if (!topics.length) return null;
  return html`
    <${Card} title="Topics" note=${count(topics.length)}>
      <${Grid} label="Topics" heads=${["Topic", "#Records", "#Subscribers", "#Behind", "#Bytes behind", "Delivery"]}>
        ${topics.map(([name, topic]) => {
          const parts = Object.values(topic.partitions ?? {});
          const behind = most(parts, "lag_messages");
          const late = document.live.topics?.[name]?.lag_seconds;
          return html`
            <tr key=${name} data-topic=${name} data-lag=${behind} data-late=${late} data-subscribers=${most(parts, "subscribers")}>
              <td><${Choice} kind="topic" id=${name} ...${props}>${name}</${Choice}></td>
              <td class="n">${rate(document.live.topics?.[name]?.records)}</td>
              <td class="n">${count(most(parts, "subscribers"))}</td>
              <td class="n">${count(behind)}${late ? ` · ${seconds(late)}` : ""}</td>
              <td class="n">${bytes(most(parts, "lag_bytes"))}</td>
              <td>${topic.delivery?.replace("_", " ")}</td>
            </tr>
          `;
        })}
      </${Grid}>
    </${Card}>
  `;
}

export function Loops({ document }) {
  const loops = Object.entries(document.loops ?? {});
  if (!loops.length) return null;
  return loops.map(([name, loop]) => {
    const rounds = Object.entries(loop.rounds ?? {});
    const ended = Object.entries(loop.ended ?? {}).map(([round, epochs]) => [Number(round), epochs]).sort((one, other) => one[0] - other[0]);
    const highest = Math.max(1, ...ended.map(([, epochs]) => epochs));
    return html`
      <${Card} key=${name} title=${`Loop ${name}`} note=${rounds.length ? `${plural(loop.epochs ?? rounds.length, "epoch")} under way` : "no epoch under way"} data-loop=${name}>
        ${rounds.length > 0 && html`
          <${Grid} label=${`Rounds under way in ${name}`} heads=${["Epoch", "#Round"]}>
            ${rounds.slice(-8).map(([epoch, round]) => html`<tr key=${epoch} data-epoch=${epoch} data-round=${round}><td class="mono">${epoch}</td><td class="n">${count(round)}</td></tr>`)}
          </${Grid}>
        `}
        ${ended.length > 0 && html`
          <h3>Rounds that epochs took</h3>
          <ol class="histogram">
            ${ended.slice(-24).map(([round, epochs]) => html`
              <li key=${round} data-rounds=${round} data-epochs=${epochs}>
                <span class="n">${count(round)}</span><${Meter} value=${epochs / highest} /><span>${count(epochs)}</span>
              </li>
            `)}
          </ol>
        `}
      </${Card}>
    `;
  });
}

export function Inputs({ document }) {
  const inputs = Object.entries(document.inputs ?? {});
  if (!inputs.length) return null;
  return html`
    <${Card} title="Inputs" note="what programs send">
      <${Grid} label="Inputs" heads=${["Input", "Epoch", "#Records", "#Size", "#Waited", "State"]}>
        ${inputs.map(([name, port]) => html`
          <tr key=${name} data-input=${name} data-open=${String(port.is_open)}>
            <td>${name}</td>
            <td class="mono">${port.epoch}</td>
            <td class="n">${count(port.records)}</td>
            <td class="n">${bytes(port.bytes)}</td>
            <td class="n">${seconds(port.seconds_waited)}</td>
            <td>${{ true: "open", false: "closed" }[port.is_open] ?? "not known"}</td>
          </tr>
        `)}
      </${Grid}>
    </${Card}>
  `;
}

export function Sources({ document }) {
  const sources = Object.entries(document.sources ?? {});
  if (!sources.length) return null;
  return html`
    <${Card} title="Sources" note="how far they are behind">
      <${Grid} label="Sources" heads=${["Source", "#Partitions", "#Records", "#Behind"]}>
        ${sources.map(([name, source]) => html`
          <tr key=${name} data-source=${name} data-lag=${source.lag_records}>
            <td>${name}</td>
            <td class="n">${count(source.partitions)}</td>
            <td class="n">${rate(document.live.sources?.[name]?.records)}</td>
            <td class="n">${behind(source)}</td>
          </tr>
        `)}
      </${Grid}>
    </${Card}>
  `;
}

export function Sinks({ document }) {
  const sinks = Object.entries(document.sinks ?? {});
  if (!sinks.length) return null;
  return html`
    <${Card} title="Sinks" note="what they have committed">
      <${Grid} label="Sinks" heads=${["Sink", "#Records", "#Epochs", "#Waiting", "Last commit"]}>
        ${sinks.map(([name, sink]) => html`
          <tr key=${name} data-sink=${name} data-waiting=${sink.waiting}>
            <td>${name}</td>
            <td class="n">${rate(document.live.sinks?.[name]?.records)}</td>
            <td class="n">${count(sink.epochs)}</td>
            <td class="n">${count(sink.waiting)}</td>
            <td>${ago(document.at, sink.committed)}</td>
          </tr>
        `)}
      </${Grid}>
    </${Card}>
  `;
}

export function Snapshots({ document }) {
  const { snapshots } = document;
  if (!snapshots) return null;
  const parts = [
    ["Last", snapshots.number === undefined ? "none yet" : `number ${snapshots.number}`],
    ["Age", snapshots.taken === undefined ? "–" : ago(document.at, snapshots.taken)],
    ["Size", bytes(snapshots.bytes)],
    ["Written", bytes(snapshots.written_bytes)],
    ["Took", seconds(snapshots.seconds)],
    ["Folder", snapshots.folder],
  ];
  return html`
    <${Card} title="Snapshots" data-snapshot=${snapshots.number}>
      <dl class="facts">${parts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    </${Card}>
  `;
}

export function Log({ document }) {
  const entries = Object.entries(document.log ?? {}).sort(([one], [other]) => Number(other) - Number(one));
  if (!entries.length) return null;
  return html`
    <${Card} title="Log" note="the last events, warnings and errors" data-wide="">
      <ol class="log" tabindex="0" aria-label="Log, the newest first">
        ${entries.map(([number, entry]) => html`
          <li key=${number} data-level=${entry.level} data-entry=${number} data-worker-of=${entry.worker} data-logger=${entry.logger}>
            <time>${clock(entry.at)}</time>
            <span class="level">${entry.level}</span>
            <span class="text">${entry.text}</span>
            <span class="kind">${[entry.operator, entry.worker !== undefined && `worker ${entry.worker}`, entry.logger].filter(Boolean).join(", ")}</span>
          </li>
        `)}
      </ol>
    </${Card}>
  `;
}

export function ago(now, at) {
  return at === undefined ? "–" : `${seconds(Math.max(0, now - at))} ago`;
}

/** The lag of a source, in the units that it can tell, such as "12k records · 3 s". */
function behind({ lag_records: records, lag_bytes: size, lag_seconds: late }) {
  const parts = [
    records !== undefined && (records === 1 ? "1 record" : `${count(records)} records`),
    size !== undefined && bytes(size),
    late !== undefined && seconds(late),
  ];
  return parts.filter(Boolean).join(" · ") || "–";
}

function most(parts, name) {
  return Math.max(0, ...parts.map((part) => part[name] ?? 0));
}
