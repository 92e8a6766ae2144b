// Canceling a run, which cannot be taken back. Only a button does it: Esc closes what is open.

import { useEffect, useState } from "preact/hooks";
import type { Live } from "./live.js";

/** Returns how a run is canceled. */
export function useCancel(live: Live | undefined): { now: () => void; busy: boolean; failed: string } {
  const [busy, setBusy] = useState(false);
  const [failed, fail] = useState("");
  const now = (): void => {
    fail("");
    if (!live) return;
    if (!live.id) return live.run.close(); // the server knows nothing of it yet
    setBusy(true);
    live.run.cancel().then(
      () => setBusy(false),
      (error: Error) => {
        setBusy(false);
        fail("The run could not be canceled: " + error.message);
      },
    );
  };
  useEffect(() => {
    setBusy(false);
    fail("");
  }, [live]);
  return { now, busy, failed };
}
