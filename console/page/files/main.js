// The page: the list of jobs, or one job, by the page's address.

import { addressOf, keepToken, keptToken, readAddress } from "./address.js";
import { Connection } from "./connection.js";
import { JobView } from "./job_view.js";
import { JobsView } from "./jobs_view.js";
import { html, render, useEffect, useState } from "./vendor/preact.js";

function Page() {
  const [address, setAddress] = useState(readAddress);
  const [connection, setConnection] = useState(() => new Connection(keptToken()));
  const [refusal, setRefusal] = useState(null);
  useEffect(() => {
    const follow = () => {
      const before = keptToken();
      setAddress(readAddress());
      if (keptToken() !== before) connect();
    };
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  const connect = () => {
    setConnection(new Connection(keptToken()));
    setRefusal(null);
  };
  const { job, chosen } = address;
  const choose = (kind, key) => {
    history.replaceState(null, "", addressOf(job, [kind, key]));
    setAddress(readAddress());
  };
  useEffect(() => {
    document.title = job ? `${job} · tidewheel` : "tidewheel";
  }, [job]);
  return html`
    <header class="top">
      <a class="mark" href=${addressOf(null)}><img src="page/icon.svg" alt="" width="20" height="20" />tidewheel</a>
      ${job && html`<nav aria-label="Place"><a href=${addressOf(null)}>Jobs</a><span aria-hidden="true">/</span></nav>`}
      ${job && html`<h1>${job}</h1>`}
    </header>
    ${refusal
      ? html`<${TokenForm} refusal=${refusal} connect=${connect} />`
      : job
        ? html`<${JobView} key=${job} name=${job} ...${{ connection, chosen, choose, refuse: setRefusal }} />`
        : html`<${JobsView} connection=${connection} refuse=${setRefusal} />`}
  `;
}

function TokenForm({ refusal, connect }) {
  const send = (event) => {
    event.preventDefault();
    keepToken(new FormData(event.target).get("token").trim());
    connect();
  };
  return html`
    <main class="centre" data-view="token">
      <h2>This page needs its token</h2>
      <p>Open the address that <code>tidewheel serve</code> or your program has printed, or enter its token.</p>
      <form onSubmit=${send}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="off" required />
        <button type="submit">Show jobs</button>
      </form>
      <p class="quiet" role="alert">${refusal.split(":")[0]}</p>
    </main>
  `;
}

render(html`<${Page} />`, document.getElementById("page"));
