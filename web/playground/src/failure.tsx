// What went wrong, as a person would want to read it.

import type { ComponentChildren } from "preact";
import type { Misfit } from "./api.js";
import { size, useTick } from "./ui.js";

/** What a {@link RunError}, a {@link Problem} and the data of an `error` event have in common. */
export interface Failure {
  code: string;
  message: string;
  bot?: string;
  status?: number;
  errors?: Misfit[];
  retryAfter?: number;
  retryable?: boolean;
  id?: string;
}

const titles: Record<string, string> = {
  invalid_request: "The request is not valid",
  unauthorized: "The server needs an API key",
  forbidden: "Not allowed",
  not_found: "Not found",
  gone: "The server no longer stores this run",
  conflict: "This is not possible now",
  too_large: "The request is too large",
  rate_limited: "Too many requests",
  budget_exceeded: "The cost limit is reached",
  upstream_auth: "The model’s server refused the key",
  upstream_rate_limited: "The model’s server limits the rate",
  upstream_unavailable: "The model’s server is not available",
  upstream_timeout: "The model took too long",
  upstream_protocol: "The model’s server sent no usable answer",
  output_invalid: "The output of the model is not valid",
  busy: "Wait for the next answer",
  overloaded: "The server is overloaded",
  draining: "The server is shutting down",
  internal: "The server has an internal error",
  interrupted: "A restart of the server interrupted this run",
  crashed: "The run does not continue",
  canceled: "Canceled",
  unreachable: "The server cannot be reached",
  protocol: "Unexpected answer",
  closed: "No longer followed",
};

/**
 * Returns the sentence below a failure's title: what the title does not say. It is undefined if the server's message says the same as
 * the title, or if the id leads to the details.
 */
export function detailOf({ code, message, id }: Failure): string | undefined {
  if (code === "gone") return "The server stores a run for some minutes after its end. The tape of a session keeps its messages.";
  if (code === "interrupted" || id) return undefined;
  const words = (text: string): string => text.toLowerCase().replace(/[’']/g, "'").replace(/[.!…\s]+$/, "").trim();
  return words(message) === words(titles[code] ?? "") ? undefined : withSizes(sentence(message)) || undefined;
}

/** Writes numbers of bytes in a text as people read them. */
export function withSizes(text: string): string {
  return text.replace(/\b(\d+) bytes?\b/g, (_, n: string) => size(Number(n)));
}

/** What of an error belongs to which field: pointers into the request become pointers into the form at `below`. */
export function fieldErrors(errors: Misfit[] | undefined, below: string): { pointer: string; detail: string }[] {
  return (errors ?? [])
    .filter((e) => e.pointer !== undefined && (e.pointer === below || e.pointer.startsWith(below + "/")))
    .map((e) => ({ pointer: e.pointer!.slice(below.length), detail: e.detail }));
}

/** A box that tells of an error. `again` offers another try, as soon as that is worth it. */
export function FailureBox({ failure, again, children }: { failure: Failure; again?: () => void; children?: ComponentChildren }) {
  const until = failure.retryAfter ? failure.retryAfter * 1000 : 0;
  const detail = detailOf(failure);
  return (
    <div class="failure" role="alert">
      <p class="failure-title">
        {titles[failure.code] ?? "Failed"}
        <code class="code">{failure.code}{failure.status ? ` · ${failure.status}` : ""}</code>
        {failure.bot && <span class="failure-bot">Bot <code>{failure.bot}</code></span>}
      </p>
      {detail && <p>{detail}</p>}
      {failure.id && <p class="quiet">Find the details in the server’s log: <code>{failure.id}</code>.</p>}
      {children}
      {again && <Again key={failure.message} ms={until} again={again} />}
    </div>
  );
}

function Again({ ms, again }: { ms: number; again: () => void }) {
  const began = useTick(250, false);
  const now = useTick(250, ms > 0);
  const left = Math.max(0, Math.ceil((began + ms - now) / 1000));
  return (
    <button type="button" class="button" disabled={left > 0} onClick={again}>
      {left > 0 ? `Try again in ${left} s` : "Try again"}
    </button>
  );
}

/** A server's message as a sentence. */
export function sentence(text: string): string {
  const clean = text.trim();
  if (clean === "") return "";
  // A pointer or a name in front stays as it is.
  const upper = /^[a-z]+[\s,;:']/.test(clean) ? clean[0].toUpperCase() + clean.slice(1) : clean;
  return /[.!?…]$/.test(upper) ? upper : upper + ".";
}
