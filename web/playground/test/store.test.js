// Where one is, and what runs do to that.
import assert from "node:assert/strict";
import { test } from "node:test";
import { browserWindow, ServerRun } from "./window.js";

const answers = {};
const { location } = browserWindow(answers);
const { catalog, lives, place, readUploadLimit, say } = await import("../node_modules/.page/playground/src/store.js");

const agents = [{ name: "assistant", default: true }, { name: "careful" }];
answers["/v1/sessions"] = () => Response.json({ sessions: [] });

/** Begins at an agent's new session, with nothing of the tests before. */
function at(agent) {
  catalog.value = { version: "0", workflows: [], agents, models: [] };
  location.hash = "#agent=" + agent;
  assert.deepEqual([place.value.agent, place.value.session, lives.value.length], [agent, undefined, 0]);
}

/** Says something to the agent, whose run has begun in a session. */
async function begun(agent, session, id) {
  const run = new ServerRun(id);
  answers["/v1/runs"] = () => run.response;
  const live = await say({ agent, input: "Hello" });
  run.event("started", { run: id, agent, session });
  await until(() => place.value.session === session);
  return { run, live };
}

// DN-04
test("a pause before a retry is said while it lasts", async () => {
  at("assistant");
  const { run, live } = await begun("assistant", "s1", "r-paused");
  run.event("retrying", { bot: "assistant", reason: "upstream_rate_limited", seconds: 18, attempt: 2, of: 3 });
  await until(() => live.pauses.size > 0);
  const { until: end } = live.pauses.get("assistant");
  assert.equal(live.pauseOf("assistant", end - 17_500), "rate limited, next try in 18 s (2 of 3)");
  assert.equal(live.pauseOf("assistant", end), "");
  assert.equal(live.pauseOf("other", end - 17_500), "");
  run.end();
  await until(() => live.over);
  assert.equal(live.pauseOf("assistant", end - 17_500), "");
});

async function until(fn) {
  for (let i = 0; !fn(); i++) {
    assert.ok(i < 500, `this does not come: ${fn}`);
    await new Promise((done) => setTimeout(done, 2));
  }
}

// Lets what comes of a stream come.
async function rest() {
  for (let i = 0; i < 10; i++) await new Promise((done) => setTimeout(done, 5));
}

const waiting = {
  "an answer streams": (run) => run.delta("Hello, "),
  "an approval waits": (run) => run.event("approval_required", { id: "a1", call: "c1", tool: "tape_info", arguments: {} }),
  "an answer has not begun": () => {},
};

// DN-02
for (const [name, reach] of Object.entries(waiting)) {
  test(`while ${name}, "New session" is a new session at once, and stays one`, async () => {
    at("assistant");
    const { run } = await begun("assistant", "s1", "run1");
    reach(run);
    await rest();
    location.hash = "#agent=assistant"; // what the link says
    assert.deepEqual([place.value.agent, place.value.session, place.value.runs, lives.value.length], ["assistant", undefined, [], 0]);
    run.delta("more");
    await rest();
    assert.equal(place.value.session, undefined);
    run.event("follow_up", { run: "run2" });
    run.end();
    await rest();
    assert.deepEqual([place.value.agent, place.value.session, lives.value.length, location.hash], ["assistant", undefined, 0, "#agent=assistant"]);
  });

  test(`while ${name}, another agent's link opens a session of that agent`, async () => {
    at("assistant");
    const { run } = await begun("assistant", "s1", "run1");
    reach(run);
    await rest();
    location.hash = "#agent=careful";
    run.delta("more");
    await rest();
    run.end();
    await rest();
    assert.deepEqual([place.value.agent, place.value.session, place.value.runs], ["careful", undefined, []]);
    const other = await begun("careful", "s2", "run3"); // which gets its own session, as the server names it
    assert.deepEqual(lives.value.map((l) => l.id), ["run3"]);
    other.run.end();
    await rest();
  });
}

// DN-02
test("a run whose session is not known yet does not move the place after one has left", async () => {
  at("assistant");
  const run = new ServerRun("run1");
  answers["/v1/runs"] = () => run.response;
  await say({ agent: "assistant", input: "Hello" });
  location.hash = "#agent=careful";
  run.event("started", { run: "run1", agent: "assistant", session: "s1" });
  await rest();
  assert.deepEqual([place.value.agent, place.value.session, place.value.runs, lives.value.length], ["careful", undefined, [], 0]);
});

// DN-02
test("a message that steers a run is not shown where one has gone meanwhile", async () => {
  at("assistant");
  const { run } = await begun("assistant", "s1", "run1");
  let answer;
  answers["/v1/runs"] = () => new Promise((done) => (answer = () => done(Response.json({ run: "run2" }))));
  const said = say({ agent: "assistant", session: "s1", input: "And", on_busy: "steer" });
  await until(() => answer);
  location.hash = "#agent=careful";
  answer();
  await said;
  await rest();
  assert.deepEqual([place.value.agent, place.value.session, place.value.runs, lives.value.length], ["careful", undefined, [], 0]);
  run.end();
});

test("a follow-up is followed where its run is shown", async () => {
  at("assistant");
  const { run } = await begun("assistant", "s1", "run1");
  const next = new ServerRun("run2");
  answers["/v1/runs/run2/events"] = () => next.response;
  run.event("follow_up", { run: "run2" });
  run.end();
  await until(() => lives.value.length === 2);
  next.end();
  await rest();
  assert.deepEqual(place.value.runs, ["run1", "run2"]);
});

// DN-02
test("who comes back to a session whose answer streams sees it go on", async () => {
  at("assistant");
  const { run } = await begun("assistant", "s1", "run1");
  location.hash = "#agent=careful";
  const again = new ServerRun("run1");
  answers["/v1/runs/run1/events"] = () => again.response;
  location.hash = "#agent=assistant&session=s1";
  await until(() => lives.value.length === 1);
  assert.deepEqual([lives.value[0].id, place.value.session, place.value.runs], ["run1", "s1", ["run1"]]);
  again.end();
  run.end();
  await until(() => lives.value[0].over);
  location.hash = "#agent=careful";
  location.hash = "#agent=assistant&session=s1"; // what it said is on the tape now
  assert.equal(lives.value.length, 0);
});

// DN-13
test("the limit of an upload is read from what the server says", () => {
  for (const [header, want] of [["max-size=16777216", 16777216], ["max-append-size=5, max-size=7", 7], ["max-append-size=5", undefined], ["max-size=0", undefined], [null, undefined]]) {
    assert.equal(readUploadLimit(header), want, header);
  }
});
