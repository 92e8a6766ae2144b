// What the clients have in common: jobs come as lines of JSON, what the client understood goes back as such. Whatever a client
// says on the console meanwhile is a complaint.
import readline from "node:readline";
import { format } from "node:util";

export async function serve(does) {
  let complaints = [];
  for (const level of ["debug", "error", "info", "log", "trace", "warn"]) {
    console[level] = (...args) => complaints.push(`console.${level}: ${format(...args)}`);
  }
  process.on("warning", (warning) => complaints.push(`warning: ${warning.message}`));
  process.on("unhandledRejection", (reason) => complaints.push(`unhandled: ${reason}`));
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const job = JSON.parse(line);
    complaints = [];
    const seen = { frames: [] };
    try {
      await does[job.do](job, seen);
    } catch (error) {
      seen.error = { type: error.constructor.name, status: error.status ?? error.status_code ?? 0, message: String(error.message) };
    }
    await new Promise((resolve) => setImmediate(resolve)); // for rejections that nobody has handled
    process.stdout.write(JSON.stringify({ ...seen, complaints }) + "\n");
  }
}

// join appends the parts of a stream.
export function join(seen, member, part) {
  if (part) seen[member] = (seen[member] ?? "") + part;
}
