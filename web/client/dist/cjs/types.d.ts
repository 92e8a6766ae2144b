import type { JSONValue } from "./fold.js";
/** An image, a sound or a file beside the input: one that was uploaded, or its data as a `data:` URL. */
export type MediaPart = {
    type: "file" | "image";
    file_id: string;
} | {
    type: "file";
    file: {
        filename?: string;
        file_data: string;
    } | {
        filename?: string;
        file_id: string;
    };
} | {
    type: "image_url";
    image_url: string | {
        url: string;
    };
} | {
    type: "input_audio";
    input_audio: {
        data: string;
        format: string;
    };
};
/** What the models are asked for, in place of what the server is configured with. */
export interface ModelOptions {
    temperature?: number;
    top_p?: number;
    max_tokens?: number;
    seed?: number;
    frequency_penalty?: number;
    presence_penalty?: number;
    reasoning?: {
        effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
        budget?: number;
        show?: boolean;
    };
    verbosity?: "low" | "medium" | "high";
    /** `auto`, `none`, `required`, or the name of a tool. */
    tool_choice?: string;
    parallel_tool_calls?: boolean;
    service_tier?: string;
    stop?: string | string[];
}
/** The members that every request may have. */
export interface CommonRequest {
    files?: MediaPart[];
    session?: string;
    on_busy?: "queue" | "reject" | "interrupt" | "steer";
    options?: ModelOptions;
    filter?: {
        include?: string[];
        exclude?: string[];
    };
    /** Whether the server says which values are complete, which is what `done` of a subscription says. True by default. */
    done?: boolean;
    html?: boolean;
    /** `cancel` ends the run with the connection. By default the run goes on, and you can attach to it again. */
    on_disconnect?: "continue" | "cancel";
}
/** Runs a workflow: one that the server has, by its name, or one of your own where the server takes those. */
export interface WorkflowRequest extends CommonRequest {
    workflow: string | object;
    agent?: undefined;
    /** As the workflow's schema says. */
    input?: unknown;
    model?: string | string[];
    /** Values for the variables of the prompts. */
    params?: Record<string, unknown>;
}
/** Says something to an agent. */
export interface AgentRequest extends CommonRequest {
    agent: string;
    workflow?: undefined;
    input?: string | ({
        type: "text";
        text: string;
    } | MediaPart)[];
    model?: undefined;
    params?: undefined;
}
/** What to run: the members of `POST /v1/runs`, see docs/protocol.md. */
export type RunRequest = WorkflowRequest | AgentRequest;
/** A run that was started before. */
export interface StartedRun {
    run: string;
    workflow?: undefined;
    agent?: undefined;
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
/** Something beside the document, as a workflow's own events are: name your own as the type parameter `E` of a run. */
export interface NamedEvent {
    id?: string;
    event: string;
    data: unknown;
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
/** The data of the server's own events, by name. */
export interface EventData {
    started: {
        run: string;
        workflow?: string;
        agent?: string;
        session?: string;
        model?: string;
    };
    usage: {
        bot: string;
        model: string;
    } & Partial<Usage>;
    /** Something failed. The run ends for it only where it is `fatal`; where it is `handled`, something else does the work of the bot. */
    error: {
        code: string;
        message: string;
        bot?: string;
        pointer?: string;
        retryable: boolean;
        fatal: boolean;
        handled?: boolean;
        retry_after?: number;
    };
    finished: {
        status: "completed" | "failed" | "interrupted";
    };
    canceled: {
        reason?: string;
    };
    queued: {
        position: number;
    };
    waiting: {
        position: number;
        for: "slot" | "session";
        expected?: number;
    };
    approval_required: {
        id: string;
        call: string;
        tool: string;
        arguments: JSONValue;
        expires: string;
        subagent?: string;
    };
    approval_resolved: {
        id: string;
        call: string;
        decision: "approve" | "deny";
        reason?: string;
    };
    handoff: {
        name: string;
    };
    follow_up: {
        run: string;
    };
    warning: {
        code: string;
        message: string;
    };
    html: {
        uri: string;
        path: string;
    } & ({
        type: "open_tag";
        name: string;
        attributes?: Record<string, string>;
    } | {
        type: "text_delta";
        text: string;
    } | {
        type: "close_tag";
        name: string;
    });
}
/** An event of the server's own. Its name says what its data are. */
export type ServerEvent = {
    [Name in keyof EventData]: {
        id?: string;
        event: Name;
        data: EventData[Name];
    };
}[keyof EventData];
/** One event of a run. Ask `"delta" in e` or `"event" in e` which it is. `E` are the events of the workflow's own. */
export type RunEvent<E extends NamedEvent = never> = DeltaEvent | DoneEvent | ServerEvent | E;
type IsAny<T> = 0 extends 1 & T ? true : false;
/** A value of type `T` while it is written: a text is not all there, members are missing, and what is written anew is null until then. */
export type Growing<T> = IsAny<T> extends true ? T : unknown extends T ? T : JSONValue extends T ? T : T extends string ? string : T extends readonly unknown[] ? (Growing<T[number]> | null)[] : T extends object ? {
    [K in keyof T]?: Growing<T[K]> | null;
} : T;
/** The values in a document of type `T` at which a pattern such as `article/sections/*\/title` leads; never where there is no such place. */
export type ValueAt<T, Pattern extends string> = IsAny<T> extends true ? T : JSONValue extends T ? JSONValue : string extends Pattern ? JSONValue : Pattern extends "" ? T : Pattern extends `${string}**${string}` | `${string}\\${string}` | `$${string}` | `${string}/$${string}` ? JSONValue : Pattern extends `${infer Key}/${infer Rest}` ? ValueAt<Member<T, Key>, Rest> : Member<T, Pattern>;
type Member<T, Key extends string> = T extends readonly (infer Element)[] ? (Key extends "*" | `${number}` ? Element : never) : T extends object ? (Key extends "*" ? Exclude<T[keyof T], undefined> : Key extends keyof T ? Exclude<T[Key], undefined> : Key extends `${infer N extends number}` ? (N extends keyof T ? Exclude<T[N], undefined> : never) : never) : never;
/** A pattern that leads somewhere in a document of type `T`. */
export type PatternIn<T, Pattern extends string> = [ValueAt<T, Pattern>] extends [never] ? never : Pattern;
/** How a run stands. `lost` is one that could not be followed to its end, or was never started. */
export type RunStatus = "running" | "completed" | "failed" | "interrupted" | "canceled" | "lost";
/** What `EventSource` is needed for here; the browser's is one. */
export interface EventSourceLike {
    readyState: number;
    addEventListener(name: string, listener: (event: {
        data?: unknown;
        lastEventId: string;
    }) => void): void;
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
    /** After so many ms without a byte the connection counts as dead. By default 2.5 times the server's `http.keepalive`, which is 25 000. */
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
export {};
