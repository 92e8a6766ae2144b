// A model's server that says what a test tells it to, when the test tells it to. It speaks chat completions.
import { createServer } from "node:http";

/**
 * Starts one. `model.asked()` is the next request to it, which the test answers piece by piece. `model.env` are the settings by
 * which lingserve takes it for its model.
 */
export async function model(t) {
  const waiting = [];
  const wanted = [];
  const questions = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (d) => (body += d));
    request.on("end", () => {
      const answer = new Answer(JSON.parse(body), response);
      questions.push(answer.question);
      const next = wanted.shift();
      if (next) next(answer);
      else waiting.push(answer);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    env: { OPENAI_BASE_URL: `http://127.0.0.1:${server.address().port}/v1`, OPENAI_API_KEY: "scripted", LINGSERVE_RETRIES_ATTEMPTS: "1" },
    /** All that it was asked so far. */
    questions,
    /** From now on nobody answers at its address. */
    down() {
      server.close();
      server.closeAllConnections();
    },
    asked: () =>
      new Promise((resolve, reject) => {
        if (waiting.length > 0) return resolve(waiting.shift());
        const late = setTimeout(() => reject(new Error("nobody has asked the model")), 20_000);
        wanted.push((answer) => (clearTimeout(late), resolve(answer)));
        t.after(() => clearTimeout(late));
      }),
  };
}

class Answer {
  #response;
  #calls = 0;
  /** Resolves when the one who has asked has gone, or the answer is over. */
  closed;

  constructor(request, response) {
    this.request = request;
    this.#response = response;
    this.closed = new Promise((resolve) => response.on("close", resolve));
  }

  /** What the model is asked: the last message. */
  get question() {
    return this.request.messages.at(-1).content;
  }

  /** Writes a piece of the answer's text. */
  say(content) {
    return this.#send({ content });
  }

  /** Writes a piece of what the model thinks. */
  think(reasoning_content) {
    return this.#send({ reasoning_content });
  }

  /** Asks for a call of a tool. */
  call(name, parameters = {}) {
    const index = this.#calls++;
    return this.#send({ tool_calls: [{ index, id: `call_${index + 1}`, type: "function", function: { name, arguments: JSON.stringify(parameters) } }] });
  }

  /** Ends the answer, after a last piece of text where there is one. */
  async end(content) {
    if (content !== undefined) await this.say(content);
    await this.#send({}, this.#calls > 0 ? "tool_calls" : "stop", { prompt_tokens: 7, completion_tokens: 11, total_tokens: 18 });
    this.#response.end("data: [DONE]\n\n");
  }

  /** Answers with an error. */
  refuse(status) {
    this.#response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify({ error: { message: "scripted", type: "server_error" } }));
  }

  /** Breaks the connection. */
  cut() {
    this.#response.destroy();
  }

  #send(delta, finish_reason = null, usage) {
    if (!this.#response.headersSent) this.#response.writeHead(200, { "Content-Type": "text/event-stream" });
    const chunk = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: this.request.model, choices: [{ index: 0, delta, finish_reason }], usage };
    return new Promise((resolve) => this.#response.write(`data: ${JSON.stringify(chunk)}\n\n`, resolve));
  }
}
