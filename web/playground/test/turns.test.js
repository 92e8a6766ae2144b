// The turns of a session, read from its tape.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lingserve } from "../../client/test/server.js";
import { readTurns, titleOf } from "../node_modules/.page/playground/src/turns.js";
import { readPlace, writePlace } from "../node_modules/.page/playground/src/place.js";

const entry = (id, kind, payload, turn = "t1") => ({ id, kind, payload, meta: turn ? { turn } : {}, date: "2026-01-01T00:00:00Z" });

test("what the server writes on a tape reads as it was said", async (t) => {
  const server = await lingserve(t, { pace: 0 });
  const say = (input) =>
    fetch(server.runs, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ agent: "assistant", session: "s", input }) }).then((r) => r.json());
  const first = await say("What does tape info say?");
  const second = await say("Hello");
  await say(",tape.handoff name=billing summary=paid");
  const { entries } = await (await fetch(`${server.url}/v1/sessions/s/tape`)).json();
  const turns = readTurns(entries);
  const [a, b] = turns;
  assert.deepEqual([a.id, b.id], [first.run, second.run]);
  assert.deepEqual([a.said, b.said], [["What does tape info say?"], ["Hello"]]);
  assert.deepEqual(a.parts.map((p) => p.kind), ["call", "text"]);
  assert.equal(a.parts[0].call.name, "tape_info");
  assert.ok(a.parts[0].call.result.entries > 0);
  assert.equal(a.parts[0].call.failed, false);
  assert.equal(a.parts[1].text, first.result);
  assert.ok(a.took >= 0 && a.tokens > 0);
  assert.ok(turns.some((x) => x.anchor === "billing"));
  assert.ok(!turns.some((x) => x.anchor === "session/start"));
});

test("thoughts, calls that failed, errors and turns that were cut", () => {
  const [turn] = readTurns([
    entry(1, "message", { role: "user", content: "Do it" }),
    entry(2, "reasoning", { content: "How?" }),
    entry(3, "tool_call", { content: "Let me see.", calls: [{ id: "c", function: { name: "x", arguments: "{}" } }, { id: "d", function: { name: "y" } }] }),
    entry(4, "tool_result", { ids: ["c"], results: [null] }),
    entry(5, "error", { message: "it broke" }),
    entry(6, "event", { name: "turn.end", data: { status: "canceled" } }),
  ]);
  assert.deepEqual(turn.parts.map((p) => p.kind), ["thoughts", "text", "call", "call", "error"]);
  assert.equal(turn.parts[2].call.failed, true);
  assert.equal(turn.parts[3].call.result, undefined);
  assert.equal(turn.cut, "canceled");
});

// DV-10
test("a message without words shows what came with it, and nothing that was written for the model", () => {
  const said = (content) => {
    const [turn] = readTurns([entry(1, "message", { role: "user", content })]);
    return turn && { said: turn.said, media: turn.media };
  };
  const facts = "channel: telegram\nsender: Ada\ndate: 2026-11-29T02:43:46Z\n";
  const image = { type: "image_url", image_url: { url: "blob:abc" } };
  assert.deepEqual(said([{ type: "text", text: facts + "\n" }, image]), { said: [], media: ["an image"] });
  assert.deepEqual(said([image]), { said: [], media: ["an image"] });
  assert.deepEqual(said([{ type: "text", text: facts + "not attached: a.mov (it is too large)\n\nLook: here" }, image, { type: "file", file: { filename: "a.pdf" } }]), { said: ["Look: here"], media: ["an image", "a.pdf"] });
  assert.deepEqual(said(facts + "\nHello\n\nthere"), { said: ["Hello\n\nthere"], media: [] });
  assert.deepEqual(said("Hello: there\n\ndate: tomorrow"), { said: ["Hello: there\n\ndate: tomorrow"], media: [] });
  assert.equal(said(facts + "\n"), undefined);
});

// DV-10
test("a session whose first message has no words is called so", () => {
  assert.equal(titleOf({ id: "s", title: "channel: telegram date: 2026-11-29T02:43:46Z" }), "A message without words");
  assert.equal(titleOf({ id: "s", title: "date: 2026-11-29T02:43:46+01:00 Europe/Berlin" }), "A message without words");
  assert.equal(titleOf({ id: "s", title: "What is the date: today?" }), "What is the date: today?");
  assert.equal(titleOf({ id: "s", title: "" }), "s");
});

// DN-13
test("a turn on the tape says how long it took, and what it cost", () => {
  const late = (e) => ({ ...e, date: "2026-01-01T00:00:03.250Z" });
  const [turn] = readTurns([
    entry(1, "message", { role: "user", content: "Hi" }),
    late(entry(2, "message", { role: "assistant", content: "Hello" })),
    late(entry(3, "event", { name: "turn.end", data: { status: "ok", usage: { prompt_tokens: 9, completion_tokens: 2, cost: 30 } } })),
  ]);
  assert.deepEqual([turn.took, turn.tokens, turn.cost, turn.cut], [3250, 2, 30, undefined]);
});

// DN-13
test("a turn that failed says so once", () => {
  const [turn] = readTurns([
    entry(1, "message", { role: "user", content: "Hi" }),
    entry(2, "error", { message: "it broke" }),
    entry(3, "event", { name: "turn.end", data: { status: "error" } }),
  ]);
  assert.deepEqual([turn.parts.map((p) => p.kind), turn.cut], [["error"], undefined]);
});

test("a tape of which nothing is known breaks nothing", () => {
  const odd = [null, "x", 7, [], {}, { role: "user" }, { role: "user", content: { a: 1 } }, { calls: [null, 1] }, { results: "x" }, { name: null }];
  for (const kind of ["message", "tool_call", "tool_result", "anchor", "reasoning", "error", "event", "system", "no-such-kind"]) {
    for (const payload of odd) {
      for (const turn of ["t", undefined]) readTurns([entry(1, kind, payload, turn), { ...entry(2, kind, payload), meta: null }]);
    }
  }
});

test("a place is what its address says, and the other way round", () => {
  for (const place of [
    { workflow: "a b&c=d", agent: undefined, session: undefined, runs: [] },
    { workflow: "w", agent: undefined, session: undefined, runs: ["abc", "def"] },
    { workflow: undefined, agent: "ü/#", session: "telegram/42:x", runs: ["abc"] },
  ]) {
    assert.deepEqual(readPlace(writePlace(place)), place);
  }
  assert.deepEqual(readPlace("#run=../../x&run=a%2Fb&run=ok&workflow="), { workflow: undefined, agent: undefined, session: undefined, runs: ["ok"] });
  assert.equal(readPlace("#" + "run=a&".repeat(1000)).runs.length, 16);
});
