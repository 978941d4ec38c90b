// The page's address. Its fragment has the token, once, and what is shown: "#job=NAME&show=operator:3".

const KEY = "tidewheel-token";

/** Return {job, chosen} of the address; move a token from it to this tab's storage, so that no history has it. */
export function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  if (fields.has("token")) {
    keepToken(fields.get("token"));
    fields.delete("token");
    history.replaceState(null, "", `#${fields}`);
  }
  const [kind, ...key] = (fields.get("show") ?? "none").split(":");
  return { job: fields.get("job"), chosen: [kind, key.join(":")] };
}

/** The fragment that shows a job or, without one, the list of jobs. */
export function addressOf(job, [kind, key] = ["none"]) {
  const fields = new URLSearchParams(job ? { job } : {});
  if (kind !== "none") fields.set("show", `${kind}:${key}`);
  return `#${fields}`;
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export function keptToken() {
  return sessionStorage.getItem(KEY);
}
