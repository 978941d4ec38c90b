// JSON merge patches (RFC 7386), and what they change.

/** Merge a patch into a document, in place, and return the document. */
export function merge(document, patch) {
  for (const key in patch) {
    const change = patch[key]; // entries of thousands of objects would be rubbish each second
    if (change === null) delete document[key];
    else if (isObject(change)) document[key] = merge(isObject(document[key]) ? document[key] : {}, change);
    else document[key] = change;
  }
  return document;
}

/** The keys of a section, such as "operators", that a patch changes, in the document or in its live numbers. */
export function changedKeys(patch, section) {
  return new Set([...Object.keys(patch[section] ?? {}), ...Object.keys(patch.live?.[section] ?? {})]);
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
