// What is kept in the browser. Storage may be forbidden, or full: then the page knows less after a reload, and works all the same.

export function keep(store: "local" | "session", key: string, value: unknown): void {
  try {
    const s = store === "local" ? localStorage : sessionStorage;
    if (value === undefined) s.removeItem("lingserve." + key);
    else s.setItem("lingserve." + key, JSON.stringify(value));
  } catch {} // see above
}

export function kept<T>(store: "local" | "session", key: string): T | undefined {
  try {
    return JSON.parse((store === "local" ? localStorage : sessionStorage).getItem("lingserve." + key) ?? "null") ?? undefined;
  } catch {
    return undefined;
  }
}
