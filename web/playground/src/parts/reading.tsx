import { signal, type Signal } from "@preact/signals";
import { createElement, type ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { escape } from "../../../client/src/uri.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { titleOfName, marked, short } from "./text.js";

/** Who writes at a place. */
export interface Writer {
  name: string; // as it is shown
  writing: boolean;
  /** Says more, on hover. */
  title: string;
  /** Whether the name stays in sight while its block is scrolled. */
  sticky: boolean;
}

export interface ReadingProps {
  /** The document; what has not changed in it is the same object as before. */
  value: unknown;
  /** Whether the value at a uri is complete. */
  done: (uri: string) => boolean;
  /** Whether the string at a uri is a text by itself, such as all that a bot writes. */
  prose?: (uri: string) => boolean;
  /** Who writes the block at a uri; undefined where a block around it says so. */
  writer?: (uri: string) => Writer | undefined;
  /** Shows a text in place of Markdown; undefined leaves it to Markdown. */
  onText?: (text: string, uri: string, done: boolean) => ComponentChildren;
}

interface Bound extends Pick<ReadingProps, "done" | "prose" | "writer" | "onText"> {
  chosen: Signal<Record<string, number>>; // choices of questions, by uri
}

type Container = Record<string, unknown> | unknown[];

const page = 100; // members that are shown at once
const deep = 8; // levels that are open at first
const budget = 1000; // members of each level that are open at first, about

// What a text is goes by its name alone, so it is known at the first character and stays.
const titles = /^(title|heading|headline|name)$/i;
const leads = /^(summary|lead|abstract|subtitle|intro|introduction)$/i;
const texts = /^(body|text|content|answer|paragraphs?|description|explanation|conclusion|message|markdown|article|story)$/i;

/** A document as one reads it: titles, paragraphs, lists, sections and questions, whatever names it has. */
export function Reading({ value, done, prose, writer, onText }: ReadingProps) {
  const bound = useRef<Bound>(undefined);
  bound.current ??= { done, chosen: signal({}) };
  Object.assign(bound.current, { done, prose, writer, onText });
  return (
    <div class="read">
      <div class="read-column">
        {isContainer(value)
          ? <Members value={value} uri="" name="" level={0} depth={0} budget={budget} bound={bound.current} open={!done("")} />
          : <Text text={value} uri="" done={done("")} level={0} bound={bound.current} />}
      </div>
    </div>
  );
}

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

interface MembersProps {
  value: Container;
  uri: string;
  name: string;
  level: number; // of headings
  depth: number;
  budget: number; // its share
  bound: Bound;
  open: boolean; // not complete
  headed?: boolean; // its name stands above it
}

// What is complete renders only when it is another value.
const Members = memo((p: MembersProps) => <MembersOf {...p} />, (a: MembersProps, b: MembersProps) => a.value === b.value && a.uri === b.uri && a.level === b.level && !a.open && !b.open);

function MembersOf(p: MembersProps) {
  const { value, open } = p;
  const list = Array.isArray(value);
  const count = list ? value.length : Object.keys(value).length;
  if (count === 0) return open ? <Caret /> : null;
  if (!list && Array.isArray(value.choices) && "question" in value) return <Question {...p} value={value} />;
  return list ? <List {...p} value={value} /> : <Fields {...p} value={value} />;
}

function More({ shown, count, onMore }: { shown: number; count: number; onMore: () => void }) {
  if (shown >= count) return null;
  return (
    <p class="read-more">
      <button type="button" class="part-quiet" onClick={onMore}>Show more</button>
      <span>{shown.toLocaleString("en")} of {count.toLocaleString("en")}</span>
    </p>
  );
}

const at = (uri: string, key: string): string => (uri === "" ? escape(key) : `${uri}/${escape(key)}`);

// An object: its members one after another. What stands behind a title is a level below it.
function Fields({ value, uri, level, depth, budget, bound, headed }: MembersProps & { value: Record<string, unknown> }) {
  const [most, setMost] = useState(page);
  const keys = Object.keys(value);
  const shown = Math.min(keys.length, most);
  const out: ComponentChildren[] = [];
  let titled = false;
  for (let i = 0; i < shown; i++) {
    const key = keys[i]!;
    const heading = titles.test(key) && (!/^name$/i.test(key) || i === 0);
    out.push(<Member key={key} name={key} value={value[key]} uri={at(uri, key)} level={level + (titled ? 1 : 0)} depth={depth} budget={budget / shown} bound={bound} done={bound.done(at(uri, key))} kind={heading && !titled ? "title" : leads.test(key) ? "lead" : ""} index={-1} headed={headed && i === 0} />);
    titled ||= heading && typeof value[key] === "string";
  }
  return <>{out}<More shown={shown} count={keys.length} onMore={() => setMost(most * 2)} /></>;
}

// A list: of texts and numbers with dots, of objects as sections.
function List({ value, uri, level, depth, budget, bound, headed }: MembersProps & { value: unknown[] }) {
  const [most, setMost] = useState(page);
  const shown = Math.min(value.length, most);
  const plain = !isContainer(value[0]);
  const out: ComponentChildren[] = [];
  for (let i = 0; i < shown; i++) {
    const to = at(uri, String(i));
    out.push(<Member key={i} name={String(i)} value={value[i]} uri={to} level={plain ? level : Math.max(1, level)} depth={depth} budget={budget / shown} bound={bound} done={bound.done(to)} kind={plain ? "item" : "section"} index={i} />);
  }
  return (
    <>
      {plain ? <ul class="read-list">{out}</ul> : out}
      {isQuestion(value[0]) && <Tally value={value} uri={uri} bound={bound} headed={headed} />}
      <More shown={shown} count={value.length} onMore={() => setMost(most * 2)} />
    </>
  );
}

interface MemberProps {
  name: string;
  value: unknown;
  uri: string;
  level: number;
  depth: number;
  budget: number;
  bound: Bound;
  done: boolean;
  kind: "title" | "lead" | "item" | "section" | "";
  index: number;
  headed?: boolean; // a heading stands directly above it
}

const Member = memo(
  (p: MemberProps) => <MemberOf {...p} />,
  (a: MemberProps, b: MemberProps) => a.value === b.value && a.uri === b.uri && a.done === b.done && a.level === b.level && (b.done || !isContainer(b.value)),
);

function MemberOf(p: MemberProps) {
  const { name, value, uri, level, depth, budget, bound, done, kind, index, headed } = p;
  // Decided once: what is open does not fold because there are more of its kind now.
  const [open, show] = useState(depth < deep && budget >= 1);
  const id = useId();
  if (!isContainer(value)) {
    if (kind === "title" && typeof value === "string") {
      return createElement(`h${Math.min(6, level + 2)}`, { class: level === 0 ? "read-title" : level === 1 ? "read-heading" : "read-small", dir: "auto" }, marked(value), !done && <Caret />);
    }
    const body = <Text text={value} uri={uri} done={done} level={level} bound={bound} />;
    if (kind === "item") return <li dir="auto">{body}</li>;
    const by = <By writer={bound.writer?.(uri)} />;
    if (kind === "lead" && typeof value === "string") return <div class={`read-block ${level <= 1 ? "read-lead" : ""}`}>{by}{body}</div>;
    if (typeof value === "string" && (texts.test(name) || bound.prose?.(uri) || kind === "section")) return <div class="read-block">{by}{body}</div>;
    return <div class="read-block read-named">{by}<span class="read-name">{titleOfName(name)}:</span> {body}</div>;
  }
  // The name stands above what has no title of its own, which its first member says.
  const named = kind === "" && needsName(value);
  const inner = named ? Math.max(1, level) : level;
  const writer = bound.writer?.(uri);
  const heading = named && createElement(`h${Math.min(6, inner + 2)}`, { class: inner <= 1 ? "read-heading" : "read-small", id }, titleOfName(name));
  const members = open
    ? <Members value={value} uri={uri} name={name} level={named ? inner + 1 : inner} depth={depth + 1} budget={budget} bound={bound} open={!done} headed={named || headed} />
    : <p class="read-more"><button type="button" class="part-quiet" aria-expanded={false} onClick={() => show(true)}>Show {named ? titleOfName(name) : short(label(value), 60)}, {size(value)}</button>{!done && <Caret />}</p>;
  return (
    <div class={`read-block${kind === "section" ? " read-section" : ""}${named ? " read-part" : ""}`}>
      <By writer={writer} />
      {index >= 0 && isQuestion(value) && <span class="read-number" aria-hidden="true">{index + 1}</span>}
      {heading}
      {members}
    </div>
  );
}

// Whether what is in an object or a list says what it is about. It is asked for the first member, which is there as long as the whole.
function needsName(value: Container): boolean {
  if (Array.isArray(value)) {
    if (value.length === 0) return false;
    const first = value[0];
    if (!isContainer(first)) return true;
    if (Array.isArray(first)) return true;
    const key = Object.keys(first)[0];
    return key !== undefined && !titles.test(key) && key !== "question";
  }
  const key = Object.keys(value)[0];
  return key !== undefined && !titles.test(key) && key !== "question";
}

function label(value: Container): string {
  if (Array.isArray(value)) return "list";
  for (const key of ["title", "name", "question", "heading"]) if (typeof value[key] === "string" && value[key] !== "") return marked(value[key] as string);
  return "more";
}

function size(value: Container): string {
  const n = Array.isArray(value) ? value.length : Object.keys(value).length;
  return `${n.toLocaleString("en")} ${Array.isArray(value) ? (n === 1 ? "element" : "elements") : n === 1 ? "member" : "members"}`;
}

function By({ writer }: { writer: Writer | undefined }) {
  if (!writer) return null;
  return (
    <span class={"read-by" + (writer.writing ? " read-by-writing" : "") + (writer.sticky ? " read-by-sticky" : "")}>
      <span title={writer.title}>
        {writer.writing && <span class="lamp lamp-writing" aria-hidden="true" />}
        {writer.name}
        {writer.writing && <span class="sr">, being written</span>}
      </span>
    </span>
  );
}

function Text({ text, uri, done, level, bound }: { text: unknown; uri: string; done: boolean; level: number; bound: Bound }) {
  if (typeof text !== "string") return text === undefined || (text === null && !done) ? (done ? null : <Caret />) : <span class="read-value">{text === null ? "none" : text === true ? "yes" : text === false ? "no" : String(text)}</span>;
  const own = bound.onText?.(text, uri, done);
  if (own !== undefined) return <>{own}</>;
  if (text === "") return done ? null : <Caret />;
  return <Markdown text={text} growing={!done} level={Math.min(6, level + 2)} />;
}

/** Where something is being written, and nothing is there yet. */
function Caret() {
  return <span class="tree-caret"><span class="sr">being written</span></span>;
}

// Questions with choices.

function isQuestion(value: unknown): boolean {
  return isContainer(value) && !Array.isArray(value) && "question" in value;
}

const letter = (i: number): string => (i < 26 ? String.fromCharCode(65 + i) : String(i + 1));

/** Which choice is right: an answer repeats it, or says its place or letter. -1 where that is not known. */
export function rightChoice(answer: unknown, choices: readonly unknown[]): number {
  if (typeof answer === "number") return Number.isInteger(answer) && answer >= 0 && answer < choices.length ? answer : -1;
  if (typeof answer !== "string") return -1;
  const text = answer.trim();
  const same = choices.findIndex((c) => typeof c === "string" && c.trim() === text);
  return same >= 0 ? same : choices.findIndex((_, i) => letter(i) === text.toUpperCase());
}

// What of an answer is known: while it is being written, nothing.
function rightOf(value: Record<string, unknown>, uri: string, bound: Bound): number {
  return "answer" in value && bound.done(at(uri, "answer")) ? rightChoice(value.answer, value.choices as unknown[]) : -1;
}

function Question({ value, uri, level, bound }: MembersProps & { value: Record<string, unknown> }) {
  const id = useId();
  const choices = value.choices as unknown[];
  const chosen = bound.chosen.value[uri];
  const right = rightOf(value, uri, bound);
  const over = chosen !== undefined && right >= 0;
  const known = over ? (chosen === right ? "Right." : `No, it is ${letter(right)}.`) : "";
  const growing = (key: string): boolean => !bound.done(at(uri, key));
  return (
    <div class="read-question">
      {createElement(`h${Math.min(6, level + 2)}`, { class: "read-asked", id, dir: "auto" }, marked(String(value.question)), growing("question") && <Caret />)}
      <ol class="read-choices" aria-labelledby={id}>
        {choices.map((choice, i) => {
          const state = over && i === right ? "right" : over && i === chosen ? "wrong" : i === chosen ? "chosen" : "";
          return (
            <li key={i}>
              <button type="button" class={"read-choice" + (state && " read-choice-" + state)} aria-pressed={i === chosen} aria-disabled={over} onClick={() => over || (bound.chosen.value = { ...bound.chosen.value, [uri]: i })}>
                <span class="read-letter" aria-hidden="true">{state === "right" ? "✓" : state === "wrong" ? "✕" : letter(i)}</span>
                <span dir="auto">{marked(typeof choice === "string" ? choice : JSON.stringify(choice) ?? "")}{growing(`choices`) && growing(`choices/${i}`) && <Caret />}</span>
                {state !== "" && <span class="sr">{state === "right" ? ", right" : state === "wrong" ? ", wrong" : ", chosen"}</span>}
              </button>
            </li>
          );
        })}
      </ol>
      <div class="read-verdict" role="status">
        {over && <><strong>{known}</strong> {typeof value.explanation === "string" && <span dir="auto">{marked(value.explanation)}</span>}</>}
        {chosen !== undefined && !over && !growing("") && <>This question has no correct answer to compare with.</>}
      </div>
    </div>
  );
}

function Tally({ value, uri, bound, headed }: { value: unknown[]; uri: string; bound: Bound; headed?: boolean }) {
  const chosen = bound.chosen.value;
  let answered = 0;
  let right = 0;
  let all = 0;
  value.forEach((q, i) => {
    if (!isQuestion(q) || !Array.isArray((q as any).choices)) return;
    all++;
    const where = at(uri, String(i));
    const good = rightOf(q as Record<string, unknown>, where, bound);
    if (chosen[where] === undefined || good < 0) return;
    answered++;
    if (chosen[where] === good) right++;
  });
  if (answered === 0) return null;
  return <p class={"read-tally" + (headed ? " read-tally-headed" : "")}>{right} of {answered} right{all > answered ? `, ${all - answered} to go` : ""}</p>;
}
