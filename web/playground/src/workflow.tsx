// A workflow: what it is asked, and the document that it makes.

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RunRequest } from "../../client/src/index.js";
import type { Workflow } from "./api.js";
import { asked as askedFor, Bar, Stands } from "./bar.js";
import { sentence } from "./failure.js";
import { Follower, scrollerOf } from "./follow.js";
import { AgainIcon, StopIcon } from "./icons.js";
import type { Live } from "./live.js";
import { ModelChoice, MoreOptions, noChoices, requestOf, type Choices } from "./options.js";
import { CopyButton } from "./parts/copy.js";
import { SchemaForm } from "./parts/schema-form.js";
import { withoutBlankRows } from "./parts/schema/fields.js";
import { marked } from "./parts/text.js";
import { Beside, Document, pretty, Questions, Restarted, RunFailure, Waiting, type View } from "./run.js";
import { catalog, described, live, start } from "./store.js";
import { useCancel } from "./cancel.js";
import { keep, kept } from "./storage.js";
import { Lamp, useEscape, useTick } from "./ui.js";

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
  const request: RunRequest = { workflow: workflow.name, input: withoutBlankRows(workflow.input ?? {}, input), ...(choices.model !== "" ? { model: choices.model } : {}), ...requestOf(choices, false) };
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
    if (request.input !== input) setInput(request.input); // so that the server's errors are at their rows
    start(request);
    fold(true);
  };
  useEscape(now !== undefined && !folded, () => (fold(true), output.current?.focus({ preventScroll: true })), field);
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
  // Which models would answer: the one that is chosen, or those that the bots name, or else the default.
  const usual = workflow.model || (catalog.value?.models.find((m) => m.default)?.id ?? "");
  const bots = described.value?.name === workflow.name ? (described.value.graph?.bots ?? []) : [];
  const ofBots = [...new Set(bots.flatMap((b) => b.model ?? []))];
  const models = choices.model ? [choices.model] : ofBots.length > 0 ? [...ofBots, ...(bots.some((b) => !b.model) ? [usual] : [])] : [usual];
  const submit = (e: Event): void => {
    e.preventDefault();
    go();
  };
  const [view, show] = useState<View>(kept<View>("local", "view") ?? "reading");
  const choose = (v: View): void => {
    show(v);
    keep("local", "view", v === "reading" ? undefined : v);
  };
  const asked = now && folded ? askedOf(now.request?.input ?? input) : "";
  useEffect(() => {
    askedFor.value = asked ? { text: asked, change: unfold } : undefined;
    return () => void (askedFor.value = undefined);
  }, [asked]);
  return (
    <>
      <Bar
        name={workflow.name}
        about={now && folded && <button type="button" class="bar-asked" onClick={unfold} title="Change input"><span dir="auto">{asked}</span><span class="sr">Change input</span></button>}
        views={now && <Views view={view} onChoose={choose} />}
      >
        {now && <Stands live={now} />}
        <Control live={now} folded={folded} again={() => start(now?.request ?? request)} />
      </Bar>
      <main id="main" tabIndex={-1}>
        <div class={"work" + (folded ? " work-folded" : "")}>
          <form id="compose" class="compose" aria-label={`Input of ${workflow.name}`} noValidate onSubmit={submit} hidden={folded}>
            {!folded && (
              <>
                {workflow.description && <p class="work-about">{workflow.description}</p>}
                <div ref={field}><SchemaForm schema={workflow.input ?? {}} value={input} onChange={change} errors={errors} at="/input" idPrefix="input" /></div>
                <div class="compose-foot">
                  <ModelChoice choices={choices} onChange={setChoices} models={catalog.value?.models ?? []} usual={workflow.model} ofBots={ofBots} errors={errors} />
                  <MoreOptions choices={choices} onChange={setChoices} errors={errors} forAgent={false} />
                </div>
                {models.some((m) => m.startsWith("demo:")) && <p class="quiet">The built-in demo model has scripted answers. For real answers, set the key of a provider, such as <code>OPENAI_API_KEY</code>, and restart the server.</p>}
                {now && <p><button type="button" class="button small" onClick={() => fold(true)}>Keep this input</button></p>}
              </>
            )}
          </form>
          <section class="output" aria-label="Document" ref={output} tabIndex={-1}>
            {now ? <Output live={now} view={view} again={() => start(now.request ?? request)} /> : <Nothing />}
          </section>
        </div>
      </main>
    </>
  );
}

const none: never[] = [];

/**
 * Keeps the focus where it is while a button is pressed: a field that says on leaving it what is wrong with it moves the button, and
 * the click would go beside it.
 */
export const stay = (e: Event): void => e.preventDefault();

export const shortcut = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";

// What was asked, in a line: the texts that were put into the form.
function askedOf(input: unknown): string {
  const values = typeof input === "object" && input !== null ? Object.values(input) : [input];
  return marked(values.filter((v) => v !== undefined && v !== "").map((v) => (typeof v === "string" ? v : JSON.stringify(v))).join(" · ").slice(0, 300)) || "Input";
}

const views: [View, string][] = [["reading", "Reading"], ["tree", "Tree"], ["json", "JSON"]];

function Views({ view, onChoose }: { view: View; onChoose: (view: View) => void }) {
  return (
    <fieldset class="views">
      <legend class="sr">View</legend>
      {views.map(([v, label]) => (
        <label key={v}>
          <input type="radio" name="view" checked={view === v} onChange={() => onChoose(v)} />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}

// The one control of a run, in one place: Run, then Cancel while it runs, then Run again.
function Control({ live: l, folded, again }: { live: Live | undefined; folded: boolean; again: () => void }) {
  l?.revision.value;
  const running = l !== undefined && !l.over;
  const cancel = useCancel(l);
  const click = (e: MouseEvent): void => {
    const second = e.detail > 1; // click of a double one, which was meant for what the button was before
    if (!running && !folded && !second) return; // submits the form
    e.preventDefault();
    if (second) return;
    if (running) cancel.now();
    else again();
  };
  const kind = running ? "cancel" : folded ? "again" : "run";
  return (
    <>
      {cancel.failed && <span class="bar-failed" role="alert">{cancel.failed}</span>}
      <button
        type="submit" form="compose" class={"button control" + (kind === "run" ? " primary" : "")} disabled={running && cancel.busy} onMouseDown={stay} onClick={click} onKeyDown={(e) => e.repeat && e.preventDefault()}
        aria-keyshortcuts={kind === "cancel" ? undefined : "Control+Enter Meta+Enter"}
      >
        {kind === "cancel" ? <><StopIcon /> Cancel</>
          : kind === "again" ? <><AgainIcon /> Run again</>
          : <>Run <kbd>{shortcut}</kbd></>}
      </button>
    </>
  );
}

function Nothing() {
  return (
    <div class="empty empty-document">
      <p class="empty-lead">Run the workflow, and its document grows here.</p>
      <ol>
        <li>Each piece of text arrives with its place in the document.</li>
        <li>A bot starts as soon as the value that it waits for exists. Other bots continue.</li>
        <li>The run continues if you close the page or lose the connection. Come back to see its current state.</li>
      </ol>
    </div>
  );
}

function Output({ live, view, again }: { live: Live; view: View; again: () => void }) {
  live.revision.value;
  const value = live.run.document;
  const empty = !live.reached;
  return (
    <>
      {live.reason && !/^canceled/.test(live.reason) && <p class="quiet">{sentence(live.reason)}</p>}
      <Waiting live={live} />
      <Restarted live={live} />
      <RunFailure live={live} again={live.run.error?.code === "invalid_request" ? undefined : again} hideFields />
      <Questions live={live} />
      {!empty && (view === "json" ? <JSONView value={value} /> : <Document live={live} view={view} />)}
      {empty && !live.over && <p class="quiet waits">Nothing yet.</p>}
      {empty && live.over && live.run.status === "completed" && <p class="quiet">The run completed without a document.</p>}
      <Beside live={live} />
      {!live.over && view !== "json" && <Following live={live} />}
    </>
  );
}

/** How far above the lower edge the writing is kept, in px. */
const below = 96;

// Keeps what is being written in sight until the reader scrolls, and shows a way to what is out of sight.
function Following({ live }: { live: Live }) {
  live.revision.value;
  useTick(300, true); // what is folded or unfolded changes the places, too
  const ref = useRef<HTMLDivElement>(null);
  const follower = useRef(new Follower());
  const [where, say] = useState<{ seen: number; above: number; below: number }>({ seen: 0, above: 0, below: 0 });
  // What is folded has no place.
  const carets = (): Element[] => Array.from(ref.current!.closest(".output")!.querySelectorAll(".tree-caret, .md-end")).filter((e) => e.getClientRects().length > 0);
  // A text that is being written ends where its last line does.
  const endOf = (e: Element): DOMRect => {
    const range = document.createRange();
    range.selectNodeContents(e);
    const rects = e.matches(".tree-caret") ? e.getClientRects() : range.getClientRects();
    return rects[rects.length - 1] ?? e.getBoundingClientRect();
  };
  const edges = (): [number, number] => {
    const { top, bottom } = ref.current!.closest("main")!.getBoundingClientRect();
    return [Math.max(0, top), Math.min(innerHeight, bottom)];
  };
  const look = (): void => {
    if (!ref.current) return; // scrolling is told of after its end, too
    const [from, to] = edges();
    const all = carets().map(endOf);
    const next = { seen: 0, above: 0, below: 0 };
    for (const r of all) next[r.bottom <= from ? "above" : r.bottom > to ? "below" : "seen"]++;
    say((old) => (old.seen === next.seen && old.above === next.above && old.below === next.below ? old : next));
  };
  useLayoutEffect(() => {
    const first = carets()[0];
    const scroller = scrollerOf(ref.current!);
    if (follower.current.following && first) {
      const far = endOf(first).bottom - (edges()[1] - below);
      // Where the writing goes on far below, it is come to in steps, so that the eye can follow.
      if (far > 0) scroller.scrollTop += matchMedia("(prefers-reduced-motion: reduce)").matches ? far : Math.min(far, Math.max(36, far * 0.2));
      follower.current.note(scroller);
    }
    look();
  });
  useEffect(() => {
    const scrolled = (): void => {
      if (!ref.current) return;
      const el = scrollerOf(ref.current);
      follower.current.scrolled(el, el.scrollHeight - el.scrollTop - el.clientHeight < 4);
      look();
    };
    addEventListener("scroll", scrolled, { passive: true, capture: true });
    return () => removeEventListener("scroll", scrolled, { capture: true });
  }, []);
  const go = (): void => {
    const [from, to] = edges();
    const all = carets();
    const target = where.below > 0 ? all.find((e) => endOf(e).bottom > to) : all.findLast((e) => endOf(e).bottom <= from);
    if (!target) return;
    const scroller = scrollerOf(ref.current!);
    scroller.scrollTop += endOf(target).bottom - (to - below);
    if (where.seen === 0) follower.current.following = true;
    follower.current.note(scroller);
  };
  const words = where.seen > 0 ? (where.below > 0 ? `${where.below} more below` : "") : where.below > 0 ? "Writing below" : where.above > 0 ? "Writing above" : "";
  return (
    <div class="elsewhere" ref={ref}>
      {words && <button type="button" class="button small" onClick={go}><Lamp state="writing" /> {words} <span aria-hidden="true">{where.below > 0 ? "↓" : "↑"}</span></button>}
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
