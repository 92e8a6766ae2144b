// What went wrong, as a person would want to read it.

import type { ComponentChildren } from "preact";
import type { Misfit } from "./api.js";
import { useTick } from "./ui.js";

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
  invalid_request: "This does not fit",
  unauthorized: "The server wants to know who you are",
  forbidden: "Not allowed",
  not_found: "Not there",
  gone: "The server does not keep this run any more",
  conflict: "This cannot be done now",
  too_large: "Too much at once",
  rate_limited: "Too many requests",
  budget_exceeded: "The limit of cost is reached",
  upstream_auth: "The model’s server has refused the key",
  upstream_rate_limited: "The model’s server has too much to do",
  upstream_unavailable: "The model’s server was not reached",
  upstream_timeout: "The model took too long",
  upstream_protocol: "The model’s server broke off",
  output_invalid: "The model wrote something that cannot be read",
  busy: "This is enough for now",
  overloaded: "The server has too much to do",
  draining: "The server is shutting down",
  internal: "Something went wrong in the server",
  interrupted: "The server was restarted in the middle of this run",
  canceled: "Canceled",
  unreachable: "The server cannot be reached",
  protocol: "The answer is not what was expected",
  closed: "Not followed any more",
};

const advice: Record<string, string> = {
  gone: "Runs can be read for some minutes after their end. What was said in a session is on its tape.",
  upstream_auth: "Check the provider’s key in the server’s configuration.",
};

/** What of an error belongs to which field: pointers into the request become pointers into the form at `below`. */
export function fieldErrors(errors: Misfit[] | undefined, below: string): { pointer: string; detail: string }[] {
  return (errors ?? [])
    .filter((e) => e.pointer !== undefined && (e.pointer === below || e.pointer.startsWith(below + "/")))
    .map((e) => ({ pointer: e.pointer!.slice(below.length), detail: e.detail }));
}

/** A box that tells of an error. `again` offers another try, as soon as that is worth it. */
export function FailureBox({ failure, again, children }: { failure: Failure; again?: () => void; children?: ComponentChildren }) {
  const until = failure.retryAfter ? failure.retryAfter * 1000 : 0;
  return (
    <div class="failure" role="alert">
      <p class="failure-title">
        {titles[failure.code] ?? "It has failed"}
        <code class="code">{failure.code}{failure.status ? ` · ${failure.status}` : ""}</code>
      </p>
      {failure.code !== "interrupted" && <p>{sentence(failure.message)}{failure.bot && <> The bot is <code>{failure.bot}</code>.</>}</p>}
      {advice[failure.code] && <p class="quiet">{advice[failure.code]}</p>}
      {failure.id && <p class="quiet">The server’s log says more under <code>{failure.id}</code>.</p>}
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
