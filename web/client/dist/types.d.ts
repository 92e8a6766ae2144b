import type { JSONValue } from "./fold.js";
/** What to run: the members of `POST /v1/runs`, see docs/protocol.md. */
export interface RunRequest {
    workflow?: string | object;
    agent?: string;
    input?: unknown;
    /** Images and files beside the input: parts, such as `{type: "file", file_id}` of an uploaded file. */
    files?: object[];
    session?: string;
    on_busy?: "queue" | "reject" | "interrupt" | "steer";
    model?: string | string[];
    params?: Record<string, unknown>;
    options?: Record<string, unknown>;
    filter?: {
        include?: string[];
        exclude?: string[];
    };
    /** Whether the server says which values are complete, which is what `done` of a subscription says. True by default. */
    done?: boolean;
    html?: boolean;
    /** `cancel` ends the run with the connection. By default it goes on, and can be attached to again. */
    on_disconnect?: "continue" | "cancel";
}
/** Something happened at one place of the document. */
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
/** Something beside the document: `started`, `error`, `usage`, `finished`, `canceled`, or an event of the workflow's own. */
export interface NamedEvent {
    id?: string;
    event: string;
    data: any;
}
/** What an answer took: the data of a `usage` event, beside `bot` and `model`; in a run's document by bot. */
export interface Usage {
    /** All of the input, cached tokens included. */
    prompt_tokens: number;
    /** All of the output, reasoning included. */
    completion_tokens: number;
    total_tokens: number;
    /** Of the prompt, read from the provider's cache. */
    cached_tokens?: number;
    /** Of the prompt, written to it. */
    cache_write_tokens?: number;
    /** Of the completion. */
    reasoning_tokens?: number;
    /** Of both. */
    audio_tokens?: number;
    /** In millionths of a US dollar; absent where the price is not known. */
    cost?: number;
}
/** One event of a run. Ask `"delta" in e` or `"event" in e` which it is. */
export type RunEvent = DeltaEvent | DoneEvent | NamedEvent;
/** How a run stands. `lost` is one that could not be followed to its end, or was never started. */
export type RunStatus = "running" | "completed" | "failed" | "interrupted" | "canceled" | "lost";
/** What `EventSource` is needed for here; the browser's is one. */
export interface EventSourceLike {
    readyState: number;
    addEventListener(name: string, listener: (event: any) => void): void;
    close(): void;
}
export interface RunOptions {
    /**
     * `fetch`, the default, posts the request. `eventsource` asks by GET and leaves reconnecting to the browser: no headers, a
     * request that fits into a URL, and only those events of the workflow's own that `events` names.
     */
    transport?: "fetch" | "eventsource";
    /** Headers of every request, or what makes them: asked anew for each connection, so that a token can be renewed. */
    headers?: HeadersInit | (() => HeadersInit | Promise<HeadersInit>);
    /** For `eventsource`, which sends no headers: gets a ticket of `POST /v1/tickets` for each connection, from a server of yours that has the key. */
    ticket?: () => Promise<string>;
    credentials?: RequestCredentials;
    /** Stops following, as `close` does. */
    signal?: AbortSignal;
    /** The Idempotency-Key: the same request under the same key is the same run. A random one by default. */
    key?: string;
    /** Shows text at an even pace, at most so many ms behind what has come; `true` is 300. The end is never delayed. */
    smooth?: boolean | number;
    /** How often in a row it tries to connect again before it gives up, 10 by default. */
    retries?: number;
    /** Called when the connection is lost, or was not made, with the ms after which it is tried again. */
    waiting?: (ms: number) => void;
    /** After so many ms without a byte the connection is taken for dead, 45 000 by default; a server sends some every 10 s. */
    idle?: number;
    /** Names of the workflow's own events, for `eventsource`. */
    events?: string[];
    fetch?: typeof fetch;
    EventSource?: new (url: string, init?: {
        withCredentials?: boolean;
    }) => EventSourceLike;
}
/** Why a run has not completed. */
export declare class RunError extends Error {
    name: string;
    /** One of docs/protocol.md's codes, or `unreachable`, `protocol`, `closed`, `interrupted`, `canceled`. */
    readonly code: string;
    /** The run's id, where it has one, and what it had made. */
    readonly run?: string;
    readonly document?: unknown;
    /** HTTP status of a refused request. */
    readonly status?: number;
    readonly retryable?: boolean;
    /** Seconds after which it is worth another try. */
    readonly retryAfter?: number;
    /** What of the request does not fit. */
    readonly errors?: {
        pointer?: string;
        parameter?: string;
        header?: string;
        detail: string;
    }[];
    constructor(code: string, message: string, more?: Partial<RunError> & ErrorOptions);
}
