// The checks of one version of OpenAI's client: node openai.mjs MODULE URL ONLY
import assert from "node:assert/strict";

const [module, base, only] = process.argv.slice(2);
const { OpenAI } = await import(module);
const client = new OpenAI({ apiKey: "none", baseURL: `${base}/v1`, timeout: 20_000, maxRetries: 0 });
const complaints = [];
for (const level of ["error", "warn", "log", "info"]) console[level] = (...args) => complaints.push(args.join(" "));
process.on("unhandledRejection", (reason) => complaints.push(`unhandled: ${reason}`));

const nasty = `He said "blue" \\ & <b>\n\tdata: x\r\n\r\né ☀ 🌈 空\u2028\u0085 [DONE]`;
// What agents are told has one kind of line breaks, and no control characters.
const texts = { "script:any": nasty, assistant: nasty.replaceAll("\r\n", "\n").replace("\x85", " ") };
const ask = (model, text, more) => ({ model, messages: [{ role: "user", content: text }], ...more });
const spent = { prompt_tokens: 4, completion_tokens: 6, total_tokens: 10 };

// joined is what the chunks of a stream come to.
async function joined(stream) {
  const seen = { text: "", thoughts: "", finish: [], ids: new Set(), usages: [], roles: [] };
  for await (const chunk of stream) {
    seen.ids.add(`${chunk.id} ${chunk.created} ${chunk.object} ${chunk.model}`);
    seen.usages.push(chunk.usage);
    if (chunk.choices.length === 0) continue;
    const { delta, finish_reason } = chunk.choices[0];
    if (delta.role) seen.roles.push(delta.role);
    seen.text += delta.content ?? "";
    seen.thoughts += delta.reasoning_content ?? "";
    assert.equal(delta.reasoning, delta.reasoning_content);
    assert.equal(delta.tool_calls, undefined);
    if (finish_reason) seen.finish.push(finish_reason);
  }
  assert.equal(seen.ids.size, 1);
  return seen;
}

const stream = (body, options, by = client) => by.chat.completions.create({ ...body, stream: true }, options);
const whole = (body, options, by = client) => by.chat.completions.create(body, options);
const fold = async (id) => (await (await fetch(`${base}/v1/runs/${id.replace("chatcmpl-", "")}`)).json()).result;
const question = "Why is the sky blue?";

const checks = {
  async "text, whole"() {
    for (const [model, text] of Object.entries(texts)) {
      const c = await whole(ask(model, text));
      assert.equal(c.choices[0].message.content, `· ${text}`);
      assert.equal(c.choices[0].finish_reason, "stop");
      assert.deepEqual(c.usage, spent);
      assert.ok(c._request_id);
    }
  },
  async "text, streamed"() {
    for (const [model, text] of Object.entries(texts)) {
      const seen = await joined(await stream(ask(model, text, { stream_options: { include_usage: true } })));
      assert.equal(seen.text, `· ${text}`);
      assert.deepEqual(seen.finish, ["stop"]);
      assert.deepEqual(seen.roles, ["assistant"]);
      assert.deepEqual(seen.usages.pop(), spent);
      assert.ok(seen.usages.every((usage) => usage === null));
    }
  },
  async "without usage"() {
    const seen = await joined(await stream(ask("assistant", "x")));
    assert.ok(seen.usages.every((usage) => usage === undefined));
  },
  async "text, joined by the client"() {
    const helper = client.chat.completions.stream(ask("script:any", nasty, { stream_options: { include_usage: true } }));
    let heard = "";
    helper.on("content.delta", ({ delta }) => (heard += delta));
    const c = await helper.finalChatCompletion();
    assert.equal(c.choices[0].message.content, `· ${nasty}`);
    assert.equal(heard, `· ${nasty}`);
    assert.equal(c.choices[0].message.role, "assistant");
    const { prompt_tokens, completion_tokens, total_tokens } = await helper.totalUsage();
    assert.deepEqual({ prompt_tokens, completion_tokens, total_tokens }, spent);
  },
  async "the runner of tools finds nothing to run"() {
    const c = await client.chat.completions.stream(ask("assistant", "look")).finalChatCompletion();
    assert.equal(c.choices[0].message.tool_calls, undefined);
    assert.equal(c.choices[0].finish_reason, "stop");
    assert.match(c.choices[0].message.content, /^I look\.\n\n.*clear/s);
  },
  async "reasoning"() {
    const c = await whole(ask("assistant", "think"));
    assert.equal(c.choices[0].message.reasoning_content, "Hm, well.");
    assert.equal(c.choices[0].message.reasoning, "Hm, well.");
    const seen = await joined(await stream(ask("assistant", "think")));
    assert.equal(seen.thoughts, "Hm, well.");
    assert.equal(seen.text, "Yes.");
  },
  async "an answer that was cut"() {
    for (const model of ["assistant", "script:any"]) {
      assert.equal((await whole(ask(model, "cut"))).choices[0].finish_reason, "length");
      assert.deepEqual((await joined(await stream(ask(model, "cut")))).finish, ["length"]);
    }
  },
  async "silence in the beginning"() {
    assert.equal((await joined(await stream(ask("assistant", "slow")))).text, "at last");
    assert.equal((await client.chat.completions.stream(ask("assistant", "slow")).finalContent()), "at last");
  },
  async "a workflow, whole"() {
    const c = await whole(ask("encyclopedia", question));
    assert.deepEqual(JSON.parse(c.choices[0].message.content), await fold(c.id));
    assert.ok(c.usage.total_tokens > 0);
  },
  async "a workflow, streamed, is the fold of its run"() {
    const chunks = [];
    for await (const chunk of await stream(ask("encyclopedia", question))) chunks.push(chunk);
    const text = chunks.map((c) => c.choices[0]?.delta.content ?? "").join("");
    const document = JSON.parse(text);
    assert.deepEqual(document, await fold(chunks[0].id));
    assert.ok(document.article.title && chunks.length > 50, `${chunks.length} chunks`);
    assert.equal(text.length, JSON.stringify(document).length, "nothing is written twice");
  },
  async "a workflow, joined and parsed by the client"() {
    const c = await client.chat.completions.stream(ask("workflow/encyclopedia", question)).finalChatCompletion();
    assert.deepEqual(JSON.parse(c.choices[0].message.content), await fold(c.id));
  },
  async "a model alone"() {
    const c = await whole({ model: "script:any", messages: [{ role: "developer", content: "d" }, { role: "user", content: "a" }, { role: "assistant", content: "b" }, { role: "user", content: "c" }] });
    assert.equal(c.choices[0].message.content, "·· c");
  },
  async "a session by user"() {
    const user = `u-${module}-${Date.now()}`;
    assert.equal((await whole(ask("assistant", "one", { user }))).choices[0].message.content, "· one");
    assert.equal((await whole(ask("assistant", "two", { user }))).choices[0].message.content, "·· two");
    const tape = await (await fetch(`${base}/v1/sessions/${user}/tape`)).json();
    assert.ok(JSON.stringify(tape).includes("·· two"));
  },
  async "a session by metadata"() {
    const metadata = { session: `m-${module}-${Date.now()}` };
    await joined(await stream(ask("assistant", "one", { metadata, user: "somebody" })));
    assert.equal((await joined(await stream(ask("assistant", "two", { metadata })))).text, "·· two");
  },
  async "a conversation that the client keeps"() {
    const messages = [{ role: "system", content: "s" }];
    for (const [i, text] of ["one", "two", "three"].entries()) {
      messages.push({ role: "user", content: text });
      const { message } = (await whole({ model: "assistant", messages })).choices[0];
      assert.equal(message.content, `${"·".repeat(i + 1)} ${text}`);
      messages.push(message);
    }
  },
  async "the list of models"() {
    const owners = {};
    for await (const model of client.models.list()) {
      owners[model.id] = model.owned_by;
      assert.deepEqual({ ...(await client.models.retrieve(model.id)) }, { ...model });
    }
    assert.equal(owners["assistant"], "agent");
    assert.equal(owners["encyclopedia"], "workflow");
    assert.equal(owners["demo:demo"], "demo");
  },
  async "every model that is listed answers"() {
    for await (const model of client.models.list()) {
      if (model.owned_by === "workflow") continue; // some want more than a text
      assert.ok((await whole(ask(model.id, "x"))).choices[0].message.content, model.id);
    }
  },
  async "400"() {
    await assert.rejects(whole(ask("assistant", "x", { temperature: 9 })), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature" && e.type === "invalid_request_error");
    await assert.rejects(stream(ask("assistant", "x", { n: 2 })), (e) => e.status === 400 && e.param === "n" && e.requestID?.length > 0);
  },
  async "404"() {
    await assert.rejects(whole(ask("gpt-9", "x")), (e) => e instanceof OpenAI.NotFoundError && e.code === "model_not_found");
    await assert.rejects(client.models.retrieve("no/such:one"), (e) => e instanceof OpenAI.NotFoundError);
  },
  async "413"() {
    await assert.rejects(whole(ask("assistant", "x".repeat(2 << 20))), (e) => e.status === 413 && e.code === "too_large");
  },
  async "an error of the model's server, not tried again"() {
    const eager = new OpenAI({ apiKey: "none", baseURL: `${base}/v1`, maxRetries: 2, timeout: 20_000 });
    const began = Date.now();
    for (const f of [whole, stream]) {
      await assert.rejects(f(ask("script:any", "refuse"), {}, eager), (e) => e instanceof OpenAI.APIError && e.status === 424 && e.code === "upstream_auth");
    }
    assert.ok(Date.now() - began < 900, "it was tried again");
  },
  async "503, tried again when it is time"() {
    const eager = new OpenAI({ apiKey: "none", baseURL: `${base}/v1`, maxRetries: 2, timeout: 20_000 });
    const began = Date.now();
    assert.equal((await whole(ask("script:any", "busy"), {}, eager)).choices[0].message.content, "· busy");
    assert.ok(Date.now() - began >= 4900, "it did not wait");
  },
  async "an error in mid-stream"() {
    for (const model of ["assistant", "script:any"]) {
      let text = "";
      await assert.rejects(async () => {
        for await (const chunk of await stream(ask(model, "break"))) text += chunk.choices[0]?.delta.content ?? "";
      }, (e) => e instanceof OpenAI.APIError && e.code === "upstream_unavailable" && /broke off/.test(e.message));
      assert.equal(text, "half an ");
      await assert.rejects(client.chat.completions.stream(ask(model, "break")).finalContent(), (e) => e instanceof OpenAI.APIError && e.code === "upstream_unavailable");
      await assert.rejects(whole(ask(model, "break")), (e) => e.status === 502);
    }
  },
  async "leaving and aborting end the run"() {
    const count = async (what) => Number(await (await fetch(`${base}/${what}`)).text());
    const reaches = async (what, n) => {
      for (let i = 0; (await count(what)) < n; i++) {
        assert.ok(i < 500, `${what}: ${await count(what)} of ${n}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    const before = await count("left");
    for await (const chunk of await stream(ask("assistant", "endless"))) if (chunk.choices[0]?.delta.content) break;
    const s = await stream(ask("script:any", "endless"));
    for await (const chunk of s) if (chunk.choices[0]?.delta.content) s.controller.abort();
    const slow = new AbortController();
    void reaches("begun", before + 3).finally(() => slow.abort());
    await assert.rejects(whole(ask("assistant", "endless"), { signal: slow.signal }), OpenAI.APIUserAbortError);
    await reaches("left", before + 3);
  },
  async "a key is one run"() {
    const options = { headers: { "Idempotency-Key": `k-${module}-${Date.now()}` } };
    const [a, b] = [await whole(ask("assistant", "x"), options), await whole(ask("assistant", "x"), options)];
    assert.equal(a.id, b.id);
  },
};

let failed = 0;
const said = (line) => process.stdout.write(line + "\n");
for (const [name, check] of Object.entries(checks)) {
  if (!name.includes(only ?? "")) continue;
  complaints.length = 0;
  try {
    await check();
    await new Promise((resolve) => setImmediate(resolve)); // for rejections that nobody has handled
    assert.deepEqual(complaints, []);
    said(`ok    ${module}  ${name}`);
  } catch (error) {
    failed++;
    said(`FAIL  ${module}  ${name}\n      ${String(error.stack).replaceAll("\n", "\n      ")}`);
  }
}
process.exit(failed ? 1 : 0);
