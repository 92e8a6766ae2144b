// Holds values to the types of expected.ts. They come as a JSON list of {type, value, from}; what does not fit goes back.
import { text } from "node:stream/consumers";
import path from "node:path";
import ts from "typescript";

const folder = import.meta.dirname;
const values = JSON.parse(await text(process.stdin));
const names = [...new Set(values.map((value) => value.type))];
const source = [
  `import type { ${names.join(", ")} } from "./expected";`,
  ...values.map((value, n) => `export const v${n}: ${value.type} = ${JSON.stringify(value.value)};`),
].map((line) => line.replace(/[\u2028\u2029]/g, (c) => "\\u" + c.charCodeAt(0).toString(16))).join("\n"); // which end lines here

const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
  module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [] };
const file = path.join(folder, "values.ts"); // in memory only
const host = ts.createCompilerHost(options);
const { getSourceFile, fileExists, readFile } = host;
host.getSourceFile = (name, ...rest) =>
  name === file ? ts.createSourceFile(file, source, ts.ScriptTarget.ES2022) : getSourceFile.call(host, name, ...rest);
host.fileExists = (name) => name === file || fileExists.call(host, name);
host.readFile = (name) => (name === file ? source : readFile.call(host, name));

const program = ts.createProgram([file], options, host);
const problems = ts.getPreEmitDiagnostics(program).map((d) => {
  const where = d.file ? path.basename(d.file.fileName) : "";
  const line = d.file ? d.file.getLineAndCharacterOfPosition(d.start).line : 0;
  const value = d.file?.fileName === file && line > 0 ? values[line - 1] : undefined;
  return {
    from: value?.from ?? where,
    type: value?.type ?? "",
    message: ts.flattenDiagnosticMessageText(d.messageText, " ").replace(/\s+/g, " "),
    value: value ? JSON.stringify(value.value) : "",
  };
});
process.stdout.write(JSON.stringify(problems));
