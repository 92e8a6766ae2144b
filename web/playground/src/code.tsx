// The run as code.

import { useState } from "preact/hooks";
import type { RunRequest } from "../../client/src/index.js";
import { key } from "./api.js";
import { CopyButton } from "./parts/copy.js";
import { client, curl, eventSource } from "./snippets.js";

const languages = [
  { id: "curl", label: "curl", of: curl, note: "Needs curl 7.82 or newer." },
  { id: "eventsource", label: "EventSource", of: eventSource, note: "For a page of this server, or of a proxy in front of it. Needs no package." },
  { id: "client", label: "Client", of: client, note: "Needs @lingserve/client, which reconnects by itself and returns the document instead of deltas." },
] as const;

export function Code({ request }: { request: RunRequest | undefined }) {
  const [id, choose] = useState<string>("curl");
  const language = languages.find((l) => l.id === id)!;
  if (!request) return <div class="empty"><p>Only the page that started this run knows its request.</p></div>;
  const text = language.of(location.origin, request, key.value !== undefined);
  return (
    <div class="code-pane">
      <fieldset class="segments">
        <legend class="sr">Language</legend>
        {languages.map((l) => (
          <label key={l.id}>
            <input type="radio" name="language" value={l.id} checked={l.id === id} onChange={() => choose(l.id)} />
            <span>{l.label}</span>
          </label>
        ))}
        <CopyButton key={id} text={() => text} what={language.label} />
      </fieldset>
      <pre class="well" tabIndex={0} aria-label={`This run with ${language.label}`}><code>{text}</code></pre>
      <p class="quiet">{language.note}{key.value !== undefined && <> Put your key into the environment variable <code>LINGSERVE_KEY</code>.</>}</p>
    </div>
  );
}
