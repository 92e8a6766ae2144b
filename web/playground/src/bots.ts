// What the bots of a workflow are doing, as the run's events say.

import type { RunEvent } from "../../client/src/index.js";
import type { Graph } from "./api.js";

export type BotState = "waiting" | "writing" | "done" | "failed" | "stopped";

interface Bot {
  name: string;
  format: string;
  at: Map<string, Start>; // its starts, by where they write
  failed: boolean; // it could not be started
  each: boolean; // it is started for each of several things
}

/** A start of a bot: when it began and when it ended, in ms since the run began; undefined where that was not seen. */
export interface Start {
  state: "writing" | "done" | "failed";
  began?: number;
  ended?: number;
}

/** When starts began and ended, by bot and where they write. */
export type Times = Record<string, [began?: number, ended?: number]>;

/** How many starts have their times remembered. */
const maxTimes = 200;

/** Follows the states of a graph's bots, by the events of their starts and ends. */
export class Bots {
  readonly #bots: readonly Bot[]; // as the graph has them
  readonly #times: Times;
  readonly #roots = new Map<string, Bot>(); // the bot that was started last at each root

  /** `times` are those that were seen of the run before, for what comes again. */
  constructor(graph: Graph | undefined, times: Times = {}) {
    this.#times = times;
    this.#bots = (graph?.bots ?? []).map((b) => ({ name: b.name, format: b.format, at: new Map(), failed: false, each: /\{\{|\{%/.test(b.root) }));
  }

  /** Takes note of an event. */
  take(event: RunEvent, at?: number): void {
    if (!("event" in event)) return;
    if (event.event === "restarted") return this.#restart(event.data.bots);
    const data = event.data as { bot?: string; root?: string; state?: string; failed?: boolean } | null;
    const bot = this.#bots.find((b) => b.name === data?.bot);
    if (!bot) return;
    if (event.event === "error" && data!.failed) bot.failed = true;
    if (event.event !== "bot" || data!.root === undefined) return;
    const root = data!.root;
    const [began, ended] = this.#timesOf(bot, root);
    if (data!.state === "started") {
      this.#roots.set(root, bot);
      bot.failed = false;
      bot.at.set(root, { state: "writing", began: at ?? began });
    } else {
      bot.at.set(root, { ...bot.at.get(root), state: data!.state === "failed" ? "failed" : "done", ended: at ?? ended });
    }
  }

  // Forgets the starts of bots that begin again. Those that were writing do, also where the server does not know of them any more.
  #restart(again: readonly { bot: string; root: string }[]): void {
    for (const bot of this.#bots) {
      for (const [root, start] of bot.at) {
        if (start.state !== "writing" && !again.some((b) => b.bot === bot.name && b.root === root)) continue;
        bot.at.delete(root);
        if (this.#roots.get(root) === bot) this.#roots.delete(root);
        delete this.#times[keyOf(bot, root)];
      }
      if (again.some((b) => b.bot === bot.name)) bot.failed = false;
    }
  }

  #timesOf(bot: Bot, root: string): [began?: number, ended?: number] {
    const key = keyOf(bot, root);
    const [began, ended] = Object.hasOwn(this.#times, key) ? this.#times[key]! : [];
    return [began ?? undefined, ended ?? undefined];
  }

  /** Returns the times of the starts, to be remembered. */
  times(): Times {
    const starts = this.#bots.flatMap((bot) => Array.from(bot.at, ([root, start]) => [keyOf(bot, root), start] as const)).slice(0, maxTimes);
    return Object.fromEntries(starts.map(([key, { began, ended }]) => [key, [began, ended]]));
  }

  /** The states now; `left` is what has become of those that have not ended, in a run that is over. */
  states(left?: BotState): Record<string, BotState> {
    return Object.fromEntries(this.#bots.map((bot): [string, BotState] => {
      const states = new Set(Array.from(bot.at.values(), (s) => s.state));
      const writing = states.has("writing");
      if ((bot.failed || states.has("failed")) && (left || !writing)) return [bot.name, "failed"];
      if (writing) return [bot.name, left ?? "writing"];
      return [bot.name, bot.at.size > 0 ? "done" : "waiting"];
    }));
  }

  /** Whether some bot writes at a place below a uri. */
  writesBelow(uri: string): boolean {
    const prefix = uri === "" ? "" : uri + "/";
    return this.#bots.some((bot) => [...bot.at].some(([root, s]) => s.state === "writing" && root !== uri && root.startsWith(prefix)));
  }

  /** The starts of a bot, by where they write. */
  starts(name: string): ReadonlyMap<string, Readonly<Start>> {
    return this.#bots.find((b) => b.name === name)?.at ?? new Map();
  }

  /** The bot whose block is the one at a uri: it writes there, or at a place in it that is the element of a list. */
  blockAt(uri: string): { name: string; start: Readonly<Start>; several: boolean } | undefined {
    const last = this.#roots.get(uri); // of those that share the root
    for (const bot of last ? [last] : this.#bots) {
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
    return this.#roots.has(uri);
  }

  /** The name of the bot that writes at a uri. */
  nameAt(uri: string): string | undefined {
    return this.#writer(uri)?.name;
  }

  /** What the bot at a uri writes: `json`, `text` or `html`. */
  formatAt(uri: string): string | undefined {
    return this.#writer(uri)?.format;
  }

  // The bot with the deepest root at or above a uri.
  #writer(uri: string): Bot | undefined {
    for (let root = uri; ; root = root.slice(0, Math.max(0, root.lastIndexOf("/")))) {
      const bot = this.#roots.get(root);
      if (bot || root === "") return bot;
    }
  }
}

function keyOf(bot: Bot, root: string): string {
  return `${bot.name} ${root}`;
}
