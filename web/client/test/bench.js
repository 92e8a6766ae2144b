// What applying deltas costs: node --expose-gc test/bench.js
import { Fold } from "@lingserve/client";

const n = 100_000;
const shapes = {
  "one text": (i) => ["article/sections/0/body", "word "],
  "four texts in turn": (i) => [`article/sections/${i % 4}/body`, "word "],
  "a wide array": (i) => [`list/${i}`, "x"],
  "a wide object": (i) => [`key${i}`, i],
  "objects in an array": (i) => [`list/${i >> 2}/${"abcd"[i & 3]}`, "x"],
};
for (const [name, delta] of Object.entries(shapes)) {
  for (const frame of [Infinity, 1000]) {
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
