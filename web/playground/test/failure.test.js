// Why something failed, in words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { detailOf, withSizes } from "../node_modules/.page/playground/src/failure.js";

// DN-13: a failure is said once.
const cases = {
  "a message that says more than the title": [{ code: "upstream_auth", message: "openai refused the key: check OPENAI_API_KEY" }, "Openai refused the key: check OPENAI_API_KEY."],
  "a message that says the same": [{ code: "unreachable", message: "the server cannot be reached" }, undefined],
  "the same with another apostrophe": [{ code: "upstream_auth", message: "the model's server refused the key." }, undefined],
  "an id of the log": [{ code: "internal", message: "internal error; find it in the server's log as 1234", id: "1234" }, undefined],
  "a run that is gone": [{ code: "gone", message: "this run is no longer stored" }, "The server stores a run for some minutes after its end. The tape of a session keeps its messages."],
  "a server that restarted": [{ code: "interrupted", message: "the server stopped" }, undefined],
  "a code that is not known": [{ code: "new", message: "it broke" }, "It broke."],
  "no message": [{ code: "internal", message: "" }, undefined],
  "a limit in bytes": [{ code: "too_large", message: "the file is larger than 16777216 bytes" }, "The file is larger than 16 MiB."],
};
for (const [name, [failure, want]] of Object.entries(cases)) {
  test(`below the title stands: ${name}`, () => assert.equal(detailOf(failure), want));
}

test("numbers of bytes are written as people read them", () => {
  assert.equal(withSizes("at most 1 byte, 1500 bytes or 2000000 bytes; byte 7"), "at most 1 B, 1.5 kB or 2.0 MB; byte 7");
});
