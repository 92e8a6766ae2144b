// A workflow: what it is asked, and the document that it makes.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RunRequest } from "../../client/src/index.js";
import type { Workflow } from "./api.js";
import type { Live } from "./live.js";
import { ModelChoice, MoreOptions, noChoices, requestOf, type Choices } from "./options.js";
import { CopyButton } from "./parts/copy.js";
import { SchemaForm } from "./parts/schema-form.js";
import { Beside, BotStrip, Document, pretty, Questions, RunBar, RunFailure, Waiting } from "./run.js";
import { catalog, live, start } from "./store.js";
import { useCancel } from "./cancel.js";
import { keep, kept } from "./storage.js";
import { useTick } from "./ui.js";

// What stands in the form of each workflow, for as long as the tab is open.
interface Draft {
  input: any;
  choices: Choices;
}
/** The request that the form would send. */
export const draft = signal<RunRequest | undefined>(undefined);

/** What a form begins with: examples where something is required, so that one can try at once. */
export function exampleOf(schema: any): any {
  if (typeof schema !== "object" || schema === null || schema.type !== "object") return undefined;
  const value: Record<string, unknown> = {};
  const required: string[] = Array.isArray(schema.required) ? schema.required : [];
  for (const [name, member] of Object.entries<any>(schema.properties ?? {})) {
    if (member?.default !== undefined) continue; // it counts where nothing is said
    if (required.includes(name) && Array.isArray(member?.examples)) value[name] = member.examples[0];
  }
  return value;
}

export function WorkflowView({ workflow }: { workflow: Workflow }) {
  const [saved] = useState(() => kept<Draft>("session", "draft." + workflow.name));
  const now = live.value;
  const [input, setInput] = useState<any>(saved?.input ?? now?.request?.input ?? exampleOf(workflow.input));
  const [choices, setChoices] = useState<Choices>(saved ? { ...noChoices, ...saved.choices } : noChoices);
  const touched = useRef(saved !== undefined);
  const change = (v: any): void => {
    touched.current = true;
    setInput(v);
  };
  const request: RunRequest = { workflow: workflow.name, input, ...requestOf(choices, false) };
  // At once and not after the next frame, before which the page may be gone.
  useLayoutEffect(() => {
    if (touched.current || choices !== noChoices) keep("session", "draft." + workflow.name, { input, choices } satisfies Draft);
    draft.value = request;
  }, [workflow.name, input, choices]);
  now?.revision.value;
  const errors = now?.over && now.run.error?.errors ? now.run.error.errors : none;
  // A run needs the place more than the form that it was asked with, unless that has to be looked at again.
  const [folded, fold] = useState(now !== undefined);
  useEffect(() => {
    fold(now !== undefined && errors.length === 0);
    if (now?.resumed && now.request && !touched.current) setInput(now.request.input);
  }, [errors, now]);
  const field = useRef<HTMLDivElement>(null);
  const output = useRef<HTMLElement>(null);
  const unfold = (): void => {
    fold(false);
    requestAnimationFrame(() => field.current?.querySelector<HTMLElement>("input, textarea, select")?.focus());
  };
  const last = useRef(0);
  const go = (): void => {
    // A second click of a double one is not another run.
    if (Date.now() - last.current < 500 && live.peek()?.over === false) return;
    last.current = Date.now();
    // The fields go away; who was in one of them goes on at what comes of it.
    if (field.current?.contains(document.activeElement)) output.current?.focus({ preventScroll: true });
    start(request);
    fold(true);
  };
  const latest = useRef(go);
  latest.current = go;
  useEffect(() => {
    const keys = (e: KeyboardEvent): void => {
      if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey) || e.defaultPrevented || e.isComposing || e.repeat) return;
      e.preventDefault();
      latest.current();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const model = choices.model || workflow.model || (catalog.value?.models.find((m) => m.default)?.id ?? "");
  const submit = (e: Event): void => {
    e.preventDefault();
    go();
  };
  return (
    <div class="work">
      <header class="work-head">
        <h1>{workflow.name}</h1>
        {workflow.description && <p>{workflow.description}</p>}
      </header>
      <form class={"compose" + (folded ? " folded" : "")} aria-label={`Input of ${workflow.name}`} noValidate onSubmit={submit}>
        {folded ? <Asked input={now?.request?.input ?? input} model={now?.started?.model ?? choices.model} schema={workflow.input} /> : (
          <div ref={field}><SchemaForm schema={workflow.input ?? {}} value={input} onChange={change} errors={errors} at="/input" idPrefix="input" /></div>
        )}
        <div class="compose-foot">
          {folded ? <button type="button" class="button" onClick={unfold}>Change input</button> : (
            <>
              <ModelChoice choices={choices} onChange={setChoices} models={catalog.value?.models ?? []} usual={workflow.model} errors={errors} />
              <MoreOptions choices={choices} onChange={setChoices} errors={errors} forAgent={false} />
              <span class="grow" />
            </>
          )}
          <button type="submit" class="button primary" onMouseDown={stay} aria-keyshortcuts="Control+Enter Meta+Enter">Run <kbd>{shortcut}</kbd></button>
        </div>
        {!folded && model.startsWith("demo:") && <p class="quiet">The demo model is built in, and its answers are scripted. For real ones, set a provider’s key, such as <code>OPENAI_API_KEY</code>, and start the server again.</p>}
      </form>
      <section class="output" aria-label="Document" ref={output} tabIndex={-1}>
        {now ? <Output live={now} again={() => start(now.request ?? request)} /> : <Nothing />}
      </section>
    </div>
  );
}

const none: never[] = [];

/**
 * Keeps the focus where it is while a button is pressed: a field that says on leaving it what is wrong with it moves the button, and
 * the click would go beside it.
 */
export const stay = (e: Event): void => e.preventDefault();

export const shortcut = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";

// What was asked, in the space of a line or two.
function Asked({ input, model, schema }: { input: unknown; model?: string; schema: any }) {
  const fields = typeof input === "object" && input !== null && !Array.isArray(input) ? Object.entries(input) : [["input", input] as const];
  const titled = (name: string): string => schema?.properties?.[name]?.title ?? name;
  return (
    <dl class="asked">
      {fields.filter(([, v]) => v !== undefined && v !== "").slice(0, 8).map(([name, v]) => (
        <div key={name}><dt>{titled(name)}</dt><dd>{typeof v === "string" ? v.slice(0, 500) : JSON.stringify(v)?.slice(0, 200)}</dd></div>
      ))}
      {model && <div><dt>Model</dt><dd class="mono">{model}</dd></div>}
    </dl>
  );
}

function Nothing() {
  return (
    <div class="empty empty-document">
      <p class="empty-lead">Run it, and the document grows here while the bots write.</p>
      <ol>
        <li>Each piece of text arrives with the place in the document that it belongs to.</li>
        <li>As soon as something is there, the bots that wait for it begin, while the others go on.</li>
        <li>Close the page, or lose the connection: the run goes on, and you come back to where it is.</li>
      </ol>
    </div>
  );
}

function Output({ live, again }: { live: Live; again: () => void }) {
  live.revision.value;
  const [view, show] = useState<"document" | "json">("document");
  const cancel = useCancel(live);
  const value = live.run.document;
  const empty = typeof value === "object" && value !== null && Object.keys(value).length === 0;
  return (
    <>
      <RunBar live={live}>
        {!empty && (
          <fieldset class="segments">
            <legend class="sr">Show it as</legend>
            {(["document", "json"] as const).map((v) => (
              <label key={v}>
                <input type="radio" name="view" checked={view === v} onChange={() => show(v)} />
                <span>{v === "json" ? "JSON" : "Document"}</span>
              </label>
            ))}
          </fieldset>
        )}
        {!live.over && <button type="button" class="button small danger" onClick={cancel.now} disabled={cancel.busy} aria-keyshortcuts="Escape">{cancel.asked ? <>Press Esc again to cancel</> : "Cancel"}</button>}
      </RunBar>
      <BotStrip live={live} />
      <Waiting live={live} />
      {cancel.failed && <p class="notice" role="alert">{cancel.failed}</p>}
      <RunFailure live={live} again={live.run.error?.code === "invalid_request" ? undefined : again} hideFields />
      <Questions live={live} />
      {view === "json" && !empty
        ? <JSONView value={value} />
        : !empty && <Document live={live} />}
      {empty && !live.over && <p class="quiet waits">Nothing yet.</p>}
      {empty && live.over && live.run.status === "completed" && <p class="quiet">It has completed without a document.</p>}
      <Beside live={live} />
      {!live.over && <Elsewhere />}
    </>
  );
}

// Where nothing that is being written can be seen, a way to it.
function Elsewhere() {
  useTick(300, true); // often enough, and no work for each frame
  const ref = useRef<HTMLDivElement>(null);
  const [where, say] = useState<"above" | "below" | undefined>(undefined);
  // What is folded has no place.
  const carets = (): Element[] => Array.from(ref.current!.closest(".output")!.querySelectorAll(".tree-caret, .md-end")).filter((e) => e.getClientRects().length > 0);
  const look = (): void => {
    if (!ref.current) return; // scrolling is told of after its end, too
    const { top, bottom } = ref.current.closest("main")!.getBoundingClientRect();
    const [from, to] = [Math.max(0, top), Math.min(innerHeight, bottom)];
    const all = carets().map((e) => e.getBoundingClientRect());
    const seen = all.length === 0 || all.some((r) => r.bottom > from && r.bottom <= to);
    say(seen ? undefined : all.some((r) => r.bottom > to) ? "below" : "above");
  };
  useLayoutEffect(look);
  useEffect(() => {
    addEventListener("scroll", look, { passive: true, capture: true });
    return () => removeEventListener("scroll", look, { capture: true });
  }, []);
  const go = (): void => carets().at(where === "below" ? 0 : -1)?.scrollIntoView({ block: "end" });
  return (
    <div class="elsewhere" ref={ref}>
      {where && <button type="button" class="button small" onClick={go}>Writing {where} <span aria-hidden="true">{where === "below" ? "↓" : "↑"}</span></button>}
    </div>
  );
}

function JSONView({ value }: { value: unknown }) {
  const text = pretty(value);
  return (
    <div class="json">
      <CopyButton text={() => JSON.stringify(value, null, 2)} what="the document" />
      <pre class="well" tabIndex={0} aria-label="The document as JSON">{text}</pre>
    </div>
  );
}
