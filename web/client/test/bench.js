// What applying deltas costs: node --expose-gc test/bench.js
import { Fold, run } from "@lingserve/client";

const n = 100_000;
const shapes = {
  "one text": (i) => ["article/sections/0/body", "word "],
  "four texts in turn": (i) => [`article/sections/${i % 4}/body`, "word "],
  "a wide array": (i) => [`list/${i}`, "x"],
  "a wide object": (i) => [`key${i}`, i],
  "objects in an array": (i) => [`list/${i >> 2}/${"abcd"[i & 3]}`, "x"],
};
for (const [name, delta] of Object.entries(shapes)) {
  for (const frame of [Infinity, 10_000]) {
    const lines = Array.from({ length: n }, (_, i) => JSON.stringify({ uri: delta(i)[0], delta: delta(i)[1] }));
    let best = Infinity;
    let parsed = Infinity;
    for (let round = 0; round < 5; round++) {
      const began = performance.now();
      const events = lines.map((line) => JSON.parse(line));
      parsed = Math.min(parsed, performance.now() - began);
      const fold = new Fold();
      if (name.includes("array")) fold.apply("list", []);
      globalThis.gc?.();
      const start = performance.now();
      events.forEach(({ uri, delta }, i) => {
        fold.apply(uri, delta);
        if (i % frame === frame - 1) fold.document;
      });
      fold.document;
      best = Math.min(best, performance.now() - start);
    }
    console.log(`${name}, looked at ${frame === Infinity ? "once" : `every ${frame} deltas`}: ${n} deltas in ${best.toFixed(0)} ms (JSON.parse: ${parsed.toFixed(0)} ms)`);
  }
}

// All of it: a server, fetch, the parser, the document, a subscriber.
const text = "retry: 5\n" + Array.from({ length: n }, (_, i) => `id: r:${i}\ndata: ${JSON.stringify({ uri: `article/sections/${i % 4}/body`, delta: "word " })}\n\n`).join("") + `id: r:${n}\nevent: finished\ndata: {"status":"completed"}\n\n`;
const bytes = new TextEncoder().encode(text);
const answer = async () =>
  new Response(
    new ReadableStream({
      start(body) {
        for (let at = 0; at < bytes.length; at += 16384) body.enqueue(bytes.subarray(at, at + 16384));
        body.close();
      },
    }),
    { headers: { "Content-Type": "text/event-stream" } },
  );
let best = Infinity;
for (let round = 0; round < 5; round++) {
  const began = performance.now();
  const r = run("http://localhost/v1/runs", {}, { fetch: answer });
  r.subscribe("article/sections/*/body", () => {});
  await r;
  best = Math.min(best, performance.now() - began);
}
console.log(`a run of ${n} deltas, ${(bytes.length / 1e6).toFixed(0)} MB of Server-Sent Events: ${best.toFixed(0)} ms`);
