import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { escape } from "../../../client/src/uri.js";
import { CopyButton } from "./copy.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { json, marked, short, visible } from "./text.js";

export interface DocumentTreeProps {
  /** The document; what has not changed in it is the same object as before. */
  value: any;
  /** Whether the value at a uri is complete. Where it is not, something is still being written there. */
  done: (uri: string) => boolean;
  /** Shows a text in place of Markdown; undefined leaves it to Markdown. */
  onText?: (text: string, uri: string, done: boolean) => ComponentChildren;
}

const page = 100; // members that are shown at once
const deep = 8; // levels that are open at first
const budget = 1000; // members of each level that are open at first, about
const proseFrom = 80; // characters from which a text is prose

/** The document, as it grows. */
export function DocumentTree({ value, done, onText }: DocumentTreeProps) {
  const bound = useRef<Bound>({ done, onText, prose: new Set() });
  bound.current.done = done;
  bound.current.onText = onText;
  const rootDone = done("");
  return (
    <div class="tree">
      {isContainer(value) ? (
        <Members value={value} uri="" depth={0} budget={budget} bound={bound.current} open={!rootDone} />
      ) : (
        <Leaf value={value} uri="" done={rootDone} bound={bound.current} prose />
      )}
    </div>
  );
}

interface Bound extends Pick<DocumentTreeProps, "done" | "onText"> {
  prose: Set<string>; // where texts are prose: uris with "*" for indexes
}
type Container = Record<string, unknown> | unknown[];

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

// What is complete renders only when it is another value; what is not looks each time whether it has become complete, or what is in
// it has. So the work for a frame is that of the places where something is being written, and of their siblings' comparison.
const Members = memo(MembersOf, (a: MembersProps, b: MembersProps) => a.value === b.value && a.uri === b.uri && !a.open && !b.open);

interface MembersProps {
  value: Container;
  uri: string;
  depth: number;
  budget: number; // its share
  bound: Bound;
  open: boolean; // not complete
}

function MembersOf(p: MembersProps) {
  return <MemberList {...p} />;
}

function MemberList({ value, uri, depth, budget, bound, open }: MembersProps) {
  const [most, setMost] = useState(page);
  const list = Array.isArray(value);
  const keys = list ? undefined : Object.keys(value);
  const count = list ? value.length : keys!.length;
  if (count === 0) return open ? <Caret /> : <span class="tree-empty">{list ? "empty list" : "nothing"}</span>;
  const shown = Math.min(count, most);
  const rows: ComponentChildren[] = [];
  for (let i = 0; i < shown; i++) {
    const key = list ? String(i) : keys![i]!;
    const at = uri === "" ? escape(key) : `${uri}/${escape(key)}`;
    const member = (value as Record<string, unknown>)[key];
    rows.push(<Member key={key} name={key} index={list} value={member} uri={at} depth={depth} budget={budget / shown} bound={bound} done={bound.done(at)} />);
  }
  return (
    <>
      <ul class={list ? "tree-list" : "tree-object"}>{rows}</ul>
      {shown < count && (
        <p class="tree-more">
          <button type="button" class="part-quiet" onClick={() => setMost(most + page * (most / page))}>
            Show more
          </button>
          <span>
            {shown.toLocaleString("en")} of {count.toLocaleString("en")}
          </span>
        </p>
      )}
    </>
  );
}

interface MemberProps {
  name: string;
  index: boolean; // name is the place in a list
  value: unknown;
  uri: string;
  depth: number;
  budget: number;
  bound: Bound;
  done: boolean;
}

const Member = memo(
  (p: MemberProps) => <MemberRow {...p} />,
  (a: MemberProps, b: MemberProps) => a.value === b.value && a.uri === b.uri && a.done === b.done && (b.done || !isContainer(b.value)),
);

function MemberRow({ name, index, value, uri, depth, budget, bound, done }: MemberProps) {
  const id = useId();
  // Decided once: what is open does not fold because there are more of its kind now.
  const [expanded, expand] = useState(depth < deep && budget >= 1);
  const [info, setInfo] = useState(false);
  const container = isContainer(value);
  const prose = typeof value === "string" && isProse(value, uri, bound);
  const title = typeof value === "string" && !prose && !index && titles.test(name);
  const label = index ? name : visible(short(name, 200)) || "(no name)";
  const summary = container ? summarize(value) : "";
  return (
    <li class={`tree-member${container ? " tree-container" : prose ? " tree-prose" : title ? ` tree-title${depth > 1 ? " tree-subtitle" : ""}` : ""}`}>
      <div class="tree-head">
        {container && (
          <button type="button" class="tree-toggle" aria-expanded={expanded} aria-controls={id} onClick={() => expand(!expanded)}>
            <span class="sr">
              {index ? `element ${label}` : label}, {summary}
            </span>
          </button>
        )}
        <button type="button" class={`tree-key${index ? " tree-index" : ""}`} aria-expanded={info} onClick={() => setInfo(!info)} title={`${visible(short(uri, 200))}: copy the value or its uri`}>
          {label}
        </button>
        {container && !expanded && <span class="tree-summary">{summary}</span>}
        {container && !expanded && !done && <Caret />}
        {!container && !prose && <Leaf value={value} uri={uri} done={done} bound={bound} prose={false} />}
      </div>
      {info && (
        <div class="tree-info">
          <code>{visible(short(uri, 300))}</code>
          <CopyButton text={() => (typeof value === "string" ? value : json(value))} what="value" label="Copy value" />
          <CopyButton text={() => uri} what="uri" label="Copy uri" />
        </div>
      )}
      {prose && <Leaf value={value} uri={uri} done={done} bound={bound} prose />}
      {container && (
        <div id={id} class="tree-body" hidden={!expanded}>
          {expanded && <Members value={value} uri={uri} depth={depth + 1} budget={budget} bound={bound} open={!done} />}
        </div>
      )}
    </li>
  );
}

// What models call the title of something stands above it like one.
const titles = /^(title|heading|headline)$/i;

// A text is prose when it is long, or has lines; and so are those at the same place of other elements, from their beginning, so that
// they need not move when they have become long.
function isProse(text: string, uri: string, { prose }: Bound): boolean {
  const place = uri.replace(/(^|\/)\d+(?=\/|$)/g, "$1*");
  if (prose.has(place)) return true;
  if (text.length < proseFrom && !text.includes("\n")) return false;
  if (prose.size < 1000 && place !== uri) prose.add(place);
  return true;
}

function Leaf({ value, uri, done, bound, prose }: { value: unknown; uri: string; done: boolean; bound: Bound; prose: boolean }) {
  if (typeof value === "string") {
    const own = bound.onText?.(value, uri, done);
    if (own !== undefined) return <div class="tree-text">{own}</div>;
    if (prose) {
      return (
        <div class="tree-text">
          <Markdown text={value} growing={!done} />
          {!done && value === "" && <Caret />}
        </div>
      );
    }
    return (
      <span class="tree-string" dir="auto">
        {value === "" && done ? <span class="tree-empty">empty text</span> : marked(value)}
        {!done && <Caret />}
      </span>
    );
  }
  if (value === undefined || (value === null && !done)) return done ? null : <Caret />;
  return <code class="tree-value">{String(value)}</code>;
}

/** Where something is being written. */
function Caret() {
  return (
    <span class="tree-caret">
      <span class="sr">being written</span>
    </span>
  );
}

// What a container is about: its size, and what it is called, if it says so.
function summarize(value: Container): string {
  if (Array.isArray(value)) return value.length === 1 ? "1 element" : `${value.length.toLocaleString("en")} elements`;
  for (const key of ["title", "name", "label", "question", "heading"]) {
    if (Object.hasOwn(value, key) && typeof value[key] === "string" && value[key] !== "") return marked(short(value[key] as string, 60));
  }
  const n = Object.keys(value).length;
  return n === 1 ? "1 member" : `${n.toLocaleString("en")} members`;
}
