// HTML that a model has written, made ready for a frame without scripts.

// What is longer is not looked into. Tags are short, and so the work stays linear in the text.
const tag = /<([a-z][a-z0-9]*)((?:[^"'<>]|"[^"<>]*"|'[^'<>]*'){0,2000})>/gi;
const address = /\shref\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)/i;
const attribute = /\s(style|on[a-z]+|src|srcset|poster|background|ping)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)/gi;

// What the frame may load: nothing but what is written in the text.
const policy = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src data:">`;

/**
 * Returns a document for the `srcdoc` of a sandboxed frame. The frame inherits the page's Content-Security-Policy, which refuses styles
 * that stand in a document: they become style sheets with data: addresses. Scripts and what loads from elsewhere are left out, because
 * the frame would refuse them and warn; its sandbox is what keeps them from running, however the text is written. Links open in
 * another tab, those within the document lead there, and others lead nowhere.
 */
export function previewOf(html: string): string {
  let out = "";
  let css = "";
  let styled = 0;
  let from = 0;
  tag.lastIndex = 0;
  for (let found = tag.exec(html); found; found = tag.exec(html)) {
    const name = found[1]!.toLowerCase();
    out += html.slice(from, found.index);
    from = tag.lastIndex;
    if (name === "script" || name === "style") {
      const end = endOf(html, name, from);
      if (name === "style") out += sheet(html.slice(from, end.content));
      from = tag.lastIndex = end.after;
    } else if (name !== "link" && name !== "base" && !(name === "meta" && /http-equiv/i.test(found[2]!))) {
      let attributes = found[2]!.replace(attribute, (all, key: string, value: string) => {
        if (key.toLowerCase() === "src" && /^data:/i.test(unquote(value).trim())) return all;
        if (key.toLowerCase() !== "style") return "";
        // The id makes it win over the rules of style sheets, as the attribute would.
        css += `[data-styled="${styled}"]:not(#\\_){${unquote(value)}}`;
        return ` data-styled="${styled++}"`;
      });
      if (name === "a") attributes = attributes.replace(address, (all, value: string) => linkTo(all, unquote(value).trim()));
      out += `<${found[1]}${attributes}>`;
    }
  }
  return "<!DOCTYPE html>" + policy + out + html.slice(from) + (css && sheet(css));
}

function linkTo(href: string, to: string): string {
  if (/^(https?|mailto):/i.test(to)) return ` target="_blank" rel="noopener noreferrer nofollow ugc"${href}`;
  // What is relative is so to the page, in which the frame may not go anywhere.
  return to.startsWith("#") ? ` href="about:srcdoc${to.replace(/["&]/g, "")}"` : "";
}

// Where the text of an element ends in which no tags are, and where the document goes on.
function endOf(html: string, name: string, from: number): { content: number; after: number } {
  const close = new RegExp(`</${name}[^>]*>?`, "gi");
  close.lastIndex = from;
  const found = close.exec(html);
  return found ? { content: found.index, after: close.lastIndex } : { content: html.length, after: html.length };
}

function sheet(css: string): string {
  return `<link rel="stylesheet" href="data:text/css;charset=utf-8,${encodeURIComponent(css.replace(/\p{Surrogate}/gu, "\ufffd"))}">`;
}

function unquote(value: string): string {
  return value.replace(/^["']|["']$/g, "").replace(/&quot;/g, '"').replace(/&#39;|&apos;/g, "'").replace(/&amp;/g, "&");
}
