// Uris and patterns, as docs/protocol.md has them: segments joined by "/", with "\" as the escape.

/** The most segments that a uri or pattern may have; values nest no deeper, either. */
export const maxDepth = 1024;

function bad(uri: string, why: string): Error {
  return new Error(`uri ${JSON.stringify(uri.slice(0, 80))}: ${why}`);
}

// One segment as it may stand in a uri. "\." and "\.." are whole segments, as "\e" is; "\$" is only at the start.
const segment = /^(?!\.\.?$)(?:\\e|\\\.\.?|(?:\\\$|[^\\]|\\[\\/])(?:[^\\]|\\[\\/])*)$/s;

/** Splits a uri at its unescaped slashes; the segments stay escaped, so that `$tools` and `\$tools` differ. */
export function split(uri: string): string[] {
  if (uri === "") return [];
  let raw: string[] = [];
  if (uri.includes("\\")) {
    let from = 0;
    for (let i = 0; i < uri.length; i++) {
      if (uri[i] === "\\") i++;
      else if (uri[i] === "/") {
        raw.push(uri.slice(from, i));
        from = i + 1;
      }
    }
    raw.push(uri.slice(from));
  } else {
    raw = uri.split("/");
  }
  if (raw.length > maxDepth) throw bad(uri, `more than ${maxDepth} segments`);
  return raw;
}

/** The key that an escaped segment stands for. */
export function plain(raw: string, uri: string): string {
  if (raw !== "" && raw !== "." && raw !== ".." && !raw.includes("\\")) return raw;
  if (!segment.test(raw)) throw bad(uri, `${JSON.stringify(raw)} is not a segment`);
  return raw === "\\e" ? "" : raw.replace(/\\(.)/gs, "$1");
}

/** Escapes a key: the inverse of what {@link parseURI} does with a segment. */
export function escape(key: string): string {
  return key === "" ? "\\e" : key.replace(/[\\/]/g, "\\$&").replace(/^(?=\$|\.\.?$)/, "\\");
}

/** The uri of a list of keys and indexes. */
export function formatURI(segments: readonly (string | number)[]): string {
  return segments.map((s) => escape(String(s))).join("/");
}

/** The keys of a uri: the inverse of {@link formatURI}. Throws for what is no uri. */
export function parseURI(uri: string): string[] {
  return split(uri).map((raw) => plain(raw, uri));
}

/** Where in a pattern a way through the document stands: the parts that come next. A pattern of n parts is through at n. */
export type States = readonly number[];

/** Matches uris: `*` is one segment, `**` any number of them, none included; `\*` and `\**` are keys that are stars. */
export class Pattern {
  readonly #parts: readonly string[];
  /** The states before the first segment. */
  readonly start: States;

  constructor(readonly text: string) {
    this.#parts = split(text).map((raw) => {
      if (!/^\\?\*\*?$/.test(raw)) plain(raw, text); // a star with a backslash is a key
      return raw;
    });
    this.start = this.#open([0]);
  }

  /** The states after one more segment, in its escaped form; none where nothing below it can match. */
  step(states: States, raw: string): States {
    const next: number[] = [];
    for (const at of states) {
      const part = this.#parts[at];
      if (part === "**") next.push(at);
      else if (part === "*" || part === raw || (part?.startsWith("\\*") && part.slice(1) === raw)) next.push(at + 1);
    }
    return this.#open(next);
  }

  /** Whether a way that has come to these states matches as it is. */
  matched(states: States): boolean {
    return states.includes(this.#parts.length);
  }

  matches(uri: string): boolean {
    return this.matched(split(uri).reduce((states, raw) => this.step(states, raw), this.start));
  }

  // A "**" may also stand for nothing: then what follows it comes next. States rise and come once each, so that they are
  // never more than the pattern's parts.
  #open(states: number[]): States {
    const all: number[] = [];
    for (let at of states) {
      for (; ; at++) {
        if (!all.includes(at)) all.push(at);
        if (this.#parts[at] !== "**") break;
      }
    }
    return all;
  }
}
