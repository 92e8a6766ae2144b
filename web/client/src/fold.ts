// The document that deltas fold to. What was given out is never changed: a delta makes the containers on its way anew and
// keeps all others, so that whoever compares by identity sees what has changed. Containers that were made since the document
// was last given out are changed in place; so a burst of deltas copies each of them once, however many deltas there are.

import { maxDepth, plain, split } from "./uri.js";

/** Anything that JSON can say. */
export type JSONValue = string | number | boolean | null | JSONValue[] | { [key: string]: JSONValue };

type Container = Record<string, unknown> | unknown[];

// How far beyond an array's end a slot may be, and how many elements it may have; as the server has it.
const maxFill = 65536;
const maxElements = 16 << 20;

export function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

/** The own member of a container: what a prototype has is not in the document. */
export function member(of: Container, key: string): unknown {
  return Object.hasOwn(of, key) ? (of as Record<string, unknown>)[key] : undefined;
}

function put(into: Container, key: string, value: unknown): void {
  // An assignment to "__proto__" would change the prototype and no member.
  if (key === "__proto__") Object.defineProperty(into, key, { value, writable: true, enumerable: true, configurable: true });
  else (into as Record<string, unknown>)[key] = value;
}

// Says whether what is in a value nests no deeper than left levels.
function fits(value: unknown, left: number): boolean {
  if (!isContainer(value)) return true;
  for (const key in value) if (left === 0 || !fits(member(value, key), left - 1)) return false;
  return true;
}

// The index that a key means in an array. Throws where it is none, or too far away.
function index(array: unknown[], key: string, uri: string): number {
  const i = Number(key);
  if (String(i) === key && i >= 0 && Number.isInteger(i) && i <= array.length + maxFill && i < maxElements) return i;
  throw new Error(`uri ${JSON.stringify(uri.slice(0, 80))}: not an index of the array`);
}

// Fills an array up to before the index that a key means.
function fill(array: unknown[], key: string, uri: string): void {
  for (const i = index(array, key, uri); array.length < i; ) array.push(null);
}

/** Applies deltas, in order, to a document that begins as `{}`. */
export class Fold {
  // The two roots: the document, and what stands beside it, by uris up to and with the segment that begins with "$".
  #roots: { document: unknown; reserved: Record<string, unknown> } = { document: {}, reserved: {} };
  #own = new Set<unknown>(); // what may be changed in place
  // Where the last deltas went, for the next ones mostly go there, too: the parents by their uris, all of them own, and the very
  // place of the last one.
  readonly #parents = new Map<string, Container>();
  #uri: string | undefined;
  #parent: Container = [];
  #key = "";
  #pieces = 0;

  /** The document so far. It does not change any more; later deltas make another one. */
  get document(): unknown {
    this.#release();
    return this.#roots.document;
  }

  /** What stands beside the document, by uri: thoughts, tool calls and their results. It does not change any more. */
  get reserved(): Readonly<Record<string, unknown>> {
    this.#release();
    return this.#roots.reserved;
  }

  /**
   * Applies one delta: a string is appended, `{}` sees to it that there is an object, anything else is set. Throws where the
   * uri is none or does not fit the array that it leads into; the document is then as it was.
   */
  apply(uri: string, delta: unknown): void {
    const empty = isContainer(delta) && Object.keys(delta).length === 0;
    if (uri !== this.#uri) this.#go(uri, isContainer(delta) && !empty ? delta : undefined);
    else if (isContainer(delta) && !empty) this.#check(uri, split(uri).length, delta);
    const before = member(this.#parent, this.#key);
    if (typeof delta === "string") {
      put(this.#parent, this.#key, typeof before === "string" ? this.#join(before, delta) : delta);
    } else if (!(empty && !Array.isArray(delta) && isContainer(before) && !Array.isArray(before))) {
      put(this.#parent, this.#key, delta);
    } else {
      return;
    }
    if (isContainer(before)) this.#parents.clear(); // what was in it is not in the document any more
  }

  // Finds the parent of what is at uri, and makes it where it is missing.
  #go(uri: string, value: unknown): void {
    const cut = uri.lastIndexOf("/");
    const simple = uri !== "" && cut !== 0 && !uri.includes("\\") && !uri.includes("$");
    const above = cut < 0 ? "" : uri.slice(0, cut);
    let parent = simple && value === undefined ? this.#parents.get(above) : undefined;
    let key = uri.slice(cut + 1);
    if (parent) {
      plain(key, uri);
      if (Array.isArray(parent)) fill(parent, key, uri);
    } else {
      const raw = split(uri);
      let rest = raw.map((r) => plain(r, uri));
      if (value !== undefined) this.#check(uri, raw.length, value);
      const beside = raw.findIndex((r) => r[0] === "$");
      parent = this.#roots;
      key = "document";
      if (beside >= 0) {
        parent = this.#owned(parent, "reserved");
        key = raw.slice(0, beside + 1).join("/");
        rest = rest.slice(beside + 1);
      }
      for (const next of rest) {
        const into = member(parent, key);
        if (Array.isArray(into)) index(into, next, uri);
        parent = this.#owned(parent, key);
        if (Array.isArray(parent)) fill(parent, next, uri);
        key = next;
      }
      if (simple && raw.length < maxDepth) {
        if (this.#parents.size >= 1000) this.#parents.clear();
        this.#parents.set(above, parent);
      }
    }
    // An array has no holes, and a value that is only looked at is there.
    if (member(parent, key) === undefined) put(parent, key, null);
    this.#uri = uri;
    this.#parent = parent;
    this.#key = key;
  }

  #check(uri: string, depth: number, value: unknown): void {
    if (!fits(value, maxDepth - depth)) throw new Error(`uri ${JSON.stringify(uri.slice(0, 80))}: nests deeper than ${maxDepth}`);
  }

  // The container at a key that may be changed: a copy of what was given out, an object where there is none.
  #owned(of: Container, key: string): Container {
    const was = member(of, key);
    if (this.#own.has(was)) return was as Container;
    const copy: Container = Array.isArray(was) ? was.slice() : isContainer(was) ? { ...was } : {};
    this.#own.add(copy);
    put(of, key, copy);
    return copy;
  }

  // Engines keep a text that was put together from pieces as a tree of them until somebody looks into it. Nobody may, so it is
  // done here now and then: rarely enough to cost little, and often enough that pieces take no more memory than the text.
  #join(text: string, more: string): string {
    const joined = text + more;
    if (++this.#pieces > 1000 && this.#pieces * 64 > joined.length) {
      this.#pieces = 0;
      joined.charCodeAt(0);
    }
    return joined;
  }

  #release(): void {
    this.#own.clear();
    this.#parents.clear();
    this.#uri = undefined;
  }
}
