import { useEffect, useState } from "preact/hooks";

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
      () => say("Not possible here"),
    );
  };
  return (
    <button type="button" class="part-quiet" onClick={copy} aria-label={`${label} ${what}`}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}
