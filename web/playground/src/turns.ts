// The turns of a session, as its tape has them.

import type { Entry } from "./api.js";
import type { Call } from "./run.js";

export type Part =
  | { kind: "text"; text: string }
  | { kind: "thoughts"; text: string }
  | { kind: "call"; call: Call }
  | { kind: "error"; text: string };

export interface Turn {
  id: string; // of its run
  date: string;
  said: string[]; // by the user
  media: string[]; // what the user sent beside words: "an image", names of files
  parts: Part[]; // by the agent
  cut?: string; // why it has no end
  took?: number; // ms from its first entry to its end
  tokens: number; // of the answer
  cost: number; // in millionths of a dollar
}

export interface Anchor {
  id: string;
  anchor: string;
  date: string;
  state: unknown;
}

/** Reads entries in order; what belongs to no turn, such as an anchor, stands between them. */
export function readTurns(entries: readonly Entry[]): (Turn | Anchor)[] {
  const all: (Turn | Anchor)[] = [];
  const turns = new Map<string, Turn>();
  const calls = new Map<string, Call>();
  const turnOf = (e: Entry): Turn => {
    const id = e.meta?.turn ?? "entry-" + e.id;
    let t = turns.get(id);
    if (!t) {
      t = { id, date: e.date, said: [], media: [], parts: [], tokens: 0, cost: 0 };
      turns.set(id, t);
      all.push(t);
    }
    return t;
  };
  for (const e of entries) {
    const p = e.payload ?? {};
    switch (e.kind) {
      case "anchor":
        if (p.name !== "session/start") all.push({ id: "anchor-" + e.id, anchor: String(p.name), date: e.date, state: p.state });
        break;
      case "message": {
        const text = textOf(p.content);
        if (p.role === "user") {
          const words = withoutFacts(text);
          if (words !== "") turnOf(e).said.push(words);
          turnOf(e).media.push(...mediaOf(p.content));
          break;
        }
        if (text === "") break;
        if (p.role === "assistant") turnOf(e).parts.push({ kind: "text", text });
        break;
      }
      case "reasoning": {
        const text = textOf(p.content ?? p.text);
        if (text !== "") turnOf(e).parts.push({ kind: "thoughts", text });
        break;
      }
      case "tool_call": {
        const t = turnOf(e);
        const before = textOf(p.content);
        if (before !== "") t.parts.push({ kind: "text", text: before });
        for (const c of Array.isArray(p.calls) ? p.calls : []) {
          const call: Call = { name: String(c?.function?.name ?? c?.name ?? "a tool"), arguments: c?.function?.arguments ?? c?.arguments };
          calls.set(t.id + " " + c?.id, call);
          t.parts.push({ kind: "call", call });
        }
        break;
      }
      case "tool_result": {
        const t = turnOf(e);
        (Array.isArray(p.results) ? p.results : []).forEach((result: unknown, i: number) => {
          const call = calls.get(t.id + " " + p.ids?.[i]);
          if (!call) return;
          call.result = result ?? null;
          call.failed = result === null || (typeof result === "object" && "error" in (result as object));
        });
        break;
      }
      case "error":
        turnOf(e).parts.push({ kind: "error", text: textOf(p.message ?? p.error ?? p.content) || "failed" });
        break;
      case "event":
        if (p.name === "turn.end" && p.data?.status && e.meta?.turn) {
          const t = turnOf(e);
          const failed = p.data.status === "error" && t.parts.some((part) => part.kind === "error"); // which says more
          if (p.data.status !== "ok" && !failed) t.cut = String(p.data.status);
          t.took = Math.max(0, Date.parse(e.date) - Date.parse(t.date)) || undefined;
          t.tokens = Number(p.data.usage?.completion_tokens) || 0;
          t.cost = Number(p.data.usage?.cost) || 0;
        }
        break;
    }
  }
  // A turn that nobody has said anything in, and that says nothing, is none to be shown.
  return all.filter((t) => "anchor" in t || t.said.length > 0 || t.media.length > 0 || t.parts.length > 0);
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (content === undefined || content === null) return "";
  if (Array.isArray(content)) return content.map((c) => (nameOf(c) ? "" : textOf((c as any)?.text ?? c))).filter((t) => t !== "").join("\n\n");
  return JSON.stringify(content);
}

/** Names what a message has beside words, as people call it. */
export function mediaOf(content: unknown): string[] {
  return Array.isArray(content) ? content.map(nameOf).filter((name) => name !== "") : [];
}

function nameOf(part: any): string {
  switch (part?.type) {
    case "image_url": return "an image";
    case "input_audio": return "a sound";
    case "video_url": return "a video";
    case "file": return typeof part.file?.filename === "string" && part.file.filename !== "" ? part.file.filename : "a file";
  }
  return "";
}

// The facts that the server writes before a message, with its date as the last one, and what it could not attach.
const facts = /^(?:[^\n:]+: [^\n]*\n)*date: \d{4}-\d\d-\d\dT[^\n]*\n(?:not attached: [^\n]*\n)?\n/;

/** Returns the words of a user's message, without the facts that the server has written before them for the model. */
export function withoutFacts(text: string): string {
  return text.replace(facts, "").trim();
}

/** Returns the name of a session in a list. A message without words gives a session facts for a title, or nothing. */
export function titleOf(session: { id: string; title: string }): string {
  if (/(?:^|\s)date: \d{4}-\d\d-\d\dT/.test(session.title)) return "A message without words";
  return session.title || session.id;
}
