// HTML that a model writes: its source while it grows, and then how it looks, in a frame without scripts.

import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { marked } from "./parts/text.js";
import { previewOf } from "./preview.js";

const maxSource = 100_000; // characters that are shown
const maxPreview = 1_000_000;

// The page's Content-Security-Policy names this policy, and it has one use: the frame below. Browsers without Trusted Types need none.
const policy = (globalThis as { trustedTypes?: { createPolicy(name: string, rules: object): { createHTML(html: string): string } } })
  .trustedTypes?.createPolicy("preview", { createHTML: (html: string) => html });

/** The source of a text of HTML. */
export function Source({ text, done }: { text: string; done: boolean }) {
  return <pre class={"well source" + (done ? "" : " source-writing")} tabIndex={0} aria-label="HTML">{marked(text.length > maxSource ? text.slice(0, maxSource) + "\n…" : text)}</pre>;
}

/** A text of HTML. What is complete can be looked at as a page, or as its source. */
export function HTML({ text, done }: { text: string; done: boolean }) {
  const [source, showSource] = useState(false);
  const name = useId();
  if (!done || text.length > maxPreview) return <Source text={text} done={done} />;
  return (
    <div class="preview">
      <fieldset class="segments">
        <legend class="sr">Show the HTML as</legend>
        {[false, true].map((s) => (
          <label key={String(s)}>
            <input type="radio" name={name} checked={source === s} onChange={() => showSource(s)} />
            <span>{s ? "Source" : "Preview"}</span>
          </label>
        ))}
      </fieldset>
      {source ? <Source text={text} done /> : <Frame html={text} />}
    </div>
  );
}

function Frame({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  useLayoutEffect(() => {
    const text = previewOf(html);
    frame.current!.srcdoc = policy ? policy.createHTML(text) : text;
  }, [html]);
  // No scripts, no forms, no origin. A link opens another tab, as links of the page do.
  return <iframe ref={frame} class="preview-frame" sandbox="allow-popups allow-popups-to-escape-sandbox" title="Preview of the HTML" />;
}
