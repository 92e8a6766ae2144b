// What the server tells that is no run: JSON, and problem documents where it does not. A server that asks for a key gets the one that
// somebody has typed in; it is kept as long as the tab.

import { signal } from "@preact/signals";
import { keep, kept } from "./storage.js";

export interface Graph {
  bots: { name: string; root: string; format: string; model?: string; on?: Trigger | Trigger[]; after?: string[] }[];
  events?: { name: string; on: Trigger | Trigger[] }[];
}

export type Trigger = Partial<Record<"string" | "object" | "value" | "error", string> & Record<"done" | "completed", string | string[]>>;

export interface Workflow {
  name: string;
  description?: string;
  model?: string;
  input: any; // JSON Schema
  graph?: Graph;
}

export interface Agent {
  name: string;
  default?: boolean;
  workflow?: string;
}

export interface Model {
  id: string;
  owned_by: string;
  default?: boolean;
}

export interface Session {
  id: string;
  title: string;
  agent?: string; // of its newest turn
  updated: string;
  counts: { entries: number; anchors: number };
}

export interface Entry {
  id: number;
  kind: string;
  payload: any;
  meta: { turn?: string; [name: string]: unknown };
  date: string;
}

export interface Misfit {
  pointer?: string;
  parameter?: string;
  header?: string;
  detail: string;
}

/** Why the server did not do what it was asked for; `unreachable` where it did not answer at all. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
    readonly errors: Misfit[] = [],
    readonly retryAfter?: number,
    readonly id?: string,
  ) {
    super(message);
  }
}

export const key = signal<string | undefined>(kept<string>("session", "key"));
/** Why the server lets nobody in who has this key, or none. */
export const locked = signal<Problem | undefined>(undefined);

/** Takes another key from now on; none is sent where there is none. */
export function setKey(to: string | undefined): void {
  key.value = to;
  keep("session", "key", to);
}

/** A fetch that says who asks. */
export async function call(url: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const mine = key.peek();
  const headers = new Headers(init.headers);
  if (mine !== undefined) headers.set("Authorization", "Bearer " + mine);
  const answer = await fetch(url, { ...init, headers });
  if (answer.status === 401 && key.peek() === mine) locked.value = await problem(answer.clone());
  return answer;
}

/** Asks the server; a body is posted as JSON. Returns the parsed answer, undefined where it has none. Throws a {@link Problem}. */
export async function ask<T>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST", headers: Record<string, string> = {}, onAnswer?: (answer: Response) => void): Promise<T> {
  let answer: Response;
  try {
    answer = await call(path, {
      method,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw unreachable();
  }
  if (!answer.ok) throw await problem(answer);
  onAnswer?.(answer);
  return (await json(answer)) as T;
}

const unreachable = () => new Problem("unreachable", "the server cannot be reached");

async function json(answer: Response): Promise<any> {
  let text: string;
  try {
    text = await answer.text();
  } catch {
    throw unreachable();
  }
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    return undefined; // a proxy's page, say
  }
}

/** Reads why the server did not do what it was asked for. */
export async function problem(answer: Response): Promise<Problem> {
  const value = await json(answer);
  return new Problem(
    value?.code ?? value?.error?.code ?? (answer.status >= 500 ? "unreachable" : "protocol"),
    value?.detail ?? value?.error?.message ?? `the server answered with status ${answer.status}`,
    answer.status,
    value?.errors,
    Number(answer.headers.get("Retry-After")) || undefined,
    value?.id,
  );
}
