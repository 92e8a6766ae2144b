// What is within a line of Markdown: CommonMark's and GFM's emphasis, code, links, images and breaks. HTML is text. The work is linear
// in the text, but for what each link may cost at most; see blocks.ts for what bounds the text.

import { linkOf, type Link } from "./links.js";

export type Inline =
  | string
  | { kind: "emphasis" | "strong" | "deleted"; children: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "break" }
  /** `link` is undefined where the address is none that may be followed; then it is shown. */
  | { kind: "link"; children: Inline[]; address: string; link: Link | undefined; image: boolean };

type Tag = "emphasis" | "strong" | "deleted";

interface Mark {
  kind: "mark";
  char: string;
  count: number; // those that are left
  whole: number; // those that were there
  opens: boolean;
  closes: boolean;
  begin: Tag[]; // what begins behind it, the innermost first
  end: Tag[]; // what ends before it, the innermost first
  order: number; // among the marks
  prev: Mark | undefined;
  next: Mark | undefined;
}

interface Bracket {
  at: number; // in the list of pieces
  image: boolean;
}

type Piece = Inline | Mark;

const maxDepth = 16; // of emphasis within emphasis; what is beyond is shown without
const maxAddress = 2048;

const special = /[\\`*_~[\]!<&\n]|https?:\/\/|www\./gi;
const ascii = /[!-/:-@[-`{-~]/;
const punctuation = /[\p{P}\p{S}]/u;
const space = /\s/;
const angle = /<([a-z][a-z0-9+.-]{1,31}:[^\s<>]{0,2000}|[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-z0-9.-]{1,253})>/iy;
const lineBreak = /<br ?\/?>/iy;
const bare = /(?:https?:\/\/|www\.)[^\s<]{1,2000}/iy;
const entity = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/y;
const title = /\s+(?:"(?:[^"\\]|\\.){0,500}"|'(?:[^'\\]|\\.){0,500}'|\((?:[^()\\]|\\.){0,500}\))/y;

// Those that people and models write; all others stay as they are.
const names: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", deg: "°", hellip: "…",
  mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", laquo: "«", raquo: "»", bull: "•", middot: "·",
  times: "×", divide: "÷", plusmn: "±", le: "≤", ge: "≥", ne: "≠", rarr: "→", larr: "←", harr: "↔", uarr: "↑", darr: "↓",
  euro: "€", pound: "£", yen: "¥", cent: "¢", sect: "§", para: "¶", szlig: "ß", auml: "ä", ouml: "ö", uuml: "ü", eacute: "é",
}; // prettier-ignore

/**
 * Reads the text of a block. `here` is the origin of the page, to which nothing may link. Where the text is still growing, what is
 * open at its end is taken for what it will most likely be.
 */
export function inline(text: string, here: string, growing = false): Inline[] {
  return new Reader(text, here, growing).read();
}

class Reader {
  readonly #text: string;
  readonly #here: string;
  readonly #growing: boolean;
  readonly #pieces: Piece[] = [];
  #brackets: Bracket[] = [];
  #ticks: Map<number, number[]> | undefined; // where runs of so many backticks are
  #at = 0;

  constructor(text: string, here: string, growing: boolean) {
    this.#text = text;
    this.#here = here;
    this.#growing = growing;
  }

  read(): Inline[] {
    const text = this.#text;
    while (this.#at < text.length) {
      special.lastIndex = this.#at;
      const found = special.exec(text);
      const to = found ? found.index : text.length;
      if (to > this.#at) this.#put(text.slice(this.#at, to));
      this.#at = to;
      if (!found) break;
      this.#special(found[0]);
    }
    return emphasize(this.#pieces, this.#growing);
  }

  #put(piece: Piece): void {
    const last = this.#pieces.at(-1);
    // What a bracket stands at must stay a piece of its own.
    if (typeof piece === "string" && typeof last === "string" && this.#brackets.at(-1)?.at !== this.#pieces.length - 1) {
      this.#pieces[this.#pieces.length - 1] = last + piece;
    } else {
      this.#pieces.push(piece);
    }
  }

  // Puts n characters that mean nothing.
  #plain(n: number): void {
    this.#put(this.#text.slice(this.#at, this.#at + n));
    this.#at += n;
  }

  #match(re: RegExp): RegExpExecArray | null {
    re.lastIndex = this.#at;
    return re.exec(this.#text);
  }

  #special(c: string): void {
    const text = this.#text;
    const next = text[this.#at + 1] ?? "";
    let m: RegExpExecArray | null;
    switch (c) {
      case "\\":
        if (next === "\n") this.#break(2);
        else if (ascii.test(next)) {
          this.#put(next);
          this.#at += 2;
        } else this.#plain(1);
        return;
      case "\n": {
        const last = this.#pieces.at(-1);
        const hard = typeof last === "string" && last.endsWith("  ");
        if (typeof last === "string") this.#pieces[this.#pieces.length - 1] = last.trimEnd();
        if (hard) this.#break(1);
        else this.#plain(1);
        return;
      }
      case "`":
        return this.#code();
      case "*":
      case "_":
      case "~":
        return this.#mark(c);
      case "!":
        if (next !== "[") return this.#plain(1);
        this.#brackets.push({ at: this.#pieces.length, image: true });
        this.#pieces.push("![");
        this.#at += 2;
        return;
      case "[":
        this.#brackets.push({ at: this.#pieces.length, image: false });
        this.#pieces.push("[");
        this.#at++;
        return;
      case "]":
        return this.#close();
      case "<":
        if ((m = this.#match(angle))) {
          this.#at += m[0].length;
          const address = m[1]!;
          const link = linkOf(address.includes(":") ? address : "mailto:" + address, this.#here);
          this.#put(link ? { kind: "link", children: [address], address, link, image: false } : m[0]);
        } else if ((m = this.#match(lineBreak))) this.#break(m[0].length);
        else this.#plain(1);
        return;
      case "&":
        if ((m = this.#match(entity))) {
          const code = m[1] ? Number(m[1]) : m[2] ? parseInt(m[2], 16) : -1;
          const char = m[3] ? (Object.hasOwn(names, m[3]) ? names[m[3]] : undefined) : character(code);
          if (char !== undefined) {
            this.#put(char);
            this.#at += m[0].length;
            return;
          }
        }
        return this.#plain(1);
      default:
        return this.#bare(c);
    }
  }

  #break(n: number): void {
    this.#at += n;
    this.#put({ kind: "break" });
  }

  // An address that stands in the text as it is.
  #bare(begin: string): void {
    const before = this.#text[this.#at - 1] ?? "";
    const m = /[\p{L}\p{N}_]/u.test(before) ? null : this.#match(bare);
    if (!m) return this.#plain(begin.length);
    // Punctuation behind it is not a part of it, nor is a bracket that was not opened in it.
    let address = m[0];
    let over = address.split(")").length - address.split("(").length;
    for (;;) {
      const last = address.at(-1)!;
      if (last === ";") address = address.replace(/(?:&[a-z\d]{1,32})?;$/i, "");
      else if ("?!.,:'\"]*_~`".includes(last)) address = address.slice(0, -1);
      else if (last === ")" && over > 0) {
        address = address.slice(0, -1);
        over--;
      } else break;
    }
    const link = address.length > begin.length ? linkOf(/^www/i.test(address) ? "https://" + address : address, this.#here) : undefined;
    if (!link) return this.#plain(begin.length);
    this.#at += address.length;
    this.#put({ kind: "link", children: [address], address, link, image: false });
  }

  #code(): void {
    const text = this.#text;
    if (!this.#ticks) {
      this.#ticks = new Map();
      for (const m of text.matchAll(/`+/g)) {
        const at = this.#ticks.get(m[0].length);
        if (at) at.push(m.index);
        else this.#ticks.set(m[0].length, [m.index]);
      }
      for (const at of this.#ticks.values()) at.reverse(); // the next one is the last
    }
    let n = 1;
    while (text[this.#at + n] === "`") n++;
    const runs = this.#ticks.get(n);
    while (runs && runs.length > 0 && runs.at(-1)! <= this.#at) runs.pop();
    let end = runs?.at(-1);
    if (end === undefined) {
      if (!this.#growing || this.#at + n === text.length) return this.#plain(n);
      end = text.length;
    }
    let code = text.slice(this.#at + n, end).replaceAll("\n", " ");
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim() !== "") code = code.slice(1, -1);
    this.#at = end + n;
    this.#put({ kind: "code", text: code });
  }

  #mark(char: string): void {
    const text = this.#text;
    const from = this.#at;
    let to = from + 1;
    while (text[to] === char) to++;
    this.#at = to;
    const n = to - from;
    const before = from === 0 ? " " : lastChar(text, from);
    const after = to === text.length ? " " : String.fromCodePoint(text.codePointAt(to)!);
    const [spaceBefore, spaceAfter] = [space.test(before), space.test(after)];
    const [dotBefore, dotAfter] = [punctuation.test(before), punctuation.test(after)];
    const left = !spaceAfter && (!dotAfter || spaceBefore || dotBefore);
    const right = !spaceBefore && (!dotBefore || spaceAfter || dotAfter);
    const opens = char === "_" ? left && (!right || dotBefore) : left;
    const closes = char === "_" ? right && (!left || dotAfter) : right;
    if ((char === "~" && n !== 2) || (!opens && !closes)) this.#put(text.slice(from, to));
    else this.#pieces.push({ kind: "mark", char, count: n, whole: n, opens, closes, begin: [], end: [], order: 0, prev: undefined, next: undefined });
  }

  // A closing bracket: a link or an image, where an address follows.
  #close(): void {
    const bracket = this.#brackets.pop();
    if (!bracket) return this.#plain(1);
    const target = this.#target();
    if (!target) return this.#plain(1);
    const inner = this.#pieces.splice(bracket.at);
    inner.shift(); // the bracket
    const children = unlink(emphasize(inner, false));
    this.#at = target.end;
    if (!bracket.image) this.#brackets = []; // there are no links in links
    if (target.address === undefined) {
      for (const child of children) this.#put(child); // the rest of the link is still to come
      return;
    }
    const link = linkOf(target.address, this.#here);
    this.#put({ kind: "link", children, address: target.address, link, image: bracket.image });
  }

  // What is behind a closing bracket: (address "title"). The address is undefined where the text ends before that.
  #target(): { address: string | undefined; end: number } | undefined {
    const text = this.#text;
    let i = this.#at + 1;
    if (text[i] !== "(") return undefined;
    i++;
    const most = Math.min(text.length, i + maxAddress);
    while (i < most && space.test(text[i]!)) i++;
    let address = "";
    if (text[i] === "<") {
      const from = ++i;
      while (i < most && text[i] !== ">" && text[i] !== "<" && text[i] !== "\n") i += text[i] === "\\" ? 2 : 1;
      if (text[i] !== ">") return this.#unfinished(i);
      address = text.slice(from, i++);
    } else {
      const from = i;
      let depth = 0;
      for (; i < most && !space.test(text[i]!); i++) {
        const c = text[i]!;
        if (c === "\\" && ascii.test(text[i + 1] ?? "")) i++;
        else if (c === "(" && ++depth > 32) return undefined;
        else if (c === ")" && --depth < 0) break;
      }
      address = text.slice(from, Math.min(i, text.length));
    }
    title.lastIndex = i;
    const t = title.exec(text);
    if (t) i += t[0].length;
    while (i < text.length && i < most + 1000 && space.test(text[i]!)) i++;
    if (text[i] === ")") return { address: unescape(address), end: i + 1 };
    const begun = /["'(]/.test(text[i] ?? "") && text.length - i < 500; // a title
    return this.#unfinished(begun && !text.includes(text[i] === "(" ? ")" : text[i]!, i + 1) ? text.length : i);
  }

  #unfinished(at: number): { address: undefined; end: number } | undefined {
    return this.#growing && at >= this.#text.length ? { address: undefined, end: this.#text.length } : undefined;
  }
}

// What stands in a link is no link itself.
function unlink(list: Inline[]): Inline[] {
  return list.flatMap((piece): Inline[] => {
    if (typeof piece === "string" || !("children" in piece)) return [piece];
    const children = unlink(piece.children);
    return piece.kind === "link" ? (piece.image ? ["Image: ", ...children] : children) : [{ ...piece, children }];
  });
}

function lastChar(text: string, before: number): string {
  const c = text.charCodeAt(before - 1);
  return c >= 0xdc00 && c < 0xe000 && before > 1 ? text.slice(before - 2, before) : text[before - 1]!;
}

function character(code: number): string | undefined {
  if (code <= 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return "\ufffd";
  return String.fromCodePoint(code);
}

function unescape(text: string): string {
  return text
    .replace(/\\([!-/:-@[-`{-~])/g, "$1")
    .replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (all, dec?: string, hex?: string, name?: string) => {
      if (name !== undefined) return Object.hasOwn(names, name) ? names[name]! : all;
      return character(dec !== undefined ? Number(dec) : parseInt(hex!, 16)) ?? all;
    });
}

// Pairs the marks of emphasis, by the rules of CommonMark, and makes a tree of what is in between.
function emphasize(pieces: Piece[], growing: boolean): Inline[] {
  let last: Mark | undefined;
  let first: Mark | undefined;
  for (const piece of pieces) {
    if (typeof piece === "string" || piece.kind !== "mark") continue;
    piece.order = last ? last.order + 1 : 1;
    piece.prev = last;
    if (last) last.next = piece;
    else first = piece;
    last = piece;
  }
  const remove = (m: Mark): void => {
    if (m.prev) m.prev.next = m.next;
    else first = m.next;
    if (m.next) m.next.prev = m.prev;
    else last = m.prev;
  };
  // For each sort of closing mark: up to which mark one was sought in vain, and need not be sought again.
  const bottoms = new Map<string, number>();
  for (let closer = first; closer; ) {
    if (!closer.closes) {
      closer = closer.next;
      continue;
    }
    const sort = `${closer.char}${closer.opens}${closer.whole % 3}`;
    const bottom = bottoms.get(sort) ?? 0;
    let opener = closer.prev;
    while (opener && opener.order > bottom) {
      // A mark that can do both pairs only with one of a fitting length, so that *a**b* is one emphasis.
      const odd = (closer.opens || opener.closes) && closer.whole % 3 !== 0 && (opener.whole + closer.whole) % 3 === 0;
      if (opener.opens && opener.char === closer.char && !odd) break;
      opener = opener.prev;
    }
    if (!opener || opener.order <= bottom) {
      bottoms.set(sort, closer.order - 1);
      const next: Mark | undefined = closer.next;
      if (!closer.opens) remove(closer);
      closer = next;
      continue;
    }
    const n = opener.count >= 2 && closer.count >= 2 ? 2 : 1;
    const tag: Tag = closer.char === "~" ? "deleted" : n === 2 ? "strong" : "emphasis";
    opener.begin.push(tag);
    closer.end.push(tag);
    opener.count -= n;
    closer.count -= n;
    if (closer.char === "~") opener.count = closer.count = 0;
    opener.next = closer; // what is between them pairs with nothing any more
    closer.prev = opener;
    if (opener.count === 0) remove(opener);
    if (closer.count === 0) {
      const next: Mark | undefined = closer.next;
      remove(closer);
      closer = next;
    }
  }
  // While a text grows, what was begun will most likely be ended.
  for (let m = growing ? first : undefined; m; m = m.next) {
    if (!m.opens || m.closes) continue;
    for (; m.count > 0; m.count -= Math.min(m.count, 2)) m.begin.push(m.char === "~" ? "deleted" : m.count >= 2 ? "strong" : "emphasis");
  }

  const out: Inline[] = [];
  const stack: { into: Inline[]; tag: Tag | "" }[] = [{ into: out, tag: "" }];
  let beyond = 0;
  const put = (piece: Inline): void => {
    const { into } = stack.at(-1)!;
    const before = into.at(-1);
    if (typeof piece === "string" && typeof before === "string") into[into.length - 1] = before + piece;
    else if (piece !== "") into.push(piece);
  };
  for (const piece of pieces) {
    if (typeof piece === "string" || piece.kind !== "mark") {
      put(piece);
      continue;
    }
    for (const _ of piece.end) {
      if (beyond > 0) beyond--;
      else stack.pop();
    }
    put(piece.char.repeat(piece.count));
    for (let i = piece.begin.length - 1; i >= 0; i--) {
      const tag = piece.begin[i]!;
      if (stack.length > maxDepth) {
        beyond++;
        continue;
      }
      const children: Inline[] = [];
      stack.at(-1)!.into.push({ kind: tag, children });
      stack.push({ into: children, tag });
    }
  }
  return out;
}
