// What the bots of a workflow are doing, as far as the run's events tell.

import { Pattern, type RunEvent } from "../../client/src/index.js";
import type { Graph } from "./api.js";

export type BotState = "waiting" | "writing" | "done" | "failed" | "stopped";

interface Bot {
  name: string;
  format: string;
  root: Pattern; // of the uris that it writes at
  depth: number;
  at: Map<string, Start>; // its starts, by where they write
  failed: boolean;
  used: boolean; // a model of it has ended
  each: boolean; // it is started for each of several things
}

/** A start of a bot: when its first text came and when it ended, in ms since the run began; undefined where that was not seen. */
export interface Start {
  state: "writing" | "done";
  began?: number;
  ended?: number;
}

/** When starts began and ended, by where they write. */
export type Times = Record<string, [began?: number, ended?: number]>;

/** How many starts have their times remembered. */
const maxTimes = 200;

/** Follows the states of a graph's bots. A bot is known by the root of what it writes; the deepest one that fits counts. */
export class Bots {
  readonly #bots: readonly Bot[]; // as the graph has them
  readonly #deepest: readonly Bot[]; // the same, the deepest roots first
  readonly #times: Times;
  readonly #writers = new Map<string, { bot: Bot; root: string } | undefined>(); // by uri, as the same ones come again and again

  /** `times` are those that were seen of the run before, for what comes again. */
  constructor(graph: Graph | undefined, times: Times = {}) {
    this.#times = times;
    this.#bots = (graph?.bots ?? []).map((b) => {
      // What a template stands for is known when it runs: any one key.
      const segments = b.root === "" ? [] : b.root.replace(/\{\{.*?\}\}|\{%.*?%\}/gs, "\0").split("/");
      return {
        name: b.name,
        format: b.format,
        root: new Pattern(segments.map((s) => (s.includes("\0") ? "*" : s)).join("/")),
        depth: segments.length,
        at: new Map(),
        failed: false,
        used: false,
        each: segments.some((s) => s.includes("\0")),
      };
    });
    this.#deepest = this.#bots.toSorted((a, b) => b.depth - a.depth);
  }

  /** Takes note of an event. */
  take(event: RunEvent, at?: number): void {
    if ("event" in event) {
      const bot = this.#bots.find((b) => b.name === (event.data as { bot?: string } | null)?.bot);
      if (bot && event.event === "usage") bot.used = true;
      if (bot && event.event === "error") bot.failed = true;
      return;
    }
    if ("done" in event) {
      const writer = this.#writer(event.uri);
      if (writer && writer.root === event.uri) writer.bot.at.set(writer.root, { ...writer.bot.at.get(writer.root), state: "done", ended: at ?? this.#time(writer.root, 1) });
      return;
    }
    // A snapshot has all of the document at once.
    if (event.uri === "" && typeof event.delta === "object" && event.delta !== null) return this.#look(event.delta, "", 0);
    const writer = this.#writer(event.uri);
    if (writer && event.delta !== null && !writer.bot.at.has(writer.root)) writer.bot.at.set(writer.root, { state: "writing", began: at ?? this.#time(writer.root, 0) });
  }

  #time(root: string, which: 0 | 1): number | undefined {
    return Object.hasOwn(this.#times, root) ? (this.#times[root]![which] ?? undefined) : undefined;
  }

  /** Returns the times of the starts, to be remembered. */
  times(): Times {
    const starts = this.#bots.flatMap((bot) => [...bot.at]).slice(0, maxTimes);
    return Object.fromEntries(starts.map(([root, { began, ended }]) => [root, [began, ended]]));
  }

  /** The states now; `left` is what has become of those that have not ended, in a run that is over. */
  states(left?: BotState): Record<string, BotState> {
    return Object.fromEntries(this.#bots.map((bot): [string, BotState] => {
      const writing = [...bot.at.values()].some((s) => s.state === "writing");
      if (bot.failed && (left || !writing)) return [bot.name, "failed"];
      if (writing) return [bot.name, left ?? "writing"];
      return [bot.name, bot.at.size > 0 || bot.used ? "done" : "waiting"];
    }));
  }

  /** Whether some bot writes at a place below a uri. */
  writesBelow(uri: string): boolean {
    const prefix = uri === "" ? "" : uri + "/";
    return this.#bots.some((bot) => bot.depth > 0 && [...bot.at].some(([root, s]) => s.state === "writing" && root !== uri && root.startsWith(prefix)));
  }

  /** The starts of a bot, by where they write. */
  starts(name: string): ReadonlyMap<string, Readonly<Start>> {
    return this.#bots.find((b) => b.name === name)?.at ?? new Map();
  }

  /** The bot whose block is the one at a uri: it writes there, or at a place in it that is the element of a list. */
  blockAt(uri: string): { name: string; start: Readonly<Start>; several: boolean } | undefined {
    for (const bot of this.#bots) {
      const several = bot.at.size > 1 || bot.each;
      const own = bot.at.get(uri);
      if (own && !(several && this.#inElement(uri))) return { name: bot.name, start: own, several };
      if (!several || !/(^|\/)\d+$/.test(uri)) continue;
      for (const [root, start] of bot.at) if (root === uri || root.startsWith(uri + "/")) return { name: bot.name, start, several };
    }
    return undefined;
  }

  // Whether a place is in the element of a list, which then says who writes there.
  #inElement(uri: string): boolean {
    return /(^|\/)\d+\//.test(uri);
  }

  /** Whether a bot writes at this very place. */
  beginsAt(uri: string): boolean {
    return this.#bots.some((b) => b.at.has(uri));
  }

  /** The name of the bot that writes at a uri. */
  nameAt(uri: string): string | undefined {
    return this.#writer(uri)?.bot.name;
  }

  /** What the bot at a uri writes: `json`, `text` or `html`. */
  formatAt(uri: string): string | undefined {
    return this.#writer(uri)?.bot.format;
  }

  #writer(uri: string): { bot: Bot; root: string } | undefined {
    if (this.#writers.has(uri)) return this.#writers.get(uri);
    const raw = uri === "" ? [] : uri.split("/"); // escaped slashes make a segment more, and no root is so deep for it
    const beside = raw.findIndex((s) => s.startsWith("$"));
    if (beside >= 0) raw.length = beside;
    let found: { bot: Bot; root: string } | undefined;
    for (const bot of this.#deepest) {
      const root = raw.slice(0, bot.depth).join("/");
      if (raw.length >= bot.depth && bot.root.matches(root)) {
        found = { bot, root };
        break;
      }
    }
    if (this.#writers.size > 10_000) this.#writers.clear();
    this.#writers.set(uri, found);
    return found;
  }

  // Finds what of the document some bot has written. Roots are few and not deep.
  #look(value: unknown, uri: string, depth: number): void {
    const writer = this.#writer(uri);
    if (writer && writer.root === uri && !writer.bot.at.has(uri)) writer.bot.at.set(uri, { state: "writing", began: this.#time(uri, 0) });
    if (typeof value !== "object" || value === null || depth >= (this.#deepest[0]?.depth ?? 0)) return;
    for (const [key, below] of Object.entries(value)) this.#look(below, uri === "" ? key : `${uri}/${key}`, depth + 1);
  }
}
