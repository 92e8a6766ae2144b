import type { JSONValue } from "./fold.js";

/** An image, audio or another file beside the input: an uploaded file, or its data as a `data:` URL. */
export type MediaPart =
  | { type: "file" | "image"; file_id: string }
  | { type: "file"; file: { filename?: string; file_data: string } | { filename?: string; file_id: string } }
  | { type: "image_url"; image_url: string | { url: string } }
  | { type: "input_audio"; input_audio: { data: string; format: string } };

/** Options of the models. They replace the configured ones. */
export interface ModelOptions {
  temperature?: number;
  top_p?: number;
  max_tokens?: number;
  seed?: number;
  frequency_penalty?: number;
  presence_penalty?: number;
  reasoning?: { effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max"; budget?: number; show?: boolean };
  verbosity?: "low" | "medium" | "high";
  /** `auto`, `none`, `required`, or the name of a tool. */
  tool_choice?: string;
  parallel_tool_calls?: boolean;
  service_tier?: string;
  stop?: string | string[];
}

/** The members of every request. */
export interface CommonRequest {
  files?: MediaPart[];
  session?: string;
  on_busy?: "queue" | "reject" | "interrupt" | "steer";
  options?: ModelOptions;
  filter?: { include?: string[]; exclude?: string[] };
  /** Whether the server reports complete values, which `done` of a subscription needs. The default is true. */
  done?: boolean;
  html?: boolean;
  /** `cancel` cancels the run when the connection closes. By default the run continues, and you can attach to it again. */
  on_disconnect?: "continue" | "cancel";
}

/** Runs a workflow of the server, by its name, or a whole workflow if the server's configuration allows it. */
export interface WorkflowRequest extends CommonRequest {
  workflow: string | object;
  agent?: undefined;
  /** The input, as the schema of the workflow says. */
  input?: unknown;
  model?: string | string[];
  /** Values for the variables of the prompts. */
  params?: Record<string, unknown>;
}

/** Sends a message to an agent. */
export interface AgentRequest extends CommonRequest {
  agent: string;
  workflow?: undefined;
  input?: string | ({ type: "text"; text: string } | MediaPart)[];
  model?: undefined;
  params?: undefined;
}

/** What to run: the body of `POST /v1/runs`, see docs/protocol.md. */
export type RunRequest = WorkflowRequest | AgentRequest;

/** A run that exists already. */
export interface StartedRun {
  run: string;
  workflow?: undefined;
  agent?: undefined;
}

/** A change of the document. */
export interface DeltaEvent {
  id?: string;
  uri: string;
  delta: JSONValue;
}

/** The value at `uri` is complete. */
export interface DoneEvent {
  id?: string;
  uri: string;
  done: true;
}

/** An event that is not part of the document. For the events of your workflow, use the type parameter `E` of a run. */
export interface NamedEvent {
  id?: string;
  event: string;
  data: unknown;
}

/** The tokens and the cost of an answer: the data of a `usage` event, and a member of the run's document for each bot. */
export interface Usage {
  /** All of the input, cached tokens included. */
  prompt_tokens: number;
  /** All of the output, reasoning included. */
  completion_tokens: number;
  total_tokens: number;
  /** Prompt tokens that the provider read from its cache. */
  cached_tokens?: number;
  /** Prompt tokens that the provider wrote to its cache. */
  cache_write_tokens?: number;
  /** Completion tokens of the reasoning. */
  reasoning_tokens?: number;
  /** Audio tokens of the prompt and the completion. */
  audio_tokens?: number;
  /** In millionths of a US dollar; missing if the price is not known. */
  cost?: number;
}

/** The data of the events that the server defines, by name. */
export interface EventData {
  started: { run: string; workflow?: string; agent?: string; session?: string; model?: string };
  /** A bot of a workflow started or ended. */
  bot: { bot: string; root: string; state: "started" | "finished" | "failed" };
  usage: { bot: string; model: string } & Partial<Usage>;
  /** Something failed. The run ends only if the error is `fatal`. If it is `failed`, the bot failed; if it is `handled`, another bot replaces that one. */
  error: { id?: string; code: string; message: string; bot?: string; pointer?: string; retryable: boolean; fatal: boolean; failed?: boolean; handled?: boolean; filtered?: boolean; retry_after?: number };
  /** The server was lost, and the run goes on at the next one. These bots begin again, and the values at these uris become null behind this event. */
  restarted: { attempt: number; bots: { bot: string; root: string }[]; parts: string[] };
  finished: { status: "completed" | "failed" | "interrupted" };
  canceled: { reason?: string };
  queued: { position: number };
  waiting: { position: number; for: "slot" | "session"; expected?: number };
  /** A model failed, and the server pauses before it asks it once more. */
  retrying: { bot: string; reason: string; seconds: number; attempt: number; of: number };
  /** A tool waits for approval; with `repeat`, because the server stopped while it ran. */
  approval_required: { id: string; call: string; tool: string; arguments: JSONValue; expires: string; subagent?: string; repeat?: boolean };
  approval_resolved: { id: string; call: string; decision: "approve" | "deny"; reason?: string; by?: string; remember?: "session"; subagent?: string };
  handoff: { name: string };
  follow_up: { run: string };
  warning: { code: string; message: string; bot?: string };
  html: { uri: string; path: string } & (
    | { type: "open_tag"; name: string; attributes?: Record<string, string> }
    | { type: "text_delta"; text: string }
    | { type: "close_tag"; name: string }
  );
}

/** An event that the server defines. Its name determines the type of its data. */
export type ServerEvent = { [Name in keyof EventData]: { id?: string; event: Name; data: EventData[Name] } }[keyof EventData];

/** One event of a run. Tell them apart with `"delta" in e` and `"event" in e`. `E` has the events that the workflow defines. */
export type RunEvent<E extends NamedEvent = never> = DeltaEvent | DoneEvent | ServerEvent | E;

type IsAny<T> = 0 extends 1 & T ? true : false;

/** A value of type `T` while it grows: strings are incomplete, members are missing, and a value that is replaced is null in between. */
export type Growing<T> =
  IsAny<T> extends true ? T
  : unknown extends T ? T
  : JSONValue extends T ? T
  : T extends string ? string
  : T extends readonly unknown[] ? (Growing<T[number]> | null)[]
  : T extends object ? { [K in keyof T]?: Growing<T[K]> | null }
  : T;

/** The type of the values in a document of type `T` that match a pattern such as `article/sections/*\/title`; `never` if none can match. */
export type ValueAt<T, Pattern extends string> =
  IsAny<T> extends true ? T
  : JSONValue extends T ? JSONValue
  : string extends Pattern ? JSONValue
  : Pattern extends "" ? T
  : Pattern extends `${string}**${string}` | `${string}\\${string}` | `$${string}` | `${string}/$${string}` ? JSONValue
  : Pattern extends `${infer Key}/${infer Rest}` ? ValueAt<Member<T, Key>, Rest>
  : Member<T, Pattern>;

// What a container has at a key. A key of a member that may be missing is one, too.
type Member<T, Key extends string> =
  T extends readonly (infer Element)[] ? (Key extends "*" | `${number}` ? Element : never)
  : T extends object ? (Key extends "*" ? Exclude<T[keyof T], undefined> : Key extends keyof T ? Exclude<T[Key], undefined> : Key extends `${infer N extends number}` ? (N extends keyof T ? Exclude<T[N], undefined> : never) : never)
  : never;

/** A pattern that can match in a document of type `T`. */
export type PatternIn<T, Pattern extends string> = [ValueAt<T, Pattern>] extends [never] ? never : Pattern;

/** The status of a run. `lost` means that the client could not start the run, or could not follow it to its end. */
export type RunStatus = "running" | "completed" | "failed" | "interrupted" | "canceled" | "lost";

/** The part of `EventSource` that the client uses. */
export interface EventSourceLike {
  readyState: number;
  addEventListener(name: string, listener: (event: { data?: unknown; lastEventId: string }) => void): void;
  close(): void;
}

export interface RunOptions {
  /**
   * `fetch`, the default, sends POST. `eventsource` sends GET and lets the browser reconnect: it sends no headers, needs a
   * request that fits into a URL, and sees only those events of the workflow that `events` names.
   */
  transport?: "fetch" | "eventsource";
  /** The headers of each request, or a function that returns them. The client calls it for each connection, so you can renew a token. */
  headers?: HeadersInit | (() => HeadersInit | Promise<HeadersInit>);
  /** For `eventsource`, which sends no headers: returns a ticket for each connection. Your own server has the key and gets the ticket with `POST /v1/tickets`. */
  ticket?: () => Promise<string>;
  credentials?: RequestCredentials;
  /** Stops following, as `close` does. */
  signal?: AbortSignal;
  /** The Idempotency-Key: the same request with the same key is the same run. The default is random. */
  key?: string;
  /** Shows text at an even pace, with a delay of at most this many ms; `true` is 300. It never delays the end. */
  smooth?: boolean | number;
  /** The number of retries in a row before the client gives up; 10 by default. */
  retries?: number;
  /** Called when a connection breaks or fails, with the ms until the retry. */
  waiting?: (ms: number) => void;
  /** The timeout of a connection without data, in ms. The default is 2.5 times the server's `http.keepalive`: 25 000. */
  idle?: number;
  /** The names of the workflow's events, for `eventsource`. */
  events?: string[];
  fetch?: typeof fetch;
  EventSource?: new (url: string, init?: { withCredentials?: boolean }) => EventSourceLike;
}

/** The reason why a run did not complete. */
export class RunError extends Error {
  override name = "RunError";
  /** One of docs/protocol.md's codes, or `unreachable`, `protocol`, `closed`, `interrupted`, `canceled`. */
  readonly code: string;
  /** The id of the run, if it has one, and the document so far. */
  declare readonly run?: string;
  declare readonly document?: unknown;
  /** The HTTP status of a refused request. */
  declare readonly status?: number;
  declare readonly retryable?: boolean;
  /** The number of seconds to wait before a retry. */
  declare readonly retryAfter?: number;
  /** The parts of the request that are not valid. */
  declare readonly errors?: { pointer?: string; parameter?: string; header?: string; detail: string }[];

  constructor(code: string, message: string, more?: Partial<RunError> & ErrorOptions) {
    super(message, more?.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    Object.assign(this, more);
  }
}
