// One view of the page in the cell of a notebook. The cell's model takes the place of a gateway.

import { parsed } from "./connection.js";
import { JobView } from "./job_view.js";
import { Plot } from "./plot.js";
import { html, render, useState } from "./vendor/preact.js";

const SIGN_EVERY = 20;
const QUIET_MS = 10000;

/**
 * What `Connection` does, by messages. The kernel hears {here: view, whole}, {leave: view} and {ask, path}. It sends
 * {number, event} and {answer, data}. While it runs a cell it hears nothing, and sends all the same.
 */
class ModelConnection {
  hasTopics = false;

  constructor(model) {
    this.model = model;
  }

  json(path, signal) {
    const ask = newId();
    return new Promise((resolve) => {
      const hear = (message) => {
        if (message.answer !== ask) return;
        leave();
        resolve(JSON.parse(message.data));
      };
      const leave = () => this.model.off("msg:custom", hear);
      this.model.on("msg:custom", hear);
      signal.addEventListener("abort", leave, { once: true });
      this.model.send({ ask, path });
    });
  }

  /** Receive the events of the model, which has one stream. After a gap, ask for a whole one. */
  follow(_, receive, state, signal) {
    const view = newId();
    const say = (whole) => this.model.send({ here: view, whole });
    let [known, count, heardAt, isWhole, hasAsked] = [0, 0, performance.now(), false, false];
    const hear = ({ number, event }) => {
      if (event === undefined) return;
      [heardAt, hasAsked] = [performance.now(), false];
      const [name, data] = parsed(event);
      if (name === "patch" && number !== known + 1) {
        if (isWhole) say(true);
        isWhole = false;
        return;
      }
      if (name === "end") {
        clearInterval(timer);
        state("ended");
        return;
      }
      [known, isWhole] = [number, true];
      count += 1;
      receive(name, data);
      state("live");
      if (name === "whole" || count % SIGN_EVERY === 0) say(false);
    };
    const timer = setInterval(() => {
      if (isWhole && performance.now() - heardAt < QUIET_MS) return;
      if (hasAsked) state("waiting", "the kernel does not answer");
      hasAsked = true;
      say(true);
    }, QUIET_MS);
    this.model.on("msg:custom", hear);
    const leave = () => {
      clearInterval(timer);
      this.model.off("msg:custom", hear);
      this.model.send({ leave: view });
    };
    signal.addEventListener("abort", leave, { once: true });
    say(true);
  }
}

/** A browser has crypto.randomUUID only where the notebook comes by HTTPS or from this machine. */
function newId() {
  return Math.random().toString(36).slice(2);
}

function Job({ model, connection }) {
  const first = model.get("chosen");
  const [chosen, setChosen] = useState(first);
  const choose = (kind, key) => setChosen([kind, key]);
  return html`<${JobView} name=${model.get("name")} isBrief=${first[0] !== "none"} refuse=${() => {}} ...${{ connection, chosen, choose }} />`;
}

function Points({ model, connection }) {
  return html`<${Plot} title=${model.get("name")} label=${model.get("label")} most=${model.get("most")} connection=${connection} />`;
}

/** Return the widget. Its views have these styles, which the notebook's neither change nor are changed by. */
export function widget(styles) {
  return {
    render({ model, el }) {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(styles);
      const root = el.appendChild(document.createElement("div")).attachShadow({ mode: "open" });
      root.adoptedStyleSheets = [sheet];
      const place = root.appendChild(document.createElement("div"));
      place.id = "page";
      el.dataset.lmSuppressShortcuts = "true"; // keys are for the view, and not for JupyterLab
      const View = model.get("kind") === "plot" ? Points : Job;
      const connection = new ModelConnection(model);
      const placed = new ResizeObserver(() => {
        if (place.clientWidth === 0) return; // the notebook has not put the cell on its page yet
        placed.disconnect();
        render(html`<${View} ...${{ model, connection }} />`, place);
      });
      placed.observe(place);
      return () => {
        placed.disconnect();
        render(null, place);
      };
    },
  };
}
