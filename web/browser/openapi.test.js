// api/openapi.yaml as others use it: a linter reads it, two generators make clients of it, and programs with these clients use a server.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createConfig, lint, parseYaml } from "@redocly/openapi-core";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { build } from "esbuild";
import { lingserve } from "../client/test/server.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const path = fileURLToPath(new URL("../../api/openapi.yaml", import.meta.url));
const contract = parseYaml(readFileSync(path, "utf8"));
const folder = mkdtempSync(join(here, "node_modules", ".openapi-")); // where the packages are found; nothing of it is committed
after(() => rmSync(folder, { recursive: true, force: true }));
const node = (...args) => {
  try {
    return execFileSync(process.execPath, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    throw new Error(`${args.join(" ")}: ${error.stdout}${error.stderr}`);
  }
};
const bin = (name, file) => join(here, "node_modules", name, file);

test("the linter has no error and no warning", async () => {
  const problems = await lint({ ref: path, config: await createConfig({ extends: ["recommended"] }) });
  const found = problems.map((p) => `${p.severity} ${p.ruleId} ${p.location[0].pointer}: ${p.message}`);
  // The health checks have no answer 4xx: they need no key and take no parameters.
  assert.deepEqual(found.filter((line) => !/ operation-4xx-response #\/paths\/~1(healthz|readyz)\//.test(line)), []);
});

test("each operation has its own id and summary, and each body and parameter a named schema", () => {
  const ids = new Set();
  const named = (schema, at) => assert.ok(schema.$ref || ["string", "integer", "number", "boolean"].includes(schema.type), `${at} has no named schema`);
  for (const [path, item] of Object.entries(contract.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      if (method === "parameters") continue;
      const at = `${method} ${path}`;
      assert.match(operation.operationId, /^[a-z][A-Za-z]+$/, at);
      assert.ok(!ids.has(operation.operationId), at);
      ids.add(operation.operationId);
      assert.ok(operation.summary, at);
      const answers = Object.values(operation.responses).map(resolve);
      for (const { content = {} } of [resolve(operation.requestBody ?? {}), ...answers]) {
        for (const [media, { schema }] of Object.entries(content)) named(schema, `${at} ${media}`);
      }
    }
  }
});

const clients = {
  "openapi-typescript": {
    program: "fetch.ts",
    generate: () => node(bin("openapi-typescript", "bin/cli.js"), path, "-o", "schema.d.ts"),
    types: "schema.d.ts",
  },
  "@hey-api/openapi-ts": {
    program: "hey.ts",
    generate: () => node(bin("@hey-api/openapi-ts", "bin/run.js"), "-i", path, "-o", "hey", "-c", "@hey-api/client-fetch"),
    types: "hey/types.gen.ts",
  },
};

for (const [name, client] of Object.entries(clients)) {
  test(`the client of ${name} compiles and uses a server`, { timeout: 600_000 }, async (t) => {
    const at = join(folder, client.program);
    for (const file of ["steps.ts", client.program]) copyFileSync(join(here, "openapi", file), join(folder, file));
    const config = JSON.parse(readFileSync(join(here, "openapi", "tsconfig.json")));
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ ...config, include: undefined, files: [client.program] }));
    client.generate();
    // Only what may be any JSON has no type.
    const types = readFileSync(join(folder, client.types), "utf8");
    const untyped = types.split("\n").filter((line) => /^(export type|        )\s*\w+(: | = )(unknown|Record<string, never>);/.test(line) && !/webhooks|\$defs|JSONValue|JsonValue|WebhookBody/.test(line));
    assert.deepEqual(untyped, []);
    assert.doesNotMatch(types, /Record<string, never>(?!;)/);
    node(bin("typescript", "bin/tsc"), "-p", ".");

    const outfile = join(folder, `${client.program}.mjs`);
    await build({ entryPoints: [at], outfile, bundle: true, format: "esm", platform: "node", logLevel: "silent" });
    const { program } = await import(pathToFileURL(outfile));
    const key = "ann-0123456789-abcdefghij";
    const server = await lingserve(t, { pace: 20_000, config: "agents:\n  assistant: {}\n", env: { LINGSERVE_API_KEYS: `ann:${key}:user`, LINGSERVE_MODEL: "demo:fast" } });
    const { fetch, checks } = validating(key);
    const report = await program({ url: server.url, key, fetch });
    await Promise.all(checks);

    assert.ok(report.workflows.includes("encyclopedia") && report.workflows.includes("chat"), String(report.workflows));
    assert.equal(report.run.status, "completed");
    assert.ok(report.run.title.length > 3 && report.run.usage > 10);
    assert.ok(report.replayed);
    assert.equal(report.events[0], "started");
    assert.ok(report.events.includes("delta") && report.events.includes("usage"));
    assert.equal(report.events.at(-1), "finished");
    assert.equal(report.finished, "completed");
    const { id, agent, entries, kinds, anchor } = report.session;
    assert.deepEqual([agent, entries, anchor], ["assistant", kinds.length, "anchor"]);
    assert.deepEqual(kinds.filter((kind) => kind === "message").length, 2);
    assert.deepEqual(report.sessions, [id.replace("1", "2"), id]);
    assert.deepEqual([report.fork, report.deleted], [201, 204]);
    assert.deepEqual(report.problems, ["400 invalid_request /input/question", "404 not_found", "409 conflict", "401 unauthorized"]);
    t.diagnostic(`${checks.length} answers are as described`);
  });
}

/** What a $ref names, or the value itself. */
function resolve(value) {
  if (!value.$ref) return value;
  return value.$ref.slice(2).split("/").reduce((at, step) => at[step.replaceAll("~1", "/").replaceAll("~0", "~")], contract);
}

/** A fetch that compares each answer with the document. `checks` are its results. */
function validating(key) {
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { binary: true } });
  addFormats(ajv);
  ajv.addSchema({ $id: "contract", components: contract.components });
  const validate = (schema, value, at) => {
    const absolute = JSON.parse(JSON.stringify(schema), (name, v) => (name === "$ref" ? `contract${v}` : v));
    const check = ajv.compile(absolute);
    assert.ok(check(value), `${at}: ${ajv.errorsText(check.errors)} in ${JSON.stringify(value).slice(0, 400)}`);
  };
  const checks = [];
  const templates = Object.keys(contract.paths).sort((a, b) => a.split("{").length - b.split("{").length);
  return {
    checks,
    async fetch(input, init) {
      const request = new Request(input, init);
      const { pathname, href } = new URL(request.url);
      assert.ok(!href.includes(key), "a key in the address ends in logs");
      const template = templates.find((t) => new RegExp(`^${t.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}$`).test(pathname));
      assert.ok(template, `${pathname} is not described`);
      const at = `${request.method} ${template}`;
      const response = await fetch(request);
      const { responses } = contract.paths[template][request.method.toLowerCase()];
      const described = responses[response.status] ?? responses.default;
      assert.ok(described, `${at} ${response.status} is not described`);
      const { content = {}, headers = {} } = resolve(described);
      for (const [name, header] of Object.entries(headers)) {
        const { required, schema } = resolve(header);
        const value = response.headers.get(name);
        assert.ok(value !== null || !required, `${at} ${response.status} has no ${name}`);
        if (value !== null) validate(schema, resolve(schema).type === "string" ? value : Number(value), `${at} ${name}`);
      }
      const media = (response.headers.get("Content-Type") ?? "").split(";")[0];
      const found = content[media] ?? content["*/*"];
      if (Object.keys(content).length > 0) assert.ok(found, `${at} ${response.status} ${media} is not described`);
      const copy = response.clone();
      checks.push((async () => {
        const text = await copy.text();
        if (!found) return assert.equal(text, "", at);
        if (media.endsWith("json") && !media.includes("nd")) return validate(found.schema, JSON.parse(text), at);
        validate(found.schema, text, at);
        const { contentSchema } = resolve(found.schema);
        if (!contentSchema) return;
        for (const event of media === "text/event-stream" ? events(text) : text.split("\n").filter(Boolean).map((line) => JSON.parse(line))) validate(contentSchema, event, at);
      })());
      return response;
    },
  };
}

/** The events of a stream of Server-Sent Events, as JSON Lines would have them. */
function events(text) {
  const list = [];
  for (const block of text.split("\n\n")) {
    const fields = Object.fromEntries(block.split("\n").map((line) => /^(\w+): (.*)$/.exec(line)?.slice(1)).filter(Boolean));
    if (fields.data === undefined) continue;
    const data = JSON.parse(fields.data);
    list.push({ ...(fields.id && { id: fields.id }), ...(fields.event ? { event: fields.event, data } : data) });
  }
  return list;
}
