import { createElement, type ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { CopyButton } from "./copy.js";
import { Blocks, cut, type Align, type Block, type Code, type Item, type Table } from "./markdown/blocks.js";
import { inline, type Inline } from "./markdown/inline.js";
import { memo, shallow } from "./memo.js";
import { marked } from "./text.js";

export interface MarkdownProps {
  text: string;
  /** Whether more text may come: then what is half written at its end looks as it will most likely look. */
  growing?: boolean;
  /** What a heading of the first level is in the page: 3 is h3. */
  level?: number;
}

/**
 * Shows foreign text as Markdown. It is made of elements and texts, one by one, and of nothing that the text says about elements:
 * no HTML, no ids, no styles, no images. While a text grows, only its last block renders anew.
 */
export function Markdown({ text: foreign, growing = false, level = 3 }: MarkdownProps) {
  const text = marked(foreign);
  const blocks = useRef<Blocks>(undefined);
  blocks.current ??= new Blocks();
  blocks.current.update(text, growing);
  const { root, end } = blocks.current;
  return (
    <div class="md">
      <Children nodes={root.children} growing={growing} level={level} />
      {end < text.length && <Plain text={text} from={end} />}
    </div>
  );
}

// How many siblings are told from the others together: what grows costs as many, and not all that are there.
const group = 32;

function Children({ nodes, growing, level }: { nodes: Block[] | Item[]; growing: boolean; level: number }) {
  const groups: ComponentChildren[] = [];
  for (let from = 0; from < nodes.length; from += group) {
    const to = Math.min(nodes.length, from + group);
    groups.push(<Group key={from} nodes={nodes} from={from} to={to} rev={nodes[to - 1]!.rev} growing={growing && to === nodes.length} level={level} />);
  }
  return groups;
}

interface GroupProps {
  nodes: Block[] | Item[];
  from: number;
  to: number;
  rev: number; // of its last one; all others have not changed since there was another behind them
  growing: boolean; // its last one
  level: number;
}

const Group = memo(({ nodes, from, to, growing, level }: GroupProps) => {
  const out: ComponentChildren[] = [];
  for (let i = from; i < to; i++) {
    const node = nodes[i]!;
    out.push(<One key={i} node={node} rev={node.rev} growing={growing && i === to - 1} level={level} />);
  }
  return out;
}, shallow);

const One = memo(({ node, growing, level }: { node: Block | Item; rev: number; growing: boolean; level: number }) => {
  switch (node.kind) {
    case "paragraph":
      return (
        <p dir="auto" class={end(growing)}>
          {phrases(node.text, growing)}
        </p>
      );
    case "heading":
      return createElement(`h${Math.min(6, node.level + level - 1)}`, { dir: "auto", class: `md-h${node.level} ${end(growing) ?? ""}`.trim() }, phrases(node.text, growing));
    case "rule":
      return <hr />;
    case "code":
      return <CodeBlock code={node} growing={growing} />;
    case "table":
      return <TableBlock table={node} growing={growing} />;
    case "quote":
      return (
        <blockquote>
          <Children nodes={node.children} growing={growing} level={level} />
        </blockquote>
      );
    case "list": {
      const items = <Children nodes={node.children} growing={growing} level={level} />;
      const spacing = node.loose ? "md-loose" : "md-tight";
      if (node.start === undefined) return <ul class={spacing}>{items}</ul>;
      return (
        <ol class={spacing} start={node.start}>
          {items}
        </ol>
      );
    }
    case "item":
      return (
        <li class={node.task === undefined ? undefined : "md-task"}>
          {node.task !== undefined && (
            <span class="md-box" role="img" aria-label={node.task ? "done" : "to do"}>
              {node.task ? "☑" : "☐"}
            </span>
          )}
          <Children nodes={node.children} growing={growing} level={level} />
        </li>
      );
  }
}, shallow);

// The class of what text is still being added to.
function end(growing: boolean): string | undefined {
  return growing ? "md-end" : undefined;
}

const lines = 64; // of code that render together

function CodeBlock({ code, growing }: { code: Code; growing: boolean }) {
  const chunks: ComponentChildren[] = [];
  for (let from = 0; from < code.lines.length; from += lines) {
    const last = from + lines >= code.lines.length;
    chunks.push(<CodeLines key={from} code={code} from={from} last={last} rev={last ? code.rev : 0} />);
  }
  const language = code.info.split(/\s/, 1)[0]!.slice(0, 32);
  return (
    <figure class="md-code">
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton text={() => code.lines.join("\n")} what="code" />
      </figcaption>
      <pre tabIndex={0} aria-label="Code">
        <code class={end(growing)}>{chunks}</code>
      </pre>
    </figure>
  );
}

const CodeLines = memo(
  ({ code, from, last }: { code: Code; from: number; last: boolean; rev: number }) => code.lines.slice(from, from + lines).join("\n") + (last ? "" : "\n"),
  shallow,
);

const aligned: Record<Align, string | undefined> = { "": undefined, left: "md-left", center: "md-center", right: "md-right" };

function TableBlock({ table, growing }: { table: Table; growing: boolean }) {
  return (
    <div class="md-table" role="group" aria-label="Table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {table.head.map((cell, i) => (
              <th scope="col" dir="auto" class={aligned[table.align[i]!]}>
                {phrases(cell, false)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, i) => (
            <Row row={row} align={table.align} growing={growing && i === table.rows.length - 1} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const Row = memo(
  ({ row, align, growing }: { row: string[]; align: Align[]; growing: boolean }) => {
    const last = growing ? row.findLastIndex((cell) => cell !== "") : -1;
    return (
      <tr>
        {row.map((cell, i) => (
          <td dir="auto" class={[aligned[align[i]!], end(i === last)].filter(Boolean).join(" ") || undefined}>
            {phrases(cell, i === last)}
          </td>
        ))}
      </tr>
    );
  },
  shallow,
);

function phrases(text: string, growing: boolean): ComponentChildren {
  const pieces = inline(text, globalThis.location?.origin ?? "", growing);
  const last = pieces.at(-1);
  if (!growing || typeof last !== "string") return pieces.map(phrase);
  return [...pieces.slice(0, -1).map(phrase), ...paler(last)];
}

const longest = 24; // characters of a word that is told from the others; a script without spaces has longer ones

/** A text whose last four words are paler, since they have just come. They are told apart at spaces, so no letter changes its shape. */
function paler(text: string): ComponentChildren[] {
  let from = text.length;
  const cuts: number[] = [];
  for (let n = 0; n < 4 && from > 0; n++) {
    const word = text.slice(0, from).trimEnd();
    const start = Math.max(word.lastIndexOf(" "), word.lastIndexOf("\n")) + 1;
    if (from - start > longest) break;
    cuts.unshift(start);
    from = start;
  }
  if (cuts.length === 0) return [text];
  const fresh = Math.max(0, cuts.length - 2);
  const parts = [text.slice(0, cuts[0]), text.slice(cuts[0], cuts[fresh]), text.slice(cuts[fresh])];
  return [parts[0], parts[1] && <span class="md-new">{parts[1]}</span>, parts[2] && <span class="md-newest">{parts[2]}</span>].filter(Boolean);
}

function phrase(piece: Inline): ComponentChildren {
  if (typeof piece === "string") return piece;
  switch (piece.kind) {
    case "emphasis":
      return <em>{piece.children.map(phrase)}</em>;
    case "strong":
      return <strong>{piece.children.map(phrase)}</strong>;
    case "deleted":
      return <del>{piece.children.map(phrase)}</del>;
    case "code":
      return <code>{piece.text}</code>;
    case "break":
      return <br />;
    case "link": {
      const { link, address } = piece;
      const label = piece.children.length > 0 ? piece.children.map(phrase) : piece.image ? "without a name" : address;
      const named = piece.image ? <>Image: {label}</> : label;
      if (!link) {
        return (
          <span class="md-nolink">
            {named} <span class="md-where">({address.length > 80 ? address.slice(0, 80) + "…" : address || "callback is not an address"})</span>
          </span>
        );
      }
      const itself = piece.children.length === 1 && piece.children[0] === address;
      return (
        <>
          <a href={link.href} title={link.href} target="_blank" rel="noopener noreferrer nofollow ugc" referrerpolicy="no-referrer">
            {named}
          </a>
          {!itself && (
            <>
              {" "}
              <span class="md-where">{link.where}</span>
            </>
          )}
        </>
      );
    }
  }
}

const chunk = 1 << 13; // characters of plain text that render together

function Plain({ text, from }: { text: string; from: number }) {
  const chunks: ComponentChildren[] = [];
  for (let at = from; at < text.length; ) {
    let to = Math.min(text.length, at + chunk);
    if (to < text.length) {
      const nl = text.lastIndexOf("\n", to - 1) + 1;
      to = nl > at + chunk / 2 ? nl : cut(text, to);
    }
    chunks.push(<Chunk key={at} text={text.slice(at, to)} />);
    at = to;
  }
  return (
    <>
      <p class="md-note">This text is very long. The rest is shown without formatting.</p>
      {chunks}
    </>
  );
}

const Chunk = memo(({ text }: { text: string }) => <div class="md-plain">{text}</div>, shallow);
