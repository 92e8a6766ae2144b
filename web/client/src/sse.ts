// Server-Sent Events, as the HTML standard has them, from a body's bytes.

/** One event of a stream: its fields. `id` is undefined where this event has none. */
export interface Frame {
  id?: string;
  event: string;
  data: string;
}

/** Reads a body and yields its events. `retry` is told what the server says of reconnecting, in ms. */
export async function* frames(body: ReadableStream<Uint8Array>, alive: () => void, retry: (ms: number) => void): AsyncGenerator<Frame[]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let afterCR = false;
  let id: string | undefined;
  let event = "";
  let data: string | undefined;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // an event without its blank line is none
      alive();
      let text = decoder.decode(value, { stream: true });
      if (text === "") continue;
      if (afterCR && text[0] === "\n") text = text.slice(1);
      afterCR = text.endsWith("\r");
      if (text.includes("\r")) text = text.replace(/\r\n?/g, "\n");
      if (!text.includes("\n")) {
        rest += text; // a long line in many chunks is looked through once
        continue;
      }
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      const all: Frame[] = [];
      for (const line of lines) {
        if (line === "") {
          if (data !== undefined) all.push(id === undefined ? { event, data } : { id, event, data });
          id = data = undefined;
          event = "";
          continue;
        }
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const field = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
        if (name === "data") data = data === undefined ? field : data + "\n" + field;
        else if (name === "event") event = field;
        else if (name === "id" && !field.includes("\0")) id = field;
        else if (name === "retry" && /^\d+$/.test(field)) retry(Number(field));
      }
      if (all.length > 0) yield all;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
