// The live tail of a topic: its latest epochs, as the gateway streams them.

import { plural, shortened } from "./format.js";
import { html, useEffect, useRef, useState } from "./vendor/preact.js";

const MOST = 50;
const MOST_RECORDS = 5;
const MOST_SIGNS = 200;
const EVERY_MS = 250;

export function TopicTail({ topic, connection }) {
  const [isOpen, setOpen] = useState(false);
  return html`
    <h3>Live tail <button class="small" aria-pressed=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? "Stop" : "Show"}</button></h3>
    ${isOpen && html`<${Lines} topic=${topic} connection=${connection} />`}
  `;
}

function Lines({ topic, connection }) {
  const lines = useRef([]);
  const [, setShown] = useState(0);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const leaving = new AbortController();
    let timer = null;
    let number = 0;
    const show = () => {
      timer = null;
      setShown(number);
    };
    const receive = (event, data) => {
      if (event === "error") setProblem(data.message);
      if (event === "end") setProblem("The topic has ended.");
      if (event === "epoch") lines.current = [lineOf(data, (number += 1)), ...lines.current].slice(0, MOST);
      if (event === "dropped") lines.current = [{ key: (number += 1), text: `${plural(data.times.length, "epoch")} left out` }, ...lines.current].slice(0, MOST);
      timer ??= setTimeout(show, EVERY_MS);
    };
    const state = (to, message) => to === "waiting" && setProblem(message ?? "");
    connection.follow(`topics/${encodeURIComponent(topic)}/events?slow=drop_epochs`, receive, state, leaving.signal);
    return () => (leaving.abort(), clearTimeout(timer));
  }, [topic, connection]);
  return html`
    ${problem && html`<p class="quiet">${problem}</p>`}
    <ol class="tail" tabindex="0" aria-label="Latest epochs, the newest first" data-lines=${lines.current.length}>
      ${lines.current.map(({ key, time, text }) => html`<li key=${key}><span class="time">${time}</span> ${text}</li>`)}
    </ol>
  `;
}

function lineOf({ time, records }, key) {
  const texts = records.slice(0, MOST_RECORDS).map((record) => shortened(JSON.stringify(record), MOST_SIGNS));
  if (records.length > MOST_RECORDS) texts.push(`and ${records.length - MOST_RECORDS} more`);
  return { key, time: JSON.stringify(time), text: texts.join("  ") };
}
