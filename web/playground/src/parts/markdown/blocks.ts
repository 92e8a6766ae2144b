// The blocks of a Markdown text that may still be growing: CommonMark's, and GFM's tables and tasks. What is not here on purpose:
// HTML, which stays the text that it is, and references ([name]: address), which would change what has long been read.
//
// The work for a text is linear in its length, however it is cut while it grows and whatever is in it: a line is read once, but for
// the last, unfinished one, which has a bound; so have the depth of what nests, the text of a block, and the number of blocks.

/** Bounds of what is read as Markdown. What is beyond them is shown as the plain text that it is. */
export const limits = {
  text: 1 << 18, // characters
  blocks: 4000,
  marks: 16_000, // characters that may mean something within a line, code left out
  depth: 24, // quotes, lists and their items within each other
  leaf: 1 << 14, // characters of a paragraph; a longer one goes on as another
  line: 1 << 13, // characters of a line that are looked at together
  columns: 64,
};

interface Node {
  /** Rises whenever something in it changes. No two nodes of a document ever have the same one. */
  rev: number;
}

export interface Paragraph extends Node {
  kind: "paragraph";
  text: string;
}

export interface Heading extends Node {
  kind: "heading";
  level: number; // 1 to 6
  text: string;
}

export interface Code extends Node {
  kind: "code";
  info: string; // what stands behind the fence
  lines: string[];
}

export interface Rule extends Node {
  kind: "rule";
}

export type Align = "left" | "right" | "center" | "";

export interface Table extends Node {
  kind: "table";
  align: Align[];
  head: string[];
  rows: string[][]; // each has as many cells as the head
}

export interface Quote extends Node {
  kind: "quote";
  children: Block[];
}

export interface List extends Node {
  kind: "list";
  marker: string; // "-", "*", "+", "." or ")"
  start: number | undefined; // of one with numbers
  loose: boolean;
  children: Item[];
}

export interface Item extends Node {
  kind: "item";
  indent: number;
  task: boolean | undefined; // a box, and whether it is ticked
  blank: boolean; // the line before was blank
  children: Block[];
}

export interface Root extends Node {
  kind: "root";
  children: Block[];
}

type Leaf = Paragraph | Heading | Code | Rule | Table;
type Container = Root | Quote | List | Item;
export type Block = Leaf | Quote | List;

const rule = /^(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const heading = /^(#{1,6})(?: +|$)/;
const fence = /^(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const underline = /^(=+|-+)\s*$/;
const bullet = /^([*+-])( +|$)/;
const number = /^(\d{1,9})([.)])( +|$)/;
const delimiter = /^ *\|?(?: *:?-+:? *\|)* *:?-+:? *\|? *$/;
// An unfinished line of these alone is waited with: what it will be is not known, and showing it as text would only flicker.
const undecided = /^[\s>]*(?:[-*_#=+~`|:.]+|\d{1,9}[.)]?|[-*+]\s+\[[ xX]?\]?)?\s*$/;

/** The cells of a row. A bar that belongs to one is written `\|`. */
export function cells(row: string): string[] {
  const text = row.trim();
  const out: string[] = [];
  let from = text.startsWith("|") ? 1 : 0;
  for (let i = from; i < text.length && out.length < limits.columns; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === "|") {
      out.push(text.slice(from, i));
      from = i + 1;
    }
  }
  if (from < text.length && out.length < limits.columns) out.push(text.slice(from));
  return out.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function indentOf(line: string, from: number): number {
  let n = 0;
  while (line[from + n] === " ") n++;
  return n;
}

// Tabs before the first word stand for spaces up to the next multiple of four; all others are kept.
function untab(line: string): string {
  if (!line.includes("\t")) return line;
  let out = "";
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    if (c === "\t") out += " ".repeat(4 - (out.length % 4));
    else if (" >*+-.)0123456789".includes(c)) out += c;
    else return out + line.slice(i);
  }
  return out;
}

/** Where a text can be cut at or before at, without cutting a character in two. */
export function cut(text: string, at: number): number {
  const c = text.charCodeAt(at - 1);
  return c >= 0xd800 && c < 0xdc00 && at < text.length ? at - 1 : at;
}

/** A text's blocks. Its tree is changed in place, and `rev` says where. */
export class Blocks {
  root!: Root;
  /** How much of the text is in the tree. The rest is beyond the limits: plain text. */
  end = 0;
  /** How many characters were read so far, those of an unfinished line each time. */
  work = 0;

  #text = "";
  #growing = false;
  #at = 0; // what is before has been read for good
  #within = false; // and ends within a line
  #open!: Container[]; // from the root to the innermost one that is open
  #leaf: Leaf | undefined; // the one that is open there
  #fence: { mark: string; indent: number } | undefined; // of an open block of code that has one
  #blank = 0; // blank lines that code without a fence may go on behind
  #clock = 0;
  #blocks = 0;
  #marks = 0;
  #undo: (() => void)[] | undefined; // what takes back the unfinished line

  constructor() {
    this.#begin();
  }

  #begin(): void {
    this.root = { kind: "root", rev: ++this.#clock, children: [] };
    this.#open = [this.root];
    this.#leaf = this.#fence = this.#undo = undefined;
    this.#text = "";
    this.#at = this.end = this.#blocks = this.#marks = this.#blank = 0;
    this.#within = false;
  }

  /**
   * Makes the tree that of text, which costs what has come since the last time where it has only grown. While it is still growing,
   * its last line is shown as it will be most likely.
   */
  update(text: string, growing: boolean): void {
    if (text === this.#text && growing === this.#growing) return;
    if (!text.startsWith(this.#text)) this.#begin();
    this.#growing = growing;
    this.#takeBack();
    const end = text.length > limits.text ? cut(text, limits.text) : text.length;
    this.#text = text.length > end ? text.slice(0, end) : text;
    while (this.#at < end && !this.#full()) {
      const nl = text.indexOf("\n", this.#at);
      const stop = nl < 0 || nl > end ? end : nl;
      if (stop - this.#at > limits.line) {
        const at = cut(text, this.#at + limits.line);
        this.#read(text.slice(this.#at, at));
        this.#at = at;
        this.#within = true;
        continue;
      }
      const line = text.slice(this.#at, text[stop - 1] === "\r" && stop > this.#at ? stop - 1 : stop);
      if (stop === end) {
        this.#try(line, growing && text.length === end);
        this.end = end;
        return;
      }
      this.#read(line);
      this.#at = nl + 1;
      this.#within = false;
    }
    this.end = this.#at;
  }

  #full(): boolean {
    return this.#blocks >= limits.blocks || this.#marks >= limits.marks;
  }

  // Reads the last line, so that it can be taken back. While more may come, one that does not say yet what it is is waited with.
  #try(line: string, growing: boolean): void {
    const [open, leaf, fence, blank, blocks, marks] = [this.#open.slice(), this.#leaf, this.#fence, this.#blank, this.#blocks, this.#marks];
    this.#undo = [
      () => {
        [this.#open, this.#leaf, this.#fence, this.#blank, this.#blocks, this.#marks] = [open, leaf, fence, blank, blocks, marks];
      },
    ];
    if (!growing || !this.#waits(line)) this.#read(line);
    if (growing) this.#guess();
  }

  #waits(line: string): boolean {
    if (this.#within) return false;
    const mark = this.#fence?.mark[0];
    return mark ? line.trim() !== "" && line.trim().replaceAll(mark, "") === "" : undecided.test(line);
  }

  // What begins with a bar will most likely be a table.
  #guess(): void {
    const p = this.#leaf;
    if (p?.kind !== "paragraph" || !p.text.startsWith("|") || p.text.includes("\n")) return;
    const head = cells(p.text);
    if (head.length === 0) return;
    this.#replace(p, { kind: "table", rev: 0, align: head.map(() => ""), head, rows: [] });
    this.#touch();
  }

  #takeBack(): void {
    if (!this.#undo) return;
    const undo = this.#undo;
    this.#undo = undefined;
    while (undo.length > 0) undo.pop()!();
    this.#touch();
  }

  #set<T, K extends keyof T>(of: T, key: K, value: T[K]): void {
    const was = of[key];
    this.#undo?.push(() => (of[key] = was));
    of[key] = value;
  }

  #push<T>(list: T[], ...values: T[]): void {
    this.#undo?.push(() => (list.length -= values.length));
    list.push(...values);
  }

  #touch(): void {
    for (const node of this.#open) node.rev = ++this.#clock;
    if (this.#leaf) this.#leaf.rev = ++this.#clock;
  }

  #read(line: string): void {
    this.work += line.length;
    // Not every one of these means something; but whatever is to be found in a line is found at one of them.
    for (let i = this.#fence ? line.length : 0; i < line.length; i++) if ("*_~`[<&\\|".includes(line[i]!)) this.#marks++;
    this.#touch();
    if (this.#within) this.#goOn(line);
    else this.#line(untab(line));
    this.#touch();
  }

  // More of a line whose beginning has been read: it is text.
  #goOn(more: string): void {
    const leaf = this.#leaf;
    if (leaf?.kind === "paragraph") this.#extend(leaf, more);
    else if (leaf?.kind === "code") this.#set(leaf.lines, leaf.lines.length - 1, (leaf.lines.at(-1) ?? "") + more);
    else if (leaf?.kind !== "table") this.#add({ kind: "paragraph", rev: 0, text: more });
  }

  // Appends to a paragraph; one that would be too long goes on as another.
  #extend(p: Paragraph, more: string): void {
    if (p.text.length + more.length > limits.leaf) this.#add({ kind: "paragraph", rev: 0, text: more.trimStart() });
    else this.#set(p, "text", p.text + more);
  }

  // Puts a block where the innermost open container is, one that can hold it.
  #add(block: Block): void {
    while (this.#open.at(-1)!.kind === "list") this.#open.pop();
    const into = this.#open.at(-1) as Root | Quote | Item;
    if (into.kind === "item" && into.blank && into.children.length > 0) this.#set(this.#open.at(-2) as List, "loose", true);
    block.rev = ++this.#clock;
    this.#push<Block>(into.children, block);
    this.#blocks++;
    this.#leaf = undefined;
    this.#fence = undefined;
    if (block.kind === "quote" || block.kind === "list") this.#open.push(block);
    else this.#leaf = block;
  }

  #line(line: string): void {
    // Which of the open containers does the line belong to?
    let at = 0;
    let depth = 1;
    for (; depth < this.#open.length; depth++) {
      const c = this.#open[depth]!;
      const indent = indentOf(line, at);
      const blank = at + indent === line.length;
      if (c.kind === "quote") {
        if (indent > 3 || line[at + indent] !== ">") break;
        at += indent + 1;
        if (line[at] === " ") at++;
      } else if (c.kind === "item") {
        if (blank ? c.children.length === 0 : indent < c.indent) break;
        at += Math.min(indent, c.indent);
      }
    }
    let all = depth === this.#open.length;
    let leaf = this.#leaf;

    if (leaf?.kind === "code" && all) {
      const indent = indentOf(line, at);
      if (this.#fence) {
        const { mark } = this.#fence;
        const rest = line.slice(at + indent).trimEnd();
        if (indent <= 3 && rest.length >= mark.length && rest === mark[0]!.repeat(rest.length)) this.#leaf = this.#fence = undefined;
        else this.#push(leaf.lines, line.slice(at + Math.min(indent, this.#fence.indent)));
        return;
      }
      if (at + indent === line.length) {
        this.#blank++;
        return;
      }
      if (indent >= 4) {
        for (; this.#blank > 0; this.#blank--) this.#push(leaf.lines, "");
        this.#push(leaf.lines, line.slice(at + 4));
        return;
      }
    }

    // What begins here? Nothing is closed before that is known: text may go on with the paragraph before it, marks or none.
    const close = (): void => {
      if (!all) {
        this.#open.length = depth;
        this.#leaf = this.#fence = undefined;
        all = true;
        leaf = undefined;
      }
    };
    let text = "";
    let began = false; // a container
    for (;; began = true) {
      const indent = indentOf(line, at);
      text = line.slice(at + indent);
      if (text === "") break;
      if (indent >= 4) {
        if (leaf?.kind === "paragraph") break;
        close();
        this.#add({ kind: "code", rev: 0, info: "", lines: [line.slice(at + 4)] });
        this.#blank = 0;
        return;
      }
      if (text[0] === ">" && this.#open.length < limits.depth) {
        close();
        this.#add({ kind: "quote", rev: 0, children: [] });
        leaf = undefined;
        depth = this.#open.length;
        at += indent + 1;
        if (line[at] === " ") at++;
        continue;
      }
      let m = heading.exec(text);
      if (m) {
        close();
        const title = text.slice(m[0].length).replace(/(?:^| )#{1,64} *$/, "").trim();
        this.#add({ kind: "heading", rev: 0, level: m[1]!.length, text: title });
        this.#leaf = undefined;
        return;
      }
      if ((m = fence.exec(text))) {
        close();
        this.#add({ kind: "code", rev: 0, info: (m[2] ?? m[4] ?? "").trim(), lines: [] });
        this.#fence = { mark: (m[1] ?? m[3])!, indent };
        return;
      }
      if (all && leaf?.kind === "paragraph") {
        const p = leaf;
        if ((m = underline.exec(text))) {
          this.#replace(p, { kind: "heading", rev: 0, level: m[1]![0] === "=" ? 1 : 2, text: p.text.trim() });
          this.#leaf = undefined;
          return;
        }
        if (this.#table(p, text)) return;
      }
      if (rule.test(text)) {
        close();
        this.#add({ kind: "rule", rev: 0 });
        this.#leaf = undefined;
        return;
      }
      const b = bullet.exec(text);
      const n = b ? null : number.exec(text);
      if ((b || n) && this.#open.length < limits.depth) {
        const mark = b ? 1 : n![1]!.length + 1;
        const empty = text.length === (b ?? n)![0].length;
        // A number within a paragraph is mostly one that was wrapped to there.
        if (all && leaf?.kind === "paragraph" && (empty || (n && n[1] !== "1"))) break;
        const spaces = (b ? b[2]! : n![3]!).length;
        const inner = empty || spaces > 4 ? mark + 1 : mark + spaces;
        close();
        this.#item(b ? b[1]! : n![2]!, n ? Number(n[1]) : undefined, indent + inner);
        leaf = undefined;
        depth = this.#open.length;
        at = Math.min(at + indent + inner, line.length);
        const task = /^ *\[([ xX])\] /.exec(line.slice(at, at + 8));
        if (task) {
          (this.#open.at(-1) as Item).task = task[1] !== " ";
          at += task[0].length - 1;
        }
        continue;
      }
      break;
    }

    if (text === "") {
      close();
      if (this.#leaf?.kind !== "code") this.#leaf = undefined;
      for (let i = this.#open.length - 1; i > 0 && !began; i--) {
        const c = this.#open[i]!;
        if (c.kind === "quote") break; // a blank line in it is none outside
        if (c.kind === "list") this.#set(c.children.at(-1)!, "blank", true);
      }
      return;
    }
    if (leaf?.kind === "paragraph") {
      this.#extend(leaf, "\n" + text); // also where marks of containers are missing
    } else {
      close();
      if (leaf?.kind === "table") this.#row(leaf, text);
      else this.#add({ kind: "paragraph", rev: 0, text });
    }
    for (const c of this.#open) if (c.kind === "item" && c.blank) this.#set(c, "blank", false);
  }

  #item(marker: string, start: number | undefined, indent: number): void {
    let list = this.#open.at(-1)!;
    if (list.kind !== "list" || list.marker !== marker) {
      if (list.kind === "list") this.#open.pop();
      this.#add({ kind: "list", rev: 0, marker, start, loose: false, children: [] });
      list = this.#open.at(-1) as List;
    }
    if (list.children.at(-1)?.blank) this.#set(list, "loose", true);
    const item: Item = { kind: "item", rev: ++this.#clock, indent, task: undefined, blank: false, children: [] };
    this.#push(list.children, item);
    this.#open.push(item);
    this.#blocks++;
    this.#leaf = undefined;
  }

  // Puts another block where the last one is.
  #replace(was: Block, block: Block): void {
    const children = (this.#open.at(-1) as Root | Quote | Item).children;
    const i = children.indexOf(was, children.length - 1);
    block.rev = ++this.#clock;
    this.#set(children, i, block);
  }

  // A paragraph whose last line is the head of a table that text goes on with.
  #table(p: Paragraph, text: string): boolean {
    if (!text.includes("-") || !(text.includes("|") || text.includes(":")) || !delimiter.test(text)) return false;
    const nl = p.text.lastIndexOf("\n");
    const head = cells(p.text.slice(nl + 1));
    const align = cells(text).map((cell): Align => {
      const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
      return left && right ? "center" : right ? "right" : left ? "left" : "";
    });
    if (head.length !== align.length || !p.text.includes("|", nl + 1)) return false;
    const table: Table = { kind: "table", rev: 0, align, head, rows: [] };
    if (nl < 0) {
      this.#replace(p, table);
      this.#leaf = table;
    } else {
      this.#set(p, "text", p.text.slice(0, nl));
      p.rev = ++this.#clock;
      this.#add(table);
    }
    return true;
  }

  #row(table: Table, text: string): void {
    const row = cells(text);
    this.#blocks++;
    this.#marks += table.head.length;
    this.#push(table.rows, Array.from(table.head, (_, i) => row[i] ?? ""));
  }
}
