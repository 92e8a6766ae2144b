// Code that is printed in the documents, so that what is tested is what is read.
import { readFileSync } from "node:fs";
import { file } from "./browser.js";

/** The one block of code in a Markdown file that is of a language and has a text in it. */
export function code(path, language, having) {
  const blocks = [...readFileSync(file(path), "utf8").matchAll(/^```(\w*)\n([^]*?)^```$/gm)].filter(([, l, text]) => l === language && text.includes(having));
  if (blocks.length !== 1) throw new Error(`${path} has ${blocks.length} blocks of ${language} with ${JSON.stringify(having)}, expected one`);
  return blocks[0][2];
}
