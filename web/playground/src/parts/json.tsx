import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { json } from "./text.js";

const first = 4000; // characters that are shown at once

/** A value as JSON, with all that is in it to be seen: nothing hides in it. A long one is shown in part at first. */
export function JSONValue({ value, label }: { value: unknown; label: string }) {
  const [all, showAll] = useState(false);
  const text = useMemo(() => json(value), [value]);
  const cut = !all && text.length > first;
  return (
    <div class="json">
      <pre tabIndex={0} aria-label={label}>
        {isolated(cut ? text.slice(0, first) + "…" : text)}
      </pre>
      {cut && (
        <button type="button" class="part-quiet" onClick={() => showAll(true)}>
          Show all {text.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}

// Strings that are written from right to left move nothing outside of them.
function isolated(text: string): ComponentChildren {
  return text.split(/("(?:[^"\\]|\\.)*")/).map((part) => (/[^\0-\x7f]/.test(part) ? <bdi>{part}</bdi> : part));
}
