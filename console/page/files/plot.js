// A chart of one number for each epoch of a topic, for a notebook.

import { Chart } from "./charts.js";
import { count, plural } from "./format.js";
import { Card } from "./parts.js";
import { html, useEffect, useRef, useState } from "./vendor/preact.js";

const HEIGHT = 240;
const STATES = { waiting: "waits for epochs", live: "", ended: "ended" };

/** It shows `most` points at most, the latest ones. */
export function Plot({ title, label, most, connection }) {
  const points = useRef({ at: [], value: [] });
  const [moment, setMoment] = useState(0);
  const [problem, setProblem] = useState("");
  const [link, setLink] = useState("waiting");
  const { at, value } = points.current;
  useEffect(() => {
    const leaving = new AbortController();
    const receive = (event, data) => {
      if (event === "whole") at.length = value.length = 0;
      for (const [time, number] of data.points ?? []) {
        at.push(time);
        value.push(number);
      }
      for (const column of [at, value]) column.splice(0, column.length - most);
      if (data.problem) setProblem(data.problem);
      setMoment((before) => before + 1);
    };
    connection.follow("points", receive, setLink, leaving.signal);
    return () => leaving.abort();
  }, [connection]);
  return html`
    <${Card} title=${title} note=${STATES[link]} class="card plot" data-view="plot" data-connection=${link} data-points=${at.length} data-last=${value.at(-1)}>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="charts">
        <${Chart} title=${label} series=${[["value", "value"]]} format=${count} history=${points.current} moment=${moment} across=${String} height=${HEIGHT} span=${`in ${plural(at.length, "epoch")}`} />
      </div>
    </${Card}>
  `;
}
