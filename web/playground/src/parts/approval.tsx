import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ask } from "../api.js";
import { sentence } from "../failure.js";
import { duration, useTick } from "../ui.js";
import { JSONValue } from "./json.js";
import { visible } from "./text.js";

export type Decision = "approve" | "deny";

/** The data of an `approval_required` event. */
export interface Question {
  id: string;
  /** The model's id of the call, which it repeats. */
  call: string;
  /** The call whose subagent makes this one. */
  subagent?: string;
  tool: string;
  arguments: unknown;
  /** The server stopped while the tool ran: the question is whether it runs once more. */
  repeat?: boolean;
  /** Until when the call waits. */
  expires?: string;
}

/** What a decision is given to: a run of the client's, or its id. */
export type Approver = string | { approve(id: string, decision: Decision, more?: { reason?: string; remember?: "session" }): Promise<void> };

export interface ApprovalProps {
  run: Approver;
  question: Question;
  /** The answer was taken; undefined where it came too late, or somebody else was first. */
  onDone: (decision: Decision | undefined) => void;
}

/** Asks whether a call of a tool may run. */
export function Approval({ run, question, onDone }: ApprovalProps) {
  const { call, subagent, tool } = question;
  const id = useId();
  const [reason, setReason] = useState("");
  const [remember, setRemember] = useState(false);
  const [sent, setSent] = useState<Decision | undefined>();
  const [wrong, setWrong] = useState<{ text: string; over: boolean } | undefined>();
  const box = useRef<HTMLElement>(null);
  const came = useRef(Date.now());
  const mounted = useRef(true);
  useEffect(() => () => void (mounted.current = false), []);
  // The keyboard is at the decision, and at the one that does no harm. Somebody who is typing goes on.
  useEffect(() => {
    if (busy(document.activeElement)) box.current!.scrollIntoView({ block: "nearest" });
    else box.current!.querySelector<HTMLElement>(".approval-deny")!.focus();
  }, []);

  const decide = async (decision: Decision, e: MouseEvent): Promise<void> => {
    if (e.detail === 0 && Date.now() - came.current < settle) return; // a key that was meant for what was here before
    setSent(decision);
    setWrong(undefined);
    const more = decision === "deny" ? (reason.trim() ? { reason: reason.trim() } : {}) : remember ? { remember: "session" as const } : {};
    try {
      if (typeof run === "string") await ask(`/v1/runs/${encodeURIComponent(run)}/approvals/${encodeURIComponent(question.id)}`, { decision, ...more });
      else await run.approve(question.id, decision, more);
      onDone(decision);
    } catch (error) {
      if (!mounted.current) return;
      setSent(undefined);
      setWrong(said(error as { code?: string; message?: string }));
    }
  };

  return (
    <section class="approval" aria-labelledby={`${id}-title`} ref={box}>
      <header>
        <h2 id={`${id}-title`}>
          May <code>{visible(tool)}</code> run{question.repeat && " once more"}?
        </h2>
        {question.expires && <Countdown expires={question.expires} />}
      </header>
      <p class="approval-call">
        Call <code>{visible(call)}</code>
        {subagent && (
          <>
            {" "}
            of a subagent, which the call <code>{visible(subagent)}</code> has started
          </>
        )}
      </p>
      {question.repeat && <p>The server stopped while this tool ran, so the call may have had its effect.</p>}
      {empty(question.arguments) ? <p class="approval-none">The call has no arguments.</p> : <JSONValue value={question.arguments} label={`Arguments of ${tool}`} />}
      <dl>
        <div>
          <dt>Allow</dt>
          <dd>The tool runs once, with exactly these arguments, and the model continues with the result.</dd>
        </div>
        <div>
          <dt>Deny</dt>
          <dd>The tool does not run. The model learns this and continues.</dd>
        </div>
      </dl>
      {!question.repeat && (
        <label class="approval-check">
          <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} />
          <span>
            If allowed, do not ask again for <code>{visible(tool)}</code> in this session
          </span>
        </label>
      )}
      <label class="approval-reason">
        <span>Reason for a denial (the model reads it)</span>
        <input type="text" value={reason} maxLength={300} dir="auto" autocomplete="off" onInput={(e) => setReason(e.currentTarget.value)} />
      </label>
      <div class="approval-foot">
        <div class="approval-choice">
          <button type="button" class="approval-allow" disabled={sent !== undefined} onClick={(e) => void decide("approve", e)}>
            {sent === "approve" ? "Allowing …" : "Allow"}
          </button>
          <button type="button" class="approval-deny" disabled={sent !== undefined} onClick={(e) => void decide("deny", e)}>
            {sent === "deny" ? "Denying …" : "Deny"}
          </button>
        </div>
        <div role="alert">
          {wrong && (
            <p class="approval-wrong">
              {wrong.text}{" "}
              {wrong.over && (
                <button type="button" class="part-quiet" onClick={() => onDone(undefined)}>
                  Close
                </button>
              )}
            </p>
          )}
        </div>
      </div>
    </section>
  );
}

/** How long after the question has come a key is not yet meant for it, in ms. */
const settle = 500;

// Whether somebody is typing there, or is about to.
function busy(at: Element | null): boolean {
  if (at instanceof HTMLTextAreaElement || (at instanceof HTMLInputElement && at.type !== "checkbox" && at.type !== "radio")) return at.value !== "" || at.closest(".approval") !== null;
  return at !== null && at.closest(".approval") !== null;
}

function empty(args: unknown): boolean {
  return args === undefined || args === null || (typeof args === "object" && Object.keys(args).length === 0);
}

function said(error: { code?: string; message?: string }): { text: string; over: boolean } {
  switch (error.code) {
    case "conflict":
      return { text: "This call was answered before or has expired. The first answer counts.", over: true };
    case "not_found":
      return { text: "This call no longer waits: its run has continued or ended.", over: true };
    case "gone":
      return { text: "The server no longer stores this run.", over: true };
    case "unreachable":
      return { text: "The server cannot be reached. The call still waits; try again.", over: false };
  }
  return { text: sentence(error.message ?? "the server did not accept the answer"), over: false };
}

// How much time is left. The server's clock decides, so that what is over here can still be answered.
function Countdown({ expires }: { expires: string }) {
  const end = Date.parse(expires);
  const now = useTick(1000, true);
  if (!Number.isFinite(end)) return null;
  const left = Math.max(0, end - now);
  return (
    <p class="approval-time">
      <span aria-hidden="true">{left > 0 ? `${clock(left)} left` : "Time is over"}</span>
      <span class="sr">
        Waits until <time dateTime={expires}>{new Date(end).toLocaleTimeString()}</time>. No answer is a denial.
      </span>
    </p>
  );
}

function clock(ms: number): string {
  const s = Math.ceil(ms / 1000);
  return s < 3600 ? `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}` : duration(ms);
}
