// The list of runs: what is asked for, what is shown, and where a run leads.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { browserWindow } from "./window.js";

const answers = {};
const { location } = browserWindow(answers);
const { addressOf, beganAt, elapsedOf, loadRuns, page, pathOf, scaleOf, statusOf, updateRuns } = await import("../node_modules/.page/playground/src/history.js");
const { readPlace, writePlace } = await import("../node_modules/.page/playground/src/place.js");
const { catalog, filterRuns, place } = await import("../node_modules/.page/playground/src/store.js");

const run = (id, more) => ({ id, workflow: "chat", status: "completed", created: "2026-11-29T14:16:00Z", ended: "2026-11-29T14:16:12.4Z", ...more });
const list = (...runs) => (answers["/v1/history"] = () => Response.json(runs.at(-1)?.next ? { runs: runs.slice(0, -1), next: runs.at(-1).next } : { runs }));
const ids = () => page.value.runs.map((r) => r.id);

beforeEach(() => (page.value = { runs: [], loading: true }));

test("the address has what the list selects, and another one than a workflow's", () => {
  for (const list of [{}, { workflow: "a b&c", status: "failed" }, { agent: "ü", status: "running" }]) {
    assert.deepEqual(readPlace(writePlace({ runs: [], list })), { runs: [], list: { workflow: undefined, agent: undefined, status: undefined, ...list } });
  }
  assert.deepEqual(readPlace("#workflow=w&run=r"), { workflow: "w", agent: undefined, session: undefined, runs: ["r"] });
});

test("the list stays where it is when its filter changes, and is no workflow that is looked at", () => {
  catalog.value = { version: "0", workflows: [{ name: "chat" }], agents: [], models: [] };
  location.hash = "#list=runs";
  assert.deepEqual([place.value.workflow, place.value.list], [undefined, { workflow: undefined, agent: undefined, status: undefined }]);
  filterRuns({ workflow: "chat", status: "failed" });
  assert.equal(location.hash, "#list=runs&workflow=chat&status=failed");
});

test("a choice of status asks for all statuses that it has; an unknown one asks for none", () => {
  assert.equal(pathOf({ workflow: "a b", status: "failed" }), "/v1/history?limit=50&workflow=a+b&status=failed%2Cinterrupted");
  assert.equal(pathOf({ agent: "x", status: "constructor" }, 7, "n"), "/v1/history?limit=7&agent=x&after=n");
});

test("pages follow each other without a run twice, and the last one has no more", async () => {
  list(run("c"), run("b"), { next: "n" });
  assert.equal(await loadRuns({}), 2);
  assert.equal(page.value.next, "n");
  list(run("b"), run("a"));
  assert.equal(await loadRuns({}, true), 1);
  assert.deepEqual([ids(), page.value.next], [["c", "b", "a"], undefined]);
});

test("a list that cannot be loaded keeps the runs that are shown and says why", async () => {
  list(run("a"));
  await loadRuns({});
  delete answers["/v1/history"];
  await loadRuns({});
  assert.deepEqual([ids(), page.value.failed.message, page.value.loading], [["a"], "it is not there", false]);
});

test("an answer that another one has overtaken does not count", async () => {
  let late;
  answers["/v1/history"] = () => new Promise((done) => (late = () => done(Response.json({ runs: [run("late")] }))));
  const first = loadRuns({ status: "failed" });
  list(run("new"));
  await loadRuns({});
  late();
  assert.equal(await first, 0);
  assert.deepEqual(ids(), ["new"]);
});

test("runs that go on are updated where they are, and new ones do not move them", async () => {
  list(run("b", { status: "running", ended: undefined }), run("a"));
  await loadRuns({ status: "running" });
  list(run("c"), run("b", { status: "failed" }), run("a"));
  await updateRuns({ status: "running" });
  assert.deepEqual(page.value.runs.map((r) => [r.id, r.status]), [["b", "failed"], ["a", "completed"]]);
  answers["/v1/history"] = () => assert.fail("nothing goes on");
  await updateRuns({});
});

test("a run leads to its workflow or its session, unless the server has it no longer", () => {
  const has = (kind, name) => kind + name !== "workflowgone";
  assert.equal(addressOf(run("r"), has), "#workflow=chat&run=r");
  assert.equal(addressOf(run("r", { workflow: undefined, agent: "x", session: "s 1" }), has), "#agent=x&session=s+1&run=r");
  assert.equal(addressOf(run("r", { workflow: "gone" }), has), undefined);
});

test("statuses, times and the scale of the bars", () => {
  assert.deepEqual(["waiting", "interrupted", "canceled"].map(statusOf), [{ word: "Waiting", lamp: "asks" }, { word: "Interrupted", lamp: "failed" }, { word: "Canceled", lamp: "stopped" }]);
  assert.equal(elapsedOf(run("r"), 0), 12_400);
  assert.equal(elapsedOf(run("r", { ended: undefined }), Date.parse("2026-11-29T14:16:03Z")), 3000);
  assert.equal(scaleOf([]), 1000);
  assert.equal(scaleOf([...Array(9).fill(5000), 600_000]), 5000);
  const now = new Date(2026, 10, 29, 15).getTime();
  assert.equal(beganAt(new Date(2026, 10, 28, 9, 5).toISOString(), now), "09:05");
  assert.equal(beganAt(new Date(2026, 10, 20, 9, 5).toISOString(), now), "20 Nov, 09:05");
});
