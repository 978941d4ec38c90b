// Requests to the gateway. The token is shown in a header, which an EventSource could not send.

const SHORTEST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5000;

/** The gateway does not accept the token. */
export class Refused extends Error {}

export class Connection {
  /** Whether topics can be followed, too. */
  hasTopics = true;

  constructor(token) {
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** Return the JSON at a path; throws Refused, or an Error with the gateway's message. */
  async json(path, signal) {
    const response = await this.#get(path, signal);
    return response.json();
  }

  /**
   * Receive the Server-Sent Events at a path until the event "end", and connect again when the connection breaks.
   *
   * receive(name, data) gets each event, and state("live" | "waiting" | "ended" | "refused", message) each change.
   */
  async follow(path, receive, state, signal) {
    let wait = SHORTEST_WAIT_MS;
    while (!signal.aborted) {
      try {
        const response = await this.#get(path, signal);
        for await (const [name, data] of eventsOf(response.body)) {
          state("live");
          wait = SHORTEST_WAIT_MS;
          if (name !== "") receive(name, data);
          if (name === "end") return state("ended");
        }
        state("waiting", "the gateway has closed the connection");
      } catch (error) {
        if (signal.aborted) return undefined;
        if (error instanceof Refused) return state("refused", error.message);
        state("waiting", error.message);
      }
      await pause(wait, signal);
      wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    }
    return undefined;
  }

  async #get(path, signal) {
    const response = await fetch(path, { headers: this.headers, cache: "no-store", credentials: "omit", signal });
    if (response.ok) return response;
    const { message } = await response.json().catch(() => ({ message: response.statusText }));
    throw response.status === 401 ? new Refused(message) : new Error(message);
  }
}

/** Yield [name, data] of each event of a body; a comment has an empty name. */
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      parts.push(value);
      if (!value.includes("\n")) continue;
      const blocks = parts.join("").split("\n\n");
      parts = [blocks.pop()];
      for (const block of blocks) yield parsed(block);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The [name, data] of an event. */
export function parsed(block) {
  const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  return fields.event ? [fields.event, JSON.parse(fields.data)] : ["", null];
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
