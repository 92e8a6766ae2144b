// What is chosen beside the input, as a request says it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { noChoices, requestOf } from "../node_modules/.page/playground/src/options.js";

// DN-13
for (const [name, choices, forAgent, want] of [
  ["nothing", {}, false, {}],
  ["params of a workflow", { params: ' {"tone": "playful"} ' }, false, { params: { tone: "playful" } }],
  ["params that are no JSON, which the server refuses", { params: "tone=playful" }, false, { params: "tone=playful" }],
  ["params at an agent, which takes none", { params: '{"tone": "playful"}' }, true, {}],
  ["numbers", { temperature: "0.5", maxTokens: "many" }, false, { options: { temperature: 0.5, max_tokens: "many" } }],
  ["patterns", { exclude: "a/*, b" }, true, { filter: { exclude: ["a/*", "b"] } }],
]) {
  test(`a request with ${name}`, () => assert.deepEqual(requestOf({ ...noChoices, ...choices }, forAgent), want));
}
