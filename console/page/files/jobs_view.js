// The list of jobs: those that run and those that have ended.

import { addressOf } from "./address.js";
import { Refused } from "./connection.js";
import { clock, count, rate } from "./format.js";
import { State } from "./parts.js";
import { html, useEffect, useState } from "./vendor/preact.js";

const EVERY_MS = 1000;

export function JobsView({ connection, refuse }) {
  const [jobs, setJobs] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const leaving = new AbortController();
    let timer;
    const look = async () => {
      try {
        setJobs(await connection.json("jobs", leaving.signal));
        setProblem(null);
      } catch (error) {
        if (leaving.signal.aborted) return;
        if (error instanceof Refused) return refuse(error.message);
        setProblem(error.message);
      }
      timer = setTimeout(look, EVERY_MS);
    };
    look();
    return () => (leaving.abort(), clearTimeout(timer));
  }, [connection]);
  return html`
    <main class="jobs" data-view="jobs" data-jobs=${jobs?.length}>
      <h1 class="heading">Jobs</h1>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${jobs === null && !problem && html`<p class="quiet" role="status">Loading the jobs</p>`}
      ${jobs?.length === 0 && html`<p class="quiet">No job runs now. A job appears here when a program calls <code>tw.run(flow)</code>.</p>`}
      ${jobs?.length > 0 && html`<${Table} jobs=${jobs} />`}
    </main>
  `;
}

function Table({ jobs }) {
  return html`
    <div class="scroll card" role="region" aria-label="Jobs" tabindex="0">
      <table>
        <thead>
          <tr><th>Job</th><th>State</th><th class="n">Records in</th><th class="n">Operators</th><th class="n">Workers</th><th>Engine</th><th>Since</th></tr>
        </thead>
        <tbody>
          ${jobs.map(
            (job) => html`
              <tr key=${job.name} data-job=${job.name} data-state=${job.state} data-rate=${job.records}>
                <td><a href=${addressOf(job.name)}>${job.name}</a>${job.error && html`<div class="error">${job.error.split("\n")[0]}</div>`}</td>
                <td><${State} state=${job.state} /></td>
                <td class="n">${rate(job.records)}</td>
                <td class="n">${count(job.operators)}</td>
                <td class="n">${count(job.workers)}</td>
                <td>${job.engine}</td>
                <td>${clock(job.since)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    </div>
  `;
}
