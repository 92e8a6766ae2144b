// Who asks, where the server wants to know.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { key, locked } from "./api.js";
import { sentence } from "./failure.js";
import { signIn } from "./store.js";

export function SignIn() {
  const id = useId();
  const [text, setText] = useState("");
  const [asking, setAsking] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  // Who has shown nothing did nothing wrong.
  const wrong = key.value !== undefined && !asking ? locked.value : undefined;
  useEffect(() => field.current?.focus(), []);
  const submit = async (e: Event): Promise<void> => {
    e.preventDefault();
    if (text.trim() === "") return field.current?.focus();
    setAsking(true);
    await signIn(text.trim());
    setAsking(false);
  };
  return (
    <main id="main" class="signin" tabIndex={-1}>
      <form class="signin-form" onSubmit={submit}>
        <h1>Sign in</h1>
        <p class="quiet">This server needs an API key. Its operator creates one with <code>lingserve keys new</code>.</p>
        <div class="field">
          <label for={id}>API key</label>
          <input
            ref={field} id={id} class="mono" type="password" name="key" value={text} autoComplete="current-password" spellcheck={false} required
            aria-invalid={!!wrong} aria-describedby={id + "-e"} onInput={(e) => setText(e.currentTarget.value)}
          />
          <p class="field-error" id={id + "-e"} role="alert">{wrong && sentence(wrong.message)}</p>
        </div>
        <button type="submit" class="button primary" disabled={asking}>Sign in</button>
        <p class="quiet">The page forgets the key when you close this tab.</p>
      </form>
    </main>
  );
}
