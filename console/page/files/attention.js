// What a person should look at: findings in a document, the worst first.

import { bytes, count, plural } from "./format.js";

const SLOW_MESSAGES = 100;
const FULL = 0.9;
const ORDER = { bad: 0, warn: 1 };

/**
 * Return findings as {key, level, text, target}. The key stays the same while the finding does, so that it is announced
 * once. The target is what to select: [kind, key].
 */
export function findings(document) {
  const found = [...ofJob(document), ...ofWorkers(document), ...ofOperators(document), ...ofProbes(document)];
  found.push(...ofTopics(document), ...ofEdges(document));
  return found.sort((one, other) => ORDER[one.level] - ORDER[other.level]);
}

/** The operators that hold a frontier back where it does not move, each with the names of what waits. */
export function holders(document) {
  const found = new Map();
  for (const [name, probe] of Object.entries(document.probes ?? {})) {
    if (!waitsForOperators(document, probe)) continue;
    for (const number of probe.holders) found.set(number, [...(found.get(number) ?? []), name]);
  }
  return found;
}

/** The part of an explanation that says who holds the frontier back. */
export function firstHolder(explanation) {
  const line = explanation.split("\n").find((text) => /^\d+\. /.test(text));
  return (line ?? explanation.split("\n")[0]).replace(/^\d+\. /, "");
}

/** The names of the operators that an entry of the log is about: of all in a chain that runs as one. */
export function operatorsOf(entry) {
  return entry.operator ? [entry.operator, ...entry.operator.split(" > ")] : [];
}

function waitsForOperators(document, probe) {
  return (probe.holders ?? []).some((number) => document.operators[number] && document.operators[number].kind !== "input");
}

function* ofJob({ job }) {
  if (job.error) yield { key: "job", level: "bad", text: job.error.split("\n")[0], target: ["job", "error"] };
}

function* ofWorkers(document) {
  for (const [number, worker] of Object.entries(document.workers ?? {})) {
    const target = ["worker", number];
    if (worker.state === "dead") yield { key: `dead-${number}`, level: "bad", text: `worker ${number} is dead`, target };
    if (worker.state === "silent") {
      yield { key: `silent-${number}`, level: "bad", text: `worker ${number} does not answer`, target };
    }
    if (worker.busy) {
      const name = document.operators[worker.busy.operator]?.name ?? "an operator";
      const text = `worker ${number} has been in ${name} for more than a second`;
      yield { key: `busy-${number}`, level: "warn", text, target };
    }
  }
}

function* ofOperators({ operators }) {
  for (const number in operators) {
    const { name, leaks } = operators[number];
    if (leaks) {
      const text = `${name} has leaked ${plural(leaks, "token")}`;
      yield { key: `leak-${number}`, level: "warn", text, target: ["operator", number] };
    }
  }
}

function* ofProbes(document) {
  for (const [name, probe] of Object.entries(document.probes ?? {})) {
    if (probe.explanation && waitsForOperators(document, probe)) {
      const text = `${name} waits: ${firstHolder(probe.explanation)}`;
      yield { key: `waits-${name}`, level: "warn", text, target: ["probe", name] };
    }
  }
}

function* ofTopics({ topics }) {
  for (const [name, topic] of Object.entries(topics ?? {})) {
    const partitions = Object.values(topic.partitions ?? {});
    const messages = Math.max(0, ...partitions.map((partition) => partition.lag_messages ?? 0));
    const isHeld = partitions.some((partition) => partition.holders);
    if (messages >= SLOW_MESSAGES || isHeld) {
      const lag = Math.max(0, ...partitions.map((partition) => partition.lag_bytes ?? 0));
      const what = isHeld ? "holds the job back" : "is slow";
      const text = `a subscriber of ${name} ${what}: ${count(messages)} messages, ${bytes(lag)} behind`;
      yield { key: `slow-${name}`, level: "warn", text, target: ["topic", name] };
    }
  }
}

function* ofEdges({ edges, operators }) {
  const full = Object.keys(edges ?? {}).filter((number) => edges[number].fill >= FULL);
  if (full.length) {
    const [number] = full;
    const { target } = edges[number];
    const others = full.length > 1 ? `, and ${plural(full.length - 1, "more edge")}` : "";
    const text = `the way to ${operators[target]?.name ?? target} is full${others}`;
    yield { key: `full-${number}`, level: "warn", text, target: ["operator", target] };
  }
}
