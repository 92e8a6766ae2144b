import { useEffect, useState } from "preact/hooks";

/** The beginning of an id, and a button that copies all of it. */
export function ShortId({ id, what }: { id: string; what: string }) {
  return (
    <span class="short-id">
      <code title={id}>{id.length > 12 ? id.slice(0, 8) + "…" : id}</code>
      <CopyButton text={() => id} what={what} />
    </span>
  );
}

/** A button that copies a text, and says that it has. */
export function CopyButton({ text, what, label = "Copy" }: { text: () => string; what: string; label?: string }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => say(""), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = (): void => {
    // There is no clipboard on pages without https, but for those of this machine.
    const done = navigator.clipboard?.writeText(text()) ?? Promise.reject(new Error("no clipboard"));
    done.then(
      () => say("Copied"),
      () => say("Copy failed"),
    );
  };
  return (
    <button type="button" class="part-quiet" onClick={copy} aria-label={`${label} ${what}`}>
      {said || label}
      <span class="sr" aria-live="polite">{said}</span>
    </button>
  );
}
